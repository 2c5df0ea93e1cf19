//! Settings of groups in recommend mode: what is written is told to the devices' shadows only.

use super::write::by_name;
use super::{GroupError, Groups, State};
use iopace_core::engine::Control;
use iopace_core::group::Settings;
use iopace_core::request::GroupId;
use std::collections::BTreeMap;

/// The lines that are tried, by file; for a group on a device, by its place.
pub(super) type Tried = BTreeMap<(GroupId, usize), BTreeMap<String, String>>;

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
        for place in 0..self.devices.len() {
            let mut files = state.tried.get(&(id, place)).cloned().unwrap_or_default();
            match (file, text.as_deref()) {
                (None, _) => files.clear(),
                (Some(file), Some(text)) => _ = files.insert(file.into(), text.into()),
                (Some(file), None) => _ = files.remove(file),
            }
            let settings = self.as_tried(&state, (id, place), &files)?;
            if settings.is_none() {
                state.tried.remove(&(id, place));
            } else {
                state.tried.insert((id, place), files);
            }
            self.tell_tried((id, place), settings);
        }
        state.made.keep(id);
        Ok(())
    }

    /// Ends what is tried on a device.
    pub fn end_recommend(&self, device: &str) {
        let mut state = self.lock();
        let Some(place) = self.names.iter().position(|name| name == device) else { return };
        state.tried.retain(|(_, at), _| *at != place);
        let ended = self.devices[place].control(Control::Recommend(None));
        ended.expect("it can always be ended");
    }

    /// What is tried for groups on a device, by path.
    pub fn tried(&self, device: &str) -> Vec<(String, BTreeMap<String, String>)> {
        let state = self.lock();
        let here = state.tried.iter().filter(|((_, at), _)| self.names[*at] == device);
        here.map(|((id, _), files)| (state.tree.path(*id), files.clone())).collect()
    }

    /// What would hold for a group on a device; `None` if that is what holds.
    fn as_tried(
        &self,
        state: &State,
        (id, place): (GroupId, usize),
        files: &BTreeMap<String, String>,
    ) -> Result<Option<Settings>, GroupError> {
        let mut tree = state.tree.clone();
        for (file, text) in files {
            tree.write(id, file, text, &self.names())?;
        }
        let name = &self.names[place];
        let settings = tree.effective(id, name);
        Ok((settings != state.tree.effective(id, name)).then_some(settings))
    }

    fn tell_tried(&self, (id, place): (GroupId, usize), settings: Option<Settings>) {
        let told = self.devices[place].control(Control::RecommendGroup(id, settings));
        told.expect("a group may always be tried");
    }

    /// Something was set for a group: what is tried for it lies over that. If the two do not go
    /// together, or come to the same, nothing is tried any more.
    pub(super) fn retry(&self, state: &mut State, id: GroupId) {
        for place in 0..self.devices.len() {
            let Some(files) = state.tried.get(&(id, place)) else { continue };
            let settings = self.as_tried(state, (id, place), files).ok().flatten();
            if settings.is_none() {
                state.tried.remove(&(id, place));
            }
            self.tell_tried((id, place), settings);
        }
    }
}
