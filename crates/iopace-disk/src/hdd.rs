//! A disk with a head and a platter: seek curve, rotation, zones, read-ahead, write cache, NCQ.
//!
//! # Model
//! A media access takes `overhead + seek + rotational wait + transfer`:
//! ```text
//!  seek ▲                         ___--- full stroke
//!       │                ___---‾‾‾       linear from a third of the stroke on
//!       │        __--‾‾‾  average
//!       │    .-‾   grows with the square root of the distance
//!       │  / track to track
//!       └──────────────┬──────────────────► distance
//!                     1/3
//! ```
//! The platter turns with time: the rotational wait follows from the angle at which the data begins
//! and the instant at which the head arrives, it is not drawn at random. Zones of equal width have
//! a transfer rate that falls linearly from the outer to the inner edge.
//!
//! *Read-ahead*: after a read the head reads on into a buffer, until the buffer's segment is full
//! or the head is needed. A read that continues there is served when the head has passed its end.
//!
//! *Write cache*: a write is done when it is in the cache. The cache is written to the platter, in
//! runs and in order of position, when it is full, when the host has been quiet for
//! [`HddConfig::destage_idle`], or for a flush; once a write fills it above three quarters it is
//! emptied down to half, unless a read or a FUA write takes the head away: between those the pauses
//! are too short to count as idle (Golding et al., "Idleness is not sloth", USENIX 1995), and
//! writing in them would cost each a seek. (Assumed: no maker documents its rule.) Flushes, and
//! writes that wait for room, are served turn about with the commands that need the head; nothing
//! enters the cache past them. FUA goes to the platter before it is done. A read of what is in the
//! cache is served from it.
//!
//! *NCQ*: of several commands the one with the shortest positioning time goes first, unless one is
//! older than [`HddConfig::ncq_age_max`].
//!
//! # Limits
//! One head for all surfaces, so no head switch; no remapped sectors, no thermal recalibration. A
//! stopped read-ahead costs a rotation to resume. Trim and write-zeroes only cost their overhead.
//!
//! # Sources
//! Ruemmler and Wilkes, "An introduction to disk drive modeling" (IEEE Computer, 1994) for the
//! shape of the seek curve and the structure; parameters: see the presets.

mod geometry;

use crate::disk::{Command, Completion, Disk, DiskStats};
use geometry::Geometry;
use iopace_core::request::{Op, Outcome};
use iopace_core::time::{Instant, Nanos};
use iopace_core::units::{Bytes, BytesPerSec};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};

/// Most that is written from the cache to the platter at a time; a read that arrives waits for it.
const DESTAGE_BYTES: u64 = 128 * 1024;

/// A stream counts as unbroken if it goes on within this time: the sectors of the gap between two
/// tracks (skew) pass under the head meanwhile.
const STREAM_GAP: Nanos = Nanos::from_micros(200);

/// The parameters of a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HddConfig {
    /// Size.
    pub capacity: Bytes,
    /// Time of one turn.
    pub rotation: Nanos,
    /// Seek to the next track.
    pub seek_track: Nanos,
    /// Seek over a third of the stroke, the average of random seeks.
    pub seek_average: Nanos,
    /// Seek over the full stroke.
    pub seek_full: Nanos,
    /// Additional settling before a write.
    pub write_settle: Nanos,
    /// Sustained transfer rate at the outer edge.
    pub rate_outer: BytesPerSec,
    /// Sustained transfer rate at the inner edge.
    pub rate_inner: BytesPerSec,
    /// What a sequential write reaches of these rates, in thousandths.
    pub write_permille: u64,
    /// Rate of the interface.
    pub rate_bus: BytesPerSec,
    /// Time per command outside the mechanics.
    pub overhead: Nanos,
    /// How far ahead it reads.
    pub read_ahead: Bytes,
    /// Segments of read-ahead that are kept.
    pub segments: usize,
    /// Size of the write cache; zero: writes are done when they are on the platter.
    pub write_cache: Bytes,
    /// How long the host must be quiet before the cache is written out.
    pub destage_idle: Nanos,
    /// Commands held at once; 1: no NCQ.
    pub depth: u32,
    /// With NCQ: a command older than this goes first.
    pub ncq_age_max: Nanos,
}

