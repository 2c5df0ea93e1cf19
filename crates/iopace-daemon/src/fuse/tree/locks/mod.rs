//! Locks of `flock(2)` and `fcntl(2)`: taken below as well, so that those who come through the
//! mount and those who pass it exclude each other.
//!
//! ```text
//!  SETLK ─► file.rs: is an owner above in the way? (ranges.rs: the record) ─► yes: wait, or EAGAIN
//!              │ no                                                             ▲
//!              ▼                                                                │
//!           below.rs: the kernel below, by an open file of this owner alone ──► no: somebody past
//!              │ yes                                                            the mount has it
//!              ▼
//!           it is his
//! ```
//! Nobody who waits keeps a thread (waiting.rs). Who waits for somebody above is tried again when
//! that one unlocks; who waits for somebody past the mount is tried again from time to time
//! (foreign.rs).
//!
//! What was changed past the mount is told to the kernel before a lock is granted (changes.rs).
//! Memory that programs share by a file is for one side at a time (memory.rs).
//!
//! # When locks go
//! The kernel tells of each closed descriptor (`FLUSH`, which the caller waits for) and of the end
//! of an open file (`RELEASE`, for which nobody waits). The first takes the locks of a process, the
//! second those of the open file. So whoever asks, without waiting, for what an open file has of
//! which a descriptor was closed just now is answered a little later.

mod blocker;
mod budget;
mod changes;
mod file;
mod foreign;
mod ranges;
mod waiting;

use super::super::caller::Caller;
use super::super::inflight_operations::{InflightOperations, Late};
use super::Tree;
use super::data::Opened;
use super::known::part_of;
use super::open::OpenFiles;
use crate::clock;
use crate::limits::LOCK_CLOSING_PATIENCE;
use blocker::Blocker;
use budget::Budget;
pub(crate) use file::FileLocks;
use file::memory::{self, Refusals};
use file::{News, State, Tried};
use foreign::Rounds;
use iopace_fuse::{Errno, FileHandle, FileLock, ReplyEmpty};
use std::io;
use std::mem;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Arc, MutexGuard, PoisonError, Weak};
use waiting::{Waiters, Waiting, fail};

/// A lock that is asked for.
#[derive(Clone, Debug)]
struct Wish {
    /// The file.
    file: Arc<Opened>,
    /// The number of the open file.
    handle: u64,
    /// The user who asks.
    uid: u32,
    lock: FileLock,
}

/// What the locks of all files of a mount share.
#[derive(Debug)]
pub(super) struct Locks {
    budget: Arc<Budget>,
    waiters: Waiters,
    rounds: Rounds,
    /// Tells the kernel of changes below, if others may make any.
    teller: Option<Weak<InflightOperations>>,
    refusals: Refusals,
    /// All open files of the mount.
    files: Arc<OpenFiles>,
}

fn no_locks() -> io::Error {
    io::Error::from_raw_os_error(libc::ENOLCK)
}

fn errno(error: io::Error) -> Errno {
    Errno::from(error)
}

impl Locks {
    pub(super) fn new(
        descriptors: usize,
        teller: Option<Weak<InflightOperations>>,
        (files, device): (Arc<OpenFiles>, u64),
    ) -> Arc<Locks> {
        let budget = Arc::new(Budget::new(descriptors, part_of));
        let (waiters, rounds) = (Waiters::default(), Rounds::new(device));
        Arc::new(Locks { budget, waiters, rounds, teller, refusals: Refusals::default(), files })
    }

    /// Answers a wish that is fulfilled. What has changed below is told first, by a thread of its
    /// own: the kernel waits for pages that are being read, by requests of this user perhaps which
    /// wait for the thread that is here.
    fn grant(&self, wish: &Wish, news: News, reply: ReplyEmpty) {
        let is_lock = wish.lock.kind != libc::F_UNLCK && news != News::None;
        let teller = self.teller.as_ref().filter(|_| is_lock);
        let Some(inflight) = teller.and_then(Weak::upgrade) else { return reply.ok() };
        let (file, files) = (Arc::clone(&wish.file), Arc::clone(&self.files));
        let change = file.inode.locks.seen.changed(&file.inode);
        if change.is_none() && news == News::File {
            return reply.ok();
        }
        let tells = Arc::clone(&inflight);
        inflight.carry_out(wish.uid, move || {
            tells.changed_below(file.inode.id());
            if news == News::Database {
                // Whoever lets go of an open file last closes it: not those that a user serves.
                let device = file.inode.device;
                let is_near = |one: &&Arc<Opened>| one.inode.device == device && !one.is_aside;
                let all: Vec<Arc<Opened>> =
                    files.lock().iter().map(|(_, one)| one).filter(is_near).cloned().collect();
                memory::database(&file, &all).for_each(|id| tells.changed_below(id));
            }
            if let Some(change) = change {
                file.inode.locks.seen.told(change);
            }
            reply.ok();
        });
    }

