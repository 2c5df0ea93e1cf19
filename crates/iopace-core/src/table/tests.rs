use super::*;
use crate::request::{Extent, GroupId, Op, Tag, TaskId};
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
    assert_eq!(table.queued(), [second]);
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
    table.advance(ids[1], RequestState::InFlight);
    let sequences: Vec<u64> = table.queued().iter().map(|id| id.sequence).collect();
    assert_eq!(sequences, [2, 4, 5, 7, 8, 10, 11, 13, 14, 16, 17, 19, 20]);
    assert_eq!(table.queued_count(), 13);
    table.check_conserved();
}

#[test]
fn a_list_through_the_table_keeps_its_order_whatever_leaves() {
    let (mut list, mut table) = (List::default(), Table::default());
    let mut expected = Vec::<RequestId>::new();
    for step in 0..2_000usize {
        let [one, two] = [0, 1].map(|_| table.queue(Instant(0), submit(1)));
        // The later one is admitted first, now and then.
        for id in if step % 5 == 0 { [two, one] } else { [one, two] } {
            list.push_by_arrival(id, &table);
        }
        expected.extend([one, two]);
        while expected.len() > 20 {
            let id = match step % 3 {
                0 => list.pop(&table).expect("there are some"),
                _ => expected[step * 7 % expected.len()],
            };
            if step % 3 != 0 {
                list.remove(id, &table);
            }
            expected.retain(|other| *other != id);
            table.end(id);
        }
        assert_eq!(list.first(&table), expected.first().copied());
        assert!(list.iter(&table).eq(expected.iter().copied()), "after {step} steps");
    }
    // Before all others.
    let early = table.queue(Instant(0), submit(1));
    let mut others = List::default();
    let later = [0; 3].map(|_| table.queue(Instant(0), submit(1)));
    later.iter().for_each(|id| others.push(*id, &table));
    others.push_by_arrival(early, &table);
    assert_eq!(others.pop(&table), Some(early));
    assert_eq!(std::iter::from_fn(|| others.pop(&table)).collect::<Vec<_>>(), later);
    assert!(others.is_empty() && others.pop(&table).is_none());
    assert!(list.iter(&table).eq(expected.iter().copied()), "lists are apart");
}
