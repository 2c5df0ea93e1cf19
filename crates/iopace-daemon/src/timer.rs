//! One thread for all timers of the daemon: it calls a device when the engine said to come back.

use crate::clock;
use iopace_core::time::Instant;
use std::collections::BTreeSet;
use std::io;
use std::sync::{Arc, Condvar, Mutex, PoisonError, Weak};
use std::thread;

/// Is called back at an instant that it has asked for.
pub trait Tick: Send + Sync {
    /// The instant has come, or nearly.
    fn tick(&self);
}

#[derive(Default)]
struct State {
    /// What is due when, by device.
    due: BTreeSet<(Instant, usize)>,
    devices: Vec<Weak<dyn Tick>>,
    stopped: bool,
}

/// The timers.
#[derive(Default)]
pub struct Timers {
    state: Mutex<State>,
    changed: Condvar,
}

impl Timers {
    /// Starts the thread; it ends with [`Timers::stop`].
    ///
    /// # Errors
    /// No thread could be started.
    pub fn start() -> io::Result<Arc<Timers>> {
        let timers = Arc::new(Timers::default());
        let running = Arc::clone(&timers);
        thread::Builder::new().name("timer".into()).spawn(move || running.run())?;
        Ok(timers)
    }

    /// Makes a device known; the number is its key for [`Timers::arm`], and that of another device
    /// when this one is gone.
    pub fn register(&self, device: Weak<dyn Tick>) -> usize {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        // What is due for one that is gone is at most a call too many for the new one.
        if let Some(free) = state.devices.iter().position(|known| known.strong_count() == 0) {
            state.devices[free] = device;
            return free;
        }
        state.devices.push(device);
        state.devices.len() - 1
    }

    /// Calls the device's `tick` at `at` (at once if that has passed).
    pub fn arm(&self, device: usize, at: Instant) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let is_first = state.due.first().is_none_or(|&(first, _)| at < first);
        state.due.insert((at, device));
        drop(state);
        if is_first {
            self.changed.notify_one();
        }
    }

    /// Ends the thread.
    pub fn stop(&self) {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).stopped = true;
        self.changed.notify_one();
    }

    fn run(&self) {
        // The kernel adds 50 us of slack to a sleep unless told otherwise: too much for a model
        // that completes a request every millisecond.
        let _ = rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1));
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        while !state.stopped {
            let Some(&(at, device)) = state.due.first() else {
                state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            let left = clock::until(at).unwrap_or(std::time::Duration::MAX);
            if !left.is_zero() {
                let waited = self.changed.wait_timeout(state, left);
                state = waited.unwrap_or_else(PoisonError::into_inner).0;
                continue;
            }
            state.due.pop_first();
            let device = state.devices[device].upgrade();
            drop(state);
            if let Some(device) = device {
                device.tick();
            }
            state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        }
    }
}
