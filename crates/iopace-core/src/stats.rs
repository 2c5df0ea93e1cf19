//! Counts of what a device did. Whole numbers; nothing here decides anything.

use crate::request::{Op, Outcome, Stage, StageTimes, Submit};
use crate::time::Nanos;
use crate::units::Bytes;

mod histogram;
mod tasks;

use histogram::Placed;
pub use histogram::{Histogram, LogHistogram, SmallHistogram};
pub use tasks::TaskAccount;
pub(crate) use tasks::{TaskPlace, Tasks};

/// A request that has ended, as it is counted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Finished<'a> {
    pub(crate) submit: &'a Submit,
    is_done: bool,
    times: &'a StageTimes,
    pub(crate) total: Placed,
}

impl<'a> Finished<'a> {
    /// A request that has ended, where its time went, how it ended, and after how long.
    #[inline(always)]
    pub(crate) fn new(
        submit: &'a Submit,
        times: &'a StageTimes,
        outcome: Outcome,
        total: Nanos,
    ) -> Finished<'a> {
        let (is_done, total) = (outcome == Outcome::Ok, Placed::new(total));
        Finished { submit, is_done, times, total }
    }

    /// Calls `count` for each stage in which it has spent time.
    #[inline(always)]
    pub(crate) fn each_stage(&self, mut count: impl FnMut(Stage, Nanos)) {
        let times = self.times;
        let mut each = |stage, spent: Nanos| {
            if spent > Nanos::ZERO {
                count(stage, spent);
            }
        };
        each(Stage::Admit, times.slot.with(times.budget));
        each(Stage::Sched, times.turn.with(times.anticipation));
        each(Stage::Window, times.window);
        each(Stage::Disk, times.disk);
    }
}

/// A histogram for each stage of the times that are not zero, each made with the first of them. How
/// many times were zero is the number of requests less what was counted: buffered writes
/// ([`OpCounts::paced_count`]) go through stage pace only, all others through all but that.
#[derive(Clone, Debug, Default)]
pub struct StageHistograms<const SUB: usize> {
    stages: [Option<Box<LogHistogram<SUB>>>; Stage::ALL.len()],
}

impl<const SUB: usize> StageHistograms<SUB> {
    /// That of a stage; `None` if nothing has spent time there.
    pub fn get(&self, stage: Stage) -> Option<&LogHistogram<SUB>> {
        self.stages[stage as usize].as_deref()
    }

    /// The same with larger buckets.
    pub fn coarser<const LESS: usize>(&self) -> StageHistograms<LESS> {
        let coarser = |times: &Option<Box<LogHistogram<SUB>>>| {
            times.as_ref().map(|times| Box::new(times.coarser()))
        };
        StageHistograms { stages: self.stages.each_ref().map(coarser) }
    }

    /// Counts what a buffered write waited for.
    pub(crate) fn paced(&mut self, waited: &StageTimes) {
        if waited.pace() > Nanos::ZERO {
            self.add(Stage::Pace, waited.pace());
        }
    }

    /// Counts a time that is not zero.
    #[inline(always)]
    pub(crate) fn add(&mut self, stage: Stage, spent: Nanos) {
        self.stages[stage as usize].get_or_insert_with(LogHistogram::empty).record(spent);
    }
}

/// What a device did for one direction.
#[derive(Clone, Debug, Default)]
pub struct DirectionStats {
    /// Requests finished, failed ones included.
    pub finished_count: u64,
    /// Requests that ended with an error.
    pub failed_count: u64,
    /// Bytes of those that were carried out.
    pub bytes: Bytes,
    /// From arrival to completion.
    pub latency: Histogram,
}

