//! A program that sleeps until its request has a slot, and looks for one completion a submission:
//! fio with libaio on a kernel of 2009.
//!
//! There, `io_submit` slept in the allocation of a request. fio submits one request after the
//! other until its whole `iodepth` is out; from then on it takes one completion
//! (`iodepth_batch_complete` = 1) and submits one request, in turns. So its first completion is
//! counted when the last of its requests has got a slot, whatever had been served by then, and
//! what had been served is counted one by one, a submission each.

use iopace_disk::pump::End;
use std::collections::VecDeque;

/// One such program, over the lanes of its task.
#[derive(Debug, Default)]
pub(crate) struct Blocking {
    /// Lanes that want to submit, in order.
    due: VecDeque<usize>,
    /// It sleeps: its last request waits for a slot.
    sleeps: bool,
    /// It has taken a completion and not submitted its next request yet.
    thinks: bool,
    /// Lanes whose requests are finished and not looked at yet, in the order in which they ended.
    done: VecDeque<(usize, End)>,
}

impl Blocking {
    /// A lane has thought long enough.
    pub(crate) fn wants(&mut self, lane: usize) {
        self.due.push_back(lane);
    }

    /// The lane that submits now, if the program is awake.
    pub(crate) fn next(&mut self) -> Option<usize> {
        if self.sleeps {
            return None;
        }
        let lane = self.due.pop_front()?;
        self.thinks = false;
        Some(lane)
    }

    /// Whether the request that it submitted last still waits for its slot.
    pub(crate) fn set_sleeps(&mut self, sleeps: bool) {
        self.sleeps = sleeps;
    }

    /// The disk has finished the request of a lane.
    pub(crate) fn finished(&mut self, lane: usize, end: &End) {
        self.done.push_back((lane, *end));
    }

    /// At the end: the completions that it has not looked at.
    pub(crate) fn end(self) -> VecDeque<(usize, End)> {
        self.done
    }

    /// The completion that it takes: the oldest one, if everything is out.
    pub(crate) fn reap(&mut self) -> Option<(usize, End)> {
        if self.sleeps || self.thinks || !self.due.is_empty() {
            return None;
        }
        let done = self.done.pop_front()?;
        self.thinks = true;
        Some(done)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use iopace_core::request::{Extent, Outcome, StageTimes};

    fn end() -> End {
        let times = StageTimes::default();
        End { outcome: Outcome::Ok, times, extent: Extent::EMPTY, cached: false }
    }

    #[test]
    fn one_completion_is_taken_for_each_submission() {
        let mut program = Blocking::default();
        program.wants(0);
        program.wants(1);
        assert_eq!(program.next(), Some(0));
        program.finished(0, &end());
        assert!(program.reap().is_none(), "a request is still to be submitted");
        program.set_sleeps(true);
        assert_eq!(program.next(), None);
        program.set_sleeps(false);
        assert_eq!(program.next(), Some(1));
        program.finished(1, &end());
        assert_eq!(program.reap().map(|(lane, _)| lane), Some(0));
        assert!(program.reap().is_none(), "nothing was submitted since");
        program.wants(0);
        assert_eq!(program.next(), Some(0));
        assert_eq!(program.reap().map(|(lane, _)| lane), Some(1));
        assert_eq!(program.end().len(), 0);
    }
}
