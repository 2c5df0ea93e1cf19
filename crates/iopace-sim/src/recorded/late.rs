//! How late a daemon noticed what its emulated disk had done, and a disk that is noticed as late.
//!
//! # Model
//! ```text
//!   live:    started ├──── the model ────┤ done │ timer, lock, processor │ noticed: done_ns
//!   replay:  started ├──── the model ────┤ done │ as late as it was live │ noticed
//! ```
//! The model alone gets the recorded commands when they were started, whatever becomes of them.
//! What a command took longer live than in the model is the daemon's own time: its timer wakes up,
//! and answers one request after another. Clients that wait for each other's answers fall into
//! step by it. So it is taken over for each request, like the time that a client thinks.
//!
//! # Properties
//! 1. Under the recorded settings each request ends when it did, as far as the scheduler and the
//!    window decide alike: a mistake of the model is among what is taken over. How much that was is
//!    told ([`super::Report::late_ns`]).
//!
//! # Limits
//! Above [`LATE_MAX`] it is no timer: the model knows too little of what was before the recording.

use iopace_core::request::{Extent, Op, Outcome};
use iopace_core::time::{Instant, Nanos};
use iopace_core::units::Bytes;
use iopace_disk::disk::{Command, Completion};
use iopace_disk::{Disk, DiskStats};
use std::collections::{BTreeMap, VecDeque};

/// The latest that a completion is noticed: a processor that others have for some turns. Less
/// would let clients fall out of step at each of these stalls.
const LATE_MAX: Nanos = Nanos::from_millis(100);

/// A command by which a request is found again.
type Key = (Op, Extent);

/// A command of the recording.
#[derive(Clone, Copy, Debug)]
pub(super) struct Started {
    pub(super) at: Instant,
    pub(super) noticed: Instant,
    pub(super) op: Op,
    pub(super) extent: Extent,
    pub(super) fua: bool,
}

/// How late commands were noticed, in the order in which they were started.
#[derive(Clone, Debug, Default)]
pub(super) struct Lateness {
    known: BTreeMap<Key, VecDeque<Nanos>>,
    /// The median.
    usual: Nanos,
    /// The mean.
    pub(super) mean: Nanos,
}

impl Lateness {
    /// Of commands that the disk, which is at rest, gets when they were started.
    pub(super) fn of(mut commands: Vec<Started>, disk: &mut dyn Disk) -> Lateness {
        commands.sort_by_key(|one| one.at);
        let mut done = vec![Instant::NEVER; commands.len()];
        let (mut outstanding, mut taken_at) = (0, Instant::ZERO);
        for (id, one) in commands.iter().enumerate() {
            while outstanding > 0 && (disk.next() <= one.at || outstanding == disk.depth()) {
                taken_at = disk.next();
                outstanding -= take(disk, &mut done);
            }
            let (Started { op, extent, fua, .. }, id) = (*one, id as u64);
            // A disk that is behind takes it when it has room.
            let at = one.at.max(taken_at);
            disk.submit(at, Command { id, op, extent, fua });
            outstanding += 1;
        }
        while outstanding > 0 {
            outstanding -= take(disk, &mut done);
        }
        let mut lateness = Lateness::default();
        let mut all = Vec::new();
        for (one, done) in commands.iter().zip(done) {
            let late = one.noticed.since(done).min(LATE_MAX);
            lateness.known.entry((one.op, one.extent)).or_default().push_back(late);
            all.push(late);
        }
        all.sort_unstable();
        let sum: u64 = all.iter().map(|late| late.as_nanos()).sum();
        lateness.mean = Nanos(sum.checked_div(all.len() as u64).unwrap_or(0));
        lateness.usual = all.get(all.len() / 2).copied().unwrap_or_default();
        lateness
    }

    /// Of the next command of this kind. After the last one comes the first one again.
    fn next(&mut self, key: Key) -> Nanos {
        let Some(known) = self.known.get_mut(&key) else { return self.usual };
        known.rotate_left(1);
        known.back().copied().unwrap_or(self.usual)
    }
}