    /// Answers one who does not wait for the blocker.
    fn refuse(&self, wish: &Wish, blocker: Blocker, late: &Late<'_, ReplyEmpty>) {
        self.say(wish, blocker);
        answer(late, Err(io::Error::from_raw_os_error(libc::EAGAIN)));
    }

    /// Says it if somebody past the mount shares the memory that was asked for.
    fn say(&self, wish: &Wish, blocker: Blocker) {
        let Blocker::Memory(below) = blocker else { return };
        let locks = &wish.file.inode.locks;
        let is_said = locks.state().is_refusal_said;
        if !is_said && self.refusals.say(&wish.file, (wish.lock.pid, below)) {
            locks.state().is_refusal_said = true;
        }
    }

    /// How many wait.
    pub(super) fn waiting_count(&self) -> usize {
        self.waiters.count()
    }

    /// The mount has ended.
    pub(super) fn end(&self) {
        self.waiters.end();
    }

    /// Fulfils a wish now, has it wait, or refuses it.
    fn set(self: &Arc<Self>, wish: Wish, waits: bool, late: &Late<'_, ReplyEmpty>) {
        let opened = Arc::clone(&wish.file);
        let locks = &opened.inode.locks;
        if wish.lock.kind != libc::F_UNLCK {
            locks.is_used.store(true, SeqCst);
        } else if !locks.is_used() {
            return answer(late, Ok(()));
        }
        let until = clock::now() + LOCK_CLOSING_PATIENCE;
        let mut state = locks.state();
        loop {
            let Tried { blocker, frees, news } = match state.attempt(&wish, &self.budget) {
                Ok(tried) => tried,
                Err(error) => {
                    state.clear(wish.lock.owner.0);
                    drop(state);
                    return answer(late, Err(error));
                }
            };
            if frees {
                self.wake_and_try(&mut state, &opened);
            }
            state.clear(wish.lock.owner.0);
            let Some(blocker) = blocker else {
                drop(state);
                if let Some(reply) = late.take() {
                    self.grant(&wish, news, reply);
                }
                return;
            };
            if waits {
                if matches!(blocker, Blocker::Memory(_)) {
                    drop(state);
                    self.say(&wish, blocker);
                    state = locks.state();
                }
                return self.wait(state, wish, blocker, late);
            }
            let left = clock::until(until).unwrap_or_default();
            if !state.is_closing(blocker) {
                drop(state);
                return self.refuse(&wish, blocker, late);
            } else if left.is_zero() {
                state.is_kept_open(blocker);
            } else {
                let waited = locks.closed.wait_timeout(state, left);
                state = waited.unwrap_or_else(PoisonError::into_inner).0;
            }
        }
    }

    fn wait(
        self: &Arc<Self>,
        mut state: MutexGuard<'_, State>,
        wish: Wish,
        blocker: Blocker,
        late: &Late<'_, ReplyEmpty>,
    ) {
        let inode = Arc::clone(&wish.file.inode);
        let added = self.waiters.add(&wish, blocker);
        let waiter = match added {
            Ok(waiter) => waiter,
            Err(error) => {
                drop(state);
                return answer(late, Err(error));
            }
        };
        let Some(reply) = late.take() else { return self.waiters.remove(&waiter) };
        if blocker.is_past()
            && let Err(error) = self.try_again(&inode, wish.uid)
        {
            self.waiters.remove(&waiter);
            return fail(Waiting { wish, reply }, error);
        }
        let (locks, told) = (Arc::downgrade(self), Arc::downgrade(&waiter));
        reply.on_interrupt(move || {
            if let (Some(locks), Some(waiter)) = (locks.upgrade(), told.upgrade()) {
                locks.waiters.interrupt(&waiter);
            }
        });
        match waiter.put_back(Box::new(Waiting { wish, reply })) {
            Ok(()) => state.push(waiter),
            Err((waiting, errno)) => {
                self.waiters.remove(&waiter);
                drop(state);
                waiting.reply.error(errno);
            }
        }
    }

