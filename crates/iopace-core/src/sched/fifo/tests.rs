use super::*;
use crate::request::{Extent, GroupId, Op, RequestId, Submit, Tag, TaskId};
use crate::units::Bytes;

fn push(fifo: &mut Fifo, sequence: u64) {
    let submit = Submit {
        tag: Tag(sequence),
        task: TaskId(sequence % 3),
        group: GroupId::ROOT,
        op: Op::Read,
        extent: Extent::new(Bytes(1_000_000 - sequence * 10), Bytes(10)).expect("small"),
        fua: false,
        sync: true,
    };
    fifo.push(Instant::ZERO, Request::new(RequestId::forge(sequence), submit, Instant::ZERO));
}

fn pop(fifo: &mut Fifo) -> Option<u64> {
    match fifo.pop(Instant::ZERO) {
        Pop::Ready(request) => {
            let sequence = request.id().sequence();
            request.abandon();
            Some(sequence)
        }
        Pop::At(..) => panic!("it never waits"),
        Pop::Empty => None,
    }
}

#[test]
fn p1_requests_start_in_arrival_order() {
    let mut fifo = Fifo::default();
    (0..50).for_each(|sequence| push(&mut fifo, sequence));
    let order: Vec<u64> = std::iter::from_fn(|| pop(&mut fifo)).collect();
    assert_eq!(order, (0..50).collect::<Vec<_>>());
}

#[test]
fn p2_it_is_work_conserving() {
    let mut fifo = Fifo::default();
    for sequence in 0..20 {
        push(&mut fifo, sequence);
        push(&mut fifo, sequence + 100);
        assert!(pop(&mut fifo).is_some());
    }
    assert_eq!(std::iter::from_fn(|| pop(&mut fifo)).count(), 20);
    assert_eq!(fifo.len(), 0);
}
