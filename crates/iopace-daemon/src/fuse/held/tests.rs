//! Operations that wait: each ends exactly once, by whoever is first.

use super::*;
use crate::limits::OPERATIONS_OWED_MAX;
use iopace_core::time::Nanos;
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

fn held(held: &Arc<Held>, deadline: Option<Instant>) -> (Ticket, Receiver<Said>) {
    let (operation, said) = operation();
    (held.hold_operation(7, operation, deadline).expect("it is held"), said)
}

fn answer(ticket: Ticket, outcome: Outcome) {
    ticket.answer(outcome, Progress::default(), &Buffer::default());
}

/// What came of it; nothing more can come.
fn end(said: &Receiver<Said>) -> Said {
    let end = said.recv_timeout(Duration::from_secs(10)).expect("it ends");
    assert!(said.recv_timeout(Duration::from_millis(20)).is_err(), "it ends once");
    end
}

#[test]
fn what_is_admitted_is_carried_out_by_a_thread_of_its_own() {
    let all = Arc::new(Held::default());
    let (ticket, said) = held(&all, None);
    assert_eq!(all.count(), 1);
    answer(ticket, Outcome::Ok);
    let (thread, result) = end(&said);
    assert_eq!(result, Ok(()));
    assert_ne!(thread, std::thread::current().id());
    assert_eq!(all.count(), 0);
}

#[test]
fn what_fails_or_whose_caller_is_killed_gets_an_error_and_is_not_carried_out() {
    let all = Arc::new(Held::default());
    for (outcome, errno) in
        [(Outcome::Refused, libc::EAGAIN), (Outcome::Failed(DiskError::Gone), libc::ENXIO)]
    {
        let (ticket, said) = held(&all, None);
        answer(ticket, outcome);
        assert_eq!(end(&said).1, Err(errno));
    }
    let (ticket, said) = held(&all, None);
    let now = Instant(5);
    assert_eq!([1, 2, 3].map(|_| all.look(now, |pid| pid == 7)), [0, 0, 1]);
    assert_eq!(end(&said).1, Err(libc::EINTR));
    answer(ticket, Outcome::Ok);
    assert!(said.try_recv().is_err(), "it is not carried out after all");
    let (ticket, said) = held(&all, None);
    all.give_up();
    assert_eq!(end(&said).1, Err(libc::EIO));
    answer(ticket, Outcome::Ok);
    assert!(said.try_recv().is_err() && all.count() == 0);
}

#[test]
fn a_deadline_has_it_carried_out_and_it_stays_in_line() {
    let all = Arc::new(Held::default());
    let now = Instant(5);
    let (ticket, said) = held(&all, Some(now + Nanos::from_secs(1)));
    let (patient, patient_said) = held(&all, None);
    let look = |millis| all.look(now + Nanos::from_millis(millis), |_| false);
    let _ = [1, 2, 3, 999].map(look);
    assert!(said.try_recv().is_err(), "not yet");
    let _ = [1_000, 1_500, 2_000].map(look);
    assert_eq!(end(&said).1, Ok(()));
    assert_eq!((all.count(), all.lock().owed_count), (1, 1), "the other one waits on");
    answer(ticket, Outcome::Ok);
    assert_eq!((all.count(), all.lock().owed_count), (1, 0));
    assert!(patient_said.try_recv().is_err());
    answer(patient, Outcome::Ok);
    assert_eq!(end(&patient_said).1, Ok(()));
}

#[test]
fn there_is_a_bound_of_what_is_owed() {
    let all = Arc::new(Held::default());
    let now = Instant(5);
    let tickets: Vec<_> = (0..OPERATIONS_OWED_MAX).map(|_| held(&all, Some(now))).collect();
    let _ = [1, 2, 3].map(|_| all.look(now, |_| false));
    assert_eq!(all.lock().owed_count, OPERATIONS_OWED_MAX);
    let (one_more, said) = operation();
    assert!(all.hold_operation(7, one_more, Some(now)).is_none());
    assert_eq!(end(&said), (std::thread::current().id(), Ok(())));
    let (patient, patient_said) = held(&all, None);
    for (ticket, said) in tickets {
        assert_eq!(said.recv_timeout(Duration::from_secs(10)).expect("it ends").1, Ok(()));
        answer(ticket, Outcome::Ok);
    }
    assert_eq!((all.count(), all.lock().owed_count), (1, 0));
    answer(patient, Outcome::Ok);
    assert_eq!(end(&patient_said).1, Ok(()));
}