    /// Tries again what waits, in the order of its coming. Whether something waits for a lock past
    /// the mount.
    fn wake(self: &Arc<Self>, state: &mut State) -> bool {
        let (mut again, mut is_below) = (true, false);
        while mem::take(&mut again) {
            is_below = false;
            for waiter in mem::take(&mut state.queue) {
                let Some(waiting) = waiter.take() else { continue };
                let tried = state.attempt(&waiting.wish, &self.budget);
                again |= tried.as_ref().is_ok_and(|tried| tried.frees);
                let blocked = match tried {
                    Ok(Tried { blocker: None, news, .. }) => {
                        self.waiters.remove(&waiter);
                        let Waiting { wish, reply } = *waiting;
                        self.grant(&wish, news, reply);
                        continue;
                    }
                    Ok(Tried { blocker: Some(blocker), .. }) => {
                        is_below |= blocker.is_past();
                        self.waiters.waits_for(&waiter, blocker)
                    }
                    Err(error) => Err(error),
                };
                if let Err(error) = blocked {
                    self.waiters.remove(&waiter);
                    fail(*waiting, error);
                } else if let Err((waiting, errno)) = waiter.put_back(waiting) {
                    self.waiters.remove(&waiter);
                    waiting.reply.error(errno);
                } else {
                    state.queue.push_back(waiter);
                }
            }
        }
        is_below
    }

    /// The same; what waits for a lock past the mount is tried again later.
    fn wake_and_try(self: &Arc<Self>, state: &mut State, file: &Opened) {
        if state.queue.is_empty() || !self.wake(state) {
            return;
        }
        if let Err(error) = self.try_again(&file.inode, file.opener) {
            tracing::warn!(%error, "who waits for a lock past the mount is not tried again");
        }
    }

    /// A process has closed a descriptor of an open file.
    fn flushed(self: &Arc<Self>, file: &Opened, handle: u64, owner: u64) -> io::Result<()> {
        let mut state = file.inode.locks.state();
        if state.flushed(handle, owner)? {
            self.wake_and_try(&mut state, file);
        }
        Ok(())
    }

    /// Nobody has an open file any more.
    fn released(self: &Arc<Self>, file: &Opened, handle: u64) {
        let locks = &file.inode.locks;
        let mut state = locks.state();
        if state.released(file, handle) {
            self.wake_and_try(&mut state, file);
        }
        drop(state);
        locks.closed.notify_all();
    }
}

impl Tree {
    /// Takes or gives back a lock.
    pub(super) fn set_lock(
        &self,
        from: Caller,
        handle: FileHandle,
        lock: FileLock,
        waits: bool,
        late: &Late<'_, ReplyEmpty>,
    ) {
        match self.file(handle) {
            Ok(file) => {
                let wish = Wish { file, handle: handle.0, uid: from.uid, lock };
                self.locks.set(wish, waits, late);
            }
            Err(error) => answer(late, Err(error)),
        }
    }

    /// The lock that is in the way of that one.
    pub(super) fn lock_in_the_way(
        &self,
        from: Caller,
        handle: FileHandle,
        lock: FileLock,
    ) -> io::Result<FileLock> {
        let file = self.file(handle)?;
        let wish = Wish { file, handle: handle.0, uid: from.uid, lock };
        let found = wish.file.inode.locks.state().in_the_way(&wish)?;
        Ok(found.map_or(FileLock { kind: libc::F_UNLCK, ..lock }, |found| FileLock {
            kind: found.kind,
            start: found.start,
            end: found.end,
            pid: found.pid,
            ..lock
        }))
    }

    /// A process has closed a descriptor: its locks of the file go.
    pub(super) fn unlock_of(
        &self,
        file: &Opened,
        handle: FileHandle,
        owner: u64,
    ) -> io::Result<()> {
        if file.inode.locks.is_used() {
            return self.locks.flushed(file, handle.0, owner);
        }
        Ok(())
    }

    /// An open file has ended: its locks go.
    pub(super) fn unlock_all(&self, file: &Opened, handle: FileHandle) {
        if file.inode.locks.is_used() {
            self.locks.released(file, handle.0);
        }
    }
}

/// Says that it is done, or why not, if anybody still waits for that.
fn answer(late: &Late<'_, ReplyEmpty>, result: io::Result<()>) {
    let Some(reply) = late.take() else { return };
    match result {
        Ok(()) => reply.ok(),
        Err(error) => reply.error(errno(error)),
    }
}
