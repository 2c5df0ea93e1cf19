//! A network file server seen as a disk: reads end one by one, writes end together when they are
//! committed.
//!
//! # Model
//! ```text
//!            rate_link   round_trip / 2                      rate_write
//!  write ──► link up ──────────────────► memory of server ───────────────► its disks
//!                                           │ reply: unstable                  │
//!            ▓▓▓▓▓▓▓▓▓▓ many ▓▓▓▓▓▓▓▓▓▓ ◄───┘                                  │
//!            all done at once ◄──────────────────── COMMIT ◄───────────────────┘
//!
//!  read ──► round_trip / 2 ──► one of `spindles`, read_time ──► rate_read ──► link down ──► done
//! ```
//! A write that has reached the server's memory is answered, but *unstable*: a crash of the server
//! would lose it, so the client keeps its pages until a COMMIT says that they are on the server's
//! disks. Seen from the client's page cache a write is done when its COMMIT is. So completions come
//! in bursts. One COMMIT is out at a time, for all that is unstable when it is sent. It is sent as
//! soon as
//! - a flush waits for writes that are all unstable,
//! - [`NfsConfig::commit_bytes`] are unstable,
//! - the oldest unstable write was answered [`NfsConfig::commit_interval`] ago, or
//! - the client has sent nothing for [`NfsConfig::commit_idle`]: all it has, or all it may.
//!
//! The server writes in order and begins at once; without room in [`NfsConfig::memory`] it takes
//! nothing from the link. So a client that writes faster than the server's disks gets bursts of
//! about [`NfsConfig::memory`] bytes at their rate. FUA is a write that the server answers when it
//! is on its disks.
//!
//! A read that goes on where one of the last [`STREAMS`] reads ended was read ahead by the server;
//! another needs [`NfsConfig::read_time`] of one of its [`NfsConfig::spindles`].
//!
//! # Limits
//! Reads and writes do not meet on the server's disks. No losses on the link, no other clients, no
//! attributes, no locks. The burst ends at [`NfsConfig::depth`] commands: small commands make small
//! bursts. A window that is not deep enough for a burst makes the client stop and commit early, as
//! a client does whose flusher has sent what it may.
//!
//! # Sources
//! RFC 1813 (NFS version 3: WRITE with UNSTABLE, COMMIT); F. Wu, "IO-less dirty throttling" (2011),
//! for what bursts do to writers; parameters: see the preset.

use crate::disk::{Command, Completion, Disk, DiskStats};
use crate::due::Due;
use iopace_core::request::Op;
use iopace_core::time::{Instant, Nanos};
use iopace_core::units::{Bytes, BytesPerSec};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Sequential readers that the server tells apart: more than a test has, few enough to forget.
pub const STREAMS: usize = 32;

/// The parameters of a file server and the way to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NfsConfig {
    /// Size of the file that is the disk.
    pub capacity: Bytes,
    /// From a message to its answer, when the server has nothing to do for it.
    pub round_trip: Nanos,
    /// Rate of the link, in each direction.
    pub rate_link: BytesPerSec,
    /// Rate at which the server's disks take writes.
    pub rate_write: BytesPerSec,
    /// Rate at which the server's disks give reads, all together.
    pub rate_read: BytesPerSec,
    /// Time of a disk for a read that was not read ahead.
    pub read_time: Nanos,
    /// Disks of the server that position at once.
    pub spindles: usize,
    /// Most bytes that the server holds unwritten.
    pub memory: Bytes,
    /// Time of the server to commit, beside the writing of the data: its journal.
    pub commit_time: Nanos,
    /// Unstable bytes at which the client commits.
    pub commit_bytes: Bytes,
    /// Longest time that a write stays unstable before the client commits.
    pub commit_interval: Nanos,
    /// Time without a write to send after which the client commits.
    pub commit_idle: Nanos,
    /// Commands held at once, those that wait for a COMMIT included.
    pub depth: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum NfsEvent {
    /// The client has the answer: a write is unstable.
    Answered(u64),
    /// The server has found what is read.
    Found(u64),
    /// What was out as a COMMIT is on the server's disks.
    Committed,
    /// A command is done.
    Done(u64),
}

