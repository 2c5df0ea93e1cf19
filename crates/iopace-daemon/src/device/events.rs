//! What has happened to a device.

use super::FailedScheduler;
use crate::clock;
use crate::figures::size;
use crate::job::disk_error;
use crate::limits::{EVENTS_KEPT, FAILURES_EVERY};
use iopace_core::engine::Control;
use iopace_core::request::{DiskError, Extent, Op};
use iopace_core::time::{Instant, Nanos};
use iopace_core::trace::Event;
use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::sync::Arc;

/// A kind of failure is an event so often at most: a full disk is not to push out all else that has
/// happened.
const FAILURE_EVENTS_EVERY: Nanos = Nanos::from_secs(300);

/// An event with its time.
#[derive(Clone, Debug)]
pub struct LoggedEvent {
    /// When, on the daemon's monotonic clock.
    pub at: Instant,
    /// What.
    pub event: DeviceEvent,
}

/// Something that happened to a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeviceEvent {
    /// The engine says so.
    Engine(Event),
    /// Requests failed for lack of room: where the disk is a file, its file system is full.
    NoSpace(String),
    /// Requests failed for another reason.
    RequestFailed(String),
    /// The server that has the disk does not answer.
    DiskLost(String),
    /// It answers again.
    DiskBack(String),
}

/// Learns of the events of devices at once.
pub(crate) trait Listener: fmt::Debug + Send + Sync {
    /// This has happened to the device of that name.
    fn happened(&self, device: &str, event: &LoggedEvent);
}

/// Events of a device: the latest are kept, all are logged.
#[derive(Debug)]
pub struct EventLog {
    pub(super) device: String,
    kept: VecDeque<LoggedEvent>,
    /// The scheduler that fifo stands in for.
    failed: Option<FailedScheduler>,
    /// Who is told at once.
    listener: Option<Arc<dyn Listener>>,
    /// Those that are logged.
    failures: Failures,
    /// Those that are events: for lack of room, and others.
    no_space: Failures,
    failed_otherwise: Failures,
}

impl EventLog {
    pub(crate) fn new(device: String) -> EventLog {
        EventLog {
            device,
            kept: VecDeque::new(),
            failed: None,
            listener: None,
            failures: Failures::every(FAILURES_EVERY),
            no_space: Failures::every(FAILURE_EVENTS_EVERY),
            failed_otherwise: Failures::every(FAILURE_EVENTS_EVERY),
        }
    }

    pub(crate) fn add(&mut self, event: Event) {
        let device = &self.device;
        match &event {
            Event::SchedulerExchanged { .. } => {
                tracing::debug!(%device, "{event}");
                self.failed = None;
            }
            Event::DiskJudged { .. } => tracing::info!(%device, "{event}"),
            Event::RecommendEnded { .. } => tracing::warn!(%device, "{event}"),
            Event::SchedulerFailed { name, params, dump, .. } => {
                tracing::error!(%device, "{event}");
                tracing::error!(%device, "state of the failed scheduler: {dump}");
                let (at, text) = (clock::now(), event.to_string());
                self.failed = Some(FailedScheduler { name, params: params.clone(), text, at });
            }
        }
        self.keep(DeviceEvent::Engine(event));
    }

    fn keep(&mut self, event: DeviceEvent) {
        if self.kept.len() == EVENTS_KEPT {
            self.kept.pop_front();
        }
        let logged = LoggedEvent { at: clock::now(), event };
        if let Some(listener) = &self.listener {
            listener.happened(&self.device, &logged);
        }
        self.kept.push_back(logged);
    }

    /// That one learns of events from now on.
    pub(crate) fn report_to(&mut self, listener: Arc<dyn Listener>) {
        self.listener = Some(listener);
    }

    /// A request has failed at the disk: the first one is logged and an event, others are counted.
    pub(crate) fn failed(&mut self, now: Instant, (op, extent): (Op, Extent), error: &io::Error) {
        let device = &self.device;
        match self.failures.add(now) {
            Some(0) => tracing::warn!(%device, %error, "{op:?} {extent} failed"),
            Some(others) => {
                tracing::warn!(%device, %error, "{op:?} {extent} failed, and {others} before it");
            }
            None => {}
        }
        // A write past the largest file is a mistake of its writer: no disk is full, or broken.
        if error.kind() == io::ErrorKind::FileTooLarge {
            return;
        }
        let is_full = match disk_error(error) {
            DiskError::NoSpace => true,
            // The disk cannot do such a thing at all: it has not failed.
            DiskError::Unsupported => return,
            _ => false,
        };
        let failures = if is_full { &mut self.no_space } else { &mut self.failed_otherwise };
        let Some(others) = failures.add(now) else { return };
        let mut text = match op {
            Op::Read | Op::Write => {
                format!("a {} of {} failed: {error}", word(op), size(extent.len().get()))
            }
            _ => format!("a {} failed: {error}", word(op)),
        };
        if others > 0 {
            text.push_str(&format!(", and {others} requests since the last event of this kind"));
        }
        self.keep(match is_full {
            true => DeviceEvent::NoSpace(text),
            false => DeviceEvent::RequestFailed(text),
        });
    }

    /// A write into the page cache has failed. Given up with who asked for it, it is no failure of
    /// the disk.
    pub(crate) fn write_failed(&mut self, now: Instant, extent: Extent, error: &io::Error) {
        if error.kind() != io::ErrorKind::Interrupted {
            self.failed(now, (Op::Write, extent), error);
        }
    }

    /// The server that has the disk does not answer.
    pub(crate) fn disk_lost(&mut self, text: &str) {
        let device = &self.device;
        tracing::warn!(%device, "{text}");
        self.keep(DeviceEvent::DiskLost(text.to_owned()));
    }