/// What is read ahead: the head passes `pos` at `at` and goes on up to `limit`.
#[derive(Clone, Copy, Debug)]
struct Stream {
    start: u64,
    pos: u64,
    at: Instant,
    limit: u64,
    rate: BytesPerSec,
}

impl Stream {
    /// How far it has come.
    fn reached(&self, now: Instant) -> u64 {
        let passed = u128::from(now.since(self.at).0) * u128::from(self.rate.0) / 1_000_000_000;
        (u128::from(self.pos) + passed).min(u128::from(self.limit)) as u64
    }

    /// When it passes `end`.
    fn time_of(&self, end: u64) -> Instant {
        self.at + self.rate.time_for(Bytes(end.saturating_sub(self.pos)))
    }
}

/// What the head does.
#[derive(Clone, Copy, Debug)]
enum Work {
    /// A read from the platter, or a write to it that could not go through the cache.
    Command(Command),
    /// A run from the write cache.
    Destage { start: u64, len: u64 },
}

/// The disk.
#[derive(Debug)]
pub struct Hdd {
    config: HddConfig,
    geometry: Geometry,
    /// Commands that wait for the head, for room in the cache, or for a flush, in order of arrival.
    pending: VecDeque<(Command, Instant)>,
    work: Option<(Work, Instant)>,
    /// Completions by time and number: the callers' names.
    ready: BinaryHeap<Reverse<(Instant, u64, u64)>>,
    sequence: u64,
    /// Where the last access ended, in bytes, and when.
    head: u64,
    head_free: Instant,
    stream: Option<Stream>,
    /// Read-ahead that the head has left: from, to.
    segments: VecDeque<(u64, u64)>,
    /// The write cache: runs by start.
    dirty: BTreeMap<u64, u64>,
    dirty_bytes: u64,
    /// The cache was above three quarters and is not yet below half.
    is_filling: bool,
    /// Until when the head serves a read from its read-ahead.
    stream_until: Instant,
    /// The head has served a command since it last wrote from the cache.
    is_destage_turn: bool,
    /// When the host last had something of the disk.
    last_command: Instant,
    outstanding: u32,
    stats: DiskStats,
}

impl Hdd {
    /// A disk at rest with its head at the outer edge.
    pub fn new(config: HddConfig) -> Hdd {
        Hdd {
            geometry: Geometry::new(&config),
            config,
            pending: VecDeque::new(),
            work: None,
            ready: BinaryHeap::new(),
            sequence: 0,
            head: 0,
            head_free: Instant::ZERO,
            stream: None,
            segments: VecDeque::new(),
            dirty: BTreeMap::new(),
            dirty_bytes: 0,
            is_filling: false,
            stream_until: Instant::ZERO,
            is_destage_turn: false,
            last_command: Instant::ZERO,
            outstanding: 0,
            stats: DiskStats::default(),
        }
    }

    /// When the head is over `byte`, if it sets off at `now`.
    fn arrival(&self, now: Instant, byte: u64, settle: Nanos) -> Instant {
        let is_stream = byte == self.head && now.since(self.head_free) <= STREAM_GAP;
        if is_stream {
            return now;
        }
        let there = now + self.geometry.seek(self.head, byte) + settle;
        there + self.geometry.wait(there, byte)
    }

    fn write_rate(&self, byte: u64) -> BytesPerSec {
        let rate = u128::from(self.geometry.rate(byte).0);
        BytesPerSec((rate * u128::from(self.config.write_permille) / 1000) as u64)
    }

