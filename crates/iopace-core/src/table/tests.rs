use super::*;
use crate::request::{Extent, GroupId, Tag, TaskId};
use crate::units::Bytes;

fn submit(tag: u64) -> Submit {
    let extent = Extent::new(Bytes(tag * 4096), Bytes(4096)).expect("small");
    let (task, group) = (TaskId(1), GroupId::ROOT);
    Submit { tag: Tag(tag), task, group, op: Op::Read, extent, fua: false, sync: true }
}

#[test]
fn a_name_of_the_past_names_nothing() {
    let mut table = Table::default();
    let first = table.queue(Instant(0), submit(1));
    table.end(first);
    let second = table.queue(Instant(0), submit(2));
    assert_eq!(first.slot, second.slot, "the slot is used again");
    assert!(table.get(first).is_none() && table.get(second).is_some());
    assert!(table.get(RequestId::forge(second.sequence)).is_none());
    assert!(!table.is_queued(first) && table.is_queued(second));
}

#[test]
#[should_panic(expected = "which is not Queued")]
fn nothing_ends_twice() {
    let mut table = Table::default();
    let id = table.queue(Instant(0), submit(1));
    table.end(id);
    table.end(id);
}

#[test]
fn what_is_queued_is_recovered_in_order_of_arrival() {
    let mut table = Table::default();
    let ids: Vec<RequestId> = (0..20).map(|tag| table.queue(Instant(0), submit(tag))).collect();
    ids.iter().filter(|id| id.sequence % 3 == 0).for_each(|id| table.end(*id));
    let later = table.queue(Instant(0), submit(20));
    assert!(later.slot < 20, "a slot is used again");
    table.advance(ids[1], State::InFlight);
    let sequences: Vec<u64> = table.queued().iter().map(|id| id.sequence).collect();
    assert_eq!(sequences, [2, 4, 5, 7, 8, 10, 11, 13, 14, 16, 17, 19, 20]);
    assert_eq!(table.queued_count(), 13);
    table.check_conserved();
}
