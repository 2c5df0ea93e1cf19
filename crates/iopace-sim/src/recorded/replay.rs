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

use super::format::{Group, RecordingFile};
use super::late::{self, Late, Started};
use super::load::RecordedLoad;
use super::report::{Replayed, Report};
use super::run::{self, Device};
use crate::disks;
use crate::scenario::plain_elevator;
use iopace_core::engine::{Config, Control};
use iopace_core::group;
use iopace_core::pace::{self, Thresholds};
use iopace_core::request::{GroupId, Op, Submit};
use iopace_core::sched::{self, Algorithm, Params};
use iopace_core::time::{Instant, Nanos};
use iopace_core::units::Bytes;
use iopace_core::window;
use iopace_disk::modelled::Modelled;
use iopace_disk::page_cache::PageCacheConfig;
use iopace_disk::presets;
use iopace_groups::tree::Tree;
use std::collections::BTreeMap;

/// The settings that differ from the recording.
#[derive(Clone, Debug, Default)]
pub struct ReplaySettings {
    /// The disk; needed unless an emulated one was recorded.
    pub disk: Option<String>,
    /// The scheduler, with its defaults.
    pub scheduler: Option<&'static Algorithm>,
    /// The policy of stage window.
    pub window: Option<&'static window::WindowPolicy>,
    /// Completions are noticed when the disk has done them, not as late as they were live, on
    /// average.
    pub on_time: bool,
}

/// A recording with the device on which it is replayed.
#[derive(Debug)]
pub struct RecordedReplay<'a> {
    load: RecordedLoad<'a>,
    disk: String,
    scheduler: (&'static Algorithm, Params),
    window: &'static window::WindowPolicy,
    pace: &'static pace::PacePolicy,
    groups: Vec<(GroupId, GroupId, group::Settings)>,
    on_time: bool,
}

impl<'a> RecordedReplay<'a> {
    /// Looks up all that the file names.
    ///
    /// # Errors
    /// Something is not known here, or the disk has to be said; with what would be right.
    pub fn new(
        file: &'a RecordingFile,
        settings: &ReplaySettings,
    ) -> Result<RecordedReplay<'a>, String> {
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
        let load = RecordedLoad::new(file, group_ids, made.capacity());
        let on_time = settings.on_time;
        Ok(RecordedReplay { load, disk, scheduler, window, pace, groups, on_time })
    }

    /// Carries it out.
    ///
    /// # Errors
    /// The device fails, or hangs.
    pub fn run(&self) -> Result<Report, String> {
        let late = self.lateness()?;
        let (times, same_until) = run::carry_out(&self.load, self.device(late)?)?;
        let settings = [&*self.disk, self.scheduler.0.name, self.window.name];
        let replayed = Replayed { times: &times, same_until, late };
        Ok(Report::new(self.load.file, settings, &replayed))
    }

    /// How late completions were noticed, if that is taken over; of another disk than the recorded
    /// one nothing is known.
    fn lateness(&self) -> Result<Option<Nanos>, String> {
        if self.on_time || self.load.file.header.device.model.as_ref() != Some(&self.disk) {
            return Ok(None);
        }
        let [before, commands] = [0, 1].map(|pass| self.started(pass));
        Ok(Some(late::lateness(&before, &commands, &mut *disks::build(&self.disk)?)))
    }

    fn device(&self, late: Option<Nanos>) -> Result<Device, String> {
        let header = &self.load.file.header;
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
        let requests = &self.load.file.requests;
        let begin = requests.iter().map(|one| one.started_ns).min().unwrap_or(0).min(0);
        let at = |time: i64| Instant::ZERO + Nanos((time - begin).cast_unsigned());
        let had = requests
            .iter()
            .enumerate()
            .filter(|(_, one)| !one.flags.has('b') && (one.length > 0 || one.op == Op::Flush));
        let started = had.map(|(place, one)| {
            let Submit { op, extent, fua, .. } = self.load.again(place, pass).io.submit;
            Started { at: at(one.started_ns), noticed: at(one.done_ns), op, extent, fua }
        });
        let mut started: Vec<Started> = started.collect();
        started.sort_by_key(|one| one.at);
        started
    }
}

fn scheduler(file: &RecordingFile) -> Result<(&'static Algorithm, Params), String> {
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

fn find_window(file: &RecordingFile) -> Result<&'static window::WindowPolicy, String> {
    let name = &file.header.window.policy;
    window::find(name).ok_or_else(|| {
        format!("the window '{name}' of the recording is not known here: name one with --window")
    })
}

type Groups = (Vec<(GroupId, GroupId, group::Settings)>, BTreeMap<u64, GroupId>);

/// The groups of the recording, parents first.
fn groups(file: &RecordingFile) -> Result<Groups, String> {
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
