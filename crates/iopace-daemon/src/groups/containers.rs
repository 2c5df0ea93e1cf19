//! Groups of containers that are set before their first request, by who starts the container.
//!
//! Such a group stands for a cgroup, as those that `map=cgroup` makes at a first request, and is
//! made here if it is missing. Its settings hold as long as the cgroup is there, however long
//! nobody pays as it; then it goes as any group that was made for callers.

use super::cgroups::{CgroupPlace, FollowedCgroup};
use super::processes::MappedCgroup;
use super::{GroupError, Groups, State};
use crate::device_table::names;
use crate::rules::cgroup::{self, Cgroup};
use iopace_core::request::GroupId;
use iopace_groups::tree::TreeError;
use std::collections::BTreeMap;

/// The cgroup of a process, or one above it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CgroupOf {
    /// The process.
    pub pid: u32,
    /// How many cgroups above its own.
    pub above: usize,
}

impl Groups {
    /// Writes lines to files of the groups that stand for a cgroup, one below each base of a rule
    /// that maps cgroups: all lines in all of them, or none. Returns the paths of the groups; none
    /// where no mount maps cgroups.
    ///
    /// # Errors
    /// No such process, a cgroup that no group can stand for, a group that cannot be made; or which
    /// line is wrong, and what would be right.
    pub fn write_cgroup(
        &self,
        of: CgroupOf,
        files: &BTreeMap<String, String>,
    ) -> Result<Vec<String>, GroupError> {
        let place = self.cgroup_place(of)?;
        let mut state = self.lock();
        let mapped = state.mapped(&place.path);
        let depth = cgroup::above(&place.path, usize::MAX).count();
        if mapped.iter().any(|one| one.below.len() < depth) {
            return Err(refused(of, &place.path, TOO_DEEP));
        }
        self.try_files(&state, &mapped, files)?;
        // A failure here leaves groups without settings, which go by themselves.
        let ids = mapped.iter().map(|one| self.made_for(&mut state, one));
        let ids = ids.collect::<Result<Vec<GroupId>, TreeError>>()?;
        for &id in &ids {
            self.write_files(&mut state, id, files);
            let followed = FollowedCgroup { place: place.clone(), looked: self.proc.now() };
            state.containers.all.insert(id, followed);
        }
        Ok(ids.into_iter().map(|id| state.tree.path(id)).collect())
    }

    fn cgroup_place(&self, of: CgroupOf) -> Result<CgroupPlace, GroupError> {
        let text = self.proc.cgroup(of.pid).ok_or(GroupError::NoProcess(of.pid))?;
        let own = Cgroup::look(&text, &*self.proc);
        let hierarchy = own.limiting().unwrap_or(own.hierarchy());
        let all: Vec<&str> = cgroup::above(own.path(), usize::MAX).collect();
        let path = all.iter().rev().nth(of.above);
        let path = (*path.ok_or_else(|| refused(of, own.path(), NO_OTHER))?).to_owned();
        match self.proc.cgroup_files(hierarchy, &path) {
            Ok(Some(_)) => Ok(CgroupPlace { hierarchy, path }),
            Ok(None) | Err(_) => Err(refused(of, &path, UNSEEN)),
        }
    }

    /// Writes the lines to groups that may be missing, and forgets them.
    fn try_files(
        &self,
        state: &State,
        mapped: &[MappedCgroup],
        files: &BTreeMap<String, String>,
    ) -> Result<(), GroupError> {
        let devices = self.devices();
        let names = names(&devices);
        let mut tried = state.tree.clone();
        for MappedCgroup { base, below } in mapped {
            let base = tried.path(*base);
            let id =
                tried.create_all(&format!("{}/{}", base.trim_end_matches('/'), below.join("/")))?;
            for (file, text) in files {
                tried.write(id, file, text, &names)?;
            }
        }
        Ok(())
    }

    fn made_for(&self, state: &mut State, mapped: &MappedCgroup) -> Result<GroupId, TreeError> {
        let MappedCgroup { base, below } = mapped;
        below.iter().try_fold(*base, |at, name| self.child(state, at, name, (None, ROOT_UID)))
    }

    fn write_files(&self, state: &mut State, id: GroupId, files: &BTreeMap<String, String>) {
        let devices = self.devices();
        for (file, text) in files {
            let written = state.tree.write(id, file, text, &names(&devices));
            written.expect("the same was tried");
        }
        for device in devices.iter() {
            Groups::tell(state, &**device, id);
        }
        self.retry(state, id);
    }

    /// Looks whether the cgroups of containers are still there, a part of them at each call.
    pub(super) fn sweep_containers(&self) {
        let began = self.proc.now();
        let due = self.lock().containers.due(began);
        let has_ended = |place: &CgroupPlace| {
            matches!(self.proc.cgroup_files(place.hierarchy, &place.path), Ok(None))
        };
        let ended = due.into_iter().filter(|(_, place)| has_ended(place)).map(|(id, _)| id);
        let ended: Vec<GroupId> = ended.collect();
        let mut state = self.lock();
        for id in ended {
            // Another one of the same name may have been told of meanwhile.
            if state.containers.all.get(&id).is_some_and(|known| known.looked < began) {
                state.containers.all.remove(&id);
            }
        }
    }
}

impl State {
    /// The groups for a cgroup, each once: several mounts may map below the same base.
    fn mapped(&self, cgroup: &str) -> Vec<MappedCgroup> {
        let all = self.processes.mounts().filter_map(|mount| mount.mapped(cgroup));
        let all: BTreeMap<GroupId, MappedCgroup> = all.map(|one| (one.base, one)).collect();
        all.into_values().collect()
    }
}

/// The owner of such groups: a client that tells of containers may control the daemon.
const ROOT_UID: u32 = 0;

const NO_OTHER: &str = "is that of all processes, or has none of its own above it: containers \
                        need cgroups of their own";

const UNSEEN: &str = "cannot be seen by the daemon: run it in the namespaces of the host, where \
                      cgroups are mounted";

const TOO_DEEP: &str = "is deeper than groups may be, and the group above pays for it: start the \
                        container in another cgroup (--cgroup-parent)";

fn refused(of: CgroupOf, path: &str, problem: &'static str) -> GroupError {
    let names = cgroup::names(path, usize::MAX).join("/");
    GroupError::Cgroup { pid: of.pid, path: format!("/{names}"), problem }
}
