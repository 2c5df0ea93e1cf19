//! Groups that have what the kernel has set for the cgroups that they stand for (`map=cgroup`).
//!
//! ```text
//!  a process is new, or in another cgroup     once a second, CGROUPS_LOOKED of them in turn
//!                  │ settle                                │ sweep
//!                  ▼                                       ▼
//!        files of its cgroup and those above     files of the cgroups of groups that are there
//!                  └──────────────────┬────────────────────┘
//!                                     ▼
//!               Tree::follow: counts where nothing was written for the group here
//! ```
//!
//! Files are read without the lock of the groups, and before the group is told to whoever pays as
//! it: so the first request is within the limit. Changes are looked for, not waited for: times of
//! these files say nothing (they are those of the last `open` with `O_TRUNC`), and a watch of
//! inotify for each file would pin some 12,000 inodes where there are many groups.

use super::{Groups, State};
use crate::device_table::names;
use crate::limits::{CGROUP_LOOK_AGE, CGROUPS_LOOKED};
use crate::process::{CgroupFiles, Hierarchy};
use crate::rules::cgroup::above;
use iopace_core::group::Settings;
use iopace_core::request::GroupId;
use iopace_core::time::{Instant, Nanos};
use iopace_groups::cgroup::CgroupSettings;
use std::collections::BTreeMap;
use std::io;
use std::ops::Bound::{Excluded, Unbounded};
use std::sync::Once;

/// Between two looks at the same cgroup, if there are few.
const LOOK_INTERVAL: Nanos = Nanos::from_millis(1_000);

/// A cgroup of the kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CgroupPlace {
    pub(super) hierarchy: Hierarchy,
    pub(super) path: String,
}

/// A cgroup, and what its files said just now; `None` if they could not be read.
#[derive(Debug)]
pub(super) struct LookedCgroup {
    place: CgroupPlace,
    settings: Option<CgroupSettings>,
}

/// The cgroup that a group stands for.
pub(super) struct FollowedCgroup {
    pub(super) place: CgroupPlace,
    /// When its files were read last.
    pub(super) looked: Instant,
}

/// The cgroups that groups stand for.
#[derive(Default)]
pub(super) struct Cgroups {
    pub(super) all: BTreeMap<GroupId, FollowedCgroup>,
    /// Up to here they were looked at.
    swept: GroupId,
    /// When that was.
    swept_at: Option<Instant>,
}

impl Cgroups {
    /// The number is free.
    pub(super) fn reaped(&mut self, id: GroupId) {
        self.all.remove(&id);
    }

    /// Those whose turn it is to be looked at, if it is time for that.
    pub(super) fn due(&mut self, now: Instant) -> Vec<(GroupId, CgroupPlace)> {
        if self.swept_at.is_some_and(|before| now.since(before) < LOOK_INTERVAL) {
            return Vec::new();
        }
        self.swept_at = Some(now);
        let next = self.all.range((Excluded(self.swept), Unbounded)).take(CGROUPS_LOOKED);
        let due: Vec<_> = next.map(|(id, followed)| (*id, followed.place.clone())).collect();
        let is_last = due.len() < CGROUPS_LOOKED;
        self.swept = due.last().filter(|_| !is_last).map_or(GroupId::ROOT, |(id, _)| *id);
        due
    }
}

impl Groups {
    /// Below this path, groups stand for cgroups from now on.
    pub(crate) fn map_cgroups(&self, path: &str) {
        self.lock().tree.map_cgroups(path);
    }

    /// The cgroups for which groups are wanted `below` a base, as far as their files were not read
    /// just now; by the place of the group.
    pub(super) fn look_at_cgroups(
        &self,
        (base, below): (GroupId, &[String]),
        limiting: Option<(Hierarchy, &str)>,
    ) -> Vec<Option<LookedCgroup>> {
        let Some((hierarchy, path)) = limiting else { return Vec::new() };
        let all = above(path, below.len());
        let place = |path: &str| CgroupPlace { hierarchy, path: path.to_owned() };
        let all: Vec<CgroupPlace> = all.map(place).collect();
        let known = self.known((base, below), &all);
        let look = |(known, place): (bool, CgroupPlace)| {
            let files = (!known).then(|| self.proc.cgroup_files(place.hierarchy, &place.path))?;
            let settings = match files {
                Ok(files) => Some(self.settings_of(&files?)),
                Err(error) => {
                    // Once: a user who starts many processes would fill the log.
                    static WARNED: Once = Once::new();
                    WARNED.call_once(|| {
                        tracing::warn!(%error, "limits of a cgroup cannot be read now");
                    });
                    None
                }
            };
            Some(LookedCgroup { place, settings })
        };
        known.into_iter().zip(all).map(look).collect()
    }

