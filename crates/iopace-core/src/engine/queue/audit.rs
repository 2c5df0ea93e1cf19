//! The audit of a scheduler: whether it still has every request that it was given.
//!
//! A scheduler that has lost a request does not show it while it has others to give. Two steps find
//! it out:
//! 1. Suspicion, looked for ten times per bound: a request is still queued, and one that came later
//!    by the bound is at the device. A slow device alone raises none.
//! 2. Proof. A scheduler may starve a request lawfully: those of an idle class, say. So it is asked
//!    for all that it has, as if a device took each request at once and had finished it before the
//!    next question. One that starves gives everything back. One that has lost a request says that
//!    it has nothing, or holds back what is not there, and fifo takes its place.
//!
//! Nothing that is given in step 2 starts, and the scheduler is spent by it: one that has given
//! everything is made anew, with all that is queued, and begins to learn again. That is the price
//! of a starved request, so that it is paid once in [`SCHEDULER_FORGETS`] at most.
//!
//! # Limits
//! The device is held up while step 2 lasts: some microseconds for each question to a loaded
//! policy, and the fuel of a call for each in one that wastes it. It is asked
//! [`QUESTIONS_OF_POLICY`] times at most; where more is queued, it is made anew without a verdict,
//! which gives it what it has lost again.

use super::Queue;
use crate::engine::context::Context;
use crate::limits::{POLICY_FORGETS, SCHEDULER_FORGETS, SCHEDULER_STALL};
use crate::request::{Op, RequestId};
use crate::sched::{Algorithm, Pop, is_built_in};
use crate::table::{Entry, RequestState};
use crate::time::{Instant, Nanos};
use crate::trace::Fault;
use std::collections::BTreeSet;

/// Most questions of step 2 to a compiled-in scheduler, for each queued request, and in all for a
/// short queue. One that keeps the disk idle for a task before nearly every request is asked twice
/// for each.
const QUESTIONS_PER_REQUEST: usize = 4;
/// See [`QUESTIONS_PER_REQUEST`].
const QUESTIONS_MIN: usize = 256;

/// Most questions to a loaded policy: one that wastes its fuel takes some 10 ms for each, and holds
/// the device up for a few seconds in [`SCHEDULER_FORGETS`].
const QUESTIONS_OF_POLICY: usize = 256;

/// The first step by which time goes on for a scheduler that holds back; twice as much each time,
/// so that the bound of a stall is reached in ten questions, however small its own steps are.
const STEP: Nanos = Nanos::from_millis(1);

/// The time for which a request may be passed over before the scheduler is under suspicion.
fn bound(algorithm: &'static Algorithm) -> Nanos {
    if is_built_in(algorithm) { SCHEDULER_FORGETS } else { POLICY_FORGETS }
}

/// When a scheduler that was put in now is looked at.
pub(super) fn next(now: Instant, algorithm: &'static Algorithm) -> Instant {
    now + Nanos(bound(algorithm).0 / 10)
}

impl Queue {
    /// Looks for a request that the scheduler has lost. True if a new one has taken its place.
    #[cold]
    pub(super) fn audit(&mut self, cx: &mut Context) -> bool {
        let algorithm = self.sched.algorithm;
        if !self.is_suspect(bound(algorithm)) {
            self.audit_at = next(cx.now, algorithm);
            return false;
        }
        if let Err(fault) = self.ask_for_all(cx.now) {
            self.fail_over(cx, fault);
            return true;
        }
        let params = self.sched.params.clone();
        if self.exchange(cx, algorithm, params, self.inserted).is_err() {
            self.fail_over(cx, Fault::Panicked);
        }
        self.audit_at = cx.now + SCHEDULER_FORGETS;
        true
    }

    /// Whether the scheduler has given a request that came so much later than one that is queued.
    fn is_suspect(&self, bound: Nanos) -> bool {
        // Flushes pass the queue, and what has joined another request may be out of its turn.
        let is_given = |entry: &&Entry| {
            entry.state() == RequestState::InFlight && entry.request.submit.op != Op::Flush
        };
        let given = self.table.entries().filter(is_given);
        let Some(newest) = given.map(|entry| entry.request.arrived()).max() else {
            return false;
        };
        // A queued request has the instant of its admission there.
        let is_passed_over = |entry: &Entry| {
            entry.state() == RequestState::Queued && newest.since(entry.started) >= bound
        };
        self.table.entries().any(is_passed_over)
    }

    /// Asks the scheduler for all that is queued; it is spent then. Whether it has given all: one
    /// that takes too many questions is not refuted.
    ///
    /// # Errors
    /// It has lost some of it, or has failed in another way.
    pub(in crate::engine) fn ask_for_all(&mut self, mut now: Instant) -> Result<bool, Fault> {
        let Queue { table, sched, epoch, .. } = self;
        let is_its_own = |entry: &Entry| {
            matches!(entry.state(), RequestState::InFlight | RequestState::Joined)
                && entry.epoch == *epoch
        };
        for id in table.those(is_its_own) {
            sched.on_done(now, id, &table[id], true)?;
        }
        let mut left: BTreeSet<RequestId> = table.queued().into_iter().collect();
        let (mut held_since, mut step) = (now, STEP);
        let most = match is_built_in(sched.algorithm) {
            true => QUESTIONS_MIN.max(QUESTIONS_PER_REQUEST * left.len()),
            false => QUESTIONS_OF_POLICY,
        };
        for _ in 0..most {
            if left.is_empty() {
                break;
            }
            match sched.pop(now, table)? {
                Pop::Ready(id) | Pop::Last(id, _) if left.remove(&id) => {
                    sched.on_done(now, id, &table[id], true)?;
                    (held_since, step) = (now, STEP);
                }
                Pop::Ready(_) | Pop::Last(..) => return Err(Fault::Invented),
                // It may always be asked later than it has said.
                Pop::At(at, _) if at.since(held_since) <= SCHEDULER_STALL => {
                    now = at.max(now + step);
                    step = step.times(2);
                }
                Pop::At(..) => return Err(Fault::Stalled),
                Pop::Empty => return Err(Fault::Forgot),
            }
        }
        Ok(left.is_empty())
    }
}
