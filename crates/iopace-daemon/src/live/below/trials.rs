//! Which settings would help a task: what was recorded is replayed under each of some.
//!
//! A setting is said to help only if its replay says so. A replay under the present settings goes
//! first: how far it is from what was measured says how well the replay knows the disk, and where
//! it explains less than a quarter of that, nothing is said to help.
//!
//! A task that is served sooner has asked for all that was recorded of it before the replay is
//! over. So what the others pay is counted until then, in both replays.
//!
//! Each replay is done twice: with a disk that takes for a request at least the shortest time that
//! was seen, and with one that works on one after the other. The first is the safe one: it never
//! finds a window too wide on a disk that is quicker with many requests. The second is believed
//! only where the task's requests, smaller than those before them, were seen to wait for these.

use super::serial::is_serial;
use super::{Names, Seen, Split, are_apart, nanos, words};
use crate::api::{Payer, TriedSetting};
use crate::change::recommend::is_set_explicitly;
use crate::device::Device;
use crate::figures::{permille, shell_word};
use crate::groups::Groups;
use crate::live::explain::SettingsOf;
use crate::live::span::parent;
use iopace_core::engine::{Engine, Status};
use iopace_core::group::{Class, Settings, Weight};
use iopace_core::limits::GROUP_WEIGHT_MAX;
use iopace_core::request::{GroupId, TaskId};
use iopace_core::sched::{self, AUTO, Algorithm};
use iopace_core::shadow::{Plan, Recorded, ReplayDisk, Replayed};
use iopace_core::time::{Instant, Nanos};
use iopace_core::window;
use std::collections::{BTreeMap, BTreeSet};

/// Windows that are tried, if the disk held more requests than that.
const WINDOWS: [u32; 5] = [16, 8, 4, 2, 1];

/// Schedulers that are tried beside the one that divides by groups.
const SCHEDULERS: [&str; 2] = ["rr", "deadline"];

/// A weight is tried so many times as large.
const WEIGHT_TIMES: u32 = 8;

/// Requests of another task from which on it is looked at who pays.
const PAYER_COUNT: u64 = 8;

/// Something that may be set.
#[derive(Clone, Debug)]
pub(super) struct Candidate {
    /// In a few words.
    pub(super) setting: String,
    /// The command line.
    pub(super) command: String,
    /// Whether it is the default scheduler.
    is_default: bool,
    plan: Plan,
    groups: BTreeMap<GroupId, Settings>,
}

/// A replay with each of the two disks: by place in the recording, how each went.
#[derive(Debug)]
pub(super) struct OnBoth {
    pub(super) serial: Vec<Option<Replayed>>,
    pub(super) as_seen: Vec<Option<Replayed>>,
}

/// Trials for one task.
pub(super) struct Trials<'a> {
    pub(super) seen: &'a Seen,
    pub(super) device: &'a dyn Device,
    pub(super) groups: &'a Groups,
    pub(super) names: &'a Names,
    pub(super) split: &'a Split,
}

