//! Where the time of each task went, from what was recorded.
//!
//! # Model
//! ```text
//!   arrived ──── held, by reason ────► started ──── service ── behind ── past ────► ended
//!                                                   (alone)    (shared by who was there)
//! ```
//! Of the time that the disk had a request, as much as such a request takes alone is the disk's own
//! for it. The rest is divided among those that were at the disk meanwhile, by the time that they
//! were there beside it, and is no longer than all these times together: nobody loses more than a
//! nanosecond to one other request in a nanosecond. What remains after that is the disk's own too.
//!
//! A flush waits for write-back first. That time goes where the time of the task's write-back went
//! meanwhile.

use super::alone::{APART_MAX, Like, Stay, alone, like};
use super::{LOST_PERMILLE, Nanos};
use crate::figures::permille;
use crate::live::span::{REASONS, Times, place};
use iopace_core::request::{GroupId, Op, TaskId};
use iopace_core::shadow::{Recorded, RecordedKind};
use iopace_core::verdict::Reason;
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// Requests of a task from which on it counts: a mean of fewer is chance.
pub(super) const ENOUGH_COUNT: u64 = 8;

/// Requests of others past iopace, on average, in thousandths, from which on nothing is alone
/// there.
const PAST_MILLI: u128 = 500;

/// Of what is due to a task, in thousandths, from which on it waits behind its own requests.
const DUE_PERMILLE: u128 = 800;

/// The time of a task, as far as it waited for it: of those of its requests that took most in all.
#[derive(Clone, Debug)]
pub(super) struct Split {
    pub(super) task: TaskId,
    pub(super) group: GroupId,
    pub(super) kind: &'static str,
    /// Their places in the recording.
    pub(super) places: Vec<usize>,
    pub(super) count: u64,
    pub(super) total: u128,
    pub(super) held: Times,
    /// The disk's own time for them.
    pub(super) service: u128,
    /// What one takes alone, on average.
    pub(super) alone: Nanos,
    /// Whether that was seen; else it is the shortest time beside others.
    pub(super) alone_seen: bool,
    /// Behind requests of tasks, its own among them; the longest first. None: all the others.
    pub(super) behind: Vec<(Option<TaskId>, u128)>,
    /// Behind others who use the disk past iopace.
    pub(super) past: u128,
    /// Whether it has less of the disk's time than would be its equal part.
    has_little: bool,
}

impl Split {
    /// The time that it loses to others: behind theirs at the disk, past iopace, and held by iopace
    /// for what others have (not for a limit, nor for memory).
    pub(super) fn lost(&self) -> u128 {
        let of_others = self.behind.iter().filter(|(task, _)| *task != Some(self.task));
        let behind: u128 = of_others.map(|(_, time)| time).sum();
        let held = [Reason::Slot, Reason::Turn, Reason::Anticipation, Reason::Window];
        let held: u128 = held.into_iter().map(|reason| self.held[place(reason)]).sum();
        behind + held + self.past
    }

    /// Whether it loses much to others, and has less than its part beside those of iopace.
    pub(super) fn loses(&self) -> bool {
        let is_past = permille(self.past, self.total) >= LOST_PERMILLE;
        (self.has_little || is_past)
            && self.count >= ENOUGH_COUNT
            && permille(self.lost(), self.total) >= LOST_PERMILLE
    }
}

/// The tasks that waited for something, the one that loses most to others first. `past` is the time
/// of the requests of others past iopace, added up, in the time of the look.
pub(super) fn of(ended: &[Recorded], past: (u64, Nanos)) -> Vec<Split> {
    let disk = Disk::of(ended, past);
    let mut places: BTreeMap<(TaskId, Kind), Vec<usize>> = BTreeMap::new();
    for (place, one) in ended.iter().enumerate() {
        if let Some(kind) = Kind::of(one) {
            places.entry((one.submit.task, kind)).or_default().push(place);
        }
    }
    // Of each task, the kind that took longest in all.
    let total = |places: &[usize]| -> u128 {
        places.iter().map(|place| u128::from(ended[*place].times.total().as_nanos())).sum()
    };
    let mut longest: BTreeMap<TaskId, (u128, Kind, Vec<usize>)> = BTreeMap::new();
    for ((task, kind), places) in places {
        let total = total(&places);
        let known = longest.get(&task).is_none_or(|(most, ..)| total > *most);
        if known {
            longest.insert(task, (total, kind, places));
        }
    }
    let used: u128 = disk.used.values().sum();
    let tasks_count = longest.len().max(1) as u128;
    let mut all: Vec<Split> = longest
        .into_iter()
        .map(|(task, (_, kind, places))| {
            let mut split = disk.split(ended, task, kind, places);
            let own = disk.used.get(&task).copied().unwrap_or_default();
            split.has_little = own * tasks_count * 1_000 < used * DUE_PERMILLE;
            split
        })
        .collect();
    all.sort_by_key(|split| {
        let each = split.lost() / u128::from(split.count.max(1));
        Reverse((split.loses(), split.count >= ENOUGH_COUNT, each))
    });
    all
}

