//! Stage 2 at work: requests at the door, and those that have nothing to do behind it.

use super::{Engine, Finish, Output};
use crate::admit::Admit;
use crate::limits::FRONTEND_REQUESTS_MAX;
use crate::request::{Cover, Op, Outcome, RequestId, Submit};
use crate::table::State;
use crate::time::{Instant, Nanos};
use crate::verdict::Reason;

impl Engine {
    /// A request comes.
    pub(super) fn submitted(&mut self, submit: &Submit) {
        if submit.op == Op::Flush {
            return self.flush_comes(submit, &Cover::All);
        }
        if self.live_count() >= FRONTEND_REQUESTS_MAX {
            return self.refuse_request(submit);
        }
        let followed = self.follow(submit);
        if matches!(submit.op, Op::Trim | Op::WriteZeroes) {
            self.is_changed = true;
            self.discard(submit.extent.into());
        }
        self.enter(submit, |entry| entry.followed = followed);
    }

    /// A flush comes, and covers so much.
    #[inline(never)]
    pub(super) fn flush_comes(&mut self, submit: &Submit, cover: &Cover) {
        if self.live_count() >= FRONTEND_REQUESTS_MAX {
            return self.refuse_request(submit);
        }
        self.is_changed = true;
        self.follow_flush(submit, cover);
        if let Some(has_failed) = self.sync(*submit, cover) {
            self.enter(submit, |entry| entry.written.1 = has_failed);
        }
    }

    #[cold]
    fn refuse_request(&mut self, submit: &Submit) {
        self.table.refuse();
        let Submit { tag, task, op, extent, .. } = *submit;
        self.refuse(tag, task, op, extent);
    }

    /// Moves on whatever may go on now.
    #[inline]
    pub(super) fn admit_waiting(&mut self) {
        if self.table.count(State::Waiting) == 0 {
            self.admit_again = (Instant::NEVER, Reason::Idle);
            return;
        }
        self.admit_some();
    }

    #[inline(never)]
    fn admit_some(&mut self) {
        loop {
            match self.admit.admit(self.now) {
                Admit::Ready { id, reserved, budget, totals } => {
                    for (group, total) in totals {
                        self.memory.pace.admitted(self.now, group, total);
                    }
                    self.admitted(id, reserved, budget);
                }
                Admit::At(at, reason) => {
                    self.admit_again = (at, reason);
                    return;
                }
                Admit::Empty => {
                    self.admit_again = (Instant::NEVER, Reason::Idle);
                    return;
                }
            }
        }
    }

    /// Ends what has nothing to do behind this stage: its slot is free again at once. Of its wait,
    /// `budget` was for a limit.
    #[cold]
    pub(super) fn end_admitted(&mut self, id: RequestId, budget: Nanos) {
        let now = self.now;
        let entry = self.table.advance(id, State::Waiting);
        (entry.admitted, entry.started, entry.budget) = (now, now, budget);
        let entry = *self.table.leave(id, State::Waiting);
        let times = entry.times(now);
        let Submit { tag, task, group, op, extent, sync, .. } = entry.request.submit;
        self.admit.release(now, group, sync);
        let outcome = Outcome::Ok;
        self.groups.started(now, group, sync);
        let done = entry.request.done(id, now, true);
        self.count(&done, entry.request.account, outcome, &times);
        self.followed(id, &times);
        self.outputs.push_back(Output::Finish(Finish { tag, task, op, extent, outcome, times }));
        self.forget_if_dead(group);
    }
}
