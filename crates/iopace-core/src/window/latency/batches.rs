//! Write-back beside readers: in batches, each followed by the gap that pays for it.
//!
//! ```text
//!            batch (drained)  settles       quiet            next batch
//!   ────────┬───────────────┬─────────┬────────────────────┬──────────►
//!           │◄──── T_b, N_b reads ───►│◄─ T_q, N_q reads ─►│
//!           │◄──────────────── cycle = 16 x taken ────────►│
//!            taken = T_b - N_b x T_q / N_q: the readers' time that the batch used up
//! ```

use super::line::{WriteBackBandwidth, WriteBackLine};
use super::price::{PARTS, ReaderTally, Shape, Shapes};
use super::readers::Readers;
use crate::request::{Done, Op};
use crate::time::{Instant, Nanos};
use crate::units::Bytes;
use crate::verdict::{Reason, Verdict};
use crate::window::base::smooth;
use crate::window::{Narrowed, Started, WRITE_BACK_DEPTH, WindowPicture, WriteBack};

/// A batch takes so many times what a read takes: two seeks are then a quarter of it.
const BATCH_LATENCIES: u64 = 6;

/// Bounds of the time of a batch: what flash programs a page in, twice, since what is left in its
/// cache must not count as quiet; and what a reader bears at a time.
const BATCH_TIME_MIN: Nanos = Nanos::from_millis(1);
const BATCH_TIME_MAX: Nanos = Nanos::from_millis(80);

/// Bounds of the size of a batch, and its size while the bandwidth is not known.
const BATCH_MIN: Bytes = Bytes::from_kib(64);
const BATCH_MAX: Bytes = Bytes::from_mib(64);
const BATCH_UNKNOWN: Bytes = Bytes::from_mib(1);

/// Requests of a batch that may be in line at once: half of the default of slots.
pub(super) const BULK_DEPTH: u32 = 64;

/// A gap is at most so many times its batch (with the seeks and the settling, a thirty-second of
/// the time is for write-back), and never longer than [`GAP_MAX`], whatever it takes from readers.
const GAP_BATCHES: u64 = 31;
pub(super) const GAP_MAX: Nanos = Nanos::from_secs(2);

/// What a flush waits for has such a part of the gap: a task waits on either side.
const AWAITED: u64 = 8;

/// The rate in quiet is looked up again after so much time without quiet, for a twentieth of that.
const PROBE_EVERY: Nanos = Nanos::from_secs(1);
const PROBE: Nanos = Nanos::from_millis(50);

/// The rate in quiet is waited for so long, if there are too few requests to tell.
const LEARN_TIME: Nanos = Nanos::from_millis(500);

/// A trickle lasts for so many reads, within a bound that lets the shapes take turns.
const TRICKLE_READS: u64 = 8;
const TRICKLE_TIME_MAX: Nanos = Nanos::from_millis(200);

/// Time between two events that is nobody's: the host stood still.
const STOOD_STILL: Nanos = Nanos::from_secs(4);

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Phase {
    /// Nobody reads: no brake.
    #[default]
    Free,
    /// Write-back is in line or may come; without a shape: what is left of the free time.
    Batch { shape: Option<Shape>, since: Instant, left: Bytes, time: Nanos },
    /// All is written; what it left behind in queues and caches goes.
    Settle { shape: Option<Shape>, since: Instant, until: Instant },
    /// No write-back.
    Quiet { since: Instant, until: Instant },
}

/// The control of write-back.
#[derive(Debug, Default)]
pub(super) struct Batches {
    phase: Phase,
    /// Time is accounted for up to here.
    mark: Instant,
    readers: Readers,
    line: WriteBackLine,
    /// When the first of the present batch went to the device: its wait in line costs nobody
    /// anything.
    started: Option<Instant>,
    /// The present batch, until it has settled.
    batch: ReaderTally,
    batch_size: Bytes,
    shapes: Shapes,
    /// Time since the last quiet that was long enough to learn from.
    disturbed: Nanos,
    gap: Nanos,
}

impl Batches {
    /// Whether one more request may be put into line.
    pub(super) fn ask(&mut self, now: Instant, in_line: &WriteBack, size: Bytes) -> Verdict {
        self.line.len = in_line.requests_count;
        self.advance(now);
        if self.is_written(now) {
            self.written(now);
        }
        if let Phase::Quiet { since, until } = self.phase {
            let is_known = self.readers.are_known();
            let gap = until.since(since).0 / if in_line.is_awaited { AWAITED } else { 1 };
            let until = since + Nanos(gap);
            // Who waits for an fsync does not wait until it is known whether somebody reads.
            let is_enough = is_known || in_line.is_awaited;
            let from = if is_enough { until } else { until.max(since + LEARN_TIME) };
            if now < from {
                return Verdict::Wait(from, Reason::Window);
            }
            self.begin(now);
        }
        let depth = match self.phase {
            Phase::Free => WRITE_BACK_DEPTH,
            Phase::Settle { until, .. } => return Verdict::Wait(until, Reason::Window),
            Phase::Batch { left, time, .. } if self.is_full(now, left, time) => 0,
            Phase::Batch { shape: Some(Shape::Trickle), .. } => 1,
            Phase::Batch { .. } | Phase::Quiet { .. } => BULK_DEPTH,
        };
        if self.line.len >= depth {
            return Verdict::Wait(Instant::NEVER, Reason::Window);
        }
        self.line.enter(now);
        if let Phase::Batch { left, .. } = &mut self.phase {
            *left = *left - size;
        }
        Verdict::Pass
    }

