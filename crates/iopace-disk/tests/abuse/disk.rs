//! A disk whose rate is changed while it works: one command after the other, each as long as its
//! size takes at the rate of the moment. It has a clock of its own: that of the machine may jump.

use iopace_core::request::{Op, Outcome};
use iopace_core::time::{Instant, Nanos};
use iopace_core::units::Bytes;
use iopace_disk::{Command, Completion, Disk, DiskStats};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

/// What every command costs beside its size.
const OVERHEAD: u64 = 8 << 10;

const SECOND: u128 = 1_000_000_000;

/// How far the machine's clock is from true time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Skew {
    pub ahead: Nanos,
    pub behind: Nanos,
}

impl Skew {
    /// What the machine's clock says at a true time.
    pub fn clock(self, time: Instant) -> Instant {
        time + self.ahead - self.behind
    }

    /// The true time when the machine's clock says that.
    pub fn time(self, clock: Instant) -> Instant {
        if clock.is_never() { clock } else { clock + self.behind - self.ahead }
    }
}

#[derive(Debug)]
struct State {
    rate: u64,
    skew: Skew,
    /// What is left of each command, in bytes times 10^9.
    queue: VecDeque<(Command, u128)>,
    done: VecDeque<(Instant, Completion)>,
    /// Lived up to here, true time.
    now: Instant,
    stats: DiskStats,
}

impl State {
    /// When the first command is done if nothing changes.
    fn first_done(&self) -> Instant {
        match self.queue.front() {
            Some((_, left)) if self.rate > 0 => {
                self.now + Nanos(left.div_ceil(u128::from(self.rate)) as u64)
            }
            _ => Instant::NEVER,
        }
    }

    fn advance(&mut self, now: Instant) {
        while self.first_done() <= now && !self.first_done().is_never() {
            self.now = self.first_done();
            let (command, _) = self.queue.pop_front().expect("the first");
            match command.op {
                Op::Read | Op::Cache => self.stats.read += command.extent.len(),
                Op::Write => self.stats.written += command.extent.len(),
                _ => {}
            }
            let completion = Completion { id: command.id, outcome: Outcome::Ok };
            self.done.push_back((self.now, completion));
        }
        if let Some((_, left)) = self.queue.front_mut() {
            *left -= u128::from(self.rate) * u128::from(now.since(self.now).0);
        }
        self.now = self.now.max(now);
    }
}

/// The disk, and the hand on it.
#[derive(Clone, Debug)]
pub struct Changing(Arc<Mutex<State>>);

impl Changing {
    /// One of that many bytes per second.
    pub fn new(rate: u64) -> Changing {
        let (queue, done, stats) = (VecDeque::new(), VecDeque::new(), DiskStats::default());
        let skew = Skew::default();
        let state = State { rate, skew, queue, done, now: Instant::ZERO, stats };
        Changing(Arc::new(Mutex::new(state)))
    }

    /// Another rate from a true time on; 0: it stands still.
    pub fn set_rate(&self, now: Instant, rate: u64) {
        let mut state = self.0.lock().expect("nobody panicked");
        state.advance(now);
        state.rate = rate;
    }

    /// Says how far the machine's clock is off from now on.
    pub fn set_skew(&self, skew: Skew) {
        self.0.lock().expect("nobody panicked").skew = skew;
    }

    /// Bytes written so far.
    pub fn written(&self, now: Instant) -> u64 {
        let mut state = self.0.lock().expect("nobody panicked");
        state.advance(now);
        state.stats.written.0
    }
}

impl Disk for Changing {
    fn capacity(&self) -> Bytes {
        Bytes(16 << 40)
    }

    fn depth(&self) -> u32 {
        32
    }

    fn is_rotational(&self) -> bool {
        false
    }

    fn submit(&mut self, now: Instant, command: Command) {
        let mut state = self.0.lock().expect("nobody panicked");
        let now = state.skew.time(now).max(state.now);
        state.advance(now);
        let work = u128::from(command.extent.len().0 + OVERHEAD) * SECOND;
        state.queue.push_back((command, work));
    }

    fn next(&self) -> Instant {
        let state = self.0.lock().expect("nobody panicked");
        let at = state.done.front().map_or(state.first_done(), |(at, _)| *at);
        if at.is_never() { at } else { state.skew.clock(at) }
    }

    fn poll(&mut self, now: Instant) -> Option<Completion> {
        let mut state = self.0.lock().expect("nobody panicked");
        let now = state.skew.time(now);
        state.advance(now);
        state.done.pop_front().map(|(_, completion)| completion)
    }

    fn stats(&self) -> DiskStats {
        self.0.lock().expect("nobody panicked").stats
    }
}