/// What a task waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Request,
    Sync,
    Buffered,
}

impl Kind {
    /// None for write-back, and for requests that nobody waits for.
    fn of(one: &Recorded) -> Option<Kind> {
        match one.kind {
            RecordedKind::Request => one.submit.sync.then_some(Kind::Request),
            RecordedKind::Flush => Some(Kind::Sync),
            RecordedKind::Buffered => Some(Kind::Buffered),
            RecordedKind::WriteBack => None,
        }
    }
}

/// What went on at the disk.
struct Disk {
    /// By place in the recording; none of what was not there.
    stays: Vec<Option<Stay>>,
    /// The tasks that are told apart.
    tasks: Vec<TaskId>,
    alone: BTreeMap<Like, (Nanos, bool)>,
    /// Requests of others past iopace that it had on average, in thousandths.
    past_milli: u128,
    /// The disk's own time for each task's requests.
    used: BTreeMap<TaskId, u128>,
}

impl Disk {
    fn of(ended: &[Recorded], (past_ns, over): (u64, Nanos)) -> Disk {
        let mut there: BTreeMap<TaskId, u64> = BTreeMap::new();
        for one in ended.iter().filter(|one| one.was_at_disk()) {
            *there.entry(one.submit.task).or_default() += one.took().as_nanos();
        }
        let mut tasks: Vec<(TaskId, u64)> = there.into_iter().collect();
        tasks.sort_by_key(|(task, time)| (Reverse(*time), *task));
        let tasks: Vec<TaskId> = tasks.into_iter().take(APART_MAX).map(|(task, _)| task).collect();
        let stays = stays(ended, &tasks);
        let past_milli = u128::from(past_ns) * 1_000 / u128::from(over.as_nanos().max(1));
        let alone = alone(ended, &stays, past_milli < PAST_MILLI);
        let mut disk = Disk { stays, tasks, alone, past_milli, used: BTreeMap::new() };
        for (place, one) in ended.iter().enumerate() {
            let own = disk.at_disk(place, one).service;
            *disk.used.entry(one.submit.task).or_default() += own;
        }
        disk
    }

    /// Where the time of a request at the disk went.
    fn at_disk(&self, place: usize, one: &Recorded) -> AtDisk {
        let mut parts = AtDisk::default();
        let Some(stay) = &self.stays[place] else { return parts };
        let took = u128::from(stay.took.as_nanos());
        let alone = self.alone.get(&like(one)).map_or(stay.took, |(alone, _)| *alone);
        let rest = took.saturating_sub(alone.as_nanos().into());
        let past = took * self.past_milli / 1_000;
        let beside: u128 = stay.beside.iter().map(|time| u128::from(*time)).sum::<u128>() + past;
        let lost = rest.min(beside);
        let share = |time: u128| (lost * time).checked_div(beside).unwrap_or(0);
        for (sum, time) in parts.behind.iter_mut().zip(stay.beside) {
            *sum = share(time.into());
        }
        parts.past = share(past);
        parts.service = took - parts.behind.iter().sum::<u128>() - parts.past;
        parts
    }

    fn split(&self, ended: &[Recorded], task: TaskId, kind: Kind, places: Vec<usize>) -> Split {
        let (mut held, mut parts, mut total) = (Times::default(), AtDisk::default(), 0);
        let (mut alone, mut alone_seen) = (0, true);
        let write_back = if kind == Kind::Sync { self.write_back(ended, task) } else { Vec::new() };
        for place in &places {
            let one = &ended[*place];
            total += u128::from(one.times.total().as_nanos());
            for (sum, time) in held.iter_mut().zip(by_reason(one)) {
                *sum += time;
            }
            parts.add(&self.at_disk(*place, one), 1, 1);
            self.add_written(one, &write_back, (&mut held, &mut parts));
            let (time, is_seen) = self.alone.get(&like(one)).copied().unwrap_or_default();
            alone += u128::from(time.as_nanos());
            alone_seen &= is_seen || !one.was_at_disk();
        }
        let count = places.len() as u64;
        let apart = self.tasks.iter().map(|task| Some(*task)).chain([None]);
        let mut behind: Vec<_> = apart
            .enumerate()
            .map(|(at, task)| (task, parts.behind[if task.is_some() { at } else { APART_MAX }]))
            .filter(|(_, time)| *time > 0)
            .collect();
        behind.sort_by_key(|(_, time)| Reverse(*time));
        Split {
            task,
            group: places.first().map_or(GroupId::ROOT, |place| ended[*place].submit.group),
            kind: name(kind, places.iter().map(|place| ended[*place].submit.op)),
            count,
            total,
            held,
            service: parts.service,
            alone: super::nanos(alone / u128::from(count.max(1))),
            alone_seen,
            behind,
            past: parts.past,
            has_little: false,
            places,
        }
    }

