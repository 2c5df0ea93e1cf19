//! How late a daemon noticed what its emulated disk had done, and a disk that is noticed as late.
//!
//! # Model
//! ```text
//!   live:    started ├──── the model ────┤ done │ timer, lock, processor │ noticed: done_ns
//!   replay:  started ├──── the model ────┤ done │ the mean of these      │ noticed
//! ```
//! The model alone gets the recorded commands when they were started, whatever becomes of them. A
//! command that took longer live than in the model was noticed late: the daemon's timer wakes up,
//! and answers one request after another. The replay notices all of them as late as the mean.
//!
//! The model gets the commands twice, elsewhere on the disk the first time: the recording did not
//! begin with an empty cache of the disk either.
//!
//! # Why a mean
//! To notice each request as late as it was live makes short recordings without writes come out to
//! the request, and was no better over all (20 recordings of two disks: 59 of 92 means and 99th
//! percentiles within 10 %, 63 with the mean, 55 without any lateness): where the model takes
//! commands in another order than the recorded disk did, its mistakes count as lateness.
//!
//! # Limits
//! Above [`LATE_MAX`] it is no timer: the model knows too little of what was before the recording,
//! as how full the disk's cache was, or takes commands in another order.

use iopace_core::request::{Extent, Op};
use iopace_core::time::{Instant, Nanos};
use iopace_core::units::Bytes;
use iopace_disk::disk::{Command, Completion};
use iopace_disk::{Disk, DiskStats};
use std::collections::VecDeque;

/// Later than that is a mistake of the model. A timer and a busy daemon are some 20 us to 60 us
/// late; the quickest platter turns once in 4 ms.
const LATE_MAX: Nanos = Nanos::from_millis(1);

/// A command of the recording.
#[derive(Clone, Copy, Debug)]
pub(super) struct Started {
    pub(super) at: Instant,
    pub(super) noticed: Instant,
    pub(super) op: Op,
    pub(super) extent: Extent,
    pub(super) fua: bool,
}

/// How late these commands were noticed, on average, of a disk that has had others before. Both in
/// the order in which they were started.
pub(super) fn lateness(before: &[Started], commands: &[Started], disk: &mut dyn Disk) -> Nanos {
    let done = perform(before, Nanos::ZERO, disk);
    let begin = done.into_iter().max().unwrap_or(Instant::ZERO).since(Instant::ZERO);
    let done = perform(commands, begin, disk);
    let late = commands.iter().zip(done).map(|(one, done)| (one.noticed + begin).since(done));
    let late: Vec<u64> = late.filter(|late| *late <= LATE_MAX).map(Nanos::as_nanos).collect();
    Nanos(late.iter().sum::<u64>() / (late.len() as u64).max(1))
}

/// Gives them to the disk in their order, so much later than they were started; when each is done.
fn perform(commands: &[Started], later: Nanos, disk: &mut dyn Disk) -> Vec<Instant> {
    let mut done = vec![Instant::NEVER; commands.len()];
    let (mut outstanding, mut taken_at) = (0, Instant::ZERO);
    for (id, one) in commands.iter().enumerate() {
        let started = one.at + later;
        while outstanding > 0 && (disk.next() <= started || outstanding == disk.depth()) {
            taken_at = disk.next();
            outstanding -= take(disk, &mut done);
        }
        let (Started { op, extent, fua, .. }, id) = (*one, id as u64);
        // A disk that is behind takes it when it has room.
        disk.submit(started.max(taken_at), Command { id, op, extent, fua });
        outstanding += 1;
    }
    while outstanding > 0 {
        outstanding -= take(disk, &mut done);
    }
    done
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
    late: Nanos,
    /// Completed and not noticed, with the instant at which it is.
    done: VecDeque<(Instant, Completion)>,
}

impl Late {
    pub(super) fn new(inner: Box<dyn Disk>, late: Nanos) -> Late {
        Late { inner, late, done: VecDeque::new() }
    }

    fn collect(&mut self, now: Instant) {
        while self.inner.next() <= now {
            let at = self.inner.next();
            let Some(completion) = self.inner.poll(at) else { return };
            self.done.push_back((at + self.late, completion));
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
        self.inner.submit(now, command);
    }

    fn next(&self) -> Instant {
        let noticed = self.done.front().map_or(Instant::NEVER, |(at, _)| *at);
        noticed.min(self.inner.next())
    }

    fn poll(&mut self, now: Instant) -> Option<Completion> {
        self.collect(now);
        self.done.front().filter(|(at, _)| *at <= now)?;
        self.done.pop_front().map(|(_, completion)| completion)
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

    fn at(place: u64) -> Instant {
        Instant::ZERO + Nanos::from_millis(place)
    }

    fn build() -> Box<dyn Disk> {
        (presets::find("ssd-sata").expect("there").build)()
    }

    /// When each of twenty reads is noticed.
    fn noticed(disk: &mut dyn Disk) -> Vec<Instant> {
        let noticed = (0..20).map(|place| {
            let read = Command { id: place, op: Op::Read, extent: extent(place), fua: false };
            disk.submit(at(place), read);
            loop {
                let next = disk.next();
                if disk.poll(next).is_some() {
                    return next;
                }
            }
        });
        noticed.collect()
    }

    /// Reads that were noticed so much later than the model had them.
    fn recorded(late: impl Fn(u64) -> Nanos) -> Vec<Started> {
        let done = noticed(&mut *build());
        let started = (0..).zip(&done).map(|(place, done)| Started {
            at: at(place),
            noticed: *done + late(place),
            op: Op::Read,
            extent: extent(place),
            fua: false,
        });
        started.collect()
    }

    #[test]
    fn the_mean_of_what_commands_took_longer_than_the_model_is_taken_over() {
        let live = recorded(|place| Nanos::from_micros(place % 2 * 50));
        let late = lateness(&[], &live, &mut *build());
        assert_eq!(late, Nanos::from_micros(25));
        let done = noticed(&mut *build());
        let expected: Vec<Instant> = done.into_iter().map(|done| done + late).collect();
        assert_eq!(noticed(&mut Late::new(build(), late)), expected);
    }

    #[test]
    fn more_than_a_timer_can_be_is_not_believed() {
        let live = recorded(|place| Nanos::from_micros(if place == 7 { 1_001 } else { 30 }));
        assert_eq!(lateness(&[], &live, &mut *build()), Nanos::from_micros(30));
        assert_eq!(lateness(&[], &[], &mut *build()), Nanos::ZERO);
    }
}
