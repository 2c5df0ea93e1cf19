//! A modelled device that is turned by asking it: for the simulator, and for tests.
//!
//! The contract is that of the [`Pump`]: tell it what happened ([`Machine::submit`],
//! [`Machine::control`], several at one instant if they came together), then drain it with
//! [`Machine::poll`] until it says when to come back.

use crate::disk::Disk;
use crate::modelled::Modelled;
use crate::page_cache::{PageCache, PageCacheConfig};
use crate::pump::{End, Pump, Turned};
use iopace_core::engine::{Config, Control, ControlError, Engine};
use iopace_core::request::{Extent, Outcome, StageTimes, Tag};
use iopace_core::time::Instant;
use iopace_core::trace::Event;
use iopace_core::verdict::Reason;
use std::collections::VecDeque;

pub use crate::modelled::{COMMAND_TIMEOUT, Io};

/// What has to be done outside.
#[derive(Debug)]
pub enum MachineOutput {
    /// A request has ended.
    Finished(Finished),
    /// Something an operator should know.
    Event(Box<Event>),
    /// Drained: come back at the instant or with an input.
    Wait(Instant, Reason),
}

/// A request that has ended.
#[derive(Clone, Copy, Debug)]
pub struct Finished {
    /// The caller's name for it.
    pub tag: Tag,
    /// How it ended.
    pub outcome: Outcome,
    /// Where its time went; time spent waiting for dirty memory counts as pace.
    pub times: StageTimes,
    /// Whether the page cache served it, without the disk.
    pub cached: bool,
}

/// The device.
#[derive(Debug)]
pub struct Machine {
    pump: Pump<Modelled<Io>>,
    ended: VecDeque<(Io, End)>,
}

impl Machine {
    /// A device at rest, see [`Modelled::pump`].
    pub fn new(config: Config, cache: Option<PageCacheConfig>, disk: Box<dyn Disk>) -> Machine {
        Machine { pump: Modelled::pump(config, cache, disk), ended: VecDeque::new() }
    }

    /// Takes a request.
    pub fn submit(&mut self, now: Instant, io: Io) {
        self.pump.submit(now, io, &mut self.ended);
    }

    /// Puts the pages wholly inside `extent` into the page cache, as if they had been read.
    pub fn warm(&mut self, extent: Extent) {
        self.pump.backend_mut().warm(extent);
    }

    /// Changes the running device.
    ///
    /// # Errors
    /// See [`ControlError`].
    pub fn control(&mut self, now: Instant, control: Control) -> Result<(), ControlError> {
        self.pump.control(now, control)
    }

    /// The next thing to do; [`MachineOutput::Wait`] when there is no more.
    pub fn poll(&mut self, now: Instant) -> MachineOutput {
        loop {
            if let Some((Io { submit, .. }, end)) = self.ended.pop_front() {
                let End { outcome, times, cached, .. } = end;
                return MachineOutput::Finished(Finished {
                    tag: submit.tag,
                    outcome,
                    times,
                    cached,
                });
            }
            match self.pump.turn(now, &mut self.ended) {
                Turned::On => {}
                Turned::Event(event) => return MachineOutput::Event(event),
                Turned::Wait(at, reason) => return MachineOutput::Wait(at, reason),
            }
        }
    }

    /// The engine, to be looked at.
    pub fn engine(&self) -> &Engine {
        self.pump.engine()
    }

    /// The page cache, to be looked at.
    pub fn cache(&self) -> Option<&PageCache> {
        self.pump.backend().cache()
    }

    /// The disk, to be looked at.
    pub fn disk(&self) -> &dyn Disk {
        self.pump.backend().disk()
    }
}

#[cfg(test)]
mod tests;