    pub(super) fn on_start(&mut self, now: Instant, started: &Started) {
        self.advance(now);
        if started.op == Op::Flush {
            return; // Who waits for it waits for write-back, which a gap would only delay.
        }
        if started.sync {
            self.readers.on_start(now);
            self.advance(now);
            return;
        }
        if let Phase::Batch { since, .. } = self.phase
            && self.started.is_none()
        {
            self.started = Some(now);
            self.line.wait = smooth(self.line.wait, now.since(since));
        }
    }

    pub(super) fn on_done(&mut self, now: Instant, done: &Done) {
        self.advance(now);
        if done.op == Op::Flush {
            return;
        }
        if !done.sync {
            return self.write_back_done(now, done);
        }
        let is_counted = self.readers.on_done(now, done, self.quiet_since());
        if is_counted && self.started.is_some() {
            self.batch.count += 1;
        }
    }

    /// One is done that was in the command of another: a request less in line, or one more of a
    /// reader.
    pub(super) fn on_joined_done(&mut self, now: Instant, done: &Done) {
        self.advance(now);
        if !done.sync {
            self.line.done(now);
            if self.is_written(now) {
                self.written(now);
            }
        } else if done.ok {
            self.readers.count(self.quiet_since().is_some());
            self.batch.count += u64::from(self.started.is_some());
        }
    }

    /// Since when there is no write-back, for the sake of readers.
    fn quiet_since(&self) -> Option<Instant> {
        match self.phase {
            Phase::Quiet { since, .. } => Some(since),
            _ => None,
        }
    }

    fn write_back_done(&mut self, now: Instant, done: &Done) {
        self.line.done(now);
        if done.ok {
            if self.is_at_full_speed() {
                self.line.bandwidth.done(done.extent.len());
            }
            self.batch_size += done.extent.len();
        }
        if self.is_written(now) {
            self.written(now);
        }
    }

    /// What is drawn.
    pub(super) fn picture(&self, depth: u32, narrowed: Option<Narrowed>) -> WindowPicture {
        let (write_back_depth, write_back_gap) = match self.phase {
            Phase::Free => (WRITE_BACK_DEPTH, Nanos::ZERO),
            Phase::Batch { shape: Some(Shape::Trickle), .. } => (1, self.gap),
            Phase::Batch { .. } => (BULK_DEPTH, self.gap),
            _ => (0, self.gap),
        };
        let (quiet_latency, latency) = (self.readers.latency_quiet, self.readers.latency);
        WindowPicture { depth, narrowed, write_back_depth, write_back_gap, quiet_latency, latency }
    }

    /// Accounts for the time up to now and takes the steps that are due by themselves.
    fn advance(&mut self, now: Instant) {
        if let Phase::Settle { shape, since, until } = self.phase
            && until <= now
        {
            self.pass(until);
            self.settled(until, shape, since);
        }
        self.pass(now);
        let is_read = self.readers.are_there(now);
        match self.phase {
            Phase::Free if is_read => {
                self.batch = ReaderTally::default();
                let (left, time) = (Bytes::ZERO, Nanos::ZERO);
                self.phase = Phase::Batch { shape: None, since: now, left, time };
                self.started = Some(now);
                if self.line.len == 0 {
                    self.written(now);
                }
            }
            Phase::Free => {}
            _ if !is_read => {
                (self.phase, self.disturbed, self.gap) = (Phase::Free, Nanos::ZERO, Nanos::ZERO);
            }
            // Nothing more was put into line: there is nothing more to write for the moment.
            Phase::Batch { .. } if self.line.is_empty_since(now) => {
                self.written(now);
            }
            _ => {}
        }
    }

    fn pass(&mut self, now: Instant) {
        let passed = now.since(self.mark);
        self.mark = self.mark.max(now);
        if passed > STOOD_STILL {
            return;
        }
        if self.is_at_full_speed() {
            self.line.pass(passed);
        }
        match self.phase {
            Phase::Free => {}
            Phase::Batch { .. } | Phase::Settle { .. } => {
                self.disturbed += passed;
                if self.started.is_some() {
                    self.batch.time += passed;
                }
            }
            Phase::Quiet { .. } => {
                self.readers.pass_quiet(passed);
            }
        }
    }

