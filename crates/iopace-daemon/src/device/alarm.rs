//! A device and the timers.

use crate::timer::{Tick, Timers};
use iopace_core::time::Instant;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};

/// When a device asked to be called back; asks the timers only when that gets earlier.
pub(crate) struct Alarm {
    timers: Arc<Timers>,
    key: OnceLock<usize>,
    armed: Mutex<Instant>,
}

impl Alarm {
    pub(crate) fn new(timers: Arc<Timers>) -> Alarm {
        Alarm { timers, key: OnceLock::new(), armed: Mutex::new(Instant::NEVER) }
    }

    /// Makes the device known to the timers, once.
    pub(crate) fn register(&self, device: Weak<dyn Tick>) {
        self.key.get_or_init(|| self.timers.register(device));
    }

    pub(crate) fn set(&self, at: Instant) {
        let mut armed = self.armed.lock().unwrap_or_else(PoisonError::into_inner);
        if at < *armed {
            *armed = at;
            self.timers.arm(*self.key.get().expect("registered at the start"), at);
        }
    }

    /// The timers' call has come.
    pub(crate) fn rang(&self) {
        *self.armed.lock().unwrap_or_else(PoisonError::into_inner) = Instant::NEVER;
    }
}
