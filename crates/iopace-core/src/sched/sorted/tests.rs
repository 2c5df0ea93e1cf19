//! Tests of requests in C-LOOK order, with those of files.

use super::*;
use crate::request::{Extent, GroupId, Op, Submit, Tag, TaskId};
use crate::time::Instant;

#[test]
fn files_follow_the_disk_one_after_another() {
    let (mut sorted, mut table) = (Sorted::default(), Table::default());
    let mut push = |space, offset| {
        let extent = Extent::new(Bytes(offset), Bytes(10)).expect("small");
        let (tag, task, group, op) = (Tag(0), TaskId(0), GroupId::ROOT, Op::Read);
        let submit = Submit { tag, task, group, op, extent, fua: false, sync: true };
        table.queue_in(Space(space), Instant::ZERO, submit)
    };
    let places = [(2, 0), (1, 1 << 62), (0, 500), (1, 20), (0, 100), (1, 0)];
    let ids = places.map(|(space, offset)| push(space, offset));
    ids.iter().for_each(|id| sorted.push(*id, &table));
    assert_eq!(sorted.peek(), Some(table[ids[4]].begin()));
    let pop = |sorted: &mut Sorted| {
        let next = sorted.peek();
        let id = sorted.pop(&table)?;
        assert_eq!(next, Some(table[id].begin()));
        assert_eq!(sorted.position(), table[id].end());
        Some((table[id].begin().space.0, table[id].extent().offset().get()))
    };
    for expected in [(0, 100), (0, 500), (1, 0)] {
        assert_eq!(pop(&mut sorted), Some(expected));
    }
    // One behind the head, on the disk, is for the next time around.
    sorted.push(ids[4], &table);
    assert_eq!(sorted.take(ids[3], &table), Some(ids[3]));
    assert_eq!(sorted.take(ids[3], &table), None);
    for expected in [(1, 1 << 62), (2, 0), (0, 100)] {
        assert_eq!(pop(&mut sorted), Some(expected));
    }
    assert!(sorted.is_empty() && pop(&mut sorted).is_none());
    // Requests that are left below the head are found too.
    sorted.push(ids[5], &table);
    sorted.push(ids[0], &table);
    sorted.set_position(Position { space: Space(1), offset: Bytes(5) });
    assert_eq!([(); 2].map(|()| pop(&mut sorted)), [Some((2, 0)), Some((1, 0))]);
}
