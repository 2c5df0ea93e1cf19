//! One look at all devices and groups, and the report of what happened since the last one.
//!
//! No lock is held for more than a few groups of one device; what is to be listed is chosen and put
//! into words afterwards.

use super::activity::{Counted, activity, now};
use super::tasks::FormerTasks;
use super::{give_way, giving_way};
use crate::api::{LiveDevice, LiveGroup, LiveReport};
use crate::clock;
use crate::device::Device;
use crate::groups::{Groups, Named};
use crate::limits::{LIVE_GROUPS_IDLE_MAX, LIVE_GROUPS_LOOK, LIVE_GROUPS_MAX, LOOK_PAUSE};
use crate::process::Proc;
use crate::report;
use iopace_core::admit::GroupSlots;
use iopace_core::engine::{Engine, GroupWaits, Status, WaitingNow};
use iopace_core::group::accounts::Account;
use iopace_core::group::{Class, Rates, Settings};
use iopace_core::pace::PacePicture;
use iopace_core::request::GroupId;
use iopace_core::sched::DiskView;
use iopace_core::time::{Instant, Nanos};
use iopace_core::trace::Event;
use iopace_core::units::Bytes;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::{Arc, Weak};
use std::thread;

/// Who looks.
pub(super) struct Looker {
    devices: Vec<(Weak<dyn Device>, Former)>,
    groups: Arc<Groups>,
    began: Instant,
    last: Instant,
    sequence: u64,
    /// Where everything stands, to be used again.
    waiting: WaitingNow,
}

impl Looker {
    pub(super) fn new(groups: Arc<Groups>) -> Looker {
        let devices = Vec::new();
        let now = clock::now();
        let (waiting, sequence) = (WaitingNow::default(), 0);
        Looker { devices, groups, began: now, last: now, sequence, waiting }
    }

    /// What happened since the last look. The first one of a device is where all begins; a device
    /// that was added since is in the next report.
    pub(super) fn look(&mut self) -> LiveReport {
        let names = self.groups.named();
        let now = clock::now();
        let interval = now.since(self.last);
        let around = Around { names: &names, proc: &*self.groups.proc(), last: self.last };
        let open = self.groups.device_table().all();
        let fresh = keep_only(&mut self.devices, &open);
        let is_first = self.sequence == 0;
        let (devices, waiting) = (self.devices.iter_mut().zip(open.iter()), &mut self.waiting);
        let seen = devices.enumerate().filter_map(|(place, ((_, former), device))| {
            let seen = live_device(&**device, &around, former, waiting);
            (is_first || place < fresh).then_some(seen)
        });
        let report = LiveReport {
            sequence: self.sequence,
            uptime_ns: now.since(self.began).as_nanos(),
            interval_ns: interval.as_nanos(),
            devices: seen.collect(),
        };
        self.last = now;
        self.sequence += 1;
        report
    }
}

/// Has the list be of those devices that are open, in their order: new ones are the last. The place
/// of the first that was not in the list.
fn keep_only(known: &mut Vec<(Weak<dyn Device>, Former)>, open: &[Arc<dyn Device>]) -> usize {
    let is = |one: &Weak<dyn Device>, device: &Arc<dyn Device>| {
        std::ptr::addr_eq(one.as_ptr(), Arc::as_ptr(device))
    };
    known.retain(|(one, _)| open.iter().any(|device| is(one, device)));
    let fresh = known.len();
    let new = open[fresh..].iter().map(|device| (Arc::downgrade(device), Former::default()));
    known.extend(new);
    fresh
}

/// What is the same for all devices in one look.
struct Around<'a> {
    names: &'a [Named],
    proc: &'a dyn Proc,
    /// The last look.
    last: Instant,
}

/// What the groups of a device had counted at the last look, and in which look that was.
#[derive(Default)]
struct Former {
    look: u64,
    tasks: FormerTasks,
    groups: BTreeMap<GroupId, Before>,
    /// When groups were looked at last, and when tasks were: rates are those since then.
    at: Option<Instant>,
    tasks_at: Option<Instant>,
    /// Whether its scheduler took the disk for one with a head.
    has_head: bool,
}

/// A group at the last look.
#[derive(Default)]
struct Before {
    look: u64,
    at: Option<Instant>,
    counted: Counted,
}

impl Former {
    /// What a group has counted since it was looked at last, and how long ago that is `now`. One
    /// that is new has counted since the device was looked at.
    fn since(&mut self, id: GroupId, account: &Account, now: Instant) -> (Counted, Nanos) {
        let before = self.groups.entry(id).or_default();
        before.look = self.look;
        let last = before.at.replace(now).or(self.at).unwrap_or(now);
        (before.counted.since(account), now.since(last))
    }

