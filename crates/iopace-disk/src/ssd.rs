//! A flash disk: channels that work side by side, slow programs behind a fast cache, one interface.
//!
//! # Model
//! Data is striped over the channels in pieces of [`SsdConfig::stripe`]. A read occupies the channel of
//! each of its pieces for [`SsdConfig::read_time`], then the interface for its transfer:
//! ```text
//!  command ─► overhead ─► channel 0 ▓▓        ┐
//!                         channel 1    ▓▓     ├─► interface ─► done
//!                         channel 2 ▓▓        ┘
//! ```
//! A write passes the interface into the cache and is done; the channels program it in the
//! background, which delays reads behind it. When the cache is full, a write waits for room. A write
//! that does not follow the one before it costs [`SsdConfig::random_write_permille`] of a program:
//! garbage collection, as a surcharge instead of a process of its own.
//!
//! # Limits
//! No mapping, no erase blocks, no wear, no thermal throttling; the same at any fill level.
//!
//! # Sources
//! Tavakkol et al., "MQSim" (FAST 2018) for which parts matter; parameters: see the presets.

use crate::disk::{Command, Completion, Disk, DiskStats};
use iopace_core::request::{Op, Outcome};
use iopace_core::time::{Instant, Nanos};
use iopace_core::units::{Bytes, BytesPerSec};
use std::collections::{BTreeMap, VecDeque};

/// The parameters of a flash disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SsdConfig {
    /// Size.
    pub capacity: Bytes,
    /// Channels that work at once.
    pub channels: usize,
    /// Bytes that lie together on one channel.
    pub stripe: Bytes,
    /// Time per command outside flash and interface.
    pub overhead: Nanos,
    /// Time of a channel to read one stripe.
    pub read_time: Nanos,
    /// Time of a channel to program one stripe.
    pub program_time: Nanos,
    /// Cost of a program for a random write, in thousandths of `program_time`.
    pub random_write_permille: u64,
    /// Rate of the interface.
    pub rate_bus: BytesPerSec,
    /// Size of the write cache.
    pub write_cache: Bytes,
    /// Commands held at once.
    pub depth: u32,
}

/// The disk.
#[derive(Debug)]
pub struct Ssd {
    config: SsdConfig,
    /// When each channel is free.
    channels: Vec<Instant>,
    bus_free: Instant,
    ready: BTreeMap<(Instant, u64), Completion>,
    sequence: u64,
    outstanding: u32,
    /// When each piece of the cache is programmed, and its size.
    cached: VecDeque<(Instant, u64)>,
    cached_bytes: u64,
    last_write_end: u64,
    stats: DiskStats,
}

impl Ssd {
    /// A disk at rest.
    pub fn new(config: SsdConfig) -> Ssd {
        Ssd {
            channels: vec![Instant::ZERO; config.channels.max(1)],
            config,
            bus_free: Instant::ZERO,
            ready: BTreeMap::new(),
            sequence: 0,
            outstanding: 0,
            cached: VecDeque::new(),
            cached_bytes: 0,
            last_write_end: 0,
            stats: DiskStats::default(),
        }
    }

    /// Occupies the channels under the command, each piece for `time`; when the last one is done.
    fn occupy(&mut self, from: Instant, command: &Command, time: Nanos) -> Instant {
        let stripe = self.config.stripe.get().max(1);
        let first = command.extent.offset().get() / stripe;
        let last = command.extent.end().get().saturating_sub(1).max(first * stripe) / stripe;
        let mut end = from;
        for piece in first..=last {
            let channel = (piece % self.channels.len() as u64) as usize;
            let free = self.channels[channel].max(from) + time;
            self.channels[channel] = free;
            end = end.max(free);
        }
        end
    }

    fn transfer(&mut self, from: Instant, len: Bytes) -> Instant {
        self.bus_free = self.bus_free.max(from) + self.config.rate_bus.time_for(len);
        self.bus_free
    }

    fn read(&mut self, now: Instant, command: &Command) -> Instant {
        let there = self.occupy(now + self.config.overhead, command, self.config.read_time);
        self.stats.read += command.extent.len();
        self.transfer(there, command.extent.len())
    }

