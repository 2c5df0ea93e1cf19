//! What has happened to a device.

use super::LoggedEvent;
use crate::clock;
use crate::limits::EVENTS_KEPT;
use iopace_core::engine::Control;
use iopace_core::trace::Event;
use std::collections::VecDeque;

/// Events of a device: the latest are kept, all are logged.
#[derive(Debug)]
pub(crate) struct EventLog {
    pub(super) device: String,
    kept: VecDeque<LoggedEvent>,
}

impl EventLog {
    pub(crate) fn new(device: String) -> EventLog {
        EventLog { device, kept: VecDeque::new() }
    }

    pub(crate) fn add(&mut self, event: Event) {
        let device = &self.device;
        match &event {
            Event::SchedulerExchanged { .. } => tracing::debug!(%device, "{event}"),
            Event::SchedulerFailed { dump, .. } => {
                tracing::error!(%device, "{event}");
                tracing::error!(%device, "state of the failed scheduler: {dump}");
            }
        }
        if self.kept.len() == EVENTS_KEPT {
            self.kept.pop_front();
        }
        self.kept.push_back(LoggedEvent { at: clock::now(), event });
    }

    pub(crate) fn kept(&self) -> Vec<LoggedEvent> {
        self.kept.iter().cloned().collect()
    }
}

/// Whether the change concerns the scheduler: the only kind that is long enough to be measured.
pub(crate) fn is_exchange(control: &Control) -> bool {
    matches!(control, Control::Insert(..) | Control::Configure(..) | Control::Destroy)
}