/// What somebody's requests moved and where their time went, as in `io.stat`.
#[derive(Clone, Debug, Default)]
pub struct OpCounts {
    /// Bytes read.
    pub read: Bytes,
    /// Bytes written, zeroes included.
    pub written: Bytes,
    /// Reads finished.
    pub reads_count: u64,
    /// Writes finished, zeroes included.
    pub writes_count: u64,
    /// Bytes discarded.
    pub discarded: Bytes,
    /// Discards (trims) finished.
    pub discards_count: u64,
    /// Flushes finished.
    pub flushes_count: u64,
    /// Requests that ended with an error; their bytes are not counted.
    pub failed_count: u64,
    /// Buffered writes that are over: in memory as a whole, or given up. What they move is counted
    /// twice: in `buffered` as it goes into memory, and as a request with the write-back.
    pub paced_count: u64,
    /// Bytes of buffered writes that are in memory, portion by portion, rewrites of what is dirty
    /// already included.
    pub buffered: Bytes,
    /// Time spent by reason, summed over finished requests and, in stage pace, over buffered writes
    /// that are over.
    pub stages: StageTimes,
    /// The part of `stages` of requests that no task waited for: write-back, but for the little
    /// that a sync waits for. The rest is that of the requests in the histogram of latencies and of
    /// buffered writes.
    pub unawaited: StageTimes,
}

impl OpCounts {
    /// Counts one finished request.
    #[inline(always)]
    pub(crate) fn finish(&mut self, finished: &Finished<'_>) {
        let (ios, bytes) = self.of(finished.submit.op);
        *ios += 1;
        if finished.is_done {
            *bytes += finished.submit.extent.len();
        } else {
            self.failed_count += 1;
        }
        self.stages.add_behind_pace(finished.times, finished.total.time);
        if !finished.submit.sync {
            self.finish_unawaited(finished.times, finished.total.time);
        }
    }

    /// How many of a kind have finished, and their bytes.
    #[inline(always)]
    fn of(&mut self, op: Op) -> (&mut u64, &mut Bytes) {
        // Two comparisons for nearly all.
        if op == Op::Read {
            return (&mut self.reads_count, &mut self.read);
        }
        match op {
            Op::Read | Op::Cache => (&mut self.reads_count, &mut self.read),
            Op::Write | Op::WriteZeroes => (&mut self.writes_count, &mut self.written),
            Op::Trim => (&mut self.discards_count, &mut self.discarded),
            Op::Flush => (&mut self.flushes_count, &mut self.written),
        }
    }

    #[cold]
    #[inline(never)]
    fn finish_unawaited(&mut self, times: &StageTimes, total: Nanos) {
        self.unawaited.add_behind_pace(times, total);
    }

    /// Adds those of another one.
    pub(crate) fn add(&mut self, other: &OpCounts) {
        self.read += other.read;
        self.written += other.written;
        self.reads_count += other.reads_count;
        self.writes_count += other.writes_count;
        self.discarded += other.discarded;
        self.discards_count += other.discards_count;
        self.flushes_count += other.flushes_count;
        self.failed_count += other.failed_count;
        self.paced_count += other.paced_count;
        self.buffered += other.buffered;
        self.stages.add(&other.stages);
        self.unawaited.add(&other.unawaited);
    }

    /// Counts a buffered write that is over.
    pub(crate) fn paced(&mut self, waited: &StageTimes) {
        self.paced_count += 1;
        self.stages.add(waited);
    }

    /// Counts a portion of a buffered write that is in memory.
    pub(crate) fn buffered(&mut self, size: Bytes) {
        self.buffered += size;
    }

    /// Whether anything finished or went into memory.
    pub fn is_any(&self) -> bool {
        self.finished_count() + self.paced_count > 0 || self.buffered > Bytes::ZERO
    }

    /// Requests that have finished, of all kinds.
    pub fn finished_count(&self) -> u64 {
        self.reads_count + self.writes_count + self.discards_count + self.flushes_count
    }

    /// Bytes read and written.
    pub fn moved(&self) -> Bytes {
        self.read + self.written
    }

    /// What was counted since `earlier`, a former state of these counts.
    #[must_use]
    pub fn since(&self, earlier: &OpCounts) -> OpCounts {
        let bytes = |now: Bytes, before: Bytes| Bytes(now.get().saturating_sub(before.get()));
        OpCounts {
            read: bytes(self.read, earlier.read),
            written: bytes(self.written, earlier.written),
            reads_count: self.reads_count.saturating_sub(earlier.reads_count),
            writes_count: self.writes_count.saturating_sub(earlier.writes_count),
            discarded: bytes(self.discarded, earlier.discarded),
            discards_count: self.discards_count.saturating_sub(earlier.discards_count),
            flushes_count: self.flushes_count.saturating_sub(earlier.flushes_count),
            failed_count: self.failed_count.saturating_sub(earlier.failed_count),
            paced_count: self.paced_count.saturating_sub(earlier.paced_count),
            buffered: bytes(self.buffered, earlier.buffered),
            stages: self.stages.since(&earlier.stages),
            unawaited: self.unawaited.since(&earlier.unawaited),
        }
    }
}

