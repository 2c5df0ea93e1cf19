//! Memory that programs share by mapping a file, which above and below is not one memory.
//!
//! The kernel above keeps pages of its own for a file of the mount, and says nothing of mappings.
//! SQLite in WAL mode maps its index (`NAME-shm`) and keeps a byte of it locked, shared, as long as
//! it has it mapped (`UNIX_SHM_DMS` of os_unix.c); LMDB does so with its table of readers
//! (`mdb_env_share_locks` of mdb.c). So while somebody above has that byte, a guard has it below,
//! exclusively: several programs above share the memory, and several below do, but never both
//! sides. Whoever comes second is refused, or waits if it asked to, and finds the file as the first
//! has left it: the kernel writes dirty pages of a mapping before it tells of a closed descriptor.
//! All three files of a SQLite database are asked for anew when the guard begins; LMDB opens its
//! data after that, and what is opened is asked for anew.
//!
//! A program above that can only read the file cannot keep those below out: it is refused while one
//! of them has it, and has the byte shared below after that.
//!
//! # Limits
//!
//! Programs that map a file and lock nothing, or by other patterns, are not known here.

use super::super::super::descriptors::descriptors;
use super::super::super::inode::Inode;
use super::super::blocker::Blocker;
use super::super::budget::{Budget, Place};
use super::super::ranges::Range;
use super::super::{Wish, no_locks};
use super::{News, Owner, State};
use crate::fuse::tree::data::Opened;
use crate::io::ofd::{self as below, InTheWay};
use crate::limits::LOCK_REFUSAL_STEP;
use crate::{clock, printable};
use iopace_core::time::Instant;
use iopace_fuse::FileLock;
use rustix::fs::OFlags;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::sync::{Arc, Mutex, PoisonError};

/// The suffix of SQLite's index of a write-ahead log.
const INDEX: &[u8] = b"-shm";

/// The suffix of the log itself.
const LOG: &[u8] = b"-wal";

/// How paths of files end by which programs share memory, and the byte that each of those keeps
/// locked meanwhile.
const SHARED: [(&[u8], u64); 3] = [
    // After 22 and 8 words of four bytes, and eight other locks.
    (INDEX, (22 + 8) * 4 + 8),
    (b"/lock.mdb", 0),
    // The same of a database that is a file, not a directory (`MDB_NOSUBDIR`).
    (b".mdb-lock", 0),
];

/// The path of an open file, as the kernel has it now.
fn path_of(file: &Opened) -> Option<Vec<u8>> {
    let own = file.file.fd().as_raw_fd().to_string();
    let link = rustix::fs::readlinkat(descriptors().ok()?, own, Vec::new()).ok()?;
    let path = link.into_bytes();
    Some(path.strip_suffix(b" (deleted)").map(<[u8]>::to_vec).unwrap_or(path))
}

/// The byte, if a lock of that range says that its owner maps the file.
fn mark(file: &Opened, (start, end): (u64, u64)) -> Option<u64> {
    if start != end || SHARED.iter().all(|(_, byte)| *byte != start) {
        return None;
    }
    let path = path_of(file)?;
    let is_mark = |(suffix, byte): &(&[u8], u64)| *byte == start && path.ends_with(suffix);
    SHARED.iter().any(is_mark).then_some(start)
}

/// Whether a range has the byte in it.
fn meets((start, end): (u64, u64), byte: u64) -> bool {
    (start..=end).contains(&byte)
}

/// A range in pieces: what is before the byte, the byte, and what is after it.
fn pieces((start, end): (u64, u64), byte: u64) -> impl Iterator<Item = (u64, u64)> {
    let before = byte.checked_sub(1).map(|last| (start, end.min(last)));
    let rest = [(start.max(byte), end.min(byte)), (start.max(byte + 1), end)];
    before.into_iter().chain(rest).filter(|(start, end)| start <= end)
}

/// Keeps those below from the memory of a file while somebody above has it.
#[derive(Debug)]
pub(in super::super) struct Guard {
    file: File,
    /// The byte that says who shares the memory.
    byte: u64,
    /// Somebody above can write there: nobody below may have it.
    is_exclusive: bool,
    _place: Place,
}

fn kind(is_exclusive: bool) -> i32 {
    if is_exclusive { libc::F_WRLCK } else { libc::F_RDLCK }
}

