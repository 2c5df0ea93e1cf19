//! Carrying out one step: a closed loop that keeps a number of commands outstanding.

use super::plan::{FigureUnit, PlanStep, StepKind};
use super::{Measured, SIZE_MIN};
use crate::disk::Command;
use iopace_core::request::{DiskError, Extent, Op, Outcome};
use iopace_core::time::{Instant, Nanos};
use iopace_core::units::Bytes;

/// When a step is over, whichever comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// After that time.
    pub time: Nanos,
    /// After so many timed requests.
    pub requests_count: u64,
}

/// What a step has found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Figure {
    /// The step.
    pub step: PlanStep,
    /// The figure, in [`PlanStep::unit`].
    pub value: u64,
    /// Requests that were timed.
    pub requests_count: u64,
    /// The latency that two of a hundred requests are below.
    pub low: Nanos,
    /// The latency that two of a hundred requests are above.
    pub high: Nanos,
}

/// Why a step has no figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// It was stopped before enough was timed.
    Stopped,
    /// The disk refused a request.
    Failed(Op, DiskError),
}

/// Fewest timed requests of a figure. A flush of a slow disk takes a second.
const REQUESTS_MIN: u64 = 3;

/// Writes before a flush are handed over so many at once, as a program with a log does.
const WRITES_AT_ONCE: u64 = 16;

/// Places are multiples of a page: what direct I/O takes on every disk.
const ALIGN: u64 = 4096;

/// Jitter of a distance: several tracks of every disk, or the platter's turn is always the same.
const JITTER_MAX: u64 = 32 << 20;

/// Carries out a step.
///
/// # Errors
/// See [`Trouble`].
///
/// # Panics
/// If the disk is smaller than [`SIZE_MIN`].
pub fn measure(disk: &mut dyn Measured, step: PlanStep, limits: Limits) -> Result<Figure, Trouble> {
    assert!(disk.capacity() >= SIZE_MIN, "the caller has looked at its size");
    let mut run = Measurement { disk, step, number: 0, limits };
    if step.writes() {
        // What earlier steps have left in a cache is not this one's.
        run.submit(Op::Flush, 0);
        run.wait(Op::Flush)?;
        run.number = 0;
    }
    match step.kind {
        StepKind::Distance { .. } => run.one_by_one(true),
        StepKind::Flush { .. } => run.one_by_one(false),
        _ => run.closed_loop(),
    }
}

struct Measurement<'a> {
    disk: &'a mut dyn Measured,
    step: PlanStep,
    /// Commands submitted so far.
    number: u64,
    limits: Limits,
}

