//! A wrapper that makes any disk fail: errors, stalls and lost completions, by seed.
//!
//! # Model
//! Each command draws its fate when it is submitted; the disk inside carries it out in any case and
//! takes its time for it.
//! - *error*: it ends with [`DiskError::Io`].
//! - *stall*: its completion comes [`FaultRates::stall`] later.
//! - *lost*: its completion never comes. Whoever drives the disk has to give up on it.
//!
//! # Properties
//! 1. The same seed and the same commands give the same faults.
//! 2. With the rates at zero, or the [`FaultSwitch`] off, it is the disk inside, completion by
//!    completion and nanosecond by nanosecond.
//! 3. Switching off and on does not shift the fates of later commands: each draws exactly once.
//!
//! # Limits
//! Faults are independent of place and of each other: no bad sectors, no bursts.

use crate::disk::{Command, Completion, Disk, DiskStats};
use iopace_core::request::{DiskError, Outcome};
use iopace_core::time::{Instant, Nanos};
use iopace_core::units::Bytes;
use rand_pcg::Pcg32;
use rand_pcg::rand_core::Rng as _;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// How often what goes wrong. Of 1000 commands each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FaultRates {
    /// How many end with an error.
    pub error_permille: u32,
    /// How many are late.
    pub stall_permille: u32,
    /// How late those are.
    pub stall: Nanos,
    /// How many are never heard of again.
    pub lost_permille: u32,
}

/// Turns the faults of one disk off and on, also when the disk is inside something else. What has
/// drawn its fate already keeps it.
#[derive(Clone, Debug)]
pub struct FaultSwitch(Arc<AtomicBool>);

impl FaultSwitch {
    /// Faults from now on, or none.
    pub fn set(&self, on: bool) {
        self.0.store(on, Relaxed);
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Error,
    Stall,
    Lost,
}

/// The disk with faults.
#[derive(Debug)]
pub struct Faulty {
    inner: Box<dyn Disk>,
    rates: FaultRates,
    random: Pcg32,
    switch: FaultSwitch,
    /// The fates of commands in the disk inside, by id; those without are carried out well.
    fates: BTreeMap<u64, Fate>,
    /// Late completions, by time and order.
    stalled: BTreeMap<(Instant, u64), Completion>,
    sequence: u64,
    /// The latest time that it was told.
    latest: Instant,
}

impl Faulty {
    /// `inner` with faults, switched on.
    ///
    /// # Panics
    /// If the rates sum to more than 1000.
    pub fn new(inner: Box<dyn Disk>, rates: FaultRates, seed: u64) -> Faulty {
        let sum = rates.error_permille + rates.stall_permille + rates.lost_permille;
        assert!(sum <= 1000, "fault rates sum to {sum} of 1000");
        Faulty {
            inner,
            rates,
            random: Pcg32::new(seed, 0xda3e_39cb_94b9_5bdb),
            switch: FaultSwitch(Arc::new(AtomicBool::new(true))),
            fates: BTreeMap::new(),
            stalled: BTreeMap::new(),
            sequence: 0,
            latest: Instant::ZERO,
        }
    }

    /// The switch of its faults.
    pub fn switch(&self) -> FaultSwitch {
        self.switch.clone()
    }

    fn draw(&mut self) -> Option<Fate> {
        // The bias of the multiplication is below 2^-22.
        let drawn = ((u64::from(self.random.next_u32()) * 1000) >> 32) as u32;
        let FaultRates { error_permille, stall_permille, lost_permille, .. } = self.rates;
        if !self.switch.0.load(Relaxed) {
            return None;
        }
        if drawn < error_permille {
            Some(Fate::Error)
        } else if drawn < error_permille + stall_permille {
            Some(Fate::Stall)
        } else if drawn < error_permille + stall_permille + lost_permille {
            Some(Fate::Lost)
        } else {
            None
        }
    }

    fn stalled_at(&self) -> Instant {
        self.stalled.first_key_value().map_or(Instant::NEVER, |((at, _), _)| *at)
    }
}

impl Disk for Faulty {
    fn capacity(&self) -> Bytes {
        self.inner.capacity()
    }

    fn depth(&self) -> u32 {
        self.inner.depth()
    }

    fn is_rotational(&self) -> bool {
        self.inner.is_rotational()
    }

    fn submit(&mut self, now: Instant, command: Command) {
        self.latest = self.latest.max(now);
        if let Some(fate) = self.draw() {
            self.fates.insert(command.id, fate);
        }
        self.inner.submit(now, command);
    }

    fn next(&self) -> Instant {
        self.inner.next().min(self.stalled_at())
    }

