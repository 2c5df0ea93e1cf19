//! The time that a thread may take for something, without the time that it stood in line for a
//! processor: a busy machine is slow, and hides nothing.

use crate::clock;
use iopace_core::time::Instant;
use rustix::thread::Pid;
use std::fs;
use std::time::Duration;

/// Begun by the thread that it is for, and looked at by any other.
#[derive(Clone, Copy, Debug)]
pub(super) struct Patience {
    thread: Pid,
    since: Instant,
    in_line: Duration,
    lasts: Duration,
}

impl Patience {
    /// For the calling thread, from now on.
    pub(super) fn of_this_thread(lasts: Duration) -> Patience {
        let thread = rustix::thread::gettid();
        Patience { thread, since: clock::now(), in_line: in_line(thread), lasts }
    }

    /// The rest of it; zero when it is over.
    pub(super) fn left(&self) -> Duration {
        let taken = clock::elapsed(self.since);
        if taken < self.lasts {
            return self.lasts - taken;
        }
        let in_line = in_line(self.thread).saturating_sub(self.in_line);
        (self.lasts + in_line).saturating_sub(taken)
    }

    pub(super) fn is_over(&self) -> bool {
        self.left().is_zero()
    }
}

/// The time that a thread of this process has waited for a processor since it began: the second
/// number of its `schedstat` (Linux, Documentation/scheduler/sched-stats.rst). Zero where the
/// kernel does not count it, and once the thread has ended.
fn in_line(thread: Pid) -> Duration {
    let path = format!("/proc/self/task/{}/schedstat", thread.as_raw_nonzero());
    let text = fs::read_to_string(path).unwrap_or_default();
    let nanos = text.split_whitespace().nth(1).and_then(|nanos| nanos.parse().ok());
    Duration::from_nanos(nanos.unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::thread;

    #[test]
    fn time_in_line_for_a_processor_does_not_count() {
        const IN_LINE: Duration = Duration::from_millis(50);
        if !fs::exists("/proc/self/schedstat").unwrap_or(false) {
            eprintln!("skipped: this kernel does not count the time in line");
            return;
        }
        let allowed = rustix::thread::sched_getaffinity(None).expect("processors");
        let first = (0..1024).find(|cpu| allowed.is_set(*cpu)).expect("there is one");
        let is_over = AtomicBool::new(false);
        thread::scope(|scope| {
            // Two threads that never rest on one processor: each waits while the other runs.
            for _ in 0..2 {
                scope.spawn(|| {
                    let mut one = rustix::thread::CpuSet::new();
                    one.set(first);
                    rustix::thread::sched_setaffinity(None, &one).expect("allowed");
                    let patience = Patience::of_this_thread(Duration::ZERO);
                    let waited = |patience: &Patience| in_line(patience.thread) - patience.in_line;
                    while waited(&patience) < IN_LINE && !is_over.load(Ordering::Relaxed) {
                        std::hint::spin_loop();
                    }
                    if !is_over.swap(true, Ordering::Relaxed) {
                        let longer = Patience { lasts: clock::elapsed(patience.since), ..patience };
                        assert!(longer.left() > Duration::ZERO, "{longer:?}");
                    }
                });
            }
        });
    }

    #[test]
    fn time_asleep_counts() {
        let patience = Patience::of_this_thread(Duration::from_millis(1));
        while !patience.is_over() {
            // SLEEP: the time of a thread that waits for something else goes by.
            thread::sleep(Duration::from_millis(1));
        }
    }
}
