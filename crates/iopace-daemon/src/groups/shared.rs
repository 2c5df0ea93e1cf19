//! What is said of a device that is a part of a volume of several hosts, for whoever shows or
//! explains what holds there.

use super::Groups;
use iopace_core::group::{Rates, Weight};
use iopace_core::time::Nanos;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// A device that several hosts share, as it stood at the last turn of its volume.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct SharedDevice {
    /// The volume.
    pub(crate) volume: String,
    /// For so long the store has not been reached; none: it was, the last time.
    pub(crate) dark_for: Option<Nanos>,
    /// The weights of the groups directly below the root as they were set, for all hosts or here.
    /// The engine has others, computed from what all hosts have set.
    pub(crate) weights: BTreeMap<String, Weight>,
    /// This host's part of each limit of the sum, by group.
    pub(crate) limits: BTreeMap<String, Rates>,
    /// By group and file: the value that is set for all hosts.
    pub(crate) values: BTreeMap<(String, &'static str), String>,
}

impl Groups {
    /// Takes note of how a shared device stands.
    pub(crate) fn set_shared(&self, device: &str, shared: SharedDevice) {
        self.lock().shared.insert(device.to_owned(), Arc::new(shared));
    }

    /// A device as a part of a volume of several hosts; none if it is not.
    pub(crate) fn shared(&self, device: &str) -> Option<Arc<SharedDevice>> {
        self.lock().shared.get(device).cloned()
    }

    /// The names of the devices that several hosts share.
    pub(crate) fn shared_devices(&self) -> BTreeSet<String> {
        self.lock().shared.keys().cloned().collect()
    }

    /// What is set for a group on all hosts, by file, as lines that begin with the volume.
    pub(crate) fn shared_files(&self, group: &str) -> BTreeMap<String, String> {
        let mut files: BTreeMap<String, String> = BTreeMap::new();
        for shared in self.lock().shared.values() {
            let of_group = shared.values.iter().filter(|((path, _), _)| path == group);
            for ((_, file), value) in of_group {
                let line = format!("{} {value}\n", shared.volume);
                files.entry((*file).to_owned()).or_default().push_str(&line);
            }
        }
        files
    }
}
