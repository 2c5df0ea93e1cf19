//! Devices and exports that come and go while requests come.
//!
//! A connection opens an export under the lock of the groups, and an export is closed under it: so
//! nobody opens one that is about to be removed, and whoever removes one knows all who have it
//! open.

use super::members::PaidExport;
use super::{GroupError, Groups};
use crate::device::Device;
use iopace_core::request::GroupId;
use std::collections::BTreeSet;
use std::sync::Arc;

impl Groups {
    /// One more device, which learns of all groups; no other one has its name.
    pub(crate) fn add_device(&self, device: &Arc<dyn Device>) {
        let mut state = self.lock();
        self.reap(&mut state);
        let info = device.info();
        state.tree.set_group_requests(&info.name, info.nr_group_requests);
        // Parents first. A removed group may have requests elsewhere: all devices know the same.
        let dying = state.tree.dying().iter().rev();
        let all: Vec<GroupId> = state.tree.iter().chain(dying.copied()).collect();
        for id in all.into_iter().filter(|id| state.told.contains(id)) {
            Groups::tell(&state, &**device, id);
        }
        self.devices.add(Arc::clone(device));
    }

    /// A device is known no more, with what was set for groups on it.
    pub(crate) fn remove_device(&self, name: &str) {
        let mut state = self.lock();
        self.devices.remove(name);
        state.tree.forget_device(name);
        state.tree.set_group_requests(name, None);
        state.tried.retain(|(_, on), _| on != name);
    }

    /// One more export, of this number, which a group pays for.
    ///
    /// # Errors
    /// No such group.
    pub(crate) fn add_export(
        &self,
        number: usize,
        name: &str,
        group: &str,
    ) -> Result<(), GroupError> {
        let mut state = self.lock();
        let group = state.tree.find(group)?;
        state.tree.add_member(group);
        let export = PaidExport { name: name.into(), group, is_closing: false };
        state.exports.insert(number, export);
        Ok(())
    }

    /// Nobody opens the export from now on. With connections that have it open nothing is done,
    /// unless they are to be ended; their numbers.
    pub(crate) fn close_export(&self, number: usize, ends: bool) -> Result<(), BTreeSet<u64>> {
        let mut state = self.lock();
        let of_it = state.members.iter().filter(|(_, member)| member.export == number);
        let connections: BTreeSet<u64> = of_it.map(|(connection, _)| *connection).collect();
        if !connections.is_empty() && !ends {
            return Err(connections);
        }
        if let Some(export) = state.exports.get_mut(&number) {
            export.is_closing = true;
        }
        Ok(())
    }

    /// The export may be opened again: it is not removed after all.
    pub(crate) fn reopen_export(&self, number: usize) {
        if let Some(export) = self.lock().exports.get_mut(&number) {
            export.is_closing = false;
        }
    }

    /// The numbers of the connections that have the export open.
    pub(crate) fn connections_of(&self, number: usize) -> BTreeSet<u64> {
        let state = self.lock();
        let of_it = state.members.iter().filter(|(_, member)| member.export == number);
        of_it.map(|(connection, _)| *connection).collect()
    }

    /// The export, which was closed and which no connection has open, is gone.
    pub(crate) fn remove_export(&self, number: usize) {
        let mut state = self.lock();
        debug_assert!(state.members.values().all(|member| member.export != number));
        if let Some(export) = state.exports.remove(&number) {
            state.tree.remove_member(export.group);
        }
    }
}
