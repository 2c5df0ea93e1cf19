//! Exports and connections, and the groups that they pay as.
//!
//! A connection pays as the group of its export and follows it, until it is moved by itself. One
//! that has named a group, as in `disk@/vms/web`, counts as moved.

use super::payer::Payer;
use super::{GroupError, Groups, State};
use iopace_core::request::GroupId;
use iopace_groups::tree::Tree;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;

/// An export and its group.
pub(super) struct PaidExport {
    pub(super) name: String,
    pub(super) group: GroupId,
    /// It is about to be removed: nobody opens it any more.
    pub(super) is_closing: bool,
}

/// A connection with an export open; its group is in its payer.
pub(super) struct Member {
    pub(super) payer: Arc<Payer>,
    /// The number of its export.
    pub(super) export: usize,
    /// It has a group of its own and does not follow its export.
    pub(super) is_moved: bool,
    /// The name in the certificate of the client.
    pub(super) certificate: Option<String>,
}

/// A connection with an export open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConnectionInfo {
    /// Its number.
    pub number: u64,
    /// Its export.
    pub export: String,
    /// The path of the group that it pays as.
    pub group: String,
    /// It has a group of its own and does not follow its export.
    pub is_moved: bool,
    /// The name in the certificate of the client, if it had to show one.
    pub certificate: Option<String>,
}

impl State {
    /// The number of an export.
    ///
    /// # Errors
    /// There is none of that name.
    pub(super) fn export(&self, name: &str) -> Result<usize, GroupError> {
        let found = self.exports.iter().find(|(_, known)| known.name == name);
        found.map(|(number, _)| *number).ok_or_else(|| {
            let known = self.exports.values().map(|export| export.name.clone()).collect();
            GroupError::NoExport { name: name.into(), known }
        })
    }
}

impl Groups {
    /// The connections that have an export open.
    pub fn connections(&self) -> Vec<ConnectionInfo> {
        let state = self.lock();
        let infos = state.members.iter().map(|(number, member)| state.connection(*number, member));
        infos.collect()
    }

    /// The path of the group of each export, by its number.
    pub fn export_groups(&self) -> BTreeMap<usize, String> {
        let state = self.lock();
        let path =
            |(number, export): (&usize, &PaidExport)| (*number, state.tree.path(export.group));
        state.exports.iter().map(path).collect()
    }

    /// How often an export has got another group: as long as this stays, none has.
    pub(crate) fn exports_moved(&self) -> u64 {
        self.exports_moved.load(SeqCst)
    }

    /// Another group pays for an export and for those of its connections that follow it.
    ///
    /// # Errors
    /// No such export or group.
    pub fn move_export(&self, export: &str, path: &str) -> Result<(), GroupError> {
        let mut state = self.lock();
        let group = state.tree.find(path)?;
        let number = state.export(export)?;
        self.move_export_in(&mut state, number, group);
        Ok(())
    }

    /// The same for the export of this number, under the lock.
    pub(super) fn move_export_in(&self, state: &mut State, number: usize, group: GroupId) {
        let State { tree, exports, members, .. } = state;
        let Some(export) = exports.get_mut(&number) else { return };
        tree.add_member(group);
        tree.remove_member(export.group);
        export.group = group;
        let follow = |member: &&Member| member.export == number && !member.is_moved;
        for member in members.values().filter(follow) {
            member.move_to(tree, group);
        }
        self.exports_moved.fetch_add(1, SeqCst);
    }

    /// Another group pays for a connection from its next request on; it follows its export no more.
    ///
    /// # Errors
    /// No such connection or group.
    pub fn move_connection(&self, number: u64, path: &str) -> Result<ConnectionInfo, GroupError> {
        let mut state = self.lock();
        let group = state.tree.find(path)?;
        let State { tree, members, .. } = &mut *state;
        let member = members.get_mut(&number).ok_or(GroupError::NoConnection(number))?;
        member.is_moved = true;
        member.move_to(tree, group);
        Ok(state.connection(number, &state.members[&number]))
    }

    /// A connection has opened an export, as the group of the export or as the one that it named.
    pub(crate) fn join(
        &self,
        (number, payer, certificate): (u64, &Arc<Payer>, Option<&str>),
        export: usize,
        named: Option<&str>,
    ) -> Result<(), GroupError> {
        let mut state = self.lock();
        let open = state.exports.get(&export).filter(|export| !export.is_closing);
        let of_export = open.ok_or(GroupError::ExportGone)?.group;
        let group = match named {
            Some(path) => state.tree.find(path)?,
            None => of_export,
        };
        state.tree.add_member(group);
        payer.set(group);
        let is_moved = named.is_some();
        let certificate = certificate.map(str::to_owned);
        let member = Member { payer: Arc::clone(payer), export, is_moved, certificate };
        state.members.insert(number, member);
        Ok(())
    }

    /// A connection has ended, whether it had opened an export or not.
    pub(crate) fn leave(&self, number: u64) {
        let mut state = self.lock();
        if let Some(member) = state.members.remove(&number) {
            state.tree.remove_member(member.payer.group());
        }
    }
}

impl Member {
    fn move_to(&self, tree: &mut Tree, group: GroupId) {
        let payer = &self.payer;
        tree.add_member(group);
        tree.remove_member(payer.group());
        payer.set(group);
    }
}

impl State {
    fn connection(&self, number: u64, member: &Member) -> ConnectionInfo {
        let export = self.exports.get(&member.export);
        ConnectionInfo {
            number,
            export: export.map(|export| export.name.clone()).unwrap_or_default(),
            group: self.tree.path(member.payer.group()),
            is_moved: member.is_moved,
            certificate: member.certificate.clone(),
        }
    }
}
