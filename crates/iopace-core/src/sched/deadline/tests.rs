use super::*;
use crate::request::{Extent, GroupId, Op, Submit, Tag, TaskId};
use crate::units::Bytes;

struct Bench {
    deadline: Deadline,
    table: Table,
}

impl Bench {
    fn new(settings: &[(&str, u64)]) -> Bench {
        let mut params = ALGORITHM.defaults();
        for (name, value) in settings {
            params.set(name, *value).expect("legal");
        }
        Bench { deadline: Deadline::new(&params), table: Table::default() }
    }

    fn push(&mut self, now_ms: u64, op: Op, offset: u64) {
        let submit = Submit {
            tag: Tag(0),
            task: TaskId(0),
            group: GroupId::ROOT,
            op,
            extent: Extent::new(Bytes(offset), Bytes(10)).expect("small"),
            fua: false,
            sync: true,
        };
        let now = Instant(now_ms * 1_000_000);
        let id = self.table.queue(now, submit);
        self.deadline.push(now, id, &self.table);
    }

    fn pop(&mut self, now_ms: u64) -> Option<(Op, u64)> {
        match self.deadline.pop(Instant(now_ms * 1_000_000), &self.table) {
            Pop::Ready(id) => {
                let request = &self.table[id];
                let what = (request.op(), request.extent().offset().get());
                self.table.end(id);
                Some(what)
            }
            Pop::At(..) | Pop::Last(..) => panic!("it never waits"),
            Pop::Empty => None,
        }
    }

    fn all(&mut self, now_ms: u64) -> Vec<(Op, u64)> {
        std::iter::from_fn(|| self.pop(now_ms)).collect()
    }
}

#[test]
fn p1_a_batch_goes_upwards() {
    let mut bench = Bench::new(&[]);
    for offset in [500, 100, 900, 300] {
        bench.push(0, Op::Read, offset);
    }
    let offsets: Vec<u64> = bench.all(0).iter().map(|what| what.1).collect();
    assert_eq!(offsets, [100, 300, 500, 900]);
}

#[test]
fn p2_a_batch_ends_after_fifo_batch() {
    let mut bench = Bench::new(&[("fifo_batch", 4), ("writes_starved", 1)]);
    for i in 0..6 {
        bench.push(0, Op::Read, i * 100);
        bench.push(0, Op::Write, i * 100);
    }
    let served = bench.all(0);
    let lengths: Vec<usize> = served.chunk_by(|a, b| a.0 == b.0).map(<[_]>::len).collect();
    assert_eq!(lengths, [4, 4, 2, 2], "batches in turn");
    let mut bench = Bench::new(&[("fifo_batch", 4)]);
    for i in 0..100 {
        bench.push(0, Op::Read, i * 100);
    }
    bench.all(0);
    let mut counters = Vec::new();
    bench.deadline.counters(&mut counters);
    assert_eq!(counters[0], 25);
}

#[test]
fn p3_writes_are_passed_over_at_most_so_many_times() {
    for writes_starved in [1, 2, 5] {
        let mut bench = Bench::new(&[("fifo_batch", 3), ("writes_starved", writes_starved)]);
        for i in 0..500 {
            bench.push(0, Op::Read, i * 100);
        }
        for i in 0..50 {
            bench.push(0, Op::Write, i * 100);
        }
        let mut passed = 0;
        for (op, _) in bench.all(0).into_iter().take(90) {
            passed = if op == Op::Write { 0 } else { passed + 1 };
            assert!(passed <= 3 * writes_starved, "{passed} reads in a row");
        }
    }
}

/// The other way around, at every legal setting: reads have to get through as well.
#[test]
fn reads_do_not_starve_behind_writes() {
    for writes_starved in [PARAMS[3].min, 3] {
        let mut bench = Bench::new(&[("fifo_batch", 3), ("writes_starved", writes_starved)]);
        bench.push(0, Op::Read, 50);
        let mut passed_count = 0;
        for i in 0..100 {
            bench.push(0, Op::Write, 1_000 + i * 10);
            if i >= 10 {
                match bench.pop(0) {
                    Some((Op::Read, _)) => break,
                    _ => passed_count += 1,
                }
            }
        }
        assert!(passed_count <= 3, "{passed_count} writes passed it over");
    }
}

#[test]
fn p4_a_request_past_its_deadline_begins_a_batch() {
    let mut bench = Bench::new(&[("fifo_batch", 2)]);
    bench.push(0, Op::Read, 50);
    bench.push(0, Op::Read, 60);
    assert_eq!(bench.pop(0), Some((Op::Read, 50)));
    bench.push(1, Op::Read, 10);
    for i in 0..20 {
        bench.push(2 + i, Op::Read, 1000 + i * 100);
    }
    assert_eq!(bench.pop(400), Some((Op::Read, 60)));
    assert_eq!(bench.pop(400), Some((Op::Read, 1000)), "not yet");
    assert_eq!(bench.pop(400), Some((Op::Read, 1100)));
    assert_eq!(bench.pop(501), Some((Op::Read, 10)), "now it is");
}

#[test]
fn p5_it_is_work_conserving() {
    let mut bench = Bench::new(&[]);
    for i in 0..40 {
        bench.push(i, if i % 3 == 0 { Op::Write } else { Op::Read }, i * 7_919 % 1_000);
    }
    assert_eq!(bench.all(50).len(), 40);
}