/// A write that is answered and not committed.
#[derive(Clone, Copy, Debug)]
struct Unstable {
    number: u64,
    answered: Instant,
    /// When it is on the server's disks.
    written: Instant,
}

/// The server and the way to it.
#[derive(Debug)]
pub struct Nfs {
    config: NfsConfig,
    due: Due<NfsEvent>,
    /// Commands that are not done, by number.
    jobs: BTreeMap<u64, Command>,
    up_free: Instant,
    down_free: Instant,
    write_free: Instant,
    read_free: Instant,
    spindles_free: Vec<Instant>,
    /// Where the last reads ended, the latest last.
    streams: VecDeque<u64>,
    /// Writes that are not answered, by number, and when they are on the server's disks.
    in_transit: BTreeMap<u64, Instant>,
    /// In the order of their answers.
    unstable: VecDeque<Unstable>,
    unstable_bytes: u64,
    /// Writes of the COMMIT that is out.
    committing: Vec<u64>,
    /// Writes that are not on the server's disks for all that the client knows, by number.
    open_writes: BTreeSet<u64>,
    /// Flushes that wait, by number.
    flushes: BTreeSet<u64>,
    /// Lived up to here.
    now: Instant,
    stats: DiskStats,
}

impl Nfs {
    /// A server at rest.
    pub fn new(config: NfsConfig) -> Nfs {
        Nfs {
            due: Due::new(config.depth),
            jobs: BTreeMap::new(),
            up_free: Instant::ZERO,
            down_free: Instant::ZERO,
            write_free: Instant::ZERO,
            read_free: Instant::ZERO,
            spindles_free: vec![Instant::ZERO; config.spindles.max(1)],
            streams: VecDeque::new(),
            in_transit: BTreeMap::new(),
            unstable: VecDeque::new(),
            unstable_bytes: 0,
            committing: Vec::new(),
            open_writes: BTreeSet::new(),
            flushes: BTreeSet::new(),
            now: Instant::ZERO,
            config,
            stats: DiskStats::default(),
        }
    }

    fn half_trip(&self) -> Nanos {
        Nanos(self.config.round_trip.0 / 2)
    }

    /// Lives through everything up to `now`.
    fn advance(&mut self, now: Instant) {
        loop {
            let (event_at, commit_at) = (self.due.next_event(), self.commit_at());
            let time = event_at.min(commit_at);
            if time > now || time.is_never() {
                break;
            }
            self.pass_time(time);
            if event_at > commit_at {
                self.commit();
                continue;
            }
            match self.due.pop_event(time).expect("it is due").1 {
                NfsEvent::Answered(number) => self.answered(number),
                NfsEvent::Found(number) => self.found(number),
                NfsEvent::Committed => self.committed(),
                NfsEvent::Done(number) => self.finish(number),
            }
        }
        self.pass_time(now);
    }

    /// Books the time since the last event.
    fn pass_time(&mut self, to: Instant) {
        if !self.jobs.is_empty() {
            self.stats.busy += to.since(self.now);
        }
        self.now = self.now.max(to);
    }

    /// When the client commits, if nothing else happens.
    fn commit_at(&self) -> Instant {
        let (Some(oldest), Some(latest)) = (self.unstable.front(), self.unstable.back()) else {
            return Instant::NEVER;
        };
        if !self.committing.is_empty() {
            return Instant::NEVER;
        }
        if self.unstable_bytes >= self.config.commit_bytes.get() || self.flush_waits_for_commit() {
            return self.now;
        }
        let idle = latest.answered + self.config.commit_idle;
        let is_sending = !self.in_transit.is_empty();
        let due = oldest.answered + self.config.commit_interval;
        due.min(if is_sending { Instant::NEVER } else { idle }).max(self.now)
    }

    /// Whether all that a flush waits for is unstable.
    fn flush_waits_for_commit(&self) -> bool {
        let Some(&flush) = self.flushes.first() else { return false };
        let all_answered = self.in_transit.keys().next().is_none_or(|&number| number > flush);
        all_answered && self.open_writes.first().is_some_and(|&number| number < flush)
    }

