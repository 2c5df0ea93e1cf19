//! From a configuration to a tree.

use super::{GroupError, Groups};
use crate::config::{DaemonConfig, ExportConfig, GroupConfig};
use crate::device::Device;
use crate::start_error::StartError;
use iopace_groups::tree::Tree;
use std::sync::Arc;

impl Groups {
    /// The groups of a daemon, with the rules of its mounts.
    ///
    /// # Errors
    /// As [`Groups::mapping`].
    pub(crate) fn of_config(
        config: &DaemonConfig,
        devices: Vec<Arc<dyn Device>>,
    ) -> Result<Groups, StartError> {
        let mapped = config.mounts.iter().flat_map(|mount| mount.rules.limited_by_cgroups());
        let mapped: Vec<&str> = mapped.collect();
        Groups::mapping(&mapped, &config.groups, &config.exports, devices)
    }

    /// [`Groups::mapping`] where no group stands for a cgroup.
    ///
    /// # Errors
    /// The same.
    pub fn start(
        groups: &[GroupConfig],
        exports: &[ExportConfig],
        devices: Vec<Arc<dyn Device>>,
    ) -> Result<Groups, StartError> {
        Groups::mapping(&[], groups, exports, devices)
    }
}

/// What is wrong in a configuration, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Misconfigured {
    /// The place of the group in the list.
    pub group: usize,
    /// The place of the file in the group, if it is about one.
    pub file: Option<usize>,
    /// What is wrong.
    pub error: GroupError,
}

/// A device's name, and its `nr_group_requests`.
pub type DeviceSlots = (String, Option<u32>);

/// The tree of a configuration: all groups, then what is set for them, parents first. Devices are
/// named with the most slots that they give each group, if they do; below the paths that are
/// `mapped` groups stand for cgroups.
///
/// # Errors
/// See [`Misconfigured`].
pub fn configured(
    groups: &[GroupConfig],
    devices: &[DeviceSlots],
    mapped: &[&str],
) -> Result<Tree, Misconfigured> {
    let given = devices.iter().filter_map(|(name, requests)| Some((name.clone(), (*requests)?)));
    let mut tree = Tree::with_group_requests(given);
    mapped.iter().for_each(|path| tree.map_cgroups(path));
    let names: Vec<&str> = devices.iter().map(|(name, _)| name.as_str()).collect();
    let wrong = |group, file, error| Misconfigured { group, file, error };
    let mut order = Vec::new();
    for (at, group) in groups.iter().enumerate() {
        let id = tree.create_all(&group.path).map_err(|error| wrong(at, None, error.into()))?;
        order.push((tree.ancestors(id).count(), at, id));
    }
    order.sort_unstable();
    for (_, at, id) in order {
        for (place, (file, text)) in groups[at].files.iter().enumerate() {
            tree.write(id, file, text, &names)
                .map_err(|error| wrong(at, Some(place), error.into()))?;
        }
    }
    Ok(tree)
}