impl Trials<'_> {
    /// Replays under the present settings, and under others as long as `goes_on` says so; those
    /// that help are first, the best of them first.
    pub(super) fn run(&self, goes_on: &dyn Fn() -> bool) -> Vec<TriedSetting> {
        let ended = &self.seen.ended;
        let is_serial = is_serial(ended, self.split.task);
        let Some(present) = self.replay(&Plan::default(), &BTreeMap::new()) else {
            return Vec::new();
        };
        let mut tried = Vec::new();
        for candidate in self.candidates() {
            if !goes_on() {
                break;
            }
            let Candidate { setting, command, is_default, plan, groups } = candidate;
            if let Some(under) = self.replay(&plan, &groups) {
                let what = (setting, command, is_serial);
                let (mut told, payer) = judge(ended, self.split, (&present, &under), what);
                told.default = is_default;
                tried.push((told, payer));
            }
        }
        for (one, payer) in &mut tried {
            one.payer = payer
                .take()
                .map(|(task, payer)| Payer { task: self.names.task(Some(task)), ..payer });
            one.text = words::tried(one, self.split.kind, self.seen.over);
        }
        let mut tried: Vec<TriedSetting> = tried.into_iter().map(|(one, _)| one).collect();
        tried.sort_by_key(|one| (!one.helps, one.each_ns));
        tried
    }

    fn replay(&self, plan: &Plan, groups: &BTreeMap<GroupId, Settings>) -> Option<OnBoth> {
        let serial = self.replay_with(plan, groups, ReplayDisk::Serial)?;
        let as_seen = self.replay_with(plan, groups, ReplayDisk::AsSeen)?;
        Some(OnBoth { serial, as_seen })
    }

    fn replay_with(
        &self,
        plan: &Plan,
        groups: &BTreeMap<GroupId, Settings>,
        disk: ReplayDisk,
    ) -> Option<Vec<Option<Replayed>>> {
        let Seen { began, ended, .. } = self.seen;
        let known: BTreeSet<GroupId> = ended.iter().map(|one| one.submit.group).collect();
        let known: Vec<GroupId> = known.into_iter().collect();
        let (mut tried, mut replay) = (Some((plan.clone(), groups.clone())), None);
        self.device.look(&mut |engine: &Engine, _| {
            if let Some(tried) = tried.take() {
                replay = engine.replay(*began, tried, &known).ok();
            }
        });
        replay?.run(ended, disk).ok()
    }

    fn candidates(&self) -> Vec<Candidate> {
        let status = self.device.status().engine;
        let device = &self.device.info().name;
        let most = self.seen.ended.iter().map(|one| one.beside).max().unwrap_or(0);
        let mut all = of_device(&status, device, most);
        if sched::divides(status.algorithm.name) {
            all.extend(self.of_groups(device));
        }
        all
    }

    /// What may be set for groups: class idle for that of the task that it waits behind most, a
    /// larger weight for its own.
    fn of_groups(&self, device: &str) -> Vec<Candidate> {
        let own = self.names.group(self.split.group);
        let others = self.seen.ended.iter().filter(|one| one.submit.group != self.split.group);
        let mut there: BTreeMap<GroupId, u64> = BTreeMap::new();
        for one in others {
            *there.entry(one.submit.group).or_default() += one.took().as_nanos();
        }
        let Some((other, _)) = there.into_iter().max_by_key(|(_, time)| *time) else {
            return Vec::new();
        };
        let path = self.names.group(other);
        if !are_apart(own, path) {
            return Vec::new();
        }
        let settings: SettingsOf = self.groups.settings_on(device, [own, path].into_iter());
        let of = |path: &str| settings.get(path).copied().unwrap_or_default();
        let set = |path: &str, file: &str, value: &str| {
            let line = shell_word(&format!("{device} {value}"));
            format!("iopace group set {} {file} {line}", shell_word(path))
        };
        let mut all = Vec::new();
        if of(path).class != Class::Idle {
            let settings = Settings { class: Class::Idle, ..of(path) };
            all.push(Candidate {
                setting: format!("class idle for {path}"),
                command: set(path, "io.ioprio_class", "IDLE"),
                is_default: false,
                plan: Plan::default(),
                groups: BTreeMap::from([(other, settings)]),
            });
        }
        // Only of siblings the weights are compared.
        let old = of(own).weight.get();
        let new = old.saturating_mul(WEIGHT_TIMES).min(GROUP_WEIGHT_MAX);
        let weight = Weight::new(new).filter(|_| new > old && parent(own) == parent(path));
        all.extend(weight.map(|weight| Candidate {
            setting: format!("weight {new} for {own}"),
            command: set(own, "io.weight", &new.to_string()),
            is_default: false,
            plan: Plan::default(),
            groups: BTreeMap::from([(self.split.group, Settings { weight, ..of(own) })]),
        }));
        all
    }
}

/// What may be set for a device that held so many requests at most: a smaller window, another
/// scheduler.
pub(super) fn of_device(status: &Status, device: &str, most: u32) -> Vec<Candidate> {
    let device = shell_word(device);
    let is_fixed = status.window.name == window::fixed::POLICY.name;
    let policy = if is_fixed { "" } else { " -a fixed" };
    let smaller = WINDOWS.into_iter().filter(|depth| *depth < most);
    let windows = smaller.map(|depth| Candidate {
        setting: format!("window {depth}"),
        command: format!("iopace window configure{policy} --depth {depth} {device}"),
        plan: Plan {
            window: (!is_fixed).then_some(&window::fixed::POLICY),
            window_depth: Some(depth),
            ..Plan::default()
        },
        is_default: false,
        groups: BTreeMap::new(),
    });
    let default = is_set_explicitly(status).then(|| default_scheduler(&device));
    let verb = if status.inserted { "configure" } else { "insert" };
    let others: Vec<&'static Algorithm> = [sched::dividing()]
        .into_iter()
        .chain(SCHEDULERS.into_iter().filter_map(sched::find))
        .collect();
    // The default is a candidate by its word where that can be set.
    let is_named = |one: &&Algorithm| {
        let is_default = default.is_some() && one.name == sched::recommended().name;
        one.name != status.algorithm.name && !is_default
    };
    let others: Vec<&'static Algorithm> = others.into_iter().filter(is_named).collect();
    let schedulers = others.into_iter().map(|algorithm| Candidate {
        is_default: false,
        setting: format!("scheduler {}", algorithm.name),
        command: format!("iopace sched {verb} -a {} {device}", algorithm.name),
        plan: Plan { scheduler: Some((algorithm, algorithm.defaults())), ..Plan::default() },
        groups: BTreeMap::new(),
    });
    windows.chain(default.clone()).chain(schedulers).collect()
}

