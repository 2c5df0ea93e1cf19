//! A flash disk: units that work side by side, slow programs behind a fast cache, one interface.
//!
//! # Model
//! ```text
//!           serial, command_time   side by side                    serial, rate_bus
//!  read  ─► controller ──────────► unit 0 ▓▓ read_time            ┐
//!                                  unit 1    ▓▓                   ├► interface ─► overhead ─► done
//!                                  unit 2 ▓▓                      ┘
//!  write ─► controller ─► interface ─► cache ─► overhead ─► done
//!                                        └─► any unit ▓▓▓▓▓▓▓▓ program_time, in the background
//! ```
//! A *unit* is what works by itself: a die, or a plane of one. Data lies over the units in pieces
//! of [`SsdConfig::stripe`]; a read takes [`SsdConfig::read_time`] on the unit of each piece,
//! however small the piece. A write is done when it is in the cache; programs go to the units in
//! turn, as in a log, and take time by their size, because small writes are gathered into whole
//! pages. Without room in the cache a write waits. A flush waits for the programs of all writes
//! before it, and if there were any since the last one, for [`SsdConfig::flush_time`], one flush
//! after the other. FUA waits for its own programs.
//!
//! On a unit reads go before programs, but at most [`READS_IN_A_ROW`] of them while a program
//! waits; a program under way is not broken off.
//!
//! *Garbage collection*: there are [`SsdConfig::spare`] erased bytes. Writes that do not follow the
//! one before them use them up; without any, such a write costs [`SsdConfig::gc_permille`] of its
//! programs, for the pages that must be copied first. An idle disk erases at
//! [`SsdConfig::clean_rate`], and what is trimmed needs no copying.
//!
//! *Stalls*: a cheap stick maps whole blocks of [`SsdConfig::block`], and writes into a few of them
//! at once. A program into another one closes the block that was written longest ago: its old
//! content is copied, its old place erased, and nothing else happens on that unit for
//! [`SsdConfig::merge_time`]. Who writes in sequence meets it once per block, who writes anywhere
//! with every request.
//!
//! # Limits
//! No mapping table, no wear, no thermal throttling, no read-ahead (so a lone sequential reader
//! does not reach the rate of the interface). The interface carries one direction at a time. A read
//! of what is still in the cache goes to the flash. A flush programs part of a page in part of the
//! time, where real disks fill the page up: small flushed writes come out too fast. The collection
//! is a surcharge, not a process of its own. A block that was written whole costs as much to close
//! as one that must be copied. While it flushes the disk does all else as before.
//!
//! # Sources
//! Tavakkol et al., "MQSim" (FAST 2018), for which parts matter; Hu et al., "Write amplification
//! analysis in flash-based solid state drives" (SYSTOR 2009), for the collection; A. Bergmann,
//! "Optimizing Linux with cheap flash drives" (LWN, 2011), for open blocks; parameters: see the
//! presets.

mod blocks;
mod config;
mod flushes;

pub use config::SsdConfig;

use crate::disk::{Command, Completion, Disk, DiskStats};
use crate::due::Due;
use blocks::OpenBlocks;
use flushes::Flushes;
use iopace_core::request::Op;
use iopace_core::time::{Instant, Nanos};
use iopace_core::units::Bytes;
use std::collections::{BTreeMap, VecDeque};

/// Reads that a unit serves while a program waits; then the program goes. With it neither starves:
/// eight reads take about as long as one program.
pub const READS_IN_A_ROW: u32 = 8;

/// What a unit does, or has to.
#[derive(Clone, Copy, Debug)]
enum Piece {
    /// For the read of that number.
    Read(u64),
    /// For the write of that number, so many bytes of the cache.
    Program { write: u64, bytes: u64, time: Nanos },
}