    /// Into the cache, when there is room; programmed from there.
    fn write(&mut self, now: Instant, command: &Command) -> Instant {
        let (start, len) = (command.extent.offset().get(), command.extent.len().get());
        let mut from = now + self.config.overhead;
        while self.cached_bytes + len > self.config.write_cache.get() {
            let Some((programmed, freed)) = self.cached.pop_front() else { break };
            from = from.max(programmed);
            self.cached_bytes -= freed;
        }
        let arrived = self.transfer(from, Bytes(len));
        let is_sequential = start == self.last_write_end;
        let permille = if is_sequential { 1000 } else { self.config.random_write_permille };
        let program = Nanos(self.config.program_time.0 * permille / 1000);
        let programmed = self.occupy(arrived, command, program);
        self.last_write_end = start + len;
        self.stats.written += Bytes(len);
        self.cached.push_back((programmed, len));
        self.cached_bytes += len;
        if command.fua { programmed } else { arrived }
    }

    /// Everything programmed so far leaves the cache.
    fn settle(&mut self, now: Instant) {
        while let Some(&(programmed, len)) = self.cached.front()
            && programmed <= now
        {
            self.cached.pop_front();
            self.cached_bytes -= len;
        }
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
        self.outstanding += 1;
        assert!(self.outstanding <= self.config.depth, "more commands than the disk holds");
        self.settle(now);
        let at = match command.op {
            Op::Read | Op::Cache => self.read(now, &command),
            Op::Write => self.write(now, &command),
            Op::Flush => {
                let last = self.cached.iter().map(|(at, _)| *at).max();
                last.unwrap_or(now).max(now + self.config.overhead)
            }
            Op::Trim | Op::WriteZeroes => now + self.config.overhead,
        };
        self.stats.busy += at.since(now);
        self.stats.commands_count += 1;
        let completion = Completion { id: command.id, outcome: Outcome::Ok };
        self.ready.insert((at, self.sequence), completion);
        self.sequence += 1;
    }

    fn next(&self) -> Instant {
        self.ready.first_key_value().map_or(Instant::NEVER, |((at, _), _)| *at)
    }

    fn poll(&mut self, now: Instant) -> Option<Completion> {
        let entry = self.ready.first_entry().filter(|entry| entry.key().0 <= now)?;
        self.outstanding -= 1;
        Some(entry.remove())
    }

    fn stats(&self) -> DiskStats {
        self.stats
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::closed_loop;

    fn ssd() -> Box<dyn Disk> {
        (crate::presets::find("ssd-sata").expect("a preset").build)()
    }

    #[test]
    fn it_reaches_the_figures_of_its_data_sheet() {
        // 10 000 reads a second at depth 1, 98 000 at full depth, 540 MB/s in sequence.
        let random = |i: u64| (i * 7_919 % 100_000) * 4096;
        let one = closed_loop(&mut *ssd(), Op::Read, 4096, 1, 2_000, random);
        assert!((9_000..=11_000).contains(&one.per_second), "{one:?}");
        let many = closed_loop(&mut *ssd(), Op::Read, 4096, 31, 20_000, random);
        assert!((85_000..=110_000).contains(&many.per_second), "{many:?}");
        let stream = closed_loop(&mut *ssd(), Op::Read, 131_072, 8, 4_000, |i| i * 131_072);
        assert!((500..=545).contains(&stream.mb_per_second), "{stream:?}");
        let writes = closed_loop(&mut *ssd(), Op::Write, 131_072, 8, 20_000, |i| i * 131_072);
        assert!((480..=530).contains(&writes.mb_per_second), "{writes:?}");
    }

    #[test]
    fn a_flush_waits_for_what_was_written() {
        let mut ssd = ssd();
        let extent = iopace_core::request::Extent::new(Bytes(0), Bytes(1 << 20)).expect("small");
        ssd.submit(Instant(0), Command { id: 1, op: Op::Write, extent, fua: false });
        let written = ssd.next();
        assert!(ssd.poll(written).is_some());
        let empty = iopace_core::request::Extent::EMPTY;
        ssd.submit(written, Command { id: 2, op: Op::Flush, extent: empty, fua: false });
        assert!(ssd.next() > written + Nanos::from_micros(100), "{:?}", ssd.next());
    }
}
