//! Typed events: what happened besides requests finishing. The core does not log; whoever drives
//! it decides where events go.

use crate::time::Nanos;
use core::fmt;

/// Something an operator should know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The scheduler was exchanged on request.
    SchedulerExchanged {
        /// The old one's name.
        from: &'static str,
        /// The new one's name.
        to: &'static str,
        /// Requests that moved over.
        moved_count: usize,
    },
    /// The scheduler failed and fifo took its place.
    SchedulerFailed {
        /// The failed one's name.
        name: &'static str,
        /// Its parameters by name.
        params: Vec<(&'static str, u64)>,
        /// What it did.
        fault: Fault,
        /// Requests recovered from the engine's own table.
        recovered_count: usize,
        /// Its state when it failed, cut to a bounded length.
        dump: String,
    },
    /// The scheduler's opinion about the disk has changed, see [`crate::sched::DiskView`]. The
    /// engine does not say so by itself: its driver compares from time to time.
    DiskJudged {
        /// The scheduler's name.
        name: &'static str,
        /// Whether the disk has a head.
        has_head: bool,
        /// The cost of a seek.
        seek: Nanos,
    },
    /// What was tried beside the settings is not followed any more.
    RecommendEnded {
        /// Why, as the rest of a sentence.
        why: &'static str,
    },
}

/// What a scheduler did wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It panicked.
    Panicked,
    /// It held work on an idle device for longer than `limits::SCHEDULER_STALL`.
    Stalled,
    /// It returned a request that it did not hold.
    Invented,
    /// It no longer knows of a request that it was given.
    Forgot,
    /// It is a loaded policy, and did what no program may: it left its memory, divided by zero, or
    /// answered in a way that means nothing.
    Trapped,
    /// It is a loaded policy, and a call of it used up its processor time.
    Endless,
}

impl Fault {
    /// What it did, as the rest of a sentence.
    pub const fn describe(self) -> &'static str {
        match self {
            Fault::Panicked => "panicked",
            Fault::Stalled => "held work while the disk was idle",
            Fault::Invented => "returned a request that it did not have",
            Fault::Forgot => "lost a request that it was given",
            Fault::Trapped => "broke off",
            Fault::Endless => "did not come to an end",
        }
    }
}

/// The first line of a text.
fn first_line(text: &str) -> &str {
    text.lines().next().unwrap_or_default()
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Event::SchedulerExchanged { from, to, moved_count } => {
                write!(f, "scheduler {from} exchanged for {to}, {moved_count} requests moved")
            }
            Event::SchedulerFailed { name, fault, recovered_count, dump, .. } => {
                let requests = if *recovered_count == 1 { "request" } else { "requests" };
                let what = fault.describe();
                write!(
                    f,
                    "scheduler {name} {what}: replaced by fifo, {recovered_count} {requests} \
                     recovered"
                )?;
                // A loaded policy has its reason at the beginning of its state.
                match fault {
                    Fault::Trapped | Fault::Endless => write!(f, " ({:.200})", first_line(dump)),
                    _ => Ok(()),
                }
            }
            Event::DiskJudged { name, has_head: true, seek } => {
                write!(f, "scheduler {name} finds that the disk has a head: a seek costs {seek}")
            }
            Event::DiskJudged { name, has_head: false, .. } => {
                write!(f, "scheduler {name} finds that the disk has no head")
            }
            Event::RecommendEnded { why } => {
                write!(f, "recommend mode: what is tried has ended, it {why}")
            }
        }
    }
}
