//! Settings of groups in recommend mode: what is written is told to the devices' shadows only.

use super::write::by_name;
use super::{GroupError, Groups, State};
use crate::device::Device;
use crate::device_table::names;
use iopace_core::engine::Control;
use iopace_core::group::Settings;
use iopace_core::request::GroupId;
use std::collections::BTreeMap;

/// The lines that are tried, by file; for a group on a device, by its name.
pub(super) type Tried = BTreeMap<(GroupId, String), BTreeMap<String, String>>;

impl Groups {
    /// Tries lines of a file of a group, all or none; no lines: nothing is tried for the file any
    /// more; no file: nothing for the group. What was tried for the file before is replaced.
    ///
    /// # Errors
    /// No such group or file; or which line is wrong, and what would be right.
    pub fn recommend(
        &self,
        path: &str,
        file: Option<&str>,
        text: Option<&str>,
    ) -> Result<(), GroupError> {
        let mut state = self.lock();
        let id = state.tree.find(path)?;
        if let Some(file) = file {
            state.tree.read(id, file)?;
        }
        let text = text.map(|text| by_name(text, |number| self.names_on(number))).transpose()?;
        for device in self.devices().iter() {
            let key = (id, device.info().name.clone());
            let mut files = state.tried.get(&key).cloned().unwrap_or_default();
            match (file, text.as_deref()) {
                (None, _) => files.clear(),
                (Some(file), Some(text)) => _ = files.insert(file.into(), text.into()),
                (Some(file), None) => _ = files.remove(file),
            }
            let settings = self.as_tried(&state, &key, &files)?;
            if settings.is_none() {
                state.tried.remove(&key);
            } else {
                state.tried.insert(key, files);
            }
            tell_tried(&**device, id, settings);
        }
        state.made.keep(id);
        Ok(())
    }

    /// Ends what is tried on a device.
    pub fn end_recommend(&self, device: &str) {
        let mut state = self.lock();
        let Some(found) = self.devices.find(device) else { return };
        state.tried.retain(|(_, on), _| on != device);
        let ended = found.control(Control::Recommend(None));
        ended.expect("it can always be ended");
    }

    /// What is tried for groups on a device, by path.
    pub fn tried(&self, device: &str) -> Vec<(String, BTreeMap<String, String>)> {
        let state = self.lock();
        let here = state.tried.iter().filter(|((_, on), _)| on == device);
        here.map(|((id, _), files)| (state.tree.path(*id), files.clone())).collect()
    }

    /// What would hold for a group on a device; `None` if that is what holds.
    fn as_tried(
        &self,
        state: &State,
        (id, name): &(GroupId, String),
        files: &BTreeMap<String, String>,
    ) -> Result<Option<Settings>, GroupError> {
        let (devices, mut tree) = (self.devices(), state.tree.clone());
        for (file, text) in files {
            tree.write(*id, file, text, &names(&devices))?;
        }
        let settings = tree.effective(*id, name);
        Ok((settings != state.tree.effective(*id, name)).then_some(settings))
    }

    /// Something was set for a group: what is tried for it lies over that. If the two do not go
    /// together, or come to the same, nothing is tried any more.
    pub(super) fn retry(&self, state: &mut State, id: GroupId) {
        for device in self.devices().iter() {
            let key = (id, device.info().name.clone());
            let Some(files) = state.tried.get(&key) else { continue };
            let settings = self.as_tried(state, &key, files).ok().flatten();
            if settings.is_none() {
                state.tried.remove(&key);
            }
            tell_tried(&**device, id, settings);
        }
    }
}

fn tell_tried(device: &dyn Device, id: GroupId, settings: Option<Settings>) {
    let told = device.control(Control::RecommendGroup(id, settings));
    told.expect("a group may always be tried");
}
