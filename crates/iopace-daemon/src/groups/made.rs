//! Groups that are made for callers of mounts, and who holds which group's number.
//!
//! A class of `ionice` or a mapped cgroup is made into a group when somebody needs it, and goes
//! when it was unused for a while. One that a user makes too, or sets something for, is the
//! user's from then on and stays.

use super::cgroups::LookedCgroup;
use super::{GroupError, GroupInfo, Groups, State};
use crate::device_table::names;
use crate::limits::{MADE_GROUPS_MAX, MADE_GROUPS_OF_USER_MAX, MADE_UNUSED};
use crate::process::Hierarchy;
use iopace_core::request::GroupId;
use iopace_core::time::Instant;
use iopace_groups::tree::{Tree, TreeError};
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The number of a group that somebody pays as: no other group gets it while this or a clone of it
/// is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Claim(Arc<GroupId>);

impl Claim {
    /// The group.
    pub(crate) fn group(&self) -> GroupId {
        *self.0
    }
}

/// The group that is to pay.
#[derive(Clone, Debug)]
pub(crate) struct Wanted<'a> {
    /// The group that the rules give.
    pub(crate) base: GroupId,
    /// Names of groups below it, made if they are missing.
    pub(crate) below: &'a [String],
    /// The cgroup that the last of these stands for, and the hierarchy in which it has limits, if
    /// the groups are to have these.
    pub(crate) limiting: Option<(Hierarchy, &'a str)>,
    /// A group in that one, with something set for it.
    pub(crate) class: Option<Setting>,
    /// The user for whom groups are made.
    pub(crate) uid: u32,
}

/// A group with one line in one of its files.
#[derive(Clone, Debug)]
pub(crate) struct Setting {
    /// Its name.
    pub(crate) name: Cow<'static, str>,
    /// The file.
    pub(crate) file: &'static str,
    /// The line.
    pub(crate) text: String,
}

/// A group that was made here.
#[derive(Clone, Copy, Debug)]
struct MadeGroup {
    /// The user for whom it was made.
    uid: u32,
    /// Since when nobody pays as it.
    unused: Option<Instant>,
}

#[derive(Default)]
pub(super) struct Made {
    /// Groups that were made here.
    all: BTreeMap<GroupId, MadeGroup>,
    /// One for each group that was ever claimed, besides those that were given away.
    claims: BTreeMap<GroupId, Claim>,
    /// Groups that a user made for a while, and since when nobody pays as them.
    temporary: BTreeMap<GroupId, Option<Instant>>,
    /// It was said that there are too many.
    warned: bool,
}

impl Made {
    pub(super) fn claim(&mut self, id: GroupId) -> Claim {
        self.claims.entry(id).or_insert_with(|| Claim(Arc::new(id))).clone()
    }

    /// Whether somebody has the number. If not, everything that those did who had it is seen by who
    /// asks (that is why it is not a look at the count).
    pub(super) fn is_claimed(&mut self, id: GroupId) -> bool {
        self.claims.get_mut(&id).is_some_and(|claim| Arc::get_mut(&mut claim.0).is_none())
    }

    /// The groups that were made here.
    pub(super) fn made(&self) -> BTreeSet<GroupId> {
        self.all.keys().copied().collect()
    }

    /// The number is free.
    pub(super) fn reaped(&mut self, id: GroupId) {
        self.claims.remove(&id);
    }

    /// The group is one that a user made for a while.
    pub(super) fn for_a_while(&mut self, id: GroupId) {
        self.temporary.insert(id, None);
    }

    /// The group is there for good from now on, or gone.
    pub(super) fn for_good(&mut self, id: GroupId) {
        self.temporary.remove(&id);
        self.keep(id);
    }

    /// The group is the user's from now on, or gone.
    pub(super) fn keep(&mut self, id: GroupId) {
        self.all.remove(&id);
    }
}

impl Groups {
    /// Holds the group of a path, which is made with what is missing above it.
    ///
    /// # Errors
    /// See [`TreeError`].
    pub(crate) fn claim(&self, path: &str) -> Result<Claim, TreeError> {
        let mut state = self.lock();
        self.reap(&mut state);
        let id = state.tree.create_all(path)?;
        let above: Vec<GroupId> = state.tree.ancestors(id).collect();
        for id in above.into_iter().rev().chain([id]) {
            self.tell_all(&mut state, id);
            state.made.keep(id);
        }
        Ok(state.made.claim(id))
    }

    /// The group that is wanted, or the nearest above it where it cannot be made. `cgroups`: what
    /// those that are wanted below stand for, where that was looked at.
    pub(super) fn make(
        &self,
        state: &mut State,
        base: GroupId,
        wanted: &Wanted<'_>,
        cgroups: Vec<Option<LookedCgroup>>,
    ) -> GroupId {
        let mut at = base;
        let mut cgroups = cgroups.into_iter();
        for name in wanted.below {
            match self.child(state, at, name, (None, wanted.uid)) {
                Ok(child) => at = child,
                Err(error) => {
                    state.made.warn(&error);
                    return at;
                }
            }
            if let Some(looked) = cgroups.next().flatten() {
                self.follow(state, at, looked);
            }
        }
        let Some(class) = &wanted.class else { return at };
        self.child(state, at, &class.name, (Some(class), wanted.uid)).unwrap_or_else(|error| {
            state.made.warn(&error);
            at
        })
    }

