//! The part of a device under its lock.

use super::super::events::{EventLog, is_exchange};
use crate::clock;
use iopace_core::engine::{Control, ControlError};
use iopace_core::pace::Thresholds;
use iopace_core::request::GroupId;
use iopace_core::stats::Histogram;
use iopace_core::time::Instant;
use iopace_core::units::Bytes;
use iopace_disk::pump::{Backend, Pump, Turned};

/// More than is ever dirty.
pub(super) const NEVER: Bytes = Bytes(u64::MAX);

/// The part of a device under its lock.
pub(crate) struct Inner<B: Backend> {
    pub(in crate::device) pump: Pump<B>,
    pub(in crate::device) events: EventLog,
    pub(super) hold_up: Histogram,
    /// The most that the device may have dirty at present.
    pub(super) thresholds: Thresholds,
    /// Dirty memory of which somebody wants to know, see [`Device::on_half_dirty`].
    pub(super) wake_at: Bytes,
    pub(in crate::device) written_back: Bytes,
}

impl<B: Backend> Inner<B> {
    /// That of a device at rest.
    pub(super) fn new(device: &str, pump: Pump<B>, thresholds: Thresholds) -> Inner<B> {
        Inner {
            pump,
            events: EventLog::new(device.to_owned()),
            hold_up: Histogram::default(),
            thresholds,
            wake_at: NEVER,
            written_back: Bytes::ZERO,
        }
    }

    /// Notes what a turn has brought for an operator.
    pub(super) fn note(&mut self, turned: Turned) {
        if let Turned::Event(event) = turned {
            self.events.add(*event);
        }
    }

    pub(super) fn dirty(&self) -> Bytes {
        self.pump.engine().dirty(GroupId::ROOT).device
    }

    /// Changes the engine; the time under the lock is what dispatch is held up.
    pub(super) fn control(&mut self, now: Instant, control: Control) -> Result<(), ControlError> {
        let is_exchange = is_exchange(&control);
        if let Control::Memory(budget) = &control {
            self.thresholds = budget.device;
            let half = Bytes(budget.device.limit.get() / 2);
            self.wake_at = if self.dirty() < half { half } else { NEVER };
        }
        let result = self.pump.control(now, control);
        if result.is_ok() && is_exchange {
            self.hold_up.record(clock::now().since(now));
        }
        result
    }
}