    /// The head leaves what it was reading ahead; what it has read stays in the buffer.
    fn leave_stream(&mut self, now: Instant) {
        let Some(stream) = self.stream.take() else { return };
        let reached = stream.reached(now);
        let kept = self.config.read_ahead.get().max(1);
        self.segments.push_back((stream.start.max(reached.saturating_sub(kept)), reached));
        if self.segments.len() > self.config.segments {
            self.segments.pop_front();
        }
        self.head = reached;
        self.head_free = now;
    }

    fn finish(&mut self, command: &Command, at: Instant) {
        self.ready.push(Reverse((at, self.sequence, command.id)));
        self.sequence += 1;
        self.last_command = self.last_command.max(at);
        self.stats.commands_count += 1;
        match command.op {
            Op::Read | Op::Cache => self.stats.read += command.extent.len(),
            Op::Write => self.stats.written += command.extent.len(),
            _ => {}
        }
    }

    /// A read that needs no head movement: what is in the buffer, or will be as the read-ahead goes
    /// on.
    fn read_buffered(&mut self, now: Instant, command: &Command) -> bool {
        let (start, end) = (command.extent.offset().get(), command.extent.end().get());
        let bus = now + self.config.overhead + self.config.rate_bus.time_for(command.extent.len());
        let written = self.dirty.range(..=start).next_back();
        let is_written = written.is_some_and(|(&from, &len)| end <= from + len);
        if is_written || self.segments.iter().any(|&(from, to)| from <= start && end <= to) {
            self.stats.buffer_hits_count += 1;
            self.finish(command, bus);
            return true;
        }
        let Some(stream) = self.stream else { return false };
        let reached = stream.reached(now);
        // The segment holds the latest part of a long stream.
        let oldest = stream.start.max(reached.saturating_sub(self.config.read_ahead.get()));
        if self.is_head_busy(now) || start < oldest || start > reached {
            return false;
        }
        self.stats.buffer_hits_count += 1;
        let at = bus.max(self.extend_stream(now, stream, end));
        self.stats.busy += at.since(now);
        self.stream_until = at;
        self.finish(command, at);
        true
    }

    /// Lets the read-ahead go on beyond `end`; when it passes there.
    fn extend_stream(&mut self, now: Instant, mut stream: Stream, end: u64) -> Instant {
        let limit = (end + self.config.read_ahead.get()).min(self.config.capacity.get());
        let reached = stream.reached(now);
        if reached >= stream.limit && stream.limit < limit {
            // It had stopped: the platter must come around again.
            let at = now + self.geometry.wait(now, reached);
            stream = Stream { pos: reached, at, ..stream };
        }
        stream.limit = stream.limit.max(limit);
        self.stream = Some(stream);
        stream.time_of(end)
    }

    /// Serves what needs no head: cached writes, flushes of an empty cache, hints.
    fn serve_at_once(&mut self, now: Instant) {
        // Nothing enters the cache past a write that waits for room, or a flush that waits for the
        // cache to be empty: both would wait for ever under a steady load.
        let mut is_closed = false;
        for _ in 0..self.pending.len() {
            let Some((command, arrived)) = self.pending.pop_front() else { break };
            let len = command.extent.len().get();
            let bus = now + self.config.overhead + self.config.rate_bus.time_for(Bytes(len));
            let room = self.config.write_cache.get().saturating_sub(self.dirty_bytes) >= len;
            let served = match command.op {
                Op::Write if !command.fua && room && !is_closed => {
                    self.cache_write(&command);
                    self.finish(&command, bus);
                    true
                }
                Op::Flush if self.dirty.is_empty() && !self.is_destaging() => {
                    self.finish(&command, now + self.config.overhead);
                    true
                }
                Op::Trim | Op::WriteZeroes => {
                    self.finish(&command, now + self.config.overhead);
                    true
                }
                Op::Read | Op::Cache => self.read_buffered(now, &command),
                _ => false,
            };
            if !served {
                is_closed |= waits_for_cache(&command);
                self.pending.push_back((command, arrived));
            }
        }
    }

