//! A recording on a disk model, with clients that wait for their answers.
//!
//! # Model
//! Each request comes as [`iopace_core::shadow::ClosedLoop`] says: as long after an answer of its
//! task as it was recorded. The device has the scheduler, the window, the slots, the groups and the
//! memory of the recording, and the same engine and disk model as the daemon. It begins at rest,
//! while the recording began with a scheduler and a window that had learnt the disk and the tasks:
//! so it meets the recording three times, and the third pass counts (`run.rs`).
//!
//! A daemon notices the completions of an emulated disk late; the replay does so too
//! (`late.rs`).
//!
//! # Limits
//! A request that had not ended when the recording did is not replayed. Write-back is done by the
//! replayed device itself. Nothing is known of what was dirty or in a cache of the disk before.
//! Settings that were changed meanwhile are those of the beginning.

use super::format::{File, Group, Request};
use super::late::{self, Late, Started};
use super::report::{Replayed, Report};
use super::run::{self, Again, Device};
use crate::disks;
use crate::scenario::plain_elevator;
use iopace_core::engine::{Config, Control};
use iopace_core::group;
use iopace_core::pace::{self, Thresholds};
use iopace_core::request::{Area, Cover, Extent, GroupId, Op, Space, Submit, Tag, TaskId};
use iopace_core::sched::{self, Algorithm, Params};
use iopace_core::time::{Instant, Nanos};
use iopace_core::units::Bytes;
use iopace_core::window;
use iopace_disk::modelled::{Io, Modelled};
use iopace_disk::page_cache::PageCacheConfig;
use iopace_disk::presets;
use iopace_groups::tree::Tree;
use std::collections::BTreeMap;

/// Bytes that every disk can address.
const SECTOR: u64 = 512;

/// Each pass lies so much further on the disk than the one before, so that what that one has left
/// in the disk's cache is not read, or written over, a second time. Distances stay as they were.
const PASS_APART: u64 = 1 << 30;

/// The settings that differ from the recording.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// The disk; needed unless an emulated one was recorded.
    pub disk: Option<String>,
    /// The scheduler, with its defaults.
    pub scheduler: Option<&'static Algorithm>,
    /// The policy of stage window.
    pub window: Option<&'static window::Policy>,
    /// Completions are noticed when the disk has done them, not as late as they were live, on
    /// average.
    pub on_time: bool,
}

/// A recording with the device on which it is replayed.
#[derive(Debug)]
pub struct Replay<'a> {
    pub(super) file: &'a File,
    disk: String,
    scheduler: (&'static Algorithm, Params),
    window: &'static window::Policy,
    pace: &'static pace::Policy,
    groups: Vec<(GroupId, GroupId, group::Settings)>,
    /// By number in the file.
    group_ids: BTreeMap<u64, GroupId>,
    /// Where each space begins on the disk.
    places: BTreeMap<u32, u64>,
    capacity: u64,
    on_time: bool,
    /// Requests of tasks that were there until the end.
    pub(super) constant: BTreeMap<TaskId, usize>,
}