/// Somebody below has the memory of a file, as far as can be told which process.
fn holder(file: &File, byte: u64) -> io::Result<Option<Blocker>> {
    let found = below::get(file, libc::F_WRLCK, byte, byte)?;
    Ok(found.map(|found| Blocker::Memory(found.pid)))
}

impl Guard {
    /// Begins to guard a file, if nobody below has its memory.
    fn begin(
        (inode, byte): (&Inode, u64),
        is_exclusive: bool,
        place: Place,
    ) -> io::Result<Result<Guard, Blocker>> {
        let file = match inode.reopen(OFlags::RDWR) {
            Err(_) if !is_exclusive => inode.reopen(OFlags::RDONLY)?,
            other => other?,
        };
        let mut guard = Guard { file, byte, is_exclusive: false, _place: place };
        if let Some(holder) = holder(&guard.file, byte)? {
            return Ok(Err(holder));
        }
        let blocker = guard.set(is_exclusive)?;
        Ok(blocker.map_or(Ok(guard), Err))
    }

    fn set(&mut self, is_exclusive: bool) -> io::Result<Option<Blocker>> {
        if !below::set(&self.file, kind(is_exclusive), self.byte, self.byte)? {
            return Ok(Some(holder(&self.file, self.byte)?.unwrap_or(Blocker::Memory(0))));
        }
        self.is_exclusive = is_exclusive;
        Ok(None)
    }

    /// One more above has it; exclusively if that one can write.
    fn join(&mut self, writes: bool) -> io::Result<Option<Blocker>> {
        if writes && !self.is_exclusive { self.set(true) } else { Ok(None) }
    }

    /// Nobody who can write is left above.
    fn ease(&mut self) {
        if self.is_exclusive {
            // A weaker lock is always to be had.
            let _ = self.set(false);
        }
    }

    /// The lock of somebody below that is in the way of one of that kind.
    fn in_the_way(&self, kind: i32) -> io::Result<Option<InTheWay>> {
        below::get(&self.file, kind, self.byte, self.byte)
    }

    /// Whether nobody below can have changed the file.
    fn is_exclusive(&self) -> bool {
        self.is_exclusive
    }
}

impl State {
    /// The byte that the guard has below, if there is one.
    pub(in super::super) fn guarded(&self) -> Option<u64> {
        self.guard.as_ref().map(|guard| guard.byte)
    }

    /// The byte, if a lock of this range says that its owner shares memory by the file.
    pub(in super::super) fn memory(
        &self,
        wish: &Wish,
        range: (u64, u64),
    ) -> io::Result<Option<u64>> {
        let Some(byte) = self.guarded() else {
            let has = |byte: u64| self.owners.values().any(|owner| owner.has(byte));
            return Ok(mark(&wish.file, range).filter(|byte| !has(*byte)));
        };
        match meets(range, byte) {
            true if range.0 == range.1 => Ok(Some(byte)),
            // The guard has a part of it below, and keeps it.
            true => Err(no_locks()),
            false => Ok(None),
        }
    }

    /// Lets an owner share the memory of the file, unless somebody below does.
    pub(in super::super) fn enter(
        &mut self,
        (wish, byte): (&Wish, u64),
        budget: &Arc<Budget>,
    ) -> io::Result<Result<News, Blocker>> {
        let mode = rustix::fs::fcntl_getfl(wish.file.file.fd())? & OFlags::ACCMODE;
        let writes = mode != OFlags::RDONLY;
        let news = self.news();
        if let Some(guard) = &mut self.guard {
            if let Some(blocker) = guard.join(writes)? {
                return Ok(Err(blocker));
            }
        } else {
            match Guard::begin((&wish.file.inode, byte), writes, budget.place(wish.uid)?)? {
                Ok(guard) => self.guard = Some(guard),
                Err(blocker) => return Ok(Err(blocker)),
            }
        }
        if let Some(owner) = self.owners.get_mut(&wish.lock.owner.0) {
            owner.maps_to_write |= writes;
        }
        self.is_refusal_said = false;
        Ok(Ok(if news == News::None { news } else { News::Database }))
    }

    pub(in super::super) fn news(&self) -> News {
        let is_guarded = self.guard.as_ref().is_some_and(Guard::is_exclusive);
        if is_guarded { News::None } else { News::File }
    }

