//! Who pays: the one tree of groups of a daemon, and what the devices know of it.
//!
//! One lock guards the tree and who pays as which group; devices are told under it (their own locks
//! are taken inside it, never the other way round). So whatever two clients write at once, every
//! device ends with what the tree has, and nobody sees half of a write.
//!
//! A removed group keeps its number until no request has it any more: not in a device, and not
//! gathered by a connection that will submit it. [`Groups`] looks for such numbers whenever a group
//! is made or removed.

mod cgroups;
mod cluster;
mod containers;
mod error;
mod exports;
mod listed;
mod made;
mod members;
mod named;
pub mod payer;
mod processes;
mod recommend;
mod reload;
mod set_for;
mod setup;
mod shared;
mod stat;
mod warnings;
mod write;

pub(crate) use cluster::ClusterSettings;
pub use containers::CgroupOf;
pub use error::GroupError;
pub(crate) use made::{Claim, Setting, Wanted};
pub use members::ConnectionInfo;
pub(crate) use named::Named;
pub use processes::ProcessInfo;
pub(crate) use processes::{Callers, MappedCgroup, Newcomer, Seen};
pub(crate) use reload::OtherGroups;
pub use setup::{DeviceSlots, Misconfigured, configured};
pub(crate) use shared::SharedDevice;
pub use stat::GroupOnDevice;
pub use warnings::Warning;
pub use write::by_name;

use crate::config::{ExportConfig, GroupConfig};
use crate::device::Device;
use crate::device_table::{DeviceList, DeviceTable};
use crate::process::{Kernel, Proc};
use crate::start_error::StartError;
use cgroups::Cgroups;
use iopace_core::engine::Control;
use iopace_core::request::GroupId;
use iopace_groups::files::{Explained, FILES};
use iopace_groups::tree::{Tree, TreeError};
use made::Made;
use members::{Member, PaidExport};
use processes::Processes;
use set_for::chosen;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The groups of a daemon.
pub struct Groups {
    /// It changes under the lock of the state only.
    devices: Arc<DeviceTable>,
    proc: Arc<dyn Proc>,
    state: Mutex<State>,
    /// How often an export has got another group.
    exports_moved: AtomicU64,
}

struct State {
    tree: Tree,
    /// By their numbers, which grow.
    exports: BTreeMap<usize, PaidExport>,
    members: BTreeMap<u64, Member>,
    processes: Processes,
    made: Made,
    cgroups: Cgroups,
    /// The cgroups of containers whose groups were set before their first request.
    containers: Cgroups,
    /// What holds over the tree on devices of a volume of several hosts.
    of_cluster: cluster::OfDevices,
    /// By name: the devices that several hosts share.
    shared: BTreeMap<String, Arc<SharedDevice>>,
    /// What is tried for groups.
    tried: recommend::Tried,
    /// Groups that the devices know.
    told: BTreeSet<GroupId>,
}

/// Who pays as a group itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupInfo {
    /// The group's path.
    pub path: String,
    /// Names of exports.
    pub exports: Vec<String>,
    /// Numbers of connections.
    pub connections: Vec<u64>,
    /// How many processes pay as it, of those that were seen lately or moved.
    pub processes_count: usize,
    /// It was made for callers of a mount, and goes when nobody pays as it.
    pub is_made: bool,
    /// What is set for it: the files that say something else than those of a new group.
    pub files: BTreeMap<&'static str, String>,
    /// Settings that the kernel has for the cgroup that it stands for.
    pub cgroup_files: BTreeMap<&'static str, String>,
}

/// The path of a group, and what it did on each device.
pub type OnDevices = (String, Vec<GroupOnDevice>);