/// The scheduler of a device for which none is named, where another one was set explicitly.
fn default_scheduler(device: &str) -> Candidate {
    let algorithm = sched::recommended();
    Candidate {
        setting: format!("scheduler {AUTO}, the default ({})", algorithm.name),
        command: format!("iopace sched configure -a {AUTO} {device}"),
        is_default: true,
        plan: Plan { scheduler: Some((algorithm, algorithm.defaults())), ..Plan::default() },
        groups: BTreeMap::new(),
    }
}

/// What a replay of a setting says, beside one under the present settings; and who pays for it.
pub(super) fn judge(
    ended: &[Recorded],
    split: &Split,
    (present, under): (&OnBoth, &OnBoth),
    (setting, command, is_serial): (String, String, bool),
) -> (TriedSetting, Option<(TaskId, Payer)>) {
    let is_own = |place: &usize| ended[*place].submit.task == split.task;
    let measured = split.total / u128::from(split.count.max(1));
    // The disk that is believed in.
    let (present_times, times) = match is_serial {
        true => (&present.serial, &under.serial),
        false => (&present.as_seen, &under.as_seen),
    };
    let own = || split.places.iter();
    let (present_ns, present_count) = mean(present_times, own(), Instant::NEVER);
    let (each_ns, count) = mean(times, own(), Instant::NEVER);
    let (each_most_ns, _) = mean(&under.as_seen, own(), Instant::NEVER);
    let served = permille(count.into(), present_count.max(1).into());
    let measured = nanos(measured).as_nanos();
    let knows = present_ns.saturating_mul(4) >= measured;
    let is_better = each_ns.saturating_mul(4) <= present_ns.min(measured).saturating_mul(3);
    let tried = TriedSetting {
        setting,
        command,
        default: false,
        each_ns,
        each_most_ns,
        serial: is_serial,
        measured_ns: measured,
        present_ns,
        served_permille: served,
        payer: None,
        helps: knows && is_better && count > 0 && served >= 900,
        text: String::new(),
    };
    let by = ran_out(times, own());
    let mut others: BTreeMap<TaskId, Vec<usize>> = BTreeMap::new();
    for place in (0..ended.len()).filter(|place| !is_own(place)) {
        // Write-back is not compared.
        if present_times[place].is_some_and(|is| is.ended <= by) {
            others.entry(ended[place].submit.task).or_default().push(place);
        }
    }
    let payers = others.into_iter().filter(|(_, places)| places.len() as u64 >= PAYER_COUNT);
    let payers = payers.map(|(task, places)| {
        let (each_ns, count) = mean(times, places.iter(), by);
        let (present_ns, present_count) = mean(present_times, places.iter(), by);
        let served_permille = permille(count.into(), present_count.max(1).into());
        (task, Payer { task: String::new(), served_permille, each_ns, present_ns })
    });
    let payer = payers.min_by_key(|(_, payer)| payer.served_permille);
    (tried, payer)
}

/// When the last of these was served, if all of them were.
fn ran_out<'a>(times: &[Option<Replayed>], places: impl Iterator<Item = &'a usize>) -> Instant {
    let ends: Option<Vec<Instant>> = places.map(|place| Some(times[*place]?.ended)).collect();
    ends.and_then(|ends| ends.into_iter().max()).unwrap_or(Instant::NEVER)
}

/// The mean time of those that were served by then, and how many these are.
fn mean<'a>(
    times: &[Option<Replayed>],
    places: impl Iterator<Item = &'a usize>,
    by: Instant,
) -> (u64, u64) {
    let (mut sum, mut count) = (Nanos::ZERO, 0);
    for is in places.filter_map(|place| times[*place].as_ref()).filter(|is| is.ended <= by) {
        (sum, count) = (sum + is.times.total(), count + 1);
    }
    (sum.as_nanos().checked_div(count).unwrap_or(0), count)
}