    /// For each group that is wanted whether its cgroup was looked at just now.
    fn known(&self, (base, below): (GroupId, &[String]), all: &[CgroupPlace]) -> Vec<bool> {
        let (state, now) = (self.lock(), self.proc.now());
        let mut path = state.tree.path(base).trim_end_matches('/').to_owned();
        let known = below.iter().zip(all).map(|(name, place)| {
            path = format!("{path}/{name}");
            let group = state.tree.find(&path).ok();
            let followed = group.and_then(|id| state.cgroups.all.get(&id));
            followed.is_some_and(|followed| {
                followed.place == *place && now.since(followed.looked) < CGROUP_LOOK_AGE
            })
        });
        known.collect()
    }

    fn settings_of(&self, files: &CgroupFiles) -> CgroupSettings {
        let mut settings = CgroupSettings::default();
        for (name, text) in files {
            settings.take(name, text, |number| self.names_on(number));
        }
        settings
    }

    /// A group stands for a cgroup from now on, and has what that has.
    pub(super) fn follow(&self, state: &mut State, id: GroupId, looked: LookedCgroup) {
        let LookedCgroup { place, settings } = looked;
        state.cgroups.all.insert(id, FollowedCgroup { place, looked: self.proc.now() });
        if let Some(settings) = settings {
            self.follow_settings(state, id, settings);
        }
    }

    fn follow_settings(&self, state: &mut State, id: GroupId, settings: CgroupSettings) {
        let devices = self.devices();
        let hold = |state: &State| -> Vec<Settings> {
            names(&devices).into_iter().map(|device| state.tree.effective(id, device)).collect()
        };
        let before = hold(state);
        if !state.tree.follow(id, settings) {
            return;
        }
        tracing::debug!(group = state.tree.path(id), "other limits of its cgroup");
        let changes = devices.iter().zip(before.into_iter().zip(hold(state)));
        for (device, _) in changes.filter(|(_, (before, now))| before != now) {
            Groups::tell(state, &**device, id);
        }
        self.retry(state, id);
    }

    /// Looks whether cgroups have other limits by now, a part of them at each call.
    pub(super) fn sweep_cgroups(&self) {
        let due = self.lock().cgroups.due(self.proc.now());
        let look = |(id, place): (GroupId, CgroupPlace)| {
            let files = self.proc.cgroup_files(place.hierarchy, &place.path);
            (id, place, files.map(|files| files.map(|files| self.settings_of(&files))))
        };
        let looked: Vec<_> = due.into_iter().map(look).collect();
        for (id, place, settings) in looked {
            self.take_look(id, &place, settings);
        }
    }

    /// A cgroup was looked at; `None`: it is gone. One that cannot be read now keeps its limits.
    fn take_look(
        &self,
        id: GroupId,
        place: &CgroupPlace,
        settings: io::Result<Option<CgroupSettings>>,
    ) {
        let mut state = self.lock();
        let now = self.proc.now();
        // The group may have been removed meanwhile, and its number may be another one's.
        let State { tree, cgroups, .. } = &mut *state;
        let Some(followed) = cgroups.all.get_mut(&id) else { return };
        if followed.place != *place || !tree.is_live(id) {
            return;
        }
        match settings {
            Ok(Some(settings)) => {
                followed.looked = now;
                self.follow_settings(&mut state, id, settings);
            }
            Ok(None) => {
                state.cgroups.all.remove(&id);
                self.follow_settings(&mut state, id, CgroupSettings::default());
            }
            Err(error) => tracing::debug!(%error, "limits of a cgroup cannot be read now"),
        }
    }

    /// No group has the limits of its cgroup any more, until a process of it is looked at anew, as
    /// all are then.
    pub(crate) fn leave_cgroups(&self) {
        let mut state = self.lock();
        let all = std::mem::take(&mut state.cgroups.all);
        for id in all.into_keys().filter(|id| state.tree.is_live(*id)).collect::<Vec<_>>() {
            self.follow_settings(&mut state, id, CgroupSettings::default());
        }
        state.processes.forget_all();
    }
}