    fn is_destaging(&self) -> bool {
        matches!(self.work, Some((Work::Destage { .. }, _)))
    }

    /// Puts a write into the cache, joined with what it touches.
    fn cache_write(&mut self, command: &Command) {
        let (mut start, mut end) = (command.extent.offset().get(), command.extent.end().get());
        self.forget_read(start, end);
        while let Some((&from, &len)) = self.dirty.range(..=end).next_back() {
            if from + len < start {
                break;
            }
            self.dirty.remove(&from);
            self.dirty_bytes -= len;
            (start, end) = (start.min(from), end.max(from + len));
        }
        self.dirty.insert(start, end - start);
        self.dirty_bytes += end - start;
        self.is_filling |= self.dirty_bytes * 4 >= self.config.write_cache.get() * 3;
    }

    /// What was read ahead there is out of date.
    fn forget_read(&mut self, start: u64, end: u64) {
        self.segments.retain(|&(from, to)| end <= from || to <= start);
    }

    /// Whether the cache has to be written out now; `is_free`: no command wants the head.
    fn must_destage(&self, now: Instant, is_free: bool) -> bool {
        if self.dirty.is_empty() {
            return false;
        }
        let is_wanted = self.pending.iter().any(|(command, _)| waits_for_cache(command));
        if !is_free {
            // Turn about with the commands, so that neither waits for the last of the other.
            return is_wanted && self.is_destage_turn;
        }
        let is_quiet = self.pending.is_empty() && now >= self.destage_at();
        is_wanted || is_quiet || self.is_filling
    }

    fn is_head_busy(&self, now: Instant) -> bool {
        self.work.is_some() || self.stream_until > now
    }

    fn destage_at(&self) -> Instant {
        (self.last_command + self.config.destage_idle).max(self.head_free)
    }

    /// Gives the head its next work.
    fn begin(&mut self, now: Instant) {
        self.serve_at_once(now);
        if self.is_head_busy(now) {
            return;
        }
        let chosen = self.choose(now);
        if self.must_destage(now, chosen.is_none()) {
            self.destage(now);
        } else if let Some(index) = chosen {
            let (command, _) = self.pending.remove(index).expect("chosen among them");
            // The next cached write decides again whether the cache is too full.
            self.is_filling = false;
            self.access(now, Work::Command(command));
        }
    }

    /// Writes the next run from the cache: onwards from the head, then from the beginning.
    fn destage(&mut self, now: Instant) {
        let next = self.dirty.range(self.head..).next().or_else(|| self.dirty.iter().next());
        let (&start, &len) = next.expect("something is dirty");
        let len_now = len.min(DESTAGE_BYTES);
        self.dirty.remove(&start);
        if len > len_now {
            self.dirty.insert(start + len_now, len - len_now);
        }
        self.access(now, Work::Destage { start, len: len_now });
    }

    /// The command that goes to the platter next: the oldest, or with NCQ the nearest in time.
    fn choose(&self, now: Instant) -> Option<usize> {
        let needs_head = |command: &Command| match command.op {
            Op::Read | Op::Cache => true,
            Op::Write => command.fua || command.extent.len() > self.config.write_cache,
            _ => false,
        };
        let all = self.pending.iter().enumerate().filter(|(_, (command, _))| needs_head(command));
        let mut candidates = all.peekable();
        let &(first, (_, arrived)) = candidates.peek()?;
        if self.config.depth == 1 || now.since(*arrived) > self.config.ncq_age_max {
            return Some(first);
        }
        let time = |(index, (command, _)): (usize, &(Command, Instant))| {
            let begin = now + self.config.overhead; // as in `access`, or it is late by a turn
            (self.arrival(begin, command.extent.offset().get(), Nanos::ZERO), index)
        };
        candidates.map(time).min().map(|found| found.1)
    }