    fn send_write(&mut self, now: Instant, number: u64, command: &Command) {
        let half = self.half_trip();
        let NfsConfig { rate_link, rate_write, memory, .. } = self.config;
        let len = command.extent.len();
        let sent = self.up_free.max(now) + rate_link.time_for(len);
        // The server has room when its disks have come within so much of the end.
        let room = self.write_free - rate_write.time_for(memory - len);
        let arrived = (sent + half).max(room);
        self.up_free = arrived - half;
        self.write_free = self.write_free.max(arrived) + rate_write.time_for(len);
        self.open_writes.insert(number);
        if command.fua {
            let answered = self.write_free + self.config.commit_time + half;
            self.due.at(answered, NfsEvent::Done(number));
        } else {
            self.in_transit.insert(number, self.write_free);
            self.due.at(arrived + half, NfsEvent::Answered(number));
        }
    }

    fn answered(&mut self, number: u64) {
        let written = self.in_transit.remove(&number).expect("it was sent");
        self.unstable.push_back(Unstable { number, answered: self.now, written });
        self.unstable_bytes += self.jobs[&number].extent.len().get();
    }

    fn commit(&mut self) {
        let half = self.half_trip();
        let written = self.unstable.iter().map(|write| write.written).max();
        let there = written.unwrap_or(self.now).max(self.now + half);
        self.committing = self.unstable.drain(..).map(|write| write.number).collect();
        self.unstable_bytes = 0;
        self.due.at(there + self.config.commit_time + half, NfsEvent::Committed);
    }

    fn committed(&mut self) {
        for number in std::mem::take(&mut self.committing) {
            self.finish(number);
        }
    }

    fn send_read(&mut self, now: Instant, number: u64, command: &Command) {
        let (start, end) = (command.extent.offset().get(), command.extent.end().get());
        let mut found = now + self.half_trip();
        match self.streams.iter().position(|&stream| stream == start) {
            Some(stream) => _ = self.streams.remove(stream),
            None => {
                let free = self.spindles_free.iter_mut().min().expect("at least one");
                *free = found.max(*free) + self.config.read_time;
                found = *free;
            }
        }
        if self.streams.len() == STREAMS {
            self.streams.pop_front();
        }
        self.streams.push_back(end);
        self.due.at(found, NfsEvent::Found(number));
    }

    fn found(&mut self, number: u64) {
        let len = self.jobs[&number].extent.len();
        self.read_free = self.read_free.max(self.now) + self.config.rate_read.time_for(len);
        self.down_free = self.down_free.max(self.read_free) + self.config.rate_link.time_for(len);
        self.due.at(self.down_free + self.half_trip(), NfsEvent::Done(number));
    }

    fn finish(&mut self, number: u64) {
        let command = self.jobs.remove(&number).expect("done once");
        match command.op {
            Op::Read | Op::Cache => self.stats.read += command.extent.len(),
            Op::Write => self.stats.written += command.extent.len(),
            _ => {}
        }
        self.stats.commands_count += 1;
        self.due.done(self.now, command.id);
        if self.open_writes.remove(&number) {
            self.answer_flushes();
        }
    }

    /// Ends the flushes before which no write is open.
    fn answer_flushes(&mut self) {
        let oldest = self.open_writes.first().copied().unwrap_or(u64::MAX);
        while let Some(&flush) = self.flushes.first().filter(|&&flush| flush < oldest) {
            self.flushes.remove(&flush);
            self.finish(flush);
        }
    }
}

impl Disk for Nfs {
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
        self.jobs.insert(number, command);
        match command.op {
            Op::Read | Op::Cache if !command.extent.is_empty() => {
                self.send_read(now, number, &command);
            }
            Op::Write if !command.extent.is_empty() => self.send_write(now, number, &command),
            Op::Flush => {
                self.flushes.insert(number);
                self.answer_flushes();
            }
            _ => self.due.at(now + self.config.round_trip, NfsEvent::Done(number)),
        }
    }

    fn next(&self) -> Instant {
        let event = self.due.next_event().min(self.commit_at());
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
