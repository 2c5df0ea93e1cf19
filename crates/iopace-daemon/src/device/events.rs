//! What has happened to a device.

use super::LoggedEvent;
use crate::clock;
use crate::limits::EVENTS_KEPT;
use crate::live::Hub;
use iopace_core::engine::Control;
use iopace_core::trace::Event;
use std::collections::VecDeque;
use std::sync::Arc;

/// Events of a device: the latest are kept, all are logged.
#[derive(Debug)]
pub struct EventLog {
    pub(super) device: String,
    kept: VecDeque<LoggedEvent>,
    /// Who is told at once.
    hub: Option<Arc<Hub>>,
}

impl EventLog {
    pub(crate) fn new(device: String) -> EventLog {
        EventLog { device, kept: VecDeque::new(), hub: None }
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
        let logged = LoggedEvent { at: clock::now(), event };
        if let Some(hub) = &self.hub {
            hub.happened(&self.device, &logged);
        }
        self.kept.push_back(logged);
    }

    /// Whoever listens there learns of events from now on.
    pub(crate) fn report_to(&mut self, hub: &Arc<Hub>) {
        self.hub = Some(Arc::clone(hub));
    }

    pub(crate) fn kept(&self) -> Vec<LoggedEvent> {
        self.kept.iter().cloned().collect()
    }
}

/// Whether the change concerns the scheduler: the only kind that is long enough to be measured.
pub(crate) fn is_exchange(control: &Control) -> bool {
    matches!(control, Control::Insert(..) | Control::Configure(..) | Control::Destroy)
}