    /// It answers again.
    pub(crate) fn disk_back(&mut self, text: &str) {
        let device = &self.device;
        tracing::info!(%device, "{text}");
        self.keep(DeviceEvent::DiskBack(text.to_owned()));
    }

    pub(crate) fn kept(&self) -> Vec<LoggedEvent> {
        self.kept.iter().cloned().collect()
    }

    /// The scheduler that fifo stands in for, until another one is put in.
    pub(crate) fn failed_scheduler(&self) -> Option<FailedScheduler> {
        self.failed.clone()
    }

    /// Fifo stands in for a scheduler that failed again, as it did before an exchange that was
    /// undone.
    pub(crate) fn put_back_failed(&mut self, failed: FailedScheduler) {
        self.failed = Some(failed);
    }
}

impl Drop for EventLog {
    fn drop(&mut self) {
        let (device, others) = (&self.device, self.failures.untold_count);
        if others > 0 {
            tracing::warn!(%device, "{others} more requests have failed");
        }
    }
}

/// A disk that fails fails for every request: one line for many.
#[derive(Debug)]
struct Failures {
    /// The time between two that are told.
    every: Nanos,
    /// Until then they are counted only.
    quiet_until: Option<Instant>,
    untold_count: u64,
}

impl Failures {
    fn every(every: Nanos) -> Failures {
        Failures { every, quiet_until: None, untold_count: 0 }
    }

    /// One more: how many there were since the last that was told, if this one is to be told.
    fn add(&mut self, now: Instant) -> Option<u64> {
        if self.quiet_until.is_some_and(|until| now < until) {
            self.untold_count += 1;
            return None;
        }
        self.quiet_until = Some(now + self.every);
        Some(std::mem::take(&mut self.untold_count))
    }
}

/// A kind of request in a sentence.
fn word(op: Op) -> &'static str {
    match op {
        Op::Read => "read",
        Op::Write => "write",
        Op::Flush => "flush",
        Op::Trim => "trim",
        Op::WriteZeroes => "write of zeroes",
        Op::Cache => "read into the page cache",
    }
}

/// Whether the change concerns the scheduler: the only kind that is long enough to be measured.
pub(crate) fn is_exchange(control: &Control) -> bool {
    matches!(control, Control::Insert(..) | Control::Configure(..) | Control::Destroy)
}

#[cfg(test)]
mod tests {
    use super::*;
    use iopace_core::units::Bytes;

    #[test]
    fn the_first_failure_is_told_and_then_a_count() {
        let mut failures = Failures::every(FAILURES_EVERY);
        let at = |secs: u64| Instant(secs * 1_000_000_000);
        assert_eq!(failures.add(at(1)), Some(0));
        assert!((0..99).all(|_| failures.add(at(2)).is_none()));
        assert_eq!(failures.add(at(11)), Some(99));
        assert_eq!(failures.add(at(20)), None);
        assert_eq!(failures.add(at(500)), Some(1));
        assert_eq!(failures.untold_count, 0);
    }

    #[test]
    fn a_failed_scheduler_is_known_until_another_one_is_put_in() {
        let mut log = EventLog::new("disk".into());
        let (fault, dump) = (iopace_core::trace::Fault::Forgot, "3 queued".into());
        let params = vec![("limit", 7)];
        log.add(Event::SchedulerFailed { name: "mine", params, fault, recovered_count: 3, dump });
        for _ in 0..EVENTS_KEPT {
            log.add(Event::DiskJudged { name: "fifo", has_head: false, seek: Nanos::ZERO });
        }
        let failed = log.failed_scheduler().expect("it has failed");
        assert_eq!((failed.name, &*failed.params), ("mine", &[("limit", 7)][..]));
        assert!(failed.text.contains("mine lost a request"), "{}", failed.text);
        log.add(Event::SchedulerExchanged { from: "fifo", to: "fair", moved_count: 0 });
        assert_eq!(log.failed_scheduler(), None);
    }

    #[test]
    fn a_full_disk_is_an_event_once_and_another_error_one_of_its_own() {
        let mut log = EventLog::new("disk".into());
        let extent = Extent::new(Bytes::ZERO, Bytes(4096)).expect("an extent");
        let full = io::Error::from_raw_os_error(libc::ENOSPC);
        let broken = io::Error::from_raw_os_error(libc::EIO);
        let at = |secs: u64| Instant(secs * 1_000_000_000);
        for error in [&full, &full, &broken, &full] {
            log.failed(at(1), (Op::Write, extent), error);
        }
        let kept: Vec<DeviceEvent> = log.kept().into_iter().map(|logged| logged.event).collect();
        let [DeviceEvent::NoSpace(full_text), DeviceEvent::RequestFailed(text)] = &*kept else {
            panic!("{kept:?}")
        };
        assert!(full_text.starts_with("a write of 4 KiB failed: No space left"), "{full_text}");
        assert!(text.starts_with("a write of 4 KiB failed: Input/output error"), "{text}");
        // Whoever writes past the largest file is told that, and nobody else.
        log.write_failed(at(1), extent, &io::Error::from_raw_os_error(libc::EFBIG));
        assert_eq!(log.kept().len(), 2);
        log.failed(at(1) + FAILURE_EVENTS_EVERY, (Op::Write, extent), &full);
        let last = log.kept().pop().expect("told again").event;
        let DeviceEvent::NoSpace(text) = last else { panic!("{last:?}") };
        assert!(text.ends_with(", and 2 requests since the last event of this kind"), "{text}");
    }
}