impl<'a> Replay<'a> {
    /// Looks up all that the file names.
    ///
    /// # Errors
    /// Something is not known here, or the disk has to be said; with what would be right.
    pub fn new(file: &'a File, settings: &Settings) -> Result<Replay<'a>, String> {
        let header = &file.header;
        let disk = settings.disk.clone().or_else(|| header.device.model.clone()).ok_or_else(|| {
            let (name, kind) = (&header.device.name, &header.device.kind);
            format!(
                "{name} is no emulated disk ({kind}): say which one stands for it with --disk, a \
                 preset or a model file that 'iopace calibrate' has written"
            )
        })?;
        if settings.disk.is_none() && presets::find(&disk).is_none() {
            // A file of others is not to say what is opened here.
            return Err(format!(
                "the recorded disk '{disk}' is no preset here: say it, or its model file, with \
                 --disk"
            ));
        }
        let made = disks::build(&disk)
            .map_err(|error| format!("{error}; name another disk with --disk"))?;
        let scheduler = match settings.scheduler {
            Some(algorithm) => (algorithm, algorithm.defaults()),
            None => scheduler(file)?,
        };
        let window = settings.window.map_or_else(|| find_window(file), Ok)?;
        let pace = header.pace.as_ref().map_or("none", |pace| &pace.policy);
        let pace = pace::find(pace)
            .ok_or_else(|| format!("the pace '{pace}' of the recording is not known here"))?;
        let (groups, group_ids) = groups(file)?;
        let capacity = made.capacity().get() / SECTOR * SECTOR;
        let places = places(&file.requests);
        let constant = constant(file);
        Ok(Replay {
            file,
            disk,
            scheduler,
            window,
            pace,
            groups,
            group_ids,
            places,
            capacity,
            on_time: settings.on_time,
            constant,
        })
    }

    /// Carries it out.
    ///
    /// # Errors
    /// The device fails, or hangs.
    pub fn run(&self) -> Result<Report, String> {
        let late = self.lateness()?;
        let (times, same_until) = run::carry_out(self, self.device(late)?)?;
        let settings = [&*self.disk, self.scheduler.0.name, self.window.name];
        let replayed = Replayed { times: &times, same_until, late };
        Ok(Report::new(self.file, settings, &replayed))
    }

    /// How late completions were noticed, if that is taken over; of another disk than the recorded
    /// one nothing is known.
    fn lateness(&self) -> Result<Option<Nanos>, String> {
        if self.on_time || self.file.header.device.model.as_ref() != Some(&self.disk) {
            return Ok(None);
        }
        let [before, commands] = [0, 1].map(|pass| self.started(pass));
        Ok(Some(late::lateness(&before, &commands, &mut *disks::build(&self.disk)?)))
    }

    fn device(&self, late: Option<Nanos>) -> Result<Device, String> {
        let header = &self.file.header;
        let mut config = Config {
            base: plain_elevator(),
            nr_requests: header.nr_requests,
            window_depth: header.window.depth,
            window: self.window,
            pace: self.pace,
            ..Config::default()
        };
        let mut cache = None;
        if let Some(pace) = &header.pace {
            let (background, limit) = (Bytes(pace.background_bytes), Bytes(pace.limit_bytes));
            config.memory = Thresholds { background, limit };
            config.pause_target = pace.pause_ns.map_or(config.pause_target, Nanos);
            // Reads are those that missed it, so only what is dirty is looked for in it.
            let memory = Bytes(pace.limit_bytes.saturating_mul(2).max(1 << 20));
            cache = Some(PageCacheConfig { memory, drop_behind: true });
        }
        let mut disk = disks::build(&self.disk)?;
        if let Some(late) = late {
            disk = Box::new(Late::new(disk, late));
        }
        let mut device = Modelled::pump(config, cache, disk);
        let insert = Control::Insert(self.scheduler.0, self.scheduler.1.clone());
        let groups = self.groups.iter();
        let set = groups.map(|(id, parent, settings)| Control::SetGroup(*id, *parent, *settings));
        for control in set.chain([insert]) {
            let set = device.control(Instant::ZERO, control);
            set.map_err(|error| format!("a setting of the recording is refused: {error}"))?;
        }
        Ok(device)
    }

    /// The commands that the disk had, in the place of that pass.
    fn started(&self, pass: u64) -> Vec<Started> {
        let requests = &self.file.requests;
        let begin = requests.iter().map(|one| one.started_ns).min().unwrap_or(0).min(0);
        let at = |time: i64| Instant::ZERO + Nanos((time - begin).cast_unsigned());
        let had = requests
            .iter()
            .enumerate()
            .filter(|(_, one)| !one.flags.has('b') && (one.length > 0 || one.op == Op::Flush));
        let started = had.map(|(place, one)| {
            let Submit { op, extent, fua, .. } = self.again(place, pass).io.submit;
            Started { at: at(one.started_ns), noticed: at(one.done_ns), op, extent, fua }
        });
        let mut started: Vec<Started> = started.collect();
        started.sort_by_key(|one| one.at);
        started
    }

    /// The request, as the device gets it in that pass.
    pub(super) fn again(&self, place: usize, pass: u64) -> Again {
        let one = &self.file.requests[place];
        let area = self.area(one, pass);
        let cover = match (one.flags.has('p'), one.flags.has('n')) {
            (true, _) => Cover::Piece(area),
            (_, true) => Cover::Nothing,
            _ => Cover::All,
        };
        let is_flush = one.op == Op::Flush;
        let submit = Submit {
            tag: Tag(0),
            task: TaskId(one.task),
            group: self.group_ids.get(&one.group).copied().unwrap_or(GroupId::ROOT),
            op: one.op,
            extent: if is_flush { Extent::EMPTY } else { area.extent },
            fua: one.flags.has('f'),
            sync: !one.flags.has('a'),
        };
        let buffered = one.flags.has('b') && self.file.header.pace.is_some();
        Again { place, io: Io { submit, buffered }, cover }
    }

    /// Its place on the disk: spaces lie one behind the other, and at the end it goes on at the
    /// beginning.
    fn area(&self, one: &Request, pass: u64) -> Area {
        let base =
            self.places.get(&one.space).copied().unwrap_or(0).saturating_add(pass * PASS_APART);
        let length = one.length.min(self.capacity);
        let mut offset = base.saturating_add(one.offset);
        if offset.saturating_add(length) > self.capacity {
            offset %= (self.capacity - length).max(SECTOR) / SECTOR * SECTOR;
        }
        let offset = offset.min(self.capacity - length);
        let extent = Extent::new(Bytes(offset), Bytes(length)).unwrap_or_default();
        Area { space: Space::DISK, extent }
    }
}

fn scheduler(file: &File) -> Result<(&'static Algorithm, Params), String> {
    let recorded = &file.header.scheduler;
    let algorithm = sched::find(&recorded.name).ok_or_else(|| {
        let name = &recorded.name;
        format!("the scheduler '{name}' of the recording is not known here: name one with --sched")
    })?;
    let mut params = algorithm.defaults();
    for (name, value) in &recorded.params {
        params
            .set(name, *value)
            .map_err(|error| format!("a parameter of {}: {error}", recorded.name))?;
    }
    Ok((algorithm, params))
}

fn find_window(file: &File) -> Result<&'static window::Policy, String> {
    let name = &file.header.window.policy;
    window::find(name).ok_or_else(|| {
        format!("the window '{name}' of the recording is not known here: name one with --window")
    })
}