    /// The group of this name in another one.
    pub(super) fn child(
        &self,
        state: &mut State,
        parent: GroupId,
        name: &str,
        (class, uid): (Option<&Setting>, u32),
    ) -> Result<GroupId, TreeError> {
        let above = state.tree.path(parent);
        let path = format!("{}/{name}", above.trim_end_matches('/'));
        if let Ok(there) = state.tree.find(&path) {
            return Ok(there);
        }
        if !state.made.has_room(uid) {
            return Err(TreeError::TooMany { path, dying: state.tree.dying().len() });
        }
        self.reap(state);
        let id = state.tree.create(&path)?;
        if let Some(Setting { file, text, .. }) = class {
            let written = state.tree.write(id, file, text, &names(&self.devices()));
            written.expect("weights and classes may always be set");
        }
        self.tell_all(state, id);
        state.made.all.insert(id, MadeGroup { uid, unused: None });
        tracing::info!(path, "group made for callers");
        Ok(id)
    }

    /// Makes a group that goes by itself when nobody has paid as it for
    /// [`MADE_UNUSED`].
    ///
    /// # Errors
    /// See [`TreeError`].
    pub fn create_temporary(&self, path: &str, parents: bool) -> Result<GroupInfo, GroupError> {
        let mut state = self.lock();
        // One that is there stays as it is: that is an error.
        let parents = parents && state.tree.find(path).is_err();
        let id = self.create_in(&mut state, path, parents)?;
        state.made.for_a_while(id);
        Ok(state.info(id, &*self.proc))
    }

    /// Removes groups that a user made for a while, and that nobody has paid as for some time: who
    /// made them may have been killed.
    pub(crate) fn end_temporary(&self) {
        let mut state = self.lock();
        if state.made.temporary.is_empty() {
            return;
        }
        let now = self.proc.now();
        let all: Vec<GroupId> = state.made.temporary.keys().copied().collect();
        for id in all {
            let State { tree, made, .. } = &mut *state;
            let is_used =
                made.is_claimed(id) || tree.members(id) > 0 || tree.children(id).next().is_some();
            let Some(since) = made.temporary.get_mut(&id) else { continue };
            if is_used {
                *since = None;
                continue;
            }
            let since = *since.get_or_insert(now);
            if now.since(since) >= MADE_UNUSED {
                let path = tree.path(id);
                if tree.remove(id).is_ok() {
                    tracing::info!(path, "temporary group removed: nobody pays as it");
                    state.tried.retain(|(tried, _), _| *tried != id);
                }
                state.made.for_good(id);
            }
        }
        self.reap(&mut state);
    }

    /// Removes groups that were made here, below another one, and that nobody has paid as for a
    /// while; with `at_once`, those that nobody is known to pay as.
    pub(super) fn unmake(&self, state: &mut State, within: GroupId, at_once: bool) {
        let now = self.proc.now();
        let is_within = |tree: &Tree, id| tree.ancestors(id).any(|above| above == within);
        let found = state.made.all.keys().copied().filter(|id| is_within(&state.tree, *id));
        let mut all: Vec<GroupId> = found.collect();
        // Children before parents.
        all.sort_by_key(|id| std::cmp::Reverse(state.tree.ancestors(*id).count()));
        for id in all {
            let State { tree, made, containers, .. } = &mut *state;
            let is_used = made.is_claimed(id)
                || tree.members(id) > 0
                || tree.children(id).next().is_some()
                || containers.all.contains_key(&id);
            let since = &mut made.all.get_mut(&id).expect("one of them").unused;
            if is_used {
                *since = None;
                continue;
            }
            let since = *since.get_or_insert(now);
            if at_once || now.since(since) >= MADE_UNUSED {
                tree.remove(id).expect("nobody uses it");
                made.keep(id);
            }
        }
        self.reap(state);
    }
}

impl Made {
    /// Whether one more may be made for that user.
    fn has_room(&self, uid: u32) -> bool {
        let of_user = || self.all.values().filter(|made| made.uid == uid).count();
        let is_within_share = || uid == 0 || of_user() < MADE_GROUPS_OF_USER_MAX;
        self.all.len() < MADE_GROUPS_MAX && is_within_share()
    }

    /// Once: a program that needs many of them would fill the log.
    fn warn(&mut self, error: &TreeError) {
        if !std::mem::replace(&mut self.warned, true) {
            tracing::warn!(%error, "no group made for a caller: the one above pays");
        }
    }
}
