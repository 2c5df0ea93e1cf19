use super::*;
use crate::request::{Extent, GroupId, Op, Submit, Tag, TaskId};
use crate::units::Bytes;

fn push(fifo: &mut Fifo, table: &mut Table, sequence: u64) {
    let submit = Submit {
        tag: Tag(sequence),
        task: TaskId(sequence % 3),
        group: GroupId::ROOT,
        op: Op::Read,
        extent: Extent::new(Bytes(1_000_000 - sequence * 10), Bytes(10)).expect("small"),
        fua: false,
        sync: true,
    };
    let id = table.queue(Instant::ZERO, submit);
    fifo.push(Instant::ZERO, id, table);
}

fn pop(fifo: &mut Fifo, table: &mut Table) -> Option<u64> {
    match fifo.pop(Instant::ZERO, table) {
        Pop::Ready(id) => {
            let tag = table[id].submit.tag.0;
            table.end(id);
            Some(tag)
        }
        Pop::At(..) | Pop::Last(..) => panic!("it never waits"),
        Pop::Empty => None,
    }
}

#[test]
fn p1_requests_start_in_arrival_order() {
    let (mut fifo, mut table) = (Fifo::default(), Table::default());
    (0..50).for_each(|sequence| push(&mut fifo, &mut table, sequence));
    let order: Vec<u64> = std::iter::from_fn(|| pop(&mut fifo, &mut table)).collect();
    assert_eq!(order, (0..50).collect::<Vec<_>>());
}

#[test]
fn p2_it_is_work_conserving() {
    let (mut fifo, mut table) = (Fifo::default(), Table::default());
    for sequence in 0..20 {
        push(&mut fifo, &mut table, sequence);
        push(&mut fifo, &mut table, sequence + 100);
        assert!(pop(&mut fifo, &mut table).is_some());
    }
    assert_eq!(std::iter::from_fn(|| pop(&mut fifo, &mut table)).count(), 20);
    assert_eq!(table.queued_count(), 0);
}
