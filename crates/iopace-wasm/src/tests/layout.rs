//! Events and answers lie in memory as `docs/policy-abi.md` says.

use crate::desk::{self, Desk};
use core::num::NonZeroU64;
use iopace_core::group::table::Groups;
use iopace_core::group::{Class, Rates, Settings, Weight};
use iopace_core::request::{Extent, GroupId, Op, RequestId, Space, Submit, Tag, TaskId};
use iopace_core::table::Table;
use iopace_core::time::{Instant, Nanos};
use iopace_core::units::Bytes;

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

#[test]
fn a_push_has_each_field_in_its_place() {
    let extent = Extent::new(Bytes(0x1_0000_0000), Bytes(4096)).expect("fits");
    let submit = Submit {
        tag: Tag(1),
        task: TaskId(0x0102_0304_0506_0708),
        group: GroupId(9),
        op: Op::Trim,
        extent,
        fua: false,
        sync: true,
    };
    let mut table = Table::default();
    table.queue(Instant(1), submit);
    let id = table.queue_in(Space(3), Instant(77), submit);
    let event = desk::request(desk::PUSH, Instant(88), id, &table[id]);
    assert_eq!(event[..4], [1, 1, 3, 0]);
    assert_eq!((u32_at(&event, 4), u64_at(&event, 8)), (id.slot(), 88));
    assert_eq!(u64_at(&event, 16), id.sequence());
    assert_eq!(u64_at(&event, 24), 0x0102_0304_0506_0708);
    assert_eq!((u32_at(&event, 32), u32_at(&event, 36)), (9, 3));
    assert_eq!((u64_at(&event, 40), u64_at(&event, 48)), (0x1_0000_0000, 4096));
    assert_eq!((u64_at(&event, 56), u64_at(&event, 64)), (77, 0));
    let done = desk::head(desk::DONE, Instant::NEVER, id, &table[id], true);
    assert_eq!(done[..4], [2, 1 | 4, 3, 0]);
    assert_eq!(u64_at(&done, 8), i64::MAX as u64, "never");
}

#[test]
fn a_group_has_each_field_in_its_place() {
    let mut groups = Groups::default();
    let rate = NonZeroU64::new;
    let [bps, iops] = [6, 7].map(rate);
    let min = Rates { rbps: rate(1), wbps: rate(2), bps, riops: rate(3), wiops: None, iops };
    let settings = Settings {
        weight: Weight::new(500).expect("legal"),
        class: Class::Idle,
        min,
        latency: Some(Nanos(44)),
        ..Settings::default()
    };
    groups.set(GroupId(1), GroupId::ROOT, &Settings::default());
    groups.set(GroupId(2), GroupId(1), &settings);
    let event = desk::group(Instant(5), GroupId(2), &groups);
    assert_eq!(event[..4], [5, 0, 0, 0]);
    assert_eq!((u32_at(&event, 4), u64_at(&event, 8), u64_at(&event, 16)), (2, 5, 0));
    assert_eq!([24, 28, 32, 36].map(|at| u32_at(&event, at)), [1, 500, 3, 0]);
    let words = [40, 48, 56, 64, 72, 80, 88].map(|at| u64_at(&event, at));
    assert_eq!(words, [1, 2, 3, 0, 44, 6, 7]);
}

#[test]
fn a_desk_is_read_and_each_wrong_place_is_named() {
    let mut memory = vec![0; 65_536];
    let mut desk = |words: [u32; 5]| {
        for (bytes, word) in memory[16..].chunks_exact_mut(4).zip(words) {
            bytes.copy_from_slice(&word.to_le_bytes());
        }
        memory[2_016..2_020].copy_from_slice(&7u32.to_le_bytes());
        memory[2_024..2_032].copy_from_slice(&8u64.to_le_bytes());
        Desk::read(&memory, 16).map(|desk| (desk, memory.clone()))
    };
    let (good, memory) = desk([4_096, 65_536 - 4_096, 2_000, 2, 1_024]).expect("all in it");
    assert_eq!(good.answer(&memory, 1), RequestId::at(7, 8));
    let wrong = [
        ([65_528, 4_096, 2_000, 2, 1_024], "events at 0xfff8, 4096 bytes, leaves the memory"),
        ([0xffff_fff8, 65_536, 2_000, 2, 1_024], "leaves the memory"),
        ([4_096, 4_095, 2_000, 2, 1_024], "4095 bytes for events"),
        ([4_096, 65_544, 2_000, 2, 1_024], "65544 bytes for events"),
        ([4_100, 4_096, 2_000, 2, 1_024], "events at 0x1004 is not aligned to 8"),
        ([4_096, 4_096, 2_000, 0, 1_024], "room for 0 answers"),
        ([4_096, 4_096, 2_000, 65, 1_024], "room for 65 answers"),
        ([4_096, 4_096, 65_528, 1, 1_024], "answers at 0xfff8"),
        ([4_096, 4_096, 2_000, 2, 65_288], "values at 0xff08"),
    ];
    for (words, why) in wrong {
        let error = desk(words).expect_err(why);
        assert!(error.contains(why), "{error}");
    }
    for (address, why) in [(17, "the desk at 0x11 is not aligned"), (65_532, "leaves the memory")] {
        let error = Desk::read(&memory, address).expect_err(why);
        assert!(error.contains(why), "{error}");
    }
}
