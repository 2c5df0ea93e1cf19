//! What has happened to a device.

use super::LoggedEvent;
use crate::clock;
use crate::limits::{EVENTS_KEPT, FAILURES_EVERY};
use iopace_core::engine::Control;
use iopace_core::request::{Extent, Op};
use iopace_core::time::Instant;
use iopace_core::trace::Event;
use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::sync::Arc;

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
    /// Who is told at once.
    listener: Option<Arc<dyn Listener>>,
    failures: Failures,
}

impl EventLog {
    pub(crate) fn new(device: String) -> EventLog {
        EventLog { device, kept: VecDeque::new(), listener: None, failures: Failures::default() }
    }

    pub(crate) fn add(&mut self, event: Event) {
        let device = &self.device;
        match &event {
            Event::SchedulerExchanged { .. } => tracing::debug!(%device, "{event}"),
            Event::DiskJudged { .. } => tracing::info!(%device, "{event}"),
            Event::RecommendEnded { .. } => tracing::warn!(%device, "{event}"),
            Event::SchedulerFailed { dump, .. } => {
                tracing::error!(%device, "{event}");
                tracing::error!(%device, "state of the failed scheduler: {dump}");
            }
        }
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

    /// A request has failed at the disk: the first one is logged, others are counted.
    pub(crate) fn failed(&mut self, now: Instant, (op, extent): (Op, Extent), error: &io::Error) {
        let device = &self.device;
        match self.failures.add(now) {
            Some(0) => tracing::warn!(%device, %error, "{op:?} {extent} failed"),
            Some(others) => {
                tracing::warn!(%device, %error, "{op:?} {extent} failed, and {others} before it");
            }
            None => {}
        }
    }

    pub(crate) fn kept(&self) -> Vec<LoggedEvent> {
        self.kept.iter().cloned().collect()
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
#[derive(Debug, Default)]
struct Failures {
    /// Until then they are counted only.
    quiet_until: Option<Instant>,
    untold_count: u64,
}

impl Failures {
    /// One more: how many there were since the last that was told, if this one is to be told.
    fn add(&mut self, now: Instant) -> Option<u64> {
        if self.quiet_until.is_some_and(|until| now < until) {
            self.untold_count += 1;
            return None;
        }
        self.quiet_until = Some(now + FAILURES_EVERY);
        Some(std::mem::take(&mut self.untold_count))
    }
}

/// Whether the change concerns the scheduler: the only kind that is long enough to be measured.
pub(crate) fn is_exchange(control: &Control) -> bool {
    matches!(control, Control::Insert(..) | Control::Configure(..) | Control::Destroy)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_failure_is_told_and_then_a_count() {
        let mut failures = Failures::default();
        let at = |secs: u64| Instant(secs * 1_000_000_000);
        assert_eq!(failures.add(at(1)), Some(0));
        assert!((0..99).all(|_| failures.add(at(2)).is_none()));
        assert_eq!(failures.add(at(11)), Some(99));
        assert_eq!(failures.add(at(20)), None);
        assert_eq!(failures.add(at(500)), Some(1));
        assert_eq!(failures.untold_count, 0);
    }
}