    fn poll(&mut self, now: Instant) -> Option<Completion> {
        loop {
            // The disk inside is asked at its own times, so that a stall begins when it should.
            let (inner_at, stalled_at) = (self.inner.next(), self.stalled_at());
            if inner_at.min(stalled_at) > now {
                // It may have something to do without a completion.
                self.latest = self.latest.max(now);
                return self.inner.poll(now);
            }
            if stalled_at <= inner_at {
                return self.stalled.pop_first().map(|(_, completion)| completion);
            }
            self.latest = self.latest.max(inner_at);
            let Some(completion) = self.inner.poll(self.latest) else { continue };
            match self.fates.remove(&completion.id) {
                None => return Some(completion),
                Some(Fate::Error) => {
                    return Some(Completion {
                        outcome: Outcome::Failed(DiskError::Io),
                        ..completion
                    });
                }
                Some(Fate::Lost) => {}
                Some(Fate::Stall) => {
                    let at = inner_at + self.rates.stall;
                    self.stalled.insert((at, self.sequence), completion);
                    self.sequence += 1;
                }
            }
        }
    }

    fn stats(&self) -> DiskStats {
        self.inner.stats()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scripted::{Scripted, ScriptedStep};
    use iopace_core::request::{Extent, Op};

    const SERVICE: Nanos = Nanos::from_millis(1);

    fn faulty(rates: FaultRates, seed: u64) -> Faulty {
        let inner = Scripted::new(Bytes(1 << 20), 1, vec![ScriptedStep::ok(SERVICE)]);
        Faulty::new(Box::new(inner), rates, seed)
    }

    /// Runs `count` commands one by one; says when each was completed and how, if it was.
    fn run(disk: &mut Faulty, from: u64, count: u64) -> Vec<(u64, Option<(Instant, Outcome)>)> {
        let mut results = Vec::new();
        for id in from..from + count {
            // Far enough apart for every stall to end.
            let now = Instant(id * 1_000_000_000);
            disk.submit(now, Command { id, op: Op::Read, extent: Extent::EMPTY, fua: false });
            let mut result = None;
            while !disk.next().is_never() {
                let at = disk.next();
                if let Some(done) = disk.poll(at) {
                    assert_eq!(done.id, id);
                    result = Some((at, done.outcome));
                }
            }
            results.push((id, result));
        }
        results
    }

    const RATES: FaultRates = FaultRates {
        error_permille: 100,
        stall_permille: 200,
        stall: Nanos::from_millis(50),
        lost_permille: 50,
    };

    #[test]
    fn p1_the_same_seed_gives_the_same_faults_at_about_the_rates() {
        let results = run(&mut faulty(RATES, 7), 0, 10_000);
        assert_eq!(results, run(&mut faulty(RATES, 7), 0, 10_000));
        assert_ne!(results, run(&mut faulty(RATES, 8), 0, 10_000));
        let is_late = |&&(id, result): &&(u64, Option<(Instant, Outcome)>)| {
            let at = Instant(id * 1_000_000_000) + SERVICE + RATES.stall;
            result == Some((at, Outcome::Ok))
        };
        let is_error =
            |result: &Option<(Instant, Outcome)>| matches!(result, Some((_, Outcome::Failed(_))));
        let lost = results.iter().filter(|(_, result)| result.is_none()).count();
        let errors = results.iter().filter(|(_, result)| is_error(result)).count();
        let late = results.iter().filter(is_late).count();
        assert!((400..600).contains(&lost), "{lost} lost");
        assert!((850..1150).contains(&errors), "{errors} errors");
        assert!((1800..2200).contains(&late), "{late} late");
    }

    #[test]
    fn p2_switched_off_it_is_the_disk_inside() {
        let on_time = |results: Vec<(u64, Option<(Instant, Outcome)>)>| {
            results.iter().all(|&(id, result)| {
                result == Some((Instant(id * 1_000_000_000) + SERVICE, Outcome::Ok))
            })
        };
        let mut disk = faulty(RATES, 7);
        disk.switch().set(false);
        assert!(on_time(run(&mut disk, 0, 1000)));
        assert!(on_time(run(&mut faulty(FaultRates::default(), 7), 0, 1000)));
    }

    #[test]
    fn p3_switching_does_not_shift_what_comes_later() {
        let all = run(&mut faulty(RATES, 7), 0, 2000);
        let mut disk = faulty(RATES, 7);
        disk.switch().set(false);
        run(&mut disk, 0, 1000);
        disk.switch().set(true);
        assert_eq!(run(&mut disk, 1000, 1000), all[1000..]);
    }
}
