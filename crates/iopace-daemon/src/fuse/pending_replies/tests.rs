//! Operations that wait: each ends exactly once, by whoever is first.

use super::*;
use crate::buffer::Buffer;
use crate::limits::OPERATIONS_OWED_MAX;
use iopace_core::request::{Extent, GroupId};
use iopace_core::time::{Instant, Nanos};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

/// What became of an operation: by which thread, and how.
type Said = (std::thread::ThreadId, Result<(), i32>);

fn operation() -> (Operation, Receiver<Said>) {
    let (sender, receiver) = channel();
    let run = move |may: Result<(), Errno>| {
        let said = (std::thread::current().id(), may.map_err(Errno::code));
        sender.send(said).expect("somebody wants to know");
    };
    (Box::new(run), receiver)
}

fn pending(pending: &Arc<PendingReplies>, deadline: Option<Instant>) -> (Ticket, Receiver<Said>) {
    of(pending, GroupId(1), deadline)
}

fn of(
    pending: &Arc<PendingReplies>,
    group: GroupId,
    deadline: Option<Instant>,
) -> (Ticket, Receiver<Said>) {
    let (operation, said) = operation();
    (pending.hold_operation((7, 0), operation, (group, deadline)).expect("it is held"), said)
}

fn answer(ticket: Ticket, outcome: Outcome) {
    let (extent, progress) = (Extent::EMPTY, Progress::default());
    let answered = Answered { outcome, extent, progress, data: Buffer::default() };
    Box::new(ticket).answer(answered, &mut Touched::default());
}

/// What came of it; nothing more can come.
fn end(said: &Receiver<Said>) -> Said {
    let end = said.recv_timeout(Duration::from_secs(10)).expect("it ends");
    assert!(said.recv_timeout(Duration::from_millis(20)).is_err(), "it ends once");
    end
}

/// So many wait, once the threads have put down what they have carried out.
fn wait_for(all: &PendingReplies, count: usize) {
    let begun = std::time::Instant::now();
    while all.count() != count && begun.elapsed() < Duration::from_secs(10) {
        std::thread::yield_now();
    }
    assert_eq!(all.count(), count);
}

#[test]
fn what_is_admitted_is_carried_out_by_a_thread_of_its_own() {
    let inflight = Arc::new(InflightOperations::default());
    let all = Arc::new(PendingReplies::new(&inflight));
    let (ticket, said) = pending(&all, None);
    assert_eq!(all.count(), 1);
    answer(ticket, Outcome::Ok);
    let (thread, result) = end(&said);
    assert_eq!(result, Ok(()));
    assert_ne!(thread, std::thread::current().id());
    wait_for(&all, 0);
}

#[test]
fn what_fails_or_whose_caller_is_killed_gets_an_error_and_is_not_carried_out() {
    let all = Arc::new(PendingReplies::default());
    for (outcome, errno) in
        [(Outcome::Refused, libc::EAGAIN), (Outcome::Failed(DiskError::Gone), libc::ENXIO)]
    {
        let (ticket, said) = pending(&all, None);
        answer(ticket, outcome);
        assert_eq!(end(&said).1, Err(errno));
    }
    let (ticket, said) = pending(&all, None);
    let now = Instant(5);
    assert_eq!([1, 2, 3].map(|_| all.look(now, |from| from.pid == 7, |_| false)), [0, 0, 1]);
    assert_eq!(end(&said).1, Err(libc::EINTR));
    answer(ticket, Outcome::Ok);
    assert!(said.try_recv().is_err(), "it is not carried out after all");
    let (ticket, said) = pending(&all, None);
    all.give_up();
    assert_eq!(end(&said).1, Err(libc::EIO));
    answer(ticket, Outcome::Ok);
    assert!(said.try_recv().is_err() && all.count() == 0);
}

/// A program can wait for what a thread of its has begun that is gone since.
#[test]
fn who_is_gone_may_still_be_waited_for() {
    let all = Arc::new(PendingReplies::default());
    let (ticket, said) = pending(&all, None);
    assert_eq!([1, 2, 3, 4].map(|_| all.look(Instant(5), |_| false, |_| true)), [0; 4]);
    answer(ticket, Outcome::Ok);
    assert_eq!(end(&said).1, Ok(()));
}

