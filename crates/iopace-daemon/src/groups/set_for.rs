//! What holds for groups on a device, for whoever compares it with what they get.

use super::{GroupError, Groups};
use crate::device::Device;
use crate::device_table::names;
use crate::limits::{LOOK_PAUSE, SETTINGS_LOOK};
use iopace_core::group::Settings;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::thread;

impl Groups {
    /// What holds on a device for the groups of these paths; those that are gone are left out. For
    /// many of them this takes pauses.
    pub(crate) fn settings_on<'a>(
        &self,
        device: &str,
        paths: impl Iterator<Item = &'a str>,
    ) -> BTreeMap<String, Settings> {
        let (mut paths, mut all) = (paths.peekable(), BTreeMap::new());
        loop {
            let state = self.lock();
            let known = paths.by_ref().take(SETTINGS_LOOK);
            let known = known.filter_map(|path| Some((path, state.tree.find(path).ok()?)));
            all.extend(known.map(|(path, id)| (path.to_owned(), state.effective(id, device))));
            drop(state);
            if paths.peek().is_none() {
                return all;
            }
            thread::sleep(LOOK_PAUSE);
        }
    }
}

/// The names of the devices that are meant: of one, or of all.
pub(super) fn chosen<'a>(
    devices: &'a [Arc<dyn Device>],
    device: Option<&str>,
) -> Result<Vec<&'a str>, GroupError> {
    let mut all = names(devices);
    let Some(name) = device else { return Ok(all) };
    if !all.contains(&name) {
        let known = all.into_iter().map(String::from).collect();
        return Err(GroupError::NoDevice { name: name.into(), known });
    }
    all.retain(|known| *known == name);
    Ok(all)
}
