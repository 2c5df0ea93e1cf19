//! Clients around a real engine, with a disk that takes so long for each request, on a clock of
//! their own; and live reports of what it did.

use super::activity::{Counted, activity};
use super::limits::SettingsOf;
use crate::api::{LiveDevice, LiveGroup, LiveReport, WaitCounts};
use crate::device::MemoryStatus;
use crate::report;
use iopace_core::engine::{Config, Control, Engine, Input, Output, WaitingNow};
use iopace_core::group::{Class, Rates, Settings};
use iopace_core::pace::Thresholds;
use iopace_core::request::{Extent, GroupId, Op, Outcome, RequestId, Submit, Tag, TaskId};
use iopace_core::sched::{self, Algorithm};
use iopace_core::time::{Instant, Nanos};
use iopace_core::units::Bytes;
use iopace_core::verdict::Reason;
use std::collections::BTreeMap;
use std::num::NonZeroU64;

pub(super) const MS: u64 = 1_000_000;

/// The groups that there are: number, number of the parent, path.
pub(super) const GROUPS: [(u32, u32, &str); 4] =
    [(0, 0, "/"), (1, 0, "/vms"), (2, 1, "/vms/web"), (3, 1, "/vms/db")];
pub(super) const VMS: GroupId = GroupId(1);
pub(super) const WEB: GroupId = GroupId(2);
pub(super) const DB: GroupId = GroupId(3);

/// A task that keeps so many requests there, each so long after the answer of one before it.
#[derive(Clone, Copy)]
pub(super) struct Client {
    pub(super) task: u64,
    pub(super) group: GroupId,
    pub(super) depth: u64,
    pub(super) think: u64,
    pub(super) buffered: bool,
}

impl Client {
    pub(super) fn new(task: u64, group: GroupId, depth: u64) -> Client {
        Client { task, group, depth, think: 0, buffered: false }
    }

    pub(super) fn writer(task: u64, group: GroupId) -> Client {
        Client { buffered: true, ..Client::new(task, group, 4) }
    }
}

pub(super) struct Bench {
    pub(super) engine: Engine,
    pub(super) now: u64,
    /// Time of the disk for a request; none is answered while there is none.
    pub(super) service: Option<u64>,
    pub(super) clients: Vec<Client>,
    pub(super) settings: SettingsOf,
    due: BTreeMap<(u64, u64), usize>,
    disk: BTreeMap<u64, RequestId>,
    tag: u64,
    memory: Thresholds,
    former: BTreeMap<u32, Counted>,
    sequence: u64,
}

pub(super) fn scheduler(name: &str) -> &'static Algorithm {
    sched::find(name).expect("in the registry")
}

impl Bench {
    pub(super) fn new(config: Config, clients: &[Client]) -> Bench {
        let memory = config.memory;
        let mut bench = Bench {
            engine: Engine::new(config),
            now: 0,
            service: Some(MS),
            clients: clients.to_vec(),
            settings: SettingsOf::new(),
            due: BTreeMap::new(),
            disk: BTreeMap::new(),
            tag: 0,
            memory,
            former: BTreeMap::new(),
            sequence: 0,
        };
        for (id, ..) in GROUPS {
            bench.set(GroupId(id), Settings::default());
        }
        for (place, client) in clients.iter().enumerate() {
            (0..client.depth).for_each(|_| bench.submit_at(1, place));
        }
        bench
    }

    pub(super) fn set(&mut self, id: GroupId, settings: Settings) {
        let (_, parent, path) = GROUPS[id.0 as usize];
        self.settings.insert(path.into(), settings);
        let control = Control::SetGroup(id, GroupId(parent), settings);
        self.engine.control(Instant(self.now), control).expect("a group may be set");
        self.drain();
    }

    /// A task dirties no more than so many bytes per second.
    pub(super) fn cap(&mut self, task: u64, rate: u64) {
        let control = Control::TaskCap(TaskId(task), NonZeroU64::new(rate));
        self.engine.control(Instant(self.now), control).expect("a task may be capped");
        self.drain();
    }

    pub(super) fn insert(&mut self, name: &str) {
        let algorithm = scheduler(name);
        let control = Control::Insert(algorithm, algorithm.defaults());
        self.engine.control(Instant(self.now), control).expect("none is inserted");
        self.drain();
    }

    fn submit_at(&mut self, at: u64, client: usize) {
        self.due.insert((at, self.tag), client);
        self.tag += 1;
    }

    fn submit_due(&mut self) {
        while let Some((&(at, tag), &place)) = self.due.first_key_value() {
            if at > self.now {
                return;
            }
            self.due.pop_first();
            let Client { task, group, buffered, .. } = self.clients[place];
            let offset = Bytes((task << 40) + (tag << 12));
            let extent = Extent::new(offset, Bytes(4096)).expect("small");
            let (tag, task) = (Tag(place as u64), TaskId(task));
            let submit =
                || Submit { tag, task, group, op: Op::Read, extent, sync: true, fua: false };
            let input = match buffered {
                true => Input::Dirtied { tag, task, group, area: extent.into() },
                false => Input::Submit(submit()),
            };
            self.engine.handle(Instant(self.now), input);
        }
    }

