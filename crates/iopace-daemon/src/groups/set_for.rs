//! What holds for groups on a device, for whoever compares it with what they get.

use super::Groups;
use iopace_core::group::Settings;
use std::collections::BTreeMap;

impl Groups {
    /// What holds on a device for the groups of these paths; those that are gone are left out.
    pub(crate) fn settings_on<'a>(
        &self,
        device: &str,
        paths: impl Iterator<Item = &'a str>,
    ) -> BTreeMap<String, Settings> {
        let state = self.lock();
        let known = paths.filter_map(|path| Some((path, state.tree.find(path).ok()?)));
        known.map(|(path, id)| (path.to_owned(), state.tree.effective(id, device))).collect()
    }
}