impl Groups {
    /// Makes the configured groups and tells the devices of all; below the paths that are `mapped`,
    /// groups stand for cgroups.
    ///
    /// # Errors
    /// A group that cannot be made, a setting that cannot be written, or an export of a group that
    /// there is not.
    pub fn mapping(
        mapped: &[&str],
        groups: &[GroupConfig],
        exports: &[ExportConfig],
        devices: Vec<Arc<dyn Device>>,
    ) -> Result<Groups, StartError> {
        let given = devices.iter().map(|device| device.info());
        let given: Vec<DeviceSlots> =
            given.map(|info| (info.name.clone(), info.nr_group_requests)).collect();
        let mut tree = configured(groups, &given, mapped)
            .map_err(|wrong| StartError::Group(wrong.error.to_string()))?;
        let mut all = BTreeMap::new();
        for (number, ExportConfig { name, group, .. }) in exports.iter().enumerate() {
            let group = tree
                .find(group)
                .map_err(|error| StartError::ExportGroup { export: name.clone(), error })?;
            tree.add_member(group);
            all.insert(number, PaidExport { name: name.clone(), group, is_closing: false });
        }
        let state = State {
            tree,
            exports: all,
            members: BTreeMap::new(),
            processes: Processes::default(),
            made: Made::default(),
            cgroups: Cgroups::default(),
            containers: Cgroups::default(),
            of_cluster: cluster::OfDevices::new(),
            shared: BTreeMap::new(),
            tried: recommend::Tried::new(),
            told: BTreeSet::new(),
        };
        let proc = Arc::new(Kernel);
        let groups = Groups {
            devices: Arc::new(DeviceTable::new(devices)),
            proc,
            state: Mutex::new(state),
            exports_moved: AtomicU64::new(0),
        };
        let mut state = groups.lock();
        let ids: Vec<GroupId> = state.tree.iter().collect();
        for id in ids {
            groups.tell_all(&mut state, id);
        }
        drop(state);
        Ok(groups)
    }

    /// The same, with made-up processes.
    #[cfg(test)]
    pub(crate) fn with_proc(self, proc: Arc<dyn Proc>) -> Groups {
        Groups { proc, ..self }
    }