    /// Moves the head and transfers.
    fn access(&mut self, now: Instant, work: Work) {
        self.leave_stream(now);
        let (start, len, is_write) = match work {
            Work::Command(Command { op, extent, .. }) => {
                (extent.offset().get(), extent.len().get(), op == Op::Write)
            }
            Work::Destage { start, len } => (start, len, true),
        };
        let overhead = match work {
            Work::Command(_) => self.config.overhead,
            Work::Destage { .. } => Nanos::ZERO,
        };
        let settle = if is_write { self.config.write_settle } else { Nanos::ZERO };
        self.is_destage_turn = matches!(work, Work::Command(_));
        if is_write {
            self.forget_read(start, start + len);
        }
        let over_it = self.arrival(now + overhead, start, settle);
        if start != self.head {
            self.stats.seeks_count += 1;
        }
        let rate = if is_write { self.write_rate(start) } else { self.geometry.rate(start) };
        let end = over_it + rate.time_for(Bytes(len));
        self.stats.busy += end.since(now);
        self.head = start + len;
        self.head_free = end;
        self.work = Some((work, end));
    }

    /// The head has finished its work at `at`.
    fn end_work(&mut self, work: Work, at: Instant) {
        match work {
            Work::Destage { len, .. } => {
                self.dirty_bytes -= len;
                self.is_filling &= self.dirty_bytes * 2 > self.config.write_cache.get();
            }
            Work::Command(command) => {
                if matches!(command.op, Op::Read | Op::Cache) {
                    let (start, end) = (command.extent.offset().get(), command.extent.end().get());
                    let limit =
                        (end + self.config.read_ahead.get()).min(self.config.capacity.get());
                    let rate = self.geometry.rate(start);
                    self.stream = Some(Stream { start, pos: end, at, limit, rate });
                }
                self.finish(&command, at);
            }
        }
    }

    /// Lives through everything up to `now`.
    fn advance(&mut self, now: Instant) {
        loop {
            if let Some((work, end)) = self.work.filter(|(_, end)| *end <= now) {
                self.work = None;
                self.end_work(work, end);
                self.begin(end);
                continue;
            }
            let waits = !self.pending.is_empty() || self.is_filling;
            if waits && self.work.is_none() && self.stream_until <= now {
                self.begin(self.stream_until.max(self.head_free));
                if self.work.is_some() {
                    continue;
                }
            }
            // The host is quiet: the cache is written out from that moment on.
            let idle_at = self.destage_at();
            let is_idle = self.work.is_none() && self.pending.is_empty() && !self.dirty.is_empty();
            if is_idle && idle_at <= now {
                self.begin(idle_at);
                continue;
            }
            return;
        }
    }
}

/// Whether an unserved command waits for the cache to be written out.
fn waits_for_cache(command: &Command) -> bool {
    match command.op {
        Op::Flush => true,
        Op::Write => !command.fua,
        _ => false,
    }
}

impl Disk for Hdd {
    fn capacity(&self) -> Bytes {
        self.config.capacity
    }

    fn depth(&self) -> u32 {
        self.config.depth
    }

    fn is_rotational(&self) -> bool {
        true
    }

    fn submit(&mut self, now: Instant, command: Command) {
        self.advance(now);
        self.outstanding += 1;
        assert!(self.outstanding <= self.config.depth, "more commands than the disk holds");
        self.last_command = now;
        self.pending.push_back((command, now));
        self.begin(now);
    }

    fn next(&self) -> Instant {
        let ready = self.ready.peek().map_or(Instant::NEVER, |Reverse((at, ..))| *at);
        self.work.map_or(ready, |(_, end)| ready.min(end))
    }

    fn poll(&mut self, now: Instant) -> Option<Completion> {
        self.advance(now);
        self.ready.peek().filter(|Reverse((at, ..))| *at <= now)?;
        let Reverse((_, _, id)) = self.ready.pop()?;
        self.outstanding -= 1;
        Some(Completion { id, outcome: Outcome::Ok })
    }

    fn stats(&self) -> DiskStats {
        self.stats
    }
}

#[cfg(test)]
mod tests;