#[test]
fn a_deadline_has_it_carried_out_and_it_stays_in_line() {
    let all = Arc::new(PendingReplies::default());
    let now = Instant(5);
    let (ticket, said) = pending(&all, Some(now + Nanos::from_secs(1)));
    let (patient, patient_said) = pending(&all, None);
    let look = |millis| all.look(now + Nanos::from_millis(millis), |_| false, |_| false);
    let _ = [1, 2, 3, 999].map(look);
    assert!(said.try_recv().is_err(), "not yet");
    let _ = [1_000, 1_500, 2_000].map(look);
    assert_eq!(end(&said).1, Ok(()));
    assert_eq!((all.count(), all.lock().owed.count()), (1, 1), "the other one waits on");
    answer(ticket, Outcome::Ok);
    assert_eq!((all.count(), all.lock().owed.count()), (1, 0));
    assert!(patient_said.try_recv().is_err());
    answer(patient, Outcome::Ok);
    assert_eq!(end(&patient_said).1, Ok(()));
}

#[test]
fn there_is_a_bound_of_what_is_owed() {
    let all = Arc::new(PendingReplies::default());
    let now = Instant(5);
    let tickets: Vec<_> = (0..OPERATIONS_OWED_MAX).map(|_| pending(&all, Some(now))).collect();
    let _ = [1, 2, 3].map(|_| all.look(now, |_| false, |_| false));
    assert_eq!(all.lock().owed.count(), OPERATIONS_OWED_MAX);
    let (one_more, said) = operation();
    let due = now + Nanos::from_secs(1);
    assert!(all.hold_operation((7, 0), one_more, (GroupId(1), Some(due))).is_none());
    let look = |millis| all.look(now + Nanos::from_millis(millis), |_| false, |_| false);
    let _ = [1, 500, 999].map(look);
    assert!(said.try_recv().is_err(), "it waits like all others");
    let _ = look(1_000);
    assert_eq!(end(&said).1, Ok(()));
    assert_eq!(all.lock().owed.count(), OPERATIONS_OWED_MAX, "it owes nothing");
    let (other, other_said) = of(&all, GroupId(2), Some(due));
    answer(other, Outcome::Ok);
    assert_eq!(end(&other_said).1, Ok(()), "another group has its own bound");
    let (patient, patient_said) = pending(&all, None);
    for (ticket, said) in tickets {
        assert_eq!(said.recv_timeout(Duration::from_secs(10)).expect("it ends").1, Ok(()));
        answer(ticket, Outcome::Ok);
    }
    wait_for(&all, 1);
    assert_eq!(all.lock().owed.count(), 0);
    answer(patient, Outcome::Ok);
    assert_eq!(end(&patient_said).1, Ok(()));
}

#[test]
fn who_stands_in_no_line_is_given_up_like_all_others() {
    let all = Arc::new(PendingReplies::default());
    let now = Instant(5);
    let tickets: Vec<_> = (0..OPERATIONS_OWED_MAX).map(|_| pending(&all, Some(now))).collect();
    let _ = [1, 2, 3].map(|_| all.look(now, |_| false, |_| false));
    let one_more = || {
        let (operation, said) = operation();
        let due = (GroupId(1), Some(now + Nanos::from_secs(1)));
        assert!(all.hold_operation((8, 0), operation, due).is_none());
        said
    };
    let said = one_more();
    assert_eq!(all.count(), 1);
    let _ = [1, 2, 3].map(|_| all.look(now, |from| from.pid == 8, |_| false));
    assert_eq!(end(&said).1, Err(libc::EINTR));
    wait_for(&all, 0);
    let said = one_more();
    all.give_up();
    assert_eq!(end(&said).1, Err(libc::EIO));
    wait_for(&all, 0);
    let said = one_more();
    tickets.into_iter().for_each(|(ticket, _)| answer(ticket, Outcome::Ok));
    drop(all);
    assert_eq!(end(&said).1, Err(libc::EIO), "with the mount it ends");
}

