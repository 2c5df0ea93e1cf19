//! The table behind [`super::Inodes`], which locks it: nothing here waits for a disk.

use super::super::forbids::{Forbidden, Forbids};
use super::super::handle::{Address, Handle, Identity, Origin};
use super::super::inode::Inode;
use super::super::locks::FileLocks;
use super::super::numbers::{Key, Numbers};
use super::{EVICTED_AT_ONCE, LOOKED_AT, QUEUE_SLACK};
use crate::fuse::tree::file_state::FileState;
use crate::io::pending_space::PendingSpace;
use rustix::fs::Stat;
use std::collections::{HashMap, HashSet, VecDeque};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Weak};

/// One inode and how often the kernel was told of it.
#[derive(Debug)]
pub(super) struct Known {
    pub(super) body: Body,
    pub(super) lookups: u64,
    /// Whether it was asked for since it was last looked at for eviction.
    pub(super) is_used: bool,
}

/// An inode with or without its descriptor.
#[derive(Debug)]
pub(super) enum Body {
    Open(Arc<Inode>),
    Closed(Box<Closed>),
}

/// The rest of an inode without a descriptor.
#[derive(Debug)]
pub(super) struct Closed {
    pub(super) address: Address,
    shown: u64,
    pub(super) generation: u64,
    forbidden: Forbids,
    /// The state that the scheduled path cannot find out again.
    state: Option<Box<FileState>>,
}

impl Known {
    pub(super) fn key(&self) -> Key {
        match &self.body {
            Body::Open(inode) => inode.key(),
            Body::Closed(closed) => {
                (closed.address.identity.device, closed.address.identity.number)
            }
        }
    }

    pub(super) fn is_open(&self) -> bool {
        matches!(self.body, Body::Open(_))
    }
}

/// All that the kernel knows, and in which order it got to.
#[derive(Debug, Default)]
pub(super) struct Table {
    pub(super) known: HashMap<u64, Known>,
    /// How many have a descriptor.
    pub(super) open_count: usize,
    /// Those that have one, in the order in which eviction looks at them. Some may be gone or
    /// closed again, and some here twice.
    pub(super) open: VecDeque<u64>,
    /// Those that have none, in the order in which they were evicted; the same holds.
    pub(super) closed: VecDeque<u64>,
    pub(super) numbers: Numbers,
    /// Mounts below the directory, by their number.
    pub(super) origins: HashMap<u64, Weak<Origin>>,
}

impl Table {
    /// The number by which the kernel asks for a file.
    pub(super) fn id_of(&mut self, key: Key) -> u64 {
        self.numbers.asked_by(key).unwrap_or_else(|| self.shown(key))
    }

    /// The number that a file shows.
    pub(super) fn shown(&mut self, key: Key) -> u64 {
        let Table { known, numbers, .. } = self;
        let is_other = |id| known.get(&id).is_some_and(|one: &Known| one.key() != key);
        numbers.id_of(key, is_other)
    }

    /// Where the file is that is known by this key, if it has no descriptor and was found through
    /// another mount than `origin`.
    pub(super) fn closed_elsewhere(&mut self, key: Key, origin: &Arc<Origin>) -> Option<Address> {
        let id = self.id_of(key);
        match &self.known.get(&id)?.body {
            Body::Closed(closed) if !Arc::ptr_eq(&closed.address.origin, origin) => {
                Some(closed.address.clone())
            }
            Body::Open(_) | Body::Closed(_) => None,
        }
    }

    /// See [`super::Inodes::found`].
    pub(super) fn found(
        &mut self,
        (path, stat, origin): (OwnedFd, &Stat, &Arc<Origin>),
        forbids: Forbids,
        leaving: &Arc<PendingSpace>,
    ) -> Arc<Inode> {
        let identity = Identity::of(stat);
        let key = (identity.device, identity.number);
        let (mut id, shown) = (self.id_of(key), self.shown(key));
        if let Some(Known { body: Body::Open(inode), lookups, is_used }) = self.known.get_mut(&id) {
            *lookups += 1;
            *is_used = true;
            inode.forbidden.add(forbids);
            return Arc::clone(inode);
        }
        let (mut generation, mut forbidden, mut state) = (None, forbids, None);
        let mut lookups = 1;
        let is_same = |closed: &Closed| {
            closed.address.identity == identity
                && Handle::of(path.as_fd()).is_ok_and(|handle| handle == closed.address.handle)
        };
        match self.known.get(&id) {
            // That one was removed below, and this is another.
            Some(Known { body: Body::Closed(closed), .. }) if !is_same(closed) => {
                id = self.numbers.replaced(key);
            }
            _ => {}
        }
        if let Some(Known { body: Body::Closed(closed), lookups: before, .. }) =
            self.known.remove(&id)
        {
            lookups += before;
            generation = Some(closed.generation);
            forbidden = closed.forbidden.and(forbids);
            state = closed.state;
        }
        let inode = Arc::new(Inode {
            device: identity.device,
            number: identity.number,
            id,
            shown,
            generation: generation.unwrap_or_else(|| self.numbers.generation()),
            kind: identity.kind,
            path,
            origin: Arc::clone(origin),
            forbidden: Forbidden::new(forbidden),
            locks: FileLocks::default(),
            state: state.map(|state| *state).unwrap_or_default(),
            hold: leaving.hold(),
        });
        self.numbers.told(key, shown);
        self.opened(&inode, lookups);
        inode
    }