/// What a device did.
#[derive(Clone, Debug, Default)]
pub struct DeviceStats {
    /// Reads and cache hints.
    pub read: DirectionStats,
    /// Writes, trims and write-zeroes.
    pub write: DirectionStats,
    /// Flushes.
    pub flush: DirectionStats,
    /// Requests refused at the door because the table was full.
    pub refused_count: u64,
    /// Buffered writes that are over; as [`OpCounts::paced_count`].
    pub paced_count: u64,
    /// Bytes of buffered writes that have gone into memory, portion by portion, rewrites too.
    pub buffered: Bytes,
    /// Time spent by reason, summed over all finished requests and, in stage pace, over buffered
    /// writes that are over.
    pub stages: StageTimes,
    /// The same, as histograms by stage.
    pub by_stage: StageHistograms<16>,
    /// Schedulers exchanged on purpose.
    pub exchanged_count: u64,
    /// Schedulers replaced because they failed.
    pub failed_over_count: u64,
}

/// What a device counts of its requests beside the accounts of its tasks: with the sum of those,
/// [`DeviceStats`] and the account of the root group are told.
#[derive(Clone, Debug, Default)]
pub(crate) struct DeviceCounts {
    /// As they are told, without what the accounts of tasks have and what follows here.
    pub(crate) told: DeviceStats,
    by_stage: [Histogram; Stage::ALL.len()],
    /// By kind (read, write, flush): latencies of requests that tasks waited for, and of others.
    latencies: [[Histogram; 2]; 3],
    failed_counts: [u64; 3],
}

impl DeviceCounts {
    /// Counts a time in a stage that is not zero.
    #[inline(always)]
    pub(crate) fn add(&mut self, stage: Stage, spent: Nanos) {
        self.by_stage[stage as usize].record(spent);
    }

    /// Counts what a buffered write waited for.
    pub(crate) fn paced(&mut self, waited: &StageTimes) {
        if waited.pace() > Nanos::ZERO {
            self.add(Stage::Pace, waited.pace());
        }
    }

    /// The times by stage.
    pub(crate) fn by_stage(&self) -> StageHistograms<16> {
        let any = |times: &Histogram| (times.count() > 0).then(|| Box::new(times.clone()));
        StageHistograms { stages: self.by_stage.each_ref().map(any) }
    }

    /// Counts one finished request, whose times by stage are counted already.
    #[inline(always)]
    pub(crate) fn finish(&mut self, finished: &Finished<'_>) {
        let Submit { op, sync, .. } = *finished.submit;
        let kind = match op {
            Op::Read | Op::Cache => 0,
            Op::Write | Op::Trim | Op::WriteZeroes => 1,
            Op::Flush => 2,
        };
        self.latencies[kind][usize::from(!sync)].record_placed(finished.total);
        if !finished.is_done {
            self.failed_counts[kind] += 1;
        }
    }

    /// What the device did, with the sum of its tasks.
    pub(crate) fn stats(&self, counts: &OpCounts) -> DeviceStats {
        let OpCounts { paced_count, buffered, stages, .. } = *counts;
        let by_stage = self.by_stage();
        let mut stats =
            DeviceStats { paced_count, buffered, stages, by_stage, ..self.told.clone() };
        (stats.read.finished_count, stats.read.bytes) = (counts.reads_count, counts.read);
        stats.write.finished_count = counts.writes_count + counts.discards_count;
        stats.write.bytes = counts.written + counts.discarded;
        stats.flush.finished_count = counts.flushes_count;
        let directions = [&mut stats.read, &mut stats.write, &mut stats.flush];
        for (kind, direction) in directions.into_iter().enumerate() {
            self.latencies[kind].iter().for_each(|latency| direction.latency.merge(latency));
            direction.failed_count = self.failed_counts[kind];
        }
        stats
    }

    /// Latency of the requests that tasks waited for.
    pub(crate) fn latency(&self) -> Histogram {
        let mut all = Histogram::default();
        self.latencies.iter().for_each(|[awaited, _]| all.merge(awaited));
        all
    }
}