#[derive(Debug, Default)]
struct FlashUnit {
    reads: VecDeque<u64>,
    programs: VecDeque<Piece>,
    current: Option<Piece>,
    reads_in_a_row: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum SsdEvent {
    /// A command has passed the controller, a write also the interface.
    Arrived(u64),
    /// A unit has finished its piece.
    UnitFree(usize),
    /// A command is done.
    Done(u64),
}

#[derive(Clone, Copy, Debug)]
struct Job {
    command: Command,
    /// Pieces that it still waits for.
    pieces: u64,
}

/// The disk.
#[derive(Debug)]
pub struct Ssd {
    config: SsdConfig,
    units: Vec<FlashUnit>,
    /// The next unit to be programmed.
    turn: usize,
    due: Due<SsdEvent>,
    /// Commands that are not done, by number.
    jobs: BTreeMap<u64, Job>,
    controller_free: Instant,
    bus_free: Instant,
    /// Writes that wait for room in the cache.
    writers: VecDeque<u64>,
    cached_bytes: u64,
    /// Writes with programs left, by number, and how many.
    programs: BTreeMap<u64, u64>,
    flushes: Flushes,
    last_write_end: u64,
    erased_bytes: u64,
    open: OpenBlocks,
    /// When something was last under way.
    busy_until: Instant,
    /// Lived up to here.
    now: Instant,
    stats: DiskStats,
}

impl Ssd {
    /// A disk at rest, all its spare erased.
    pub fn new(config: SsdConfig) -> Ssd {
        Ssd {
            units: (0..config.units.max(1)).map(|_| FlashUnit::default()).collect(),
            turn: 0,
            due: Due::new(config.depth),
            jobs: BTreeMap::new(),
            controller_free: Instant::ZERO,
            bus_free: Instant::ZERO,
            writers: VecDeque::new(),
            cached_bytes: 0,
            programs: BTreeMap::new(),
            flushes: Flushes::default(),
            last_write_end: 0,
            erased_bytes: config.spare.get(),
            open: OpenBlocks::new(config.block, config.open_blocks),
            busy_until: Instant::ZERO,
            now: Instant::ZERO,
            config,
            stats: DiskStats::default(),
        }
    }

    /// Lives through everything up to `now`.
    fn advance(&mut self, now: Instant) {
        while let Some((time, event)) = self.due.pop_event(now) {
            self.pass_time(time);
            match event {
                SsdEvent::Arrived(number) => self.arrived(number),
                SsdEvent::UnitFree(unit) => self.unit_free(unit),
                SsdEvent::Done(number) => self.finish(number),
            }
        }
        self.pass_time(now);
    }

    fn is_idle(&self) -> bool {
        self.jobs.is_empty() && self.programs.is_empty()
    }

    /// Books the time since the last event.
    fn pass_time(&mut self, to: Instant) {
        if !self.is_idle() {
            self.stats.busy += to.since(self.now);
            self.busy_until = to;
        }
        self.now = self.now.max(to);
    }

    /// Adds erased space: what an idle disk has made, or what was trimmed.
    fn erase(&mut self, bytes: u64) {
        let sum = self.erased_bytes.saturating_add(bytes);
        self.erased_bytes = sum.min(self.config.spare.get());
    }

    fn transfer(&mut self, from: Instant, len: Bytes) -> Instant {
        self.bus_free = self.bus_free.max(from) + self.config.rate_bus.time_for(len);
        self.bus_free
    }

    fn arrived(&mut self, number: u64) {
        let Command { op, extent, .. } = self.jobs[&number].command;
        match op {
            Op::Read | Op::Cache if !extent.is_empty() => self.begin_read(number),
            Op::Write if !extent.is_empty() => {
                self.writers.push_back(number);
                self.admit_writes();
            }
            Op::Flush => {
                self.flushes.enter(number);
                self.answer_flushes();
            }
            Op::Trim => {
                self.erase(extent.len().get());
                self.due.at(self.now + self.config.overhead, SsdEvent::Done(number));
            }
            _ => self.due.at(self.now + self.config.overhead, SsdEvent::Done(number)),
        }
    }

    fn begin_read(&mut self, number: u64) {
        let extent = self.jobs[&number].command.extent;
        let stripe = self.config.stripe.get();
        let (first, last) = (extent.offset().get() / stripe, (extent.end().get() - 1) / stripe);
        self.jobs.get_mut(&number).expect("it arrived").pieces = last + 1 - first;
        for piece in first..=last {
            let unit = (piece % self.units.len() as u64) as usize;
            self.units[unit].reads.push_back(number);
            self.kick(unit);
        }
    }

    /// Takes writes into the cache in order; one larger than it when it is empty.
    fn admit_writes(&mut self) {
        while let Some(&number) = self.writers.front() {
            let Command { extent, fua, .. } = self.jobs[&number].command;
            let len = extent.len().get();
            let over = self.cached_bytes + len > self.config.write_cache.get();
            if over && self.cached_bytes > 0 {
                return;
            }
            self.writers.pop_front();
            self.flushes.wrote(number);
            self.cached_bytes += len;
            let permille = self.program_cost(extent.offset().get(), len);
            let stripe = self.config.stripe.get();
            let mut at = extent.offset().get();
            while at < extent.end().get() {
                let bytes = stripe.min(extent.end().get() - at);
                let whole = u128::from(self.config.program_time.0) * u128::from(permille);
                let part = Nanos((whole * u128::from(bytes) / u128::from(stripe) / 1000) as u64);
                let time = part + self.config.merge_time.times(self.open.write(at, bytes));
                let unit = self.turn;
                self.turn = (self.turn + 1) % self.units.len();
                self.units[unit].programs.push_back(Piece::Program { write: number, bytes, time });
                *self.programs.entry(number).or_default() += 1;
                self.kick(unit);
                at += bytes;
            }
            if !fua {
                self.due.at(self.now + self.config.overhead, SsdEvent::Done(number));
            }
        }
    }