    /// Whether what is written now shows how fast the device writes.
    fn is_at_full_speed(&self) -> bool {
        match self.phase {
            Phase::Free => true,
            // What the scheduler keeps waiting says nothing about the device.
            Phase::Batch { shape, .. } => {
                self.started.is_some() && !matches!(shape, None | Some(Shape::Trickle))
            }
            _ => false,
        }
    }

    /// Whether a batch is written, and none of it is left.
    fn is_written(&self, now: Instant) -> bool {
        match self.phase {
            Phase::Batch { left, time, .. } => self.line.len == 0 && self.is_full(now, left, time),
            _ => false,
        }
    }

    /// Whether nothing more goes into a batch.
    fn is_full(&self, now: Instant, left: Bytes, time: Nanos) -> bool {
        left == Bytes::ZERO || self.started.is_some_and(|started| now >= started + time)
    }

    /// The time of a batch that waits for its turn for so long.
    fn batch_time(&self, wait: Nanos) -> Nanos {
        let time = self.readers.latency_quiet.times(BATCH_LATENCIES).max(Nanos(wait.0 / PARTS));
        time.clamp(BATCH_TIME_MIN, BATCH_TIME_MAX)
    }

    /// Opens a batch.
    fn begin(&mut self, now: Instant) {
        if let Phase::Quiet { since, .. } = self.phase
            && now.since(since) >= PROBE
        {
            self.disturbed = Nanos::ZERO;
        }
        self.readers.end_gap();
        if self.readers.are_much_faster_than(self.shapes.priced_at) {
            // What was learned from a much slower disk says nothing.
            self.shapes.forget();
            self.line.bandwidth = WriteBackBandwidth::default();
        }
        let time = self.batch_time(self.line.wait);
        let left = self.line.bandwidth.bytes_in(time).unwrap_or(BATCH_UNKNOWN);
        let left = left.clamp(BATCH_MIN, BATCH_MAX);
        let shape = self.shapes.choose(now);
        // A trickle keeps no read waiting for long: it may last until some of them have come.
        let (left, time) = match shape {
            Shape::Trickle => (Bytes(u64::MAX), self.trickle_time()),
            _ => (left, time.times(2)),
        };
        (self.batch, self.batch_size) = (ReaderTally::default(), Bytes::ZERO);
        self.started = None;
        self.phase = Phase::Batch { shape: Some(shape), since: now, left, time };
        self.line.at = now;
    }

    /// The time of a trickle: some reads come in it, however much their readers think.
    fn trickle_time(&self) -> Nanos {
        let quiet = &self.readers.quiet;
        let reads = quiet.time.times(TRICKLE_READS).0.checked_div(quiet.count);
        Nanos(reads.unwrap_or(0)).clamp(self.batch_time(Nanos::ZERO), TRICKLE_TIME_MAX)
    }

    /// How many requests may be at the disk at once.
    pub(super) fn depth_max(&self) -> u32 {
        match self.phase {
            Phase::Batch { shape: Some(Shape::Narrow), .. } if self.started.is_some() => 1,
            _ => u32::MAX,
        }
    }

    /// The last of a batch is done.
    fn written(&mut self, now: Instant) {
        let Phase::Batch { shape, since, .. } = self.phase else { return };
        let latency = self.readers.latency_quiet.min(BATCH_TIME_MAX);
        let settle = self.batch_time(Nanos::ZERO) + latency.times(2);
        let is_probe = self.disturbed >= PROBE_EVERY || !self.readers.are_known();
        if let Some(shape) = shape
            && !is_probe
            && since + self.cycle(shape) <= now
        {
            // Nothing to pay: on with the next.
            self.settled(now, Some(shape), since);
        } else {
            self.phase = Phase::Settle { shape, since, until: now + settle };
        }
    }

    /// How long a cycle lasts that pays for the present batch.
    fn cycle(&self, shape: Shape) -> Nanos {
        self.shapes.cost(shape, self.batch_size).times(PARTS)
    }

    /// A batch is over and its cost is known.
    fn settled(&mut self, now: Instant, shape: Option<Shape>, since: Instant) {
        let mut until = now;
        if let Some(shape) = shape
            && self.readers.quiet.count > 0
            && self.batch_size > Bytes::ZERO
        {
            if self.batch.is_above(&self.readers.quiet) {
                // No batch makes readers faster: there are more of them than was known.
                self.readers.quiet = ReaderTally::default();
            } else {
                let quiet = &self.readers.quiet;
                let turn = (now.since(since), self.batch_size, self.readers.latency_quiet);
                self.shapes.book(shape, turn, (&self.batch, quiet));
            }
            let took = now.since(self.started.unwrap_or(now));
            let gap_max = took.times(GAP_BATCHES).min(GAP_MAX);
            until = (since + self.cycle(shape)).clamp(now, now + gap_max);
        }
        if self.disturbed >= PROBE_EVERY {
            until = until.max(now + PROBE);
        }
        self.gap = until.since(now);
        self.shapes.cycle_set(since, until);
        self.phase = Phase::Quiet { since: now, until };
    }
}