    fn answered(&mut self, tag: Tag) {
        let place = tag.0 as usize;
        self.submit_at(self.now + self.clients[place].think + 1, place);
    }

    fn drain(&mut self) -> u64 {
        loop {
            match self.engine.poll(Instant(self.now)) {
                Output::Start(start) => {
                    let free = self.disk.last_key_value().map_or(self.now, |(at, _)| *at);
                    // One that stalls has all the time there is, and each its own key.
                    let stalled = u64::MAX / 2 - 1_000_000;
                    let done = self.service.map_or(free.max(stalled) + 1, |time| free + time);
                    self.disk.insert(done, start.id);
                }
                Output::Finish(finish) => self.answered(finish.tag),
                Output::Resume(resume) => {
                    let id = resume.id;
                    self.engine.handle(Instant(self.now), Input::Wrote { id, ok: true });
                    self.answered(resume.tag);
                }
                Output::Cleaned(_) | Output::Event(_) => {}
                Output::Wait(at, _) => return at.0,
            }
        }
    }

    fn run_until(&mut self, end: u64) {
        loop {
            self.submit_due();
            if let Some((&at, &id)) = self.disk.first_key_value()
                && at <= self.now
            {
                self.disk.pop_first();
                self.engine.handle(Instant(self.now), Input::Done { id, outcome: Outcome::Ok });
            }
            let wake = self.drain();
            let due = self.due.first_key_value().map_or(u64::MAX, |((at, _), _)| *at);
            let done = self.disk.first_key_value().map_or(u64::MAX, |(at, _)| *at);
            let next = wake.min(due).min(done);
            if next > end {
                self.now = end;
                return;
            }
            self.now = next.max(self.now);
        }
    }

    /// Runs for a second and reports of it.
    pub(super) fn second(&mut self) -> LiveReport {
        self.run_until(self.now + 1_000 * MS);
        self.sequence += 1;
        LiveReport {
            sequence: self.sequence,
            uptime_ns: self.now,
            interval_ns: 1_000 * MS,
            devices: vec![self.device()],
        }
    }

    pub(super) fn seconds(&mut self, count: usize) -> Vec<LiveReport> {
        (0..count).map(|_| self.second()).collect()
    }

    fn device(&mut self) -> LiveDevice {
        let mut waiting = WaitingNow::default();
        self.engine.waiting_now(Instant(self.now), &mut waiting);
        let groups = GROUPS.map(|(id, _, path)| self.group(GroupId(id), path, &waiting));
        let status = self.engine.status();
        let memory = MemoryStatus::of(&self.engine, self.memory);
        LiveDevice {
            device: "disk".into(),
            kind: "emulated".into(),
            scheduler: status.algorithm.name.into(),
            inserted: status.inserted,
            auto: !status.inserted,
            disk: report::disk(&status),
            activity: groups[0].activity.clone(),
            queue: report::queue(&status, 0),
            window: report::windowed(&status, &self.engine.window_picture(), false),
            pace: Some(report::paced(&status, &memory)),
            groups: groups.into(),
            groups_left_out_count: 0,
            tasks: Vec::new(),
        }
    }

    fn group(&mut self, id: GroupId, path: &str, waiting: &WaitingNow) -> LiveGroup {
        let (account, slots) = self.engine.group(id).expect("known");
        let former = self.former.entry(id.0).or_default();
        let latency = account.latency.as_ref().map(|after| match &former.latency {
            Some(before) => Box::new(after.since(before)),
            None => after.clone(),
        });
        let since = Counted { counts: account.counts.since(&former.counts), latency };
        *former = Counted { counts: account.counts.clone(), latency: account.latency.clone() };
        let settings = *self.engine.groups().settings(id);
        LiveGroup {
            group: path.into(),
            activity: activity(&since, Nanos::from_secs(1), now(id, waiting)),
            weight: settings.weight.get(),
            class: if settings.class == Class::Idle { "idle" } else { "be" }.into(),
            limited: settings.max.sustained != Rates::default(),
            slots_taken_count: slots.taken_count,
            dirty_bytes: self.engine.dirty(id).group.get(),
            pace: None,
            promise: None,
        }
    }
}

/// What a group and those below it have.
fn now(id: GroupId, waiting: &WaitingNow) -> WaitCounts {
    let is_below = |(below, ..): &(u32, u32, &str)| {
        let mut at = *below;
        while at != id.0 && at != 0 {
            at = GROUPS[at as usize].1;
        }
        at == id.0
    };
    let mut all = waiting.of(id);
    for (below, ..) in GROUPS.iter().filter(|group| group.0 != id.0 && is_below(group)) {
        all.merge(&waiting.of(GroupId(*below)));
    }
    WaitCounts {
        dirty_count: all.count(Reason::Dirty),
        memory_count: all.count(Reason::Memory),
        slot_count: all.count(Reason::Slot),
        budget_count: all.count(Reason::Budget),
        turn_count: all.count(Reason::Turn),
        anticipation_count: all.count(Reason::Anticipation),
        window_count: all.count(Reason::Window),
        disk_count: all.count(Reason::Disk),
        oldest_ns: all.oldest.as_nanos(),
    }
}