type Groups = (Vec<(GroupId, GroupId, group::Settings)>, BTreeMap<u64, GroupId>);

/// The groups of the recording, parents first.
fn groups(file: &File) -> Result<Groups, String> {
    let device = &*file.header.device.name;
    let (mut tree, mut ids) = (Tree::new(), BTreeMap::new());
    for Group { number, path, .. } in &file.header.groups {
        let id = tree.create_all(path).map_err(|error| format!("a group: {error}"))?;
        ids.insert(*number, id);
    }
    let mut by_path: Vec<&Group> = file.header.groups.iter().collect();
    by_path.sort_by(|one, other| one.path.cmp(&other.path));
    for Group { number, path, files } in by_path {
        for (name, text) in files {
            let written = tree.write(ids[number], name, text, &[device]);
            written.map_err(|error| format!("{name} of the group {path}: {error}"))?;
        }
    }
    let all = tree.iter().map(|id| {
        let parent = tree.parent(id).unwrap_or(GroupId::ROOT);
        (id, parent, tree.effective(id, device))
    });
    Ok((all.collect(), ids))
}

/// Where each space begins: one behind the other.
fn places(requests: &[Request]) -> BTreeMap<u32, u64> {
    let mut spans: BTreeMap<u32, u64> = BTreeMap::new();
    for one in requests {
        let span = spans.entry(one.space).or_default();
        *span = (*span).max(one.offset.saturating_add(one.length));
    }
    let mut next = 0_u64;
    for span in spans.values_mut() {
        let begin = next;
        next = next.saturating_add(span.checked_next_multiple_of(1 << 20).unwrap_or(u64::MAX));
        *span = begin;
    }
    spans
}

/// How many requests each task has that was there in the last tenth of the recording.
fn constant(file: &File) -> BTreeMap<TaskId, usize> {
    let mut tasks: BTreeMap<TaskId, (usize, i64)> = BTreeMap::new();
    for one in file.requests.iter().filter(|one| is_of_client(one)) {
        let (count, last) = tasks.entry(TaskId(one.task)).or_default();
        (*count, *last) = (*count + 1, one.done_ns);
    }
    let bound = (file.length_ns() / 10 * 9).cast_signed();
    let there = tasks.into_iter().filter(|(_, (_, last))| *last >= bound);
    there.map(|(task, (count, _))| (task, count)).collect()
}

/// Whether a client asked for it: not write-back.
pub(super) fn is_of_client(one: &Request) -> bool {
    !one.flags.has('w')
}