    /// The path of a group that is there, or of a removed one whose number is taken.
    #[cfg(test)]
    pub(crate) fn path(&self, id: GroupId) -> String {
        self.lock().tree.path(id)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn devices(&self) -> DeviceList {
        self.devices.all()
    }

    /// The devices.
    pub fn device_table(&self) -> &Arc<DeviceTable> {
        &self.devices
    }

    /// Tells one device what holds for a group.
    fn tell(state: &State, device: &dyn Device, id: GroupId) {
        let parent = state.tree.parent(id).unwrap_or(GroupId::ROOT);
        let settings = state.effective(id, &device.info().name);
        let told = device.control(Control::SetGroup(id, parent, settings));
        told.expect("a group may always be set");
    }

    /// Tells all devices of a group, once.
    fn tell_all(&self, state: &mut State, id: GroupId) {
        if state.told.insert(id) {
            for device in self.devices().iter() {
                Groups::tell(state, &**device, id);
            }
        }
    }

    /// Gives numbers free that nobody needs any more.
    fn reap(&self, state: &mut State) {
        if state.tree.dying().is_empty() {
            return;
        }
        let gathered = state.members.values().filter_map(|member| member.payer.in_use());
        let gathered: BTreeSet<GroupId> = gathered.collect();
        // A parent is asked about only when its children are gone: devices count a request in all
        // groups above it, so they must know these as long.
        let devices = self.devices();
        let busy = |id| devices.iter().filter(|device| !device.forget_group(id)).count();
        let made = &mut state.made;
        let free = |id| !gathered.contains(&id) && !made.is_claimed(id) && busy(id) == 0;
        let reaped = state.tree.reap(free);
        for id in reaped {
            state.told.remove(&id);
            state.of_cluster.values_mut().for_each(|groups| _ = groups.remove(&id));
            state.made.reaped(id);
            state.cgroups.reaped(id);
            state.containers.reaped(id);
        }
    }

    /// The group of a path.
    ///
    /// # Errors
    /// There is none.
    pub fn find(&self, path: &str) -> Result<GroupId, TreeError> {
        self.lock().tree.find(path)
    }

    /// Makes a group; with `parents`, what is missing above it too, and one that is there already
    /// is no error.
    ///
    /// # Errors
    /// See [`TreeError`].
    pub fn create(&self, path: &str, parents: bool) -> Result<GroupInfo, GroupError> {
        let mut state = self.lock();
        let id = self.create_in(&mut state, path, parents)?;
        Ok(state.info(id, &*self.proc))
    }

    fn create_in(
        &self,
        state: &mut State,
        path: &str,
        parents: bool,
    ) -> Result<GroupId, TreeError> {
        self.reap(state);
        let id = if parents { state.tree.create_all(path) } else { state.tree.create(path) }?;
        state.made.for_good(id);
        let above: Vec<GroupId> = state.tree.ancestors(id).collect();
        for id in above.into_iter().rev().chain([id]) {
            self.tell_all(state, id);
        }
        Ok(id)
    }

    /// Removes a group without groups in it that nobody pays as. Requests of it that are on their
    /// way go on under its settings.
    ///
    /// # Errors
    /// See [`TreeError`].
    pub fn remove(&self, path: &str) -> Result<(), GroupError> {
        let mut state = self.lock();
        let id = state.tree.find(path)?;
        self.check_payers(&mut state, id)?;
        state.tree.remove(id)?;
        state.tried.retain(|(tried, _), _| *tried != id);
        state.made.for_good(id);
        self.reap(&mut state);
        Ok(())
    }

    /// How many removed groups still have requests, as of the last look.
    pub fn dying_count(&self) -> usize {
        self.lock().tree.dying().len()
    }

    /// How many groups there are, the root included.
    pub fn count(&self) -> usize {
        self.lock().tree.count()
    }

    /// A file of a group: a setting as lines that could be written, or what `io.stat` and
    /// `io.pressure` say.
    ///
    /// # Errors
    /// No such group or file.
    pub fn read(&self, path: &str, file: &str) -> Result<String, GroupError> {
        let state = self.lock();
        let id = state.tree.find(path)?;
        match file {
            "io.stat" => Ok(stat::io_stat(&self.on_devices(id))),
            "io.pressure" => Ok(stat::io_pressure(&self.on_devices(id))),
            _ => Ok(state.tree.read(id, file)?),
        }
    }

    /// What holds for a group on one device or on all: the values of one file or of all, with
    /// where they come from.
    ///
    /// # Errors
    /// No such group, file or device.
    pub fn effective(
        &self,
        path: &str,
        file: Option<&str>,
        device: Option<&str>,
    ) -> Result<Vec<Explained>, GroupError> {
        let state = self.lock();
        let id = state.tree.find(path)?;
        let all_devices = self.devices();
        let devices = chosen(&all_devices, device)?;
        let mut all = Vec::new();
        let settings = FILES.iter().filter(|spec| spec.writable).map(|spec| spec.name);
        let files: Vec<&str> = file.map_or_else(|| settings.collect(), |file| vec![file]);
        for file in files {
            for device in &devices {
                all.push(state.tree.explain(id, file, device)?);
            }
        }
        Ok(all)
    }

    /// What a group did, on each device in order.
    fn on_devices(&self, id: GroupId) -> Vec<GroupOnDevice> {
        let all = self.devices();
        let on = |device: &Arc<dyn Device>| GroupOnDevice {
            device: device.info().name.clone(),
            status: device.group(id).unwrap_or_default(),
        };
        all.iter().map(on).collect()
    }

    /// A group and all below it, depth first, by name.
    ///
    /// # Errors
    /// There is none.
    pub fn list(&self, path: &str) -> Result<Vec<GroupInfo>, GroupError> {
        let state = self.lock();
        let id = state.tree.find(path)?;
        let (tree, mut payers) = (state.tree.clone(), state.payers());
        drop(state);
        payers.count_moved(&*self.proc, |_| true);
        // A thousand groups are some milliseconds of text, for which nobody is to wait.
        Ok(payers.infos(&tree, id))
    }

    /// What a group and those below it did, in the order of [`Groups::list`]; of the first `most`,
    /// with the number of those left out.
    ///
    /// # Errors
    /// There is none.
    pub fn stat(&self, path: &str, most: usize) -> Result<(Vec<OnDevices>, usize), GroupError> {
        let state = self.lock();
        let id = state.tree.find(path)?;
        let all: Vec<GroupId> = state.tree.subtree(id).collect();
        let left_out_count = all.len().saturating_sub(most);
        let shown = all.into_iter().take(most).map(|id| (id, state.tree.path(id)));
        let shown: Vec<(GroupId, String)> = shown.collect();
        drop(state);
        let mut stats: Vec<(GroupId, OnDevices)> =
            shown.into_iter().map(|(id, path)| (id, (path, self.on_devices(id)))).collect();
        // One that was removed meanwhile may have given its number to another.
        let state = self.lock();
        stats.retain(|(id, (path, _))| state.tree.find(path) == Ok(*id));
        drop(state);
        Ok((stats.into_iter().map(|(_, stat)| stat).collect(), left_out_count))
    }
}

impl State {
    fn info(&self, id: GroupId, proc: &dyn Proc) -> GroupInfo {
        let mut payers = self.payers();
        payers.count_moved(proc, |group| group == id);
        payers.info(&self.tree, id)
    }
}