    /// Eases the guard if nobody above can write any more, and ends it if nobody is left.
    pub(in super::super) fn settle(&mut self) {
        let Some(guard) = &mut self.guard else { return };
        let byte = guard.byte;
        for owner in self.owners.values_mut() {
            owner.maps_to_write &= owner.has(byte);
        }
        if !self.owners.values().any(|owner| owner.has(byte)) {
            self.guard = None;
        } else if !self.owners.values().any(|owner| owner.maps_to_write) {
            guard.ease();
        }
    }

    /// The lock that keeps the owner from locking that.
    pub(in super::super) fn in_the_way(&self, wish: &Wish) -> io::Result<Option<InTheWay>> {
        let FileLock { start, end, .. } = wish.lock;
        let whole = (start, end);
        let Some(byte) = self.guarded().filter(|byte| meets(whole, *byte)) else {
            return self.in_the_way_of(wish, whole);
        };
        for piece in pieces(whole, byte) {
            let found = match meets(piece, byte) {
                true => self.before_the_guard(wish, byte)?,
                false => self.in_the_way_of(wish, piece)?,
            };
            if found.is_some() {
                return Ok(found);
            }
        }
        Ok(None)
    }

    /// The same for the byte that the guard has: another owner above, or somebody below.
    fn before_the_guard(&self, wish: &Wish, byte: u64) -> io::Result<Option<InTheWay>> {
        let kind = wish.lock.kind;
        let found = self.conflict(wish.lock.owner.0, (byte, byte), kind == libc::F_WRLCK);
        if let Some((owner, Range { start, end, is_write, .. })) = found {
            let kind = if is_write { libc::F_WRLCK } else { libc::F_RDLCK };
            let pid = self.owners.get(&owner).map_or(0, |owner| owner.pid);
            return Ok(Some(InTheWay { kind, start, end, pid }));
        }
        self.guard.as_ref().map_or(Ok(None), |guard| guard.in_the_way(kind))
    }
}

impl Owner {
    /// Whether it has the byte locked that says that it shares the memory of the file, or may.
    fn has(&self, byte: u64) -> bool {
        self.ranges.iter().any(|range| meets((range.start, range.end), byte))
    }
}

/// The parts of a range that an owner's own open file has below: not the byte that a guard has.
pub(in super::super) fn outside(
    guarded: Option<u64>,
    range: &Range,
) -> impl Iterator<Item = (u64, u64)> {
    let all = (range.start, range.end);
    let around = guarded.into_iter().flat_map(move |byte| pieces(all, byte));
    let around = around.filter(move |piece| guarded.is_some_and(|byte| !meets(*piece, byte)));
    guarded.is_none().then_some(all).into_iter().chain(around)
}

/// The files of the database to which an index belongs, of those that are open.
pub(in super::super) fn database(
    index: &Opened,
    open: &[Arc<Opened>],
) -> impl Iterator<Item = u64> {
    let path = path_of(index).unwrap_or_default();
    let base = path.strip_suffix(INDEX).map(<[u8]>::to_vec);
    let belongs = move |file: &&Arc<Opened>| {
        let (Some(base), Some(path)) = (&base, path_of(file)) else { return false };
        path.strip_prefix(&base[..]).is_some_and(|rest| [b"", LOG].contains(&rest))
    };
    open.iter().filter(belongs).map(|file| file.inode.id())
}

/// Says who was refused memory, and because of whom: not more often than a reader of logs likes.
#[derive(Debug, Default)]
pub(in super::super) struct Refusals(Mutex<Option<Instant>>);

impl Refusals {
    /// Somebody above was refused the memory of a file that a process below has; whether that was
    /// said.
    pub(in super::super) fn say(&self, file: &Opened, (above, below): (u32, u32)) -> bool {
        let now = clock::now();
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if last.is_some_and(|last| now < last + LOCK_REFUSAL_STEP) {
            return false;
        }
        *last = Some(now);
        drop(last);
        let path = path_of(file).unwrap_or_default();
        let path = String::from_utf8_lossy(&path);
        tracing::warn!(
            "{}: refused to {}, as {} uses it past the mount: memory that both sides map is not \
             one. All programs of a database in WAL mode, or of LMDB, have to come from one side",
            printable::name(&path),
            process(above),
            process(below),
        );
        true
    }
}

fn process(pid: u32) -> String {
    match pid {
        0 => "a process that the kernel does not name".into(),
        pid => format!("{} (pid {pid})", crate::fuse::mounting::busy::name_of(pid)),
    }
}