    /// The same of latencies, after the lock.
    fn end_one(&mut self, id: GroupId, since: &mut Counted) {
        if let Some(before) = self.groups.get_mut(&id) {
            before.counted.end(since);
        }
    }

    /// Tells of a scheduler that has changed its mind about the disk.
    fn judge_disk(&mut self, device: &dyn Device, engine: &Status) {
        let Some(DiskView { has_head: Some(has_head), seek, .. }) = engine.disk else { return };
        if std::mem::replace(&mut self.has_head, has_head) != has_head {
            let name = engine.algorithm.name;
            device.look(&mut |_, events| events.add(Event::DiskJudged { name, has_head, seek }));
        }
    }

    /// Forgets the groups that were not there in this look.
    fn end(&mut self) {
        let present = self.look;
        self.groups.retain(|_, before| before.look == present);
        self.look += 1;
    }
}

impl Counted {
    /// What was counted since this, which is what was counted now from then on; but for latencies:
    /// they are those until now, for [`Counted::end`], as this is under a device's lock.
    pub(super) fn since(&mut self, account: &Account) -> Counted {
        let Account { counts, latency, .. } = account;
        let former = self;
        if counts.finished_count() < former.counts.finished_count() {
            // Another group has the number now.
            *former = Counted::default();
        }
        let since = counts.since(&former.counts);
        if !since.is_any() {
            return Counted { counts: since, latency: None };
        }
        former.counts.clone_from(counts);
        Counted { counts: since, latency: latency.clone() }
    }

    /// Makes those until now those since this.
    pub(super) fn end(&mut self, since: &mut Counted) {
        let Some(now) = since.latency.take() else { return };
        since.latency = match self.latency.take() {
            None => Some(now.clone()),
            Some(mut before) => {
                *before = now.since(&before);
                Some(before)
            }
        };
        self.latency = Some(now);
    }
}

/// A group on a device, as of this look.
struct Seen {
    /// Its place among all groups.
    place: usize,
    since: Counted,
    /// For how long.
    interval: Nanos,
    settings: Settings,
    slots: GroupSlots,
    dirty: Bytes,
    pace: Option<PacePicture>,
    rank: Rank,
}

/// Who is listed if not all can be: the smaller first.
type Key = (Rank, Reverse<Bytes>);

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Rank {
    /// Something finished in the interval.
    Active,
    /// It has something here.
    Here,
    /// Something is set for it here.
    Set,
    Blank,
}

/// Looks at all groups that the device knows, in the order of `names`.
fn see(device: &dyn Device, names: &[Named], former: &mut Former) -> Vec<Seen> {
    let (mut all, mut first_at) = (Vec::<Seen>::with_capacity(names.len()), None);
    for (piece, chunk) in names.chunks(LIVE_GROUPS_LOOK).enumerate() {
        if piece > 0 {
            thread::sleep(LOOK_PAUSE);
        }
        let begin = all.len();
        device.look(&mut |engine, _| {
            // As late as the lock was got, not when it was asked for.
            let now = clock::now();
            first_at.get_or_insert(now);
            let first = piece * LIVE_GROUPS_LOOK;
            let places = (first..).zip(chunk);
            all.extend(
                places.filter_map(|(place, named)| see_one(engine, place, (named.id, now), former)),
            );
        });
        for seen in &mut all[begin..] {
            former.end_one(names[seen.place].id, &mut seen.since);
        }
    }
    former.at = first_at.or(former.at);
    former.end();
    all
}

fn see_one(
    engine: &Engine,
    place: usize,
    (id, now): (GroupId, Instant),
    former: &mut Former,
) -> Option<Seen> {
    let account = engine.account(id)?;
    let (since, interval) = former.since(id, &account, now);
    let (slots, dirty) = (engine.group_slots(id), engine.dirty(id).group);
    let is_here = account.below_count() > 0 || slots != GroupSlots::default() || dirty.get() > 0;
    let settings = *engine.groups().settings(id);
    let is_active = since.counts.is_any();
    let rank = match (is_active, is_here, settings != Settings::default()) {
        (true, ..) => Rank::Active,
        (_, true, _) => Rank::Here,
        (.., true) => Rank::Set,
        _ => Rank::Blank,
    };
    let pace = (rank < Rank::Blank).then(|| engine.group_pace_picture(id)).flatten();
    Some(Seen { place, since, interval, settings, slots, dirty, pace, rank })
}

