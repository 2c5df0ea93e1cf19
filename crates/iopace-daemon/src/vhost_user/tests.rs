//! Chains and shared memory as an enemy would make them.

use super::chain::{Table, Walk, gather, scatter, take_front, total};
use super::inflight::Inflight;
use super::regions::{Regions, Segment};
use super::trust::{check_event, check_memory};
use proptest::prelude::*;
use rustix::event::{EventfdFlags, eventfd};
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};
use std::fs::File;
use std::os::fd::AsFd;
use std::sync::Arc;
use vhost::vhost_user::message::VhostUserMemoryRegion;
use vm_memory::{Bytes, GuestAddress};

const BASE: u64 = 1 << 32;
const MEMORY: u64 = 64 << 10;

fn memfd(bytes: u64) -> File {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let file: File = memfd_create("test", flags).expect("memory").into();
    ftruncate(&file, bytes).expect("as long");
    file
}

/// Two regions, one behind the other in the machine.
fn regions() -> Arc<Regions> {
    let region = |at: u64| VhostUserMemoryRegion {
        guest_phys_addr: BASE + at * MEMORY,
        memory_size: MEMORY,
        user_addr: 0x1000 + at * MEMORY,
        mmap_offset: 0,
    };
    let all = Regions::new(&[region(0), region(1)], vec![memfd(MEMORY), memfd(MEMORY)], true);
    Arc::new(all.expect("mapped"))
}

#[test]
fn memory_is_found_in_both_address_spaces() {
    let regions = regions();
    assert_eq!(regions.guest_address(0x1000 + MEMORY + 5), Some(GuestAddress(BASE + MEMORY + 5)));
    assert_eq!(regions.guest_address(0xfff), None);
    assert_eq!(regions.guest_address(0x1000 + 2 * MEMORY), None);
    let mut found = Vec::new();
    // Over the border of both: all of it, in one piece or two.
    assert!(regions.find(GuestAddress(BASE + MEMORY - 8), 16, &mut found));
    assert_eq!(total(&found), 16);
    assert!(!regions.find(GuestAddress(BASE + 2 * MEMORY - 8), 16, &mut Vec::new()));
    assert!(!regions.find(GuestAddress(u64::MAX - 4), 16, &mut Vec::new()));
    let known = VhostUserMemoryRegion {
        guest_phys_addr: BASE,
        memory_size: MEMORY,
        user_addr: 0x1000,
        mmap_offset: 0,
    };
    let without = regions.without(&known).expect("it is there");
    assert_eq!(without.guest_address(0x1000), None);
    assert!(without.without(&known).is_err());
}

#[test]
fn segments_are_copied_whole() {
    let mut memory: Vec<u8> = (0..100).collect();
    let start = memory.as_mut_ptr();
    let part = |from: usize, len| Segment { start: start.wrapping_add(from), len };
    let mut segments = vec![part(10, 3), part(50, 4)];
    let mut first = [0; 5];
    assert!(take_front(&mut segments, &mut first));
    assert_eq!((first, total(&segments)), ([10, 11, 12, 50, 51], 2));
    assert!(!take_front(&mut segments, &mut [0; 3]));
    let segments = [part(0, 2), part(90, 3)];
    scatter(&segments, &[1, 2, 3, 4]);
    let mut all = [0; 5];
    gather(&segments, &mut all);
    assert_eq!(all, [1, 2, 3, 4, 92]);
}

proptest! {
    /// Whatever stands in the table: an error or parts within the memory, and never more than the
    /// table can name.
    #[test]
    fn any_table_is_walked_to_an_end(
        table in prop::collection::vec((0u64..0x30000, 0u32..0x9000, 0u16..8, 0u16..20), 16),
        head in 0u16..20,
    ) {
        let regions = regions();
        for (at, (address, len, flags, next)) in (0..).zip(&table) {
            let mut bytes = (BASE + address).to_le_bytes().to_vec();
            bytes.extend(len.to_le_bytes());
            bytes.extend(flags.to_le_bytes());
            bytes.extend(next.to_le_bytes());
            regions.memory().write_slice(&bytes, GuestAddress(BASE + at * 16)).expect("there");
        }
        let table = Table { regions: Arc::clone(&regions), address: GuestAddress(BASE), size: 16 };
        let mut walk = Walk::default();
        if walk.walk(&table, head).is_ok() {
            prop_assert!(head < 16);
            let bytes = total(&walk.readable) + total(&walk.writable);
            prop_assert!(bytes <= 0x9000 * (16 + 0x9000 / 16));
        }
    }
}

#[test]
fn what_was_in_flight_is_found_in_its_order() {
    let (file, bytes) = Inflight::create(2, 8).expect("memory");
    let open = || Inflight::open(file.try_clone().expect("cloned"), (0, bytes), (2, 8), false);
    let all = open().expect("sealed");
    let mut queue = all.queue(1, 8).expect("the second");
    assert_eq!(queue.begin(7), None, "nobody has written it");
    [5, 2, 6, 2000].into_iter().for_each(|head| queue.taken(head));
    queue.ending(2);
    queue.ended(2, 8);
    // Killed after this, and before it was noted.
    queue.ending(6);
    let mut again = open().expect("sealed").queue(1, 8).expect("the second");
    assert_eq!(again.begin(9), Some(vec![5]));
    again.taken(1);
    let mut third = open().expect("sealed").queue(1, 8).expect("the second");
    assert_eq!(third.begin(9), Some(vec![5, 1]), "the counter goes on");
    assert!(all.queue(2, 8).is_none() && all.queue(0, 16).is_none());
    assert_eq!(all.queue(0, 8).expect("the first").begin(0), None);
    assert!(Inflight::open(file, (0, bytes), (3, 8), true).is_err(), "there is room for two");
}

#[test]
fn strangers_share_sealed_memory_only() {
    let file = memfd(4096);
    assert!(check_memory(file.as_fd(), 4096, true).is_ok());
    assert!(check_memory(file.as_fd(), 4097, true).is_err(), "it is shorter");
    let refused = check_memory(file.as_fd(), 4096, false).expect_err("it could be cut short");
    assert!(refused.to_string().contains("seal"), "{refused}");
    fcntl_add_seals(&file, SealFlags::SHRINK).expect("sealed");
    assert!(check_memory(file.as_fd(), 4096, false).is_ok());
}

#[test]
fn only_eventfds_are_called() {
    let event = eventfd(0, EventfdFlags::CLOEXEC).expect("one");
    assert!(check_event(event.as_fd(), false).is_ok());
    assert!(check_event(memfd(8).as_fd(), true).is_err());
}
