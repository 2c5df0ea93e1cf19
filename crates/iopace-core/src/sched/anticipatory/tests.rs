use super::*;
use crate::request::{Extent, GroupId, Op, Submit, Tag};

const MS: u64 = 1_000_000;

struct Bench {
    sched: Anticipatory,
    table: Table,
}

impl Bench {
    fn new(settings: &[(&str, u64)]) -> Bench {
        let mut params = ALGORITHM.defaults();
        for (name, value) in settings {
            params.set(name, *value).expect("legal");
        }
        Bench { sched: Anticipatory::new(&params), table: Table::default() }
    }

    fn push(&mut self, now: u64, task: u64, offset: u64) {
        self.push_as(now, task, offset, true);
    }

    fn push_as(&mut self, now: u64, task: u64, offset: u64, sync: bool) {
        let submit = Submit {
            tag: Tag(0),
            task: TaskId(task),
            group: GroupId::ROOT,
            op: if sync { Op::Read } else { Op::Write },
            extent: Extent::new(Bytes(offset), Bytes(131_072)).expect("small"),
            fua: false,
            sync,
        };
        let now = Instant(now);
        let id = self.table.queue(now, submit);
        self.sched.push(now, id, &self.table);
    }

    /// Pops and completes at once; the task and offset, or when to come back.
    fn serve(&mut self, now: u64) -> Result<(u64, u64), Option<u64>> {
        match self.sched.pop(Instant(now), &self.table) {
            Pop::Ready(id) => {
                let request = self.table[id];
                self.table.end(id);
                self.sched.on_done(Instant(now), id, &request, true);
                Ok((request.task().0, request.extent().offset().get()))
            }
            Pop::At(at, reason) => {
                assert_eq!(reason, Reason::Anticipation);
                Err(Some(at.0))
            }
            Pop::Empty | Pop::Last(..) => Err(None),
        }
    }

    /// Lets a task be known as one that thinks so long, reading in sequence.
    fn teach(&mut self, task: u64, think: u64) -> u64 {
        let mut now = 0;
        for i in 0..8 {
            self.push(now, task, (task << 40) + i * 131_072);
            assert!(self.serve(now).is_ok());
            now += think;
        }
        now
    }
}

#[test]
fn p1_it_waits_at_most_antic_ms_and_for_synchronous_requests_only() {
    let mut bench = Bench::new(&[("antic_ms", 4)]);
    bench.push(0, 1, 0);
    assert_eq!(bench.serve(0), Ok((1, 0)));
    bench.push(MS, 2, 1 << 40);
    assert_eq!(bench.serve(MS), Err(Some(4 * MS)));
    assert_eq!(bench.serve(4 * MS), Ok((2, 1 << 40)), "time is up");
    let mut bench = Bench::new(&[]);
    bench.push_as(0, 1, 0, false);
    assert!(bench.serve(0).is_ok());
    bench.push(MS, 2, 1 << 40);
    assert!(bench.serve(MS).is_ok(), "nobody waits for a write-back");
}

#[test]
fn p2_a_task_that_thinks_too_long_is_not_waited_for() {
    let mut bench = Bench::new(&[("antic_ms", 5)]);
    let now = bench.teach(1, 9 * MS);
    bench.push(now, 1, (1 << 40) + 8 * 131_072);
    assert!(bench.serve(now).is_ok());
    bench.push(now, 2, 7 << 40);
    assert!(bench.serve(now).is_ok());
}

#[test]
fn p3_a_wait_ends_for_a_nearer_request() {
    let mut bench = Bench::new(&[]);
    bench.push(0, 1, 0);
    assert!(bench.serve(0).is_ok());
    bench.push(MS, 2, 131_072 + 1_000_000);
    assert_eq!(bench.serve(MS), Ok((2, 1_131_072)));
    let mut counters = Vec::new();
    bench.sched.counters(&mut counters);
    assert_eq!(counters, [0, 0, 1]);
}

#[test]
fn p4_a_batch_is_bounded_while_others_wait() {
    let mut bench = Bench::new(&[("batch_kb", 1024), ("expire_ms", 60_000)]);
    bench.push(0, 1, 0);
    let mut in_a_row = 0;
    for i in 1..100u64 {
        let now = i * 100_000;
        if i == 2 {
            bench.push(now, 2, 1 << 40);
        }
        match bench.serve(now) {
            Ok((1, _)) => in_a_row += 1,
            Ok(_) => break,
            Err(_) => {}
        }
        bench.push(now, 1, i * 131_072);
    }
    assert!((8..=9).contains(&in_a_row), "{in_a_row} requests of 128 KiB");
}

#[test]
fn p5_a_request_that_waits_too_long_goes_first() {
    let mut bench = Bench::new(&[("expire_ms", 10), ("batch_ms", 5_000), ("batch_kb", 65_536)]);
    bench.push(0, 1, 1 << 30);
    assert!(bench.serve(0).is_ok());
    bench.push(0, 2, 0);
    let mut served_at = None;
    for i in 1..40u64 {
        let now = i * MS;
        bench.push(now, 1, (1 << 30) + i * 131_072);
        if bench.serve(now) == Ok((2, 0)) {
            served_at = Some(i);
            break;
        }
    }
    assert_eq!(served_at, Some(11));
}

#[test]
fn p6_a_sequential_reader_keeps_the_disk_while_it_thinks() {
    let mut bench = Bench::new(&[("expire_ms", 60_000)]);
    let mut now = bench.teach(1, MS);
    bench.push(now, 1, (1 << 40) + 8 * 131_072);
    bench.push(now, 2, 9 << 40);
    for i in 9..30 {
        assert_eq!(bench.serve(now).map(|what| what.0), Ok(1));
        assert!(bench.serve(now).is_err(), "it waits");
        now += MS;
        bench.push(now, 1, (1 << 40) + i * 131_072);
    }
}