/// Those that are listed, in the order of `names`. A group comes before those below it.
fn choose(mut all: Vec<Seen>, names: &[Named]) -> Vec<Seen> {
    let mut keys: Vec<Key> = vec![(Rank::Blank, Reverse(Bytes::ZERO)); names.len()];
    for seen in all.iter().rev() {
        let counts = &seen.since.counts;
        let own = (seen.rank, Reverse(counts.read + counts.written.max(counts.buffered)));
        let key = keys[seen.place].min(own);
        keys[seen.place] = key;
        if let Some(parent) = names[seen.place].parent {
            keys[parent] = keys[parent].min(key);
        }
    }
    all.sort_by_key(|seen| (keys[seen.place], seen.place));
    let wanted_count = all.iter().filter(|seen| keys[seen.place].0 < Rank::Blank).count();
    all.truncate(wanted_count.clamp(LIVE_GROUPS_IDLE_MAX, LIVE_GROUPS_MAX));
    all.sort_by_key(|seen| seen.place);
    all
}

/// Where the requests of each group and of all below it stand, in the order of `names`.
fn stand(names: &[Named], waiting: &WaitingNow) -> Vec<GroupWaits> {
    let mut all: Vec<GroupWaits> = names.iter().map(|named| waiting.of(named.id)).collect();
    for place in (0..all.len()).rev() {
        if let Some(parent) = names[place].parent {
            let below = all[place];
            all[parent].merge(&below);
        }
    }
    all
}

fn live_device(
    device: &dyn Device,
    around: &Around<'_>,
    former: &mut Former,
    waiting: &mut WaitingNow,
) -> LiveDevice {
    let names = around.names;
    let seen = see(device, names, former);
    let (info, status) = (device.info(), device.status());
    device.waiting_now(waiting);
    give_way();
    let stand = stand(names, waiting);
    let paths: BTreeMap<GroupId, &str> =
        names.iter().map(|named| (named.id, &*named.path)).collect();
    let now_at = clock::now();
    let tasks_last = former.tasks_at.replace(now_at).unwrap_or(around.last);
    let since = (tasks_last, now_at.since(tasks_last));
    let tasks = former.tasks.look(device, around.proc, since, &paths);
    give_way();
    let engine = &status.engine;
    former.judge_disk(device, engine);
    let known_count = seen.len();
    let listed = choose(seen, names);
    // The root has counted what all others have, and is the first.
    let all = listed.first().map(|root| (root.since.clone(), root.interval));
    let (all, interval) = all.unwrap_or_default();
    let group = |seen: &Seen| live_group(&names[seen.place].path, seen, &stand);
    let groups: Vec<LiveGroup> = giving_way(listed.iter()).map(group).collect();
    LiveDevice {
        device: info.name.clone(),
        kind: info.kind.into(),
        scheduler: engine.algorithm.name.into(),
        inserted: engine.inserted,
        auto: report::is_auto(info, engine),
        disk: report::disk(engine),
        activity: activity(&all, interval, now(&waiting.all())),
        queue: report::queue(engine, status.stats.refused_count),
        window: report::windowed(engine, &status.window, status.has_host_share),
        pace: status.memory.as_ref().map(|memory| report::paced(engine, memory)),
        groups_left_out_count: known_count - groups.len(),
        groups,
        tasks,
    }
}

fn live_group(path: &str, seen: &Seen, stand: &[GroupWaits]) -> LiveGroup {
    let class = match seen.settings.class {
        Class::RealTime => "rt",
        Class::BestEffort => "be",
        Class::Idle => "idle",
    };
    LiveGroup {
        group: path.into(),
        activity: activity(&seen.since, seen.interval, now(&stand[seen.place])),
        weight: seen.settings.weight.get(),
        class: class.into(),
        limited: seen.settings.max.sustained != Rates::default(),
        slots_taken_count: seen.slots.taken_count,
        dirty_bytes: seen.dirty.get(),
        pace: seen.pace.as_ref().map(|picture| report::picture(picture, seen.dirty)),
        promise: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A second look that is late, as behind a device that takes long, and a third in time.
    #[test]
    fn rates_are_those_since_the_group_was_looked_at() {
        let (mut former, mut account) = (Former::default(), Account::default());
        let ms = |time: u64| Instant(time * 1_000_000);
        let (_, first) = former.since(GroupId(1), &account, ms(1_000));
        assert_eq!(first, Nanos(0), "nothing is known of the time before");
        former.at = Some(ms(1_000));
        former.end();
        for (at, reads) in [(2_100, 110), (3_000, 200), (4_000, 300)] {
            account.counts.reads_count = reads;
            let (since, interval) = former.since(GroupId(1), &account, ms(at));
            let told = activity(&since, interval, now(&GroupWaits::default()));
            assert_eq!(told.read.ops_milli_s, 100_000, "100 a second, after {at} ms");
            former.at = Some(ms(at));
            former.end();
        }
        // One that was made since then.
        assert_eq!(former.since(GroupId(2), &account, ms(4_500)).1, Nanos::from_millis(500));
    }
}