impl Measurement<'_> {
    fn submit(&mut self, op: Op, offset: u64) {
        let len = if op == Op::Flush { 0 } else { self.step.block_bytes };
        let extent = Extent::new(Bytes(offset), Bytes(len)).expect("on the disk");
        self.disk.submit(Command { id: self.number, op, extent, fua: false });
        self.number += 1;
    }

    fn wait(&mut self, op: Op) -> Result<(Instant, u64), Trouble> {
        let (at, completion) = self.disk.wait();
        match completion.outcome {
            Outcome::Ok => Ok((at, completion.id)),
            Outcome::Failed(error) => Err(Trouble::Failed(op, error)),
            Outcome::Refused => unreachable!("a disk answers; refusing is for the engine"),
        }
    }

    /// The place of the next command, and what it is.
    fn next(&mut self) -> (Op, u64) {
        let (block, capacity) = (self.step.block_bytes, self.disk.capacity().get());
        let draw = |salt| scattered(self.number * 4 + salt + (self.step_seed() << 32));
        match self.step.kind {
            StepKind::Sequential { op, at_permille } => {
                let start = capacity / 1000 * at_permille / block * block;
                let blocks = ((capacity - start) / block).max(1);
                (op, start + self.number % blocks * block)
            }
            StepKind::Random { read_percent } => {
                let op = if draw(0) % 100 < read_percent { Op::Read } else { Op::Write };
                (op, draw(1) % (capacity / block) * block)
            }
            _ => (Op::Read, capacity / 2 / block * block),
        }
    }

    /// Steps draw different places, or the second finds the first one's in a buffer.
    fn step_seed(&self) -> u64 {
        let reads = match self.step.kind {
            StepKind::Random { read_percent } => read_percent,
            StepKind::Distance { permille } => 1000 + permille,
            StepKind::Flush { writes } => 3000 + writes,
            _ => 0,
        };
        reads * 1000 + u64::from(self.step.depth) * 7 + (self.step.block_bytes >> 12)
    }

    /// Keeps `depth` commands outstanding; the first quarter of what ends is not timed.
    fn closed_loop(mut self) -> Result<Figure, Trouble> {
        let begin = self.disk.now();
        let mut submitted: Vec<Instant> = Vec::new();
        let mut ended: Vec<(Instant, Nanos)> = Vec::new();
        let mut outstanding = 0;
        let mut failure = None;
        let mut is_over = false;
        loop {
            while !is_over && outstanding < self.step.depth {
                let (op, offset) = self.next();
                submitted.push(self.disk.now());
                self.submit(op, offset);
                outstanding += 1;
            }
            if outstanding == 0 {
                break;
            }
            let waited = self.wait(Op::Read);
            outstanding -= 1;
            match waited {
                Ok((at, id)) if !is_over => {
                    ended.push((at, at.since(submitted[id as usize])));
                    let count = ended.len() as u64;
                    let is_late = at.since(begin) >= self.limits.time && count >= REQUESTS_MIN;
                    is_over = is_late || count >= self.limits.requests_count.max(REQUESTS_MIN);
                }
                Ok(_) => {}
                Err(trouble) => (failure, is_over) = (Some(trouble), true),
            }
            is_over |= self.disk.is_stopped();
        }
        if let Some(trouble) = failure {
            return Err(trouble);
        }
        ended.sort_unstable();
        // A short run has no middle: all of it counts.
        let is_short = ended.len() < 4 * self.step.depth as usize;
        let warm = if is_short { 0 } else { ended.len() / 4 };
        let from = if warm == 0 { begin } else { ended.get(warm - 1).map_or(begin, |end| end.0) };
        let elapsed = ended.last().map_or(Nanos::ZERO, |end| end.0.since(from));
        let latencies = ended.drain(warm..).map(|end| end.1).collect();
        self.figure(latencies, elapsed)
    }

    /// One after the other: something untimed, then what is timed.
    fn one_by_one(mut self, is_distance: bool) -> Result<Figure, Trouble> {
        let begin = self.disk.now();
        let mut latencies = Vec::new();
        loop {
            let (op, offset) =
                if is_distance { self.approach()? } else { (Op::Flush, self.dirty()?) };
            if self.disk.is_stopped() {
                break;
            }
            let submitted = self.disk.now();
            self.submit(op, offset);
            let (at, _) = self.wait(op)?;
            latencies.push(at.since(submitted));
            let count = latencies.len() as u64;
            let is_late = at.since(begin) >= self.limits.time && count >= REQUESTS_MIN;
            if is_late || count >= self.limits.requests_count.max(REQUESTS_MIN) {
                break;
            }
        }
        let elapsed = Nanos(latencies.iter().map(|latency| latency.0).sum());
        self.figure(latencies, elapsed)
    }

    /// Reads anywhere; says what is at the distance from there.
    fn approach(&mut self) -> Result<(Op, u64), Trouble> {
        let StepKind::Distance { permille } = self.step.kind else { unreachable!("a distance") };
        let capacity = self.disk.capacity().get();
        let distance = match permille {
            0 => (8 << 20).min(capacity / 16),
            _ => capacity / 1000 * permille,
        };
        let draw = |salt| scattered(self.number * 4 + salt + (self.step_seed() << 32));
        let jitter = (distance / 2).min(JITTER_MAX).min(capacity / 100);
        let room = capacity - distance - jitter - self.step.block_bytes;
        let low = draw(0) % room / ALIGN * ALIGN;
        let high = low + (distance + draw(1) % jitter.max(1)) / ALIGN * ALIGN;
        let (from, to) = if draw(2) % 2 == 0 { (low, high) } else { (high, low) };
        self.submit(Op::Read, from);
        self.wait(Op::Read)?;
        Ok((Op::Read, to))
    }

    /// Writes at random places before a flush.
    fn dirty(&mut self) -> Result<u64, Trouble> {
        let StepKind::Flush { writes } = self.step.kind else { unreachable!("a flush") };
        let blocks = self.disk.capacity().get() / self.step.block_bytes;
        let (mut left, mut outstanding) = (writes, 0);
        while left + outstanding > 0 {
            while left > 0 && outstanding < WRITES_AT_ONCE {
                let place = scattered(self.number + (self.step_seed() << 32)) % blocks;
                self.submit(Op::Write, place * self.step.block_bytes);
                (left, outstanding) = (left - 1, outstanding + 1);
            }
            let waited = self.wait(Op::Write);
            outstanding -= 1;
            if let Err(trouble) = waited {
                while outstanding > 0 {
                    let _ = self.wait(Op::Write);
                    outstanding -= 1;
                }
                return Err(trouble);
            }
        }
        Ok(0)
    }

    fn figure(&self, mut latencies: Vec<Nanos>, elapsed: Nanos) -> Result<Figure, Trouble> {
        let count = latencies.len() as u64;
        if count < REQUESTS_MIN.min(2) || elapsed.0 == 0 {
            return Err(Trouble::Stopped);
        }
        latencies.sort_unstable();
        let part = |percent: usize| latencies[(latencies.len() - 1) * percent / 100];
        let amount = match self.step.unit() {
            FigureUnit::BytesPerSec => count * self.step.block_bytes,
            FigureUnit::PerSecond => count,
            FigureUnit::Nanos => 0,
        };
        let value = match self.step.unit() {
            // A buffer that has moved on makes some slow; what is asked is what it costs to hit it.
            FigureUnit::Nanos if self.step.kind == StepKind::Again => part(2).0,
            FigureUnit::Nanos => elapsed.0 / count,
            _ => u64::try_from(u128::from(amount) * 1_000_000_000 / u128::from(elapsed.0))
                .unwrap_or(u64::MAX),
        };
        let (low, high) = (part(2), part(98));
        Ok(Figure { step: self.step, value, requests_count: count, low, high })
    }
}

/// A number by number: the finaliser of SplitMix64 (Steele, Lea, Flood 2014).
fn scattered(number: u64) -> u64 {
    let x = number.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}