    /// What the programs of this write cost, in thousandths; it uses erased space up.
    fn program_cost(&mut self, start: u64, len: u64) -> u64 {
        let follows = start == self.last_write_end;
        self.last_write_end = start + len;
        if follows {
            // It makes whole blocks void, which need no copying.
            1000
        } else if self.erased_bytes >= len {
            self.erased_bytes -= len;
            1000
        } else {
            self.config.gc_permille
        }
    }

    /// Gives an idle unit its next piece.
    fn kick(&mut self, index: usize) {
        let unit = &mut self.units[index];
        if unit.current.is_some() {
            return;
        }
        let must_program = !unit.programs.is_empty() && unit.reads_in_a_row >= READS_IN_A_ROW;
        let read = if must_program { None } else { unit.reads.pop_front().map(Piece::Read) };
        let Some(piece) = read.or_else(|| unit.programs.pop_front()) else { return };
        unit.current = Some(piece);
        let time = match piece {
            Piece::Read(_) => {
                unit.reads_in_a_row += 1;
                self.config.read_time
            }
            Piece::Program { time, .. } => {
                unit.reads_in_a_row = 0;
                time
            }
        };
        self.due.at(self.now + time, SsdEvent::UnitFree(index));
    }

    fn unit_free(&mut self, index: usize) {
        match self.units[index].current.take().expect("it worked on it") {
            Piece::Read(number) => {
                let job = self.jobs.get_mut(&number).expect("it waits for its pieces");
                job.pieces -= 1;
                if job.pieces == 0 {
                    let len = job.command.extent.len();
                    let there = self.transfer(self.now, len);
                    self.due.at(there + self.config.overhead, SsdEvent::Done(number));
                }
            }
            Piece::Program { write, bytes, .. } => {
                self.cached_bytes -= bytes;
                let left = self.programs.get_mut(&write).expect("it has programs left");
                *left -= 1;
                if *left == 0 {
                    self.programs.remove(&write);
                    self.programmed(write);
                }
                self.admit_writes();
            }
        }
        self.kick(index);
    }

    /// All of a write is in the flash.
    fn programmed(&mut self, number: u64) {
        if self.jobs.get(&number).is_some_and(|job| job.command.fua) {
            self.due.at(self.now + self.config.overhead, SsdEvent::Done(number));
        }
        self.answer_flushes();
    }

    /// Ends the flushes before which no write is unprogrammed.
    fn answer_flushes(&mut self) {
        let oldest = self.programs.first_key_value().map_or(u64::MAX, |(&number, _)| number);
        let time = self.config.flush_time;
        while let Some((flush, at)) = self.flushes.next(self.now, oldest, time) {
            self.due.at(at + self.config.overhead, SsdEvent::Done(flush));
        }
    }

    fn finish(&mut self, number: u64) {
        let Job { command, .. } = self.jobs.remove(&number).expect("done once");
        match command.op {
            Op::Read | Op::Cache => self.stats.read += command.extent.len(),
            Op::Write => self.stats.written += command.extent.len(),
            _ => {}
        }
        self.stats.commands_count += 1;
        self.due.done(self.now, command.id);
    }
}

impl Disk for Ssd {
    fn capacity(&self) -> Bytes {
        self.config.capacity
    }

    fn depth(&self) -> u32 {
        self.config.depth
    }

    fn is_rotational(&self) -> bool {
        false
    }

    fn submit(&mut self, now: Instant, command: Command) {
        self.advance(now);
        let number = self.due.enter();
        if self.is_idle() {
            let rested = u128::from(now.since(self.busy_until).0);
            let erased = u128::from(self.config.clean_rate.0) * rested / 1_000_000_000;
            self.erase(u64::try_from(erased).unwrap_or(u64::MAX));
            self.busy_until = now;
        }
        self.jobs.insert(number, Job { command, pieces: 0 });
        self.controller_free = self.controller_free.max(now) + self.config.command_time;
        let passed = match command.op {
            Op::Write => self.transfer(self.controller_free, command.extent.len()),
            _ => self.controller_free,
        };
        self.due.at_turn(passed, number, SsdEvent::Arrived(number));
    }

    fn next(&self) -> Instant {
        // Programs in the background concern nobody while no command is outstanding.
        let is_awaited = self.due.is_outstanding();
        let event = if is_awaited { self.due.next_event() } else { Instant::NEVER };
        self.due.first_done().unwrap_or(event)
    }

    fn poll(&mut self, now: Instant) -> Option<Completion> {
        self.advance(now);
        self.due.take()
    }

    fn stats(&self) -> DiskStats {
        self.stats
    }
}

#[cfg(test)]
mod tests;