    /// The write-back of a task: when it was in line or at the disk, and where its time went.
    fn write_back<'a>(&self, ended: &'a [Recorded], task: TaskId) -> Vec<(&'a Recorded, AtDisk)> {
        let all = ended
            .iter()
            .enumerate()
            .filter(|(_, one)| one.kind == RecordedKind::WriteBack && one.submit.task == task);
        all.map(|(place, one)| (one, self.at_disk(place, one))).collect()
    }

    /// The time that a flush waited for write-back goes where the time of that went.
    fn add_written(
        &self,
        flush: &Recorded,
        write_back: &[(&Recorded, AtDisk)],
        (held, parts): (&mut Times, &mut AtDisk),
    ) {
        let written = u128::from(flush.written.as_nanos());
        let until = flush.arrived + flush.written;
        // They are in order of their ends: the first of those that end after it came.
        let first = write_back.partition_point(|(run, _)| run.ended <= flush.arrived);
        let during: Vec<&(&Recorded, AtDisk)> =
            write_back[first..].iter().take_while(|(run, _)| run.ended <= until).collect();
        let whole: u128 =
            during.iter().map(|(run, _)| u128::from(run.times.total().as_nanos())).sum();
        if whole == 0 {
            parts.service += written;
            return;
        }
        let mut given = 0;
        for (run, at_disk) in during {
            parts.add(at_disk, written, whole);
            given += at_disk.total() * written / whole;
            for (sum, time) in held.iter_mut().zip(by_reason(run)) {
                *sum += time * written / whole;
                given += time * written / whole;
            }
        }
        // What rounding has left.
        parts.service += written.saturating_sub(given);
    }
}

/// Where time at the disk went.
#[derive(Clone, Debug, Default)]
struct AtDisk {
    service: u128,
    behind: [u128; APART_MAX + 1],
    past: u128,
}

impl AtDisk {
    /// Adds a part of another.
    fn add(&mut self, other: &AtDisk, part: u128, whole: u128) {
        self.service += other.service * part / whole;
        self.past += other.past * part / whole;
        for (sum, time) in self.behind.iter_mut().zip(other.behind) {
            *sum += time * part / whole;
        }
    }

    fn total(&self) -> u128 {
        self.service + self.past + self.behind.iter().sum::<u128>()
    }
}

/// The time of a request before the disk, by reason.
fn by_reason(one: &Recorded) -> Times {
    REASONS.map(|reason| match reason {
        Reason::Disk => 0,
        other => u128::from(one.times.by_reason(other).as_nanos()),
    })
}

fn name(kind: Kind, ops: impl Iterator<Item = Op>) -> &'static str {
    match kind {
        Kind::Sync => "syncs",
        Kind::Buffered => "buffered writes",
        Kind::Request => {
            let (mut reads, mut count) = (0_u64, 0_u64);
            ops.for_each(|op| (reads, count) = (reads + u64::from(op == Op::Read), count + 1));
            // Told as reads where nearly all are.
            if reads * 10 >= count * 9 { "reads" } else { "requests" }
        }
    }
}

/// How long each was at the disk, and who was there beside it.
fn stays(ended: &[Recorded], tasks: &[TaskId]) -> Vec<Option<Stay>> {
    let place_of = |one: &Recorded| {
        tasks.iter().position(|task| *task == one.submit.task).unwrap_or(APART_MAX)
    };
    let mut moments: Vec<(u64, bool, usize)> = Vec::with_capacity(ended.len() * 2);
    for (place, one) in ended.iter().enumerate().filter(|(_, one)| one.was_at_disk()) {
        moments.push((one.started.0, false, place));
        moments.push((one.ended.0, true, place));
    }
    moments.sort_unstable();
    let mut stays: Vec<Option<Stay>> = Vec::new();
    stays.resize_with(ended.len(), || None);
    // The time of all that was there until now, by task, and how many are there.
    let mut sums = [0_u64; APART_MAX + 1];
    let mut now = [0_u64; APART_MAX + 1];
    let mut last = 0;
    for (at, is_end, place) in moments {
        for (sum, count) in sums.iter_mut().zip(now) {
            *sum = sum.wrapping_add(count.wrapping_mul(at - last));
        }
        last = at;
        let one = &ended[place];
        let task = place_of(one);
        if !is_end {
            now[task] += 1;
            stays[place] = Some(Stay { took: one.took(), beside: sums });
            continue;
        }
        now[task] = now[task].saturating_sub(1);
        if let Some(stay) = &mut stays[place] {
            for (began, sum) in stay.beside.iter_mut().zip(sums) {
                *began = sum.wrapping_sub(*began);
            }
            // It was not beside itself.
            stay.beside[task] = stay.beside[task].saturating_sub(stay.took.as_nanos());
        }
    }
    stays
}
