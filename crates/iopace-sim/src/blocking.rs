//! A program that sleeps until its request has a slot, and takes completions only when all of its
//! requests are out: fio with libaio on a kernel of 2009.
//!
//! There, `io_submit` slept in the allocation of a request, and fio calls it for one request after
//! the other and looks for completions only once its whole `iodepth` is out. So what fio saw of a
//! newcomer began when the last of its requests had got a slot, whatever had been served by then.

use iopace_disk::pump::End;
use std::collections::VecDeque;

/// One such program, over the lanes of its task.
#[derive(Debug, Default)]
pub(crate) struct Blocking {
    /// Lanes that want to submit, in order.
    due: VecDeque<usize>,
    /// It sleeps: its last request waits for a slot.
    sleeps: bool,
    /// Lanes whose requests are finished and not looked at yet.
    done: Vec<(usize, End)>,
}

impl Blocking {
    /// A lane has thought long enough.
    pub(crate) fn wants(&mut self, lane: usize) {
        self.due.push_back(lane);
    }

    /// The lane that submits now, if the program is awake.
    pub(crate) fn next(&mut self) -> Option<usize> {
        if self.sleeps { None } else { self.due.pop_front() }
    }

    /// Whether the request that it submitted last still waits for its slot.
    pub(crate) fn set_sleeps(&mut self, sleeps: bool) {
        self.sleeps = sleeps;
    }

    /// The disk has finished the request of a lane.
    pub(crate) fn finished(&mut self, lane: usize, end: &End) {
        self.done.push((lane, *end));
    }

    /// At the end: the completions that it has not looked at.
    pub(crate) fn end(self) -> Vec<(usize, End)> {
        self.done
    }

    /// The completions that it takes: all there are, once everything is out.
    pub(crate) fn reap(&mut self) -> Vec<(usize, End)> {
        if self.sleeps || !self.due.is_empty() {
            Vec::new()
        } else {
            std::mem::take(&mut self.done)
        }
    }
}