/// Takes what the disk completes next; how many commands that were.
fn take(disk: &mut dyn Disk, done: &mut [Instant]) -> u32 {
    let (at, mut count) = (disk.next(), 0);
    while let Some(completion) = disk.poll(at) {
        done[completion.id as usize] = at;
        count += 1;
    }
    count.max(u32::from(at.is_never()))
}

/// A disk whose completions are noticed late.
#[derive(Debug)]
pub(super) struct Late {
    inner: Box<dyn Disk>,
    lateness: Lateness,
    /// Of commands under way, by id.
    late: BTreeMap<u64, Nanos>,
    /// Completed and not noticed.
    done: BTreeMap<(Instant, u64), Outcome>,
}

impl Late {
    pub(super) fn new(inner: Box<dyn Disk>, lateness: Lateness) -> Late {
        Late { inner, lateness, late: BTreeMap::new(), done: BTreeMap::new() }
    }

    fn collect(&mut self, now: Instant) {
        while self.inner.next() <= now {
            let at = self.inner.next();
            let Some(Completion { id, outcome }) = self.inner.poll(at) else { return };
            let late = self.late.remove(&id).unwrap_or_default();
            self.done.insert((at + late, id), outcome);
        }
    }
}

impl Disk for Late {
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
        self.collect(now);
        let late = self.lateness.next((command.op, command.extent));
        self.late.insert(command.id, late);
        self.inner.submit(now, command);
    }

    fn next(&self) -> Instant {
        let noticed = self.done.first_key_value().map_or(Instant::NEVER, |((at, _), _)| *at);
        noticed.min(self.inner.next())
    }

    fn poll(&mut self, now: Instant) -> Option<Completion> {
        self.collect(now);
        let first = self.done.first_entry().filter(|first| first.key().0 <= now)?;
        let ((_, id), outcome) = first.remove_entry();
        Some(Completion { id, outcome })
    }

    fn stats(&self) -> DiskStats {
        self.inner.stats()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use iopace_disk::presets;

    fn extent(place: u64) -> Extent {
        Extent::new(Bytes(place << 20), Bytes(16 << 10)).expect("small")
    }

    fn read(place: u64) -> Command {
        Command { id: place, op: Op::Read, extent: extent(place), fua: false }
    }

    fn at(place: u64) -> Instant {
        Instant::ZERO + Nanos::from_millis(place)
    }

    /// When each read is noticed.
    fn noticed(disk: &mut dyn Disk) -> Vec<Instant> {
        let noticed = (0..20).map(|place| {
            disk.submit(at(place), read(place));
            loop {
                let next = disk.next();
                if disk.poll(next).is_some() {
                    return next;
                }
            }
        });
        noticed.collect()
    }

    #[test]
    fn what_a_command_took_longer_than_the_model_is_found_and_taken_again() {
        let build = presets::find("ssd-sata").expect("there").build;
        let done = noticed(&mut *build());
        let late = |place: u64| Nanos::from_micros(place * 7 % 50);
        let live: Vec<Instant> =
            (0..).zip(&done).map(|(place, done)| *done + late(place)).collect();
        let commands = (0..).zip(&live).map(|(place, noticed)| Started {
            at: at(place),
            noticed: *noticed,
            op: Op::Read,
            extent: extent(place),
            fua: false,
        });
        let lateness = Lateness::of(commands.collect(), &mut *build());
        assert_eq!(noticed(&mut Late::new(build(), lateness)), live);
    }

    #[test]
    fn more_than_a_timer_can_be_is_not_believed() {
        let build = presets::find("ssd-sata").expect("there").build;
        let noticed = at(1_000);
        let (op, extent, fua) = (Op::Read, extent(1), false);
        let commands = vec![Started { at: at(0), noticed, op, extent, fua }];
        let mut lateness = Lateness::of(commands, &mut *build());
        assert_eq!(lateness.next((op, extent)), LATE_MAX);
        assert_eq!(lateness.next((Op::Write, extent)), lateness.usual);
    }
}
