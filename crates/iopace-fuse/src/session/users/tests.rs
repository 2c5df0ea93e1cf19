//! Limits and queues, without a file system.

use super::*;
use std::sync::atomic::AtomicBool;
use std::thread;

fn device() -> Arc<Device> {
    let null = std::fs::File::open("/dev/null").expect("there");
    Arc::new(Device::new(null.into()))
}

fn parked(device: &Arc<Device>, uid: u32, unique: u64, len: usize) -> Parked {
    let device = Arc::clone(device);
    Parked { uid, unique, is_kept: false, is_background: false, bytes: vec![0; len], device }
}

/// Threads of this user enter until one has to wait; their slots.
fn fill(users: &Users, device: &Arc<Device>, uid: u32) -> Vec<usize> {
    let mut slots = Vec::new();
    loop {
        let slot = users.add_thread().expect("a slot");
        if users.enter(slot, uid) == Entered::Waits {
            assert!(matches!(users.park(slot, parked(device, uid, 0, 1)), Ok(None)));
            users.remove_thread(slot);
            return slots;
        }
        slots.push(slot);
    }
}

#[test]
fn each_user_has_a_bound_and_all_together_one_more() {
    let (users, device) = (Users::new(1024), device());
    let first = fill(&users, &device, 1000);
    assert_eq!(first.len(), USER_THREADS);
    assert_eq!(fill(&users, &device, ROOT).len(), ROOT_THREADS);
    let mut count = first.len();
    let mut uid = 1001;
    while count < OTHERS_THREADS {
        count += fill(&users, &device, uid).len();
        uid += 1;
    }
    assert_eq!(count, OTHERS_THREADS);
    assert!(fill(&users, &device, 5000).is_empty(), "all together");
    // The thread that ends carries on with what waits: those in line first, of whoever may.
    let next = users.next(first[0]).expect("one waits");
    assert_eq!(next.uid, 1000);
    let again = users.next(first[0]).expect("another one waits");
    assert_eq!(again.uid, 5000, "the rest of those before are at their bound");
}

#[test]
fn a_queue_takes_bounded_memory_and_always_one() {
    let (users, device) = (Users::new(1024), device());
    fill(&users, &device, 7);
    users.take(|_| true);
    let offer = |uid, unique, len| {
        let slot = users.add_thread().expect("a slot");
        assert_eq!(users.enter(slot, uid), Entered::Waits);
        let taken = users.park(slot, parked(&device, uid, unique, len)).is_ok();
        users.remove_thread(slot);
        taken
    };
    assert!(offer(7, 1, QUEUED_USER_BYTES + 1), "the first whatever it is");
    assert!(!offer(7, 2, 1));
    assert_eq!(users.take(|parked| parked.unique == 1).len(), 1);
    assert!(offer(7, 3, 1) && offer(7, 4, 1));
    assert_eq!(users.counts().1, 2);
    assert_eq!(users.end().len(), 2);
    assert!(!offer(7, 5, 1), "it is over");
    assert_eq!(users.table().others_bytes, 0);
}

#[test]
fn subordinate_users_share_what_their_owner_may_have() {
    let device = device();
    let users = Users::with_shares(1024, |uid| if uid >= 100_000 { 1000 } else { uid });
    let mut slots = fill(&users, &device, 100_000);
    assert_eq!(slots.len(), USER_THREADS);
    for uid in [100_001, 165_535, 1000] {
        assert!(fill(&users, &device, uid).is_empty(), "{uid}");
    }
    assert_eq!(fill(&users, &device, 1001).len(), USER_THREADS, "somebody else");
    // All four wait in one queue.
    assert_eq!(users.table().parked.cost(1000), Some(4 * (1 + QUEUED_OVERHEAD)));
    let slot = slots.pop().expect("one of them");
    assert_eq!(users.next(slot).map(|parked| parked.uid), Some(1000));
}

#[test]
fn reads_that_nobody_waits_for_leave_a_part_to_others() {
    let (users, device) = (Users::new(1024), device());
    let read = |uid, unique, is_kept| {
        let slot = users.add_thread().expect("a slot");
        assert_eq!(users.enter(slot, uid), Entered::Waits);
        let one = Parked { is_background: true, is_kept, ..parked(&device, uid, unique, 1) };
        let taken = users.park(slot, one);
        users.remove_thread(slot);
        taken.map(|went_on| assert!(went_on.is_none())).map_err(|(_, errno)| errno)
    };
    let fill_up = |uid| {
        fill(&users, &device, uid);
        (0..).find(|&number| read(uid, number, false).is_err()).expect("there is a bound")
    };
    // A quarter of what is left: 256 of 1024, 192 of 768, 144 of 576.
    assert_eq!([7, 8, 9].map(fill_up), [256, 192, 144]);
    assert_eq!(read(7, 0, false), Err(Errno::EAGAIN));
    assert_eq!(read(7, 1, true), Ok(()), "write-back is never refused");
    // Each may have some, whatever others have; and when they have left, as many as before.
    assert_eq!([10, 11, 12, 13].map(fill_up), [107, 81, 64, 64]);
    let before = users.counts().1;
    let gone = users.take(|parked| parked.is_background).len();
    assert_eq!(gone, 256 + 192 + 144 + 107 + 81 + 64 + 64 + 1);
    assert_eq!(users.counts().1, before - gone);
    let table = users.table();
    assert_eq!((table.background_count, table.background.len()), (0, 0));
    drop(table);
    assert_eq!(read(7, 2, false), Ok(()));
}

/// Many threads at once: no user is ever above his bound, and nothing is left in a queue.
#[test]
fn nothing_is_left_waiting_whatever_the_order() {
    const THREADS: usize = 24;
    const ROUNDS: u64 = 400;
    let (users, device) = (Users::new(1024), device());
    let inside: [AtomicUsize; 2] = [AtomicUsize::new(0), AtomicUsize::new(0)];
    let (done, is_over) = (AtomicUsize::new(0), AtomicBool::new(false));
    let run = |uid: u32| {
        let count = inside[uid as usize - 1].fetch_add(1, SeqCst) + 1;
        if count > USER_THREADS {
            is_over.store(true, SeqCst);
        }
        thread::yield_now();
        inside[uid as usize - 1].fetch_sub(1, SeqCst);
        done.fetch_add(1, SeqCst);
    };
    thread::scope(|scope| {
        for number in 0..THREADS {
            let (users, device, run) = (&users, &device, &run);
            scope.spawn(move || {
                let mut slot = users.add_thread().expect("a slot");
                for round in 0..ROUNDS {
                    let uid = if (number as u64 + round).is_multiple_of(5) { 2 } else { 1 };
                    if users.enter(slot, uid) == Entered::Waits {
                        match users.park(slot, parked(device, uid, round, 1)) {
                            Ok(None) => continue,
                            Ok(Some(_)) => {}
                            Err(_) => panic!("there is room"),
                        }
                    }
                    run(uid);
                    while let Some(next) = users.next(slot) {
                        run(next.uid);
                    }
                    if !users.leave(slot) {
                        slot = users.add_thread().expect("a slot");
                    }
                }
            });
        }
    });
    assert!(!is_over.load(SeqCst), "a user was above his bound");
    assert_eq!(users.counts().1, 0);
    assert_eq!(done.load(SeqCst) as u64, THREADS as u64 * ROUNDS);
}