    /// An inode has a descriptor from now on.
    fn opened(&mut self, inode: &Arc<Inode>, lookups: u64) {
        let body = Body::Open(Arc::clone(inode));
        self.known.insert(inode.id, Known { body, lookups, is_used: true });
        self.open_count += 1;
        let Table { known, open, open_count, .. } = self;
        open.push_back(inode.id);
        tidy(open, *open_count, |id| known.get(&id).is_some_and(Known::is_open));
    }

    /// Gives a closed inode the descriptor that it was opened by.
    pub(super) fn reopened(
        &mut self,
        id: u64,
        path: OwnedFd,
        leaving: &Arc<PendingSpace>,
    ) -> Option<Arc<Inode>> {
        let Known { body: Body::Closed(closed), lookups, .. } = self.known.remove(&id)? else {
            return None;
        };
        let Closed { address, shown, generation, forbidden, state } = *closed;
        let inode = Arc::new(Inode {
            device: address.identity.device,
            number: address.identity.number,
            id,
            shown,
            generation,
            kind: address.identity.kind,
            path,
            origin: address.origin,
            forbidden: Forbidden::new(forbidden),
            locks: FileLocks::default(),
            state: state.map(|state| *state).unwrap_or_default(),
            hold: leaving.hold(),
        });
        self.opened(&inode, lookups);
        Some(inode)
    }

    /// Inodes that are not in use and were not asked for since they were looked at last. They
    /// leave the queue, and come back to it by [`Table::close`].
    pub(super) fn candidates(&mut self) -> Vec<Arc<Inode>> {
        let mut found = Vec::with_capacity(EVICTED_AT_ONCE);
        for _ in 0..LOOKED_AT.min(self.open.len()) {
            let Some(id) = self.open.pop_front() else { break };
            let Some(one) = self.known.get_mut(&id) else { continue };
            let Body::Open(inode) = &one.body else { continue };
            let stays = Arc::strong_count(inode) > 1 || !inode.origin.has_handles();
            if std::mem::take(&mut one.is_used) || stays {
                self.open.push_back(id);
                continue;
            }
            found.push(Arc::clone(inode));
            if found.len() == EVICTED_AT_ONCE {
                break;
            }
        }
        found
    }

    /// Keeps the handle of a candidate instead of its descriptor, unless it came into use. Returns
    /// the descriptor.
    pub(super) fn close(&mut self, inode: Arc<Inode>, handle: Option<Handle>) -> Option<OwnedFd> {
        let id = inode.id;
        let one = self.known.get_mut(&id)?;
        // All references come from the table: the second is ours, and there will be no third.
        let is_free = !one.is_used && Arc::strong_count(&inode) == 2;
        let Body::Open(known) = &one.body else { return None };
        if !Arc::ptr_eq(known, &inode) {
            return None;
        }
        let Some(handle) = handle.filter(|_| is_free) else {
            self.open.push_back(id);
            return None;
        };
        let (device, number) = inode.key();
        let identity = Identity { device, number, kind: inode.kind };
        let address = Address { identity, origin: Arc::clone(&inode.origin), handle };
        let (shown, generation) = (inode.shown, inode.generation);
        let forbidden = inode.forbidden.get();
        let closed = Closed { address, shown, generation, forbidden, state: None };
        one.body = Body::Closed(Box::new(closed));
        self.open_count -= 1;
        self.closed.push_back(id);
        let Inode { path, state, .. } = Arc::into_inner(inode)?;
        if !state.is_plain()
            && let Body::Closed(closed) = &mut one.body
        {
            closed.state = Some(Box::new(state));
        }
        let closed_count = self.known.len() - self.open_count;
        let Table { known, closed, .. } = self;
        tidy(closed, closed_count, |id| known.get(&id).is_some_and(|one| !one.is_open()));
        Some(path)
    }
}

/// Looks at the first of a queue until `count` are chosen. Those that belong there go to its end.
pub(super) fn turn(
    queue: &mut VecDeque<u64>,
    count: usize,
    chosen: &mut Vec<u64>,
    is_chosen: impl Fn(u64) -> Option<bool>,
) {
    for _ in 0..queue.len() {
        if chosen.len() == count {
            return;
        }
        let Some(id) = queue.pop_front() else { return };
        let Some(is_chosen) = is_chosen(id) else { continue };
        queue.push_back(id);
        if is_chosen {
            chosen.push(id);
        }
    }
}

/// Takes out of a queue those that no longer belong there or are there twice, once they are many.
fn tidy(queue: &mut VecDeque<u64>, count: usize, belongs: impl Fn(u64) -> bool) {
    if queue.len() > 2 * count + QUEUE_SLACK {
        let mut seen = HashSet::with_capacity(count);
        queue.retain(|id| belongs(*id) && seen.insert(*id));
    }
}