#[test]
fn a_ticket_that_goes_unanswered_leaves_nothing_owed() {
    let all = Arc::new(PendingReplies::default());
    let (ticket, said) = pending(&all, Some(Instant(5)));
    let waiting = Arc::clone(&ticket.waiting);
    let table = all.lock();
    let run = move || {
        let _ticket = ticket;
        panic!("its owner failed; expected by this test");
    };
    let owner = std::thread::spawn(run);
    // A look that has seen it in the table asks for its deadline after it has left the table.
    let begun = std::time::Instant::now();
    while waiting.lock().reply.is_some() && begun.elapsed() < Duration::from_secs(10) {
        std::thread::yield_now();
    }
    assert!(waiting.lock().reply.is_none(), "its reply goes before its place in the table");
    drop(table);
    owner.join().expect_err("it panicked");
    assert!(!all.is_owed_from(Instant(5), &waiting));
    assert_eq!((end(&said).1, all.lock().owed.count()), (Err(libc::EIO), 0));
}

fn caller(pid: u32) -> Caller {
    Caller { pid, uid: 1000, gid: 1000 }
}

/// A write of file 3, whose reply says nothing: what counts here is who waits for it.
fn write_of(all: &Arc<PendingReplies>) -> (Ticket, Receiver<Said>) {
    let (operation, said) = operation();
    (all.hold((caller(7), Touch::one(3)), Reply::Operation(operation, 0), None), said)
}

/// Whether somebody who changes file 3 has to wait.
fn is_kept_back(inflight: &InflightOperations) -> bool {
    struct Silent;
    impl super::super::inflight_operations::Refuse for Silent {
        fn refuse(self, _: Errno) {}

        fn is_signalled(&self) -> bool {
            true
        }

        fn is_interrupted(&self) -> bool {
            true
        }
    }
    inflight.begin(caller(9), Touch::one(3), Silent).is_err()
}

#[test]
fn who_comes_later_waits_for_what_was_given_up_at_the_disk() {
    let inflight = Arc::new(InflightOperations::default());
    let all = Arc::new(PendingReplies::new(&inflight));
    let look = || all.look(Instant(5), |from| from.pid == 7, |_| false);
    let (ticket, said) = write_of(&all);
    assert!(ticket.waiter().expect("one").begin());
    assert_eq!([1, 2, 3].map(|_| look()), [0, 0, 0], "just begun, as far as a look can tell");
    assert!(!is_kept_back(&inflight));
    assert_eq!((look(), end(&said).1), (1, Err(libc::EINTR)));
    assert!(is_kept_back(&inflight), "it may still come to pass");
    answer(ticket, Outcome::Ok);
    assert!(!is_kept_back(&inflight));
}

#[test]
fn nobody_waits_for_what_is_not_carried_out() {
    let inflight = Arc::new(InflightOperations::default());
    let all = Arc::new(PendingReplies::new(&inflight));
    let look = || [1, 2, 3, 4].map(|_| all.look(Instant(5), |from| from.pid == 7, |_| false));
    let (never_begun, said) = write_of(&all);
    assert_eq!((look(), end(&said).1), ([0, 0, 1, 0], Err(libc::EINTR)));
    assert!(!is_kept_back(&inflight) && !never_begun.waiter().expect("one").begin());
    // Between two pieces of a write nothing of it is on its way.
    let (in_pieces, said) = write_of(&all);
    let waiter = in_pieces.waiter().expect("one");
    assert!(waiter.begin());
    waiter.has_ended();
    assert_eq!((look(), end(&said).1), ([0, 0, 1, 0], Err(libc::EINTR)));
    assert!(!is_kept_back(&inflight) && !waiter.begin());
    // In the midst of a piece it is waited for, as long as that takes.
    let (in_piece, said) = write_of(&all);
    let waiter = in_piece.waiter().expect("one");
    assert!(waiter.begin());
    assert_eq!((look(), end(&said).1), ([0, 0, 0, 1], Err(libc::EINTR)));
    assert!(is_kept_back(&inflight));
    waiter.has_ended();
    assert!(!is_kept_back(&inflight) && !waiter.begin());
    for ticket in [never_begun, in_pieces, in_piece] {
        answer(ticket, Outcome::Failed(DiskError::Io));
    }
    assert!(!is_kept_back(&inflight));
}
