//! Where the dirty memory of files lies, as the engine of their device sees it.
//!
//! Pages that were just written have no place on the disk yet. So every file that is written gets
//! a space of its own, in which its pages lie where they lie in the file; write-back finds the
//! file from the number of the space.

use crate::io::file::File;
use crate::io::target::{Places, Target};
use crate::limits::FUSE_KEPT_PERCENT;
use iopace_core::request::{Area, Extent, Space};
use iopace_core::units::Bytes;
use rustix::process::{Resource, getrlimit};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst, fence};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// Files that are looked at in one go for whether anything of them is dirty still.
const SWEEP_MAX: usize = 1_024;

/// The space of a file, as long as anybody knows it.
#[derive(Debug)]
pub(crate) struct FileSpace {
    id: Space,
    /// Whether its file is kept for write-back.
    is_kept: AtomicBool,
    of: Weak<FileSpaces>,
}

impl FileSpace {
    /// Whether its file is kept for write-back, as something of it may be dirty.
    pub(crate) fn is_kept(&self) -> bool {
        self.is_kept.load(SeqCst)
    }

    /// A piece of the file.
    pub(crate) fn area(&self, offset: u64, len: u64) -> Area {
        let len = len.min(u64::MAX - offset);
        let extent = Extent::new(Bytes(offset), Bytes(len)).expect("it ends within 64 bits");
        Area { space: self.id, extent }
    }

    /// All of it.
    pub(crate) fn whole(&self) -> Area {
        self.area(0, u64::MAX)
    }

    /// What lies between two offsets of the file.
    pub(crate) fn between(&self, from: u64, to: u64) -> Area {
        self.area(from, to.saturating_sub(from))
    }
}

impl Drop for FileSpace {
    fn drop(&mut self) {
        if let Some(of) = self.of.upgrade() {
            of.lock().used.remove(&self.id);
        }
    }
}

/// All spaces of a mount.
#[derive(Debug)]
pub(crate) struct FileSpaces {
    /// Stands for files that are gone.
    root: Arc<File>,
    /// Most files that are kept open.
    kept_max: usize,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// The space that was given last; the first is that of the disk.
    last: Space,
    used: BTreeSet<Space>,
    /// Files of which something may be dirty.
    kept: BTreeMap<Space, (Arc<File>, Arc<FileSpace>)>,
    /// Where the next sweep begins.
    swept: Space,
}

impl FileSpaces {
    /// None yet.
    pub(crate) fn new(root: Arc<File>) -> Arc<FileSpaces> {
        let descriptors = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
        let kept_max = usize::try_from(descriptors / 100).unwrap_or(usize::MAX / 100);
        let kept_max = kept_max.max(1) * FUSE_KEPT_PERCENT;
        Arc::new(FileSpaces { root, kept_max, state: Mutex::default() })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A space of its own for a file.
    pub(crate) fn add(self: &Arc<Self>) -> Arc<FileSpace> {
        let mut state = self.lock();
        // There are far more of them than files that the kernel can know.
        let id = loop {
            state.last = Space(state.last.0.checked_add(1).unwrap_or(1));
            let id = state.last;
            if state.used.insert(id) {
                break id;
            }
        };
        Arc::new(FileSpace { id, is_kept: AtomicBool::new(false), of: Arc::downgrade(self) })
    }

    /// Something of the file is dirty or will be: it is kept open until that is written back.
    ///
    /// `open` opens it anew: each open file hears once of an error of write-back, and the program's
    /// own must hear of it from `fsync`. If that is not possible the kernel writes it back.
    pub(crate) fn keep(&self, space: &Arc<FileSpace>, open: impl FnOnce() -> io::Result<File>) {
        fence(SeqCst);
        if space.is_kept.swap(true, SeqCst) {
            return;
        }
        let is_full = self.lock().kept.len() >= self.kept_max;
        match if is_full { Err(io::ErrorKind::QuotaExceeded.into()) } else { open() } {
            Ok(file) => {
                let entry = (Arc::new(file), Arc::clone(space));
                let before = self.lock().kept.insert(space.id, entry);
                drop(before);
            }
            Err(error) => {
                tracing::debug!(%error, "a file is not kept for its write-back");
                space.is_kept.store(false, SeqCst);
            }
        }
    }

    /// Nothing of it need be written back.
    pub(crate) fn drop_kept(&self, space: &FileSpace) {
        let dropped = self.lock().kept.remove(&space.id);
        space.is_kept.store(false, SeqCst);
        drop(dropped);
    }

    /// How many files are kept open.
    pub(crate) fn kept_count(&self) -> usize {
        self.lock().kept.len()
    }

    /// Lets go of files that no request is on its way to and of which nothing is dirty, as
    /// `are_clean` says; some of them each time, in turn.
    pub(crate) fn sweep(&self, are_clean: impl Fn(&[Area]) -> Vec<bool>) {
        let mut state = self.lock();
        let from = state.swept;
        let ahead = state.kept.range(from..).chain(state.kept.range(..from)).take(SWEEP_MAX);
        let seen: Vec<(bool, Area)> =
            ahead.map(|(_, (_, space))| (is_idle(space), space.whole())).collect();
        let last = seen.last().map_or(0, |(_, area)| area.space.0);
        state.swept = Space(last.wrapping_add(1));
        drop(state);
        let idle: Vec<Area> =
            seen.into_iter().filter(|(is_idle, _)| *is_idle).map(|(_, area)| area).collect();
        let clean = are_clean(&idle);
        let mut dropped = Vec::new();
        let mut state = self.lock();
        for (Area { space: id, .. }, is_clean) in idle.into_iter().zip(clean) {
            let Some((_, space)) = state.kept.get(&id).filter(|_| is_clean) else { continue };
            // A writer makes itself known before it looks whether the file is kept: either it is
            // seen here, or it sees that the file is not.
            space.is_kept.store(false, SeqCst);
            fence(SeqCst);
            if is_idle(space) {
                dropped.extend(state.kept.remove(&id));
            } else {
                space.is_kept.store(true, SeqCst);
            }
        }
        drop(state);
        // Only now: what is let go takes the lock.
        drop(dropped);
    }
}

/// Whether only its file and the list of those that are kept know it: no request.
fn is_idle(space: &Arc<FileSpace>) -> bool {
    Arc::strong_count(space) <= 2
}

impl Places for FileSpaces {
    fn target(&self, Area { space, extent }: Area) -> Target {
        let kept = self.lock().kept.get(&space).map(|(file, _)| Arc::clone(file));
        match kept {
            Some(file) => Target::new(file, extent.offset().get()),
            None => Target::gone(Arc::clone(&self.root)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spaces() -> Arc<FileSpaces> {
        let file = tempfile::tempfile().expect("a temporary file");
        FileSpaces::new(Arc::new(File::of_tree(file, false)))
    }

    fn keep(spaces: &FileSpaces, space: &Arc<FileSpace>) {
        spaces.keep(space, || Ok(File::of_tree_unread(tempfile::tempfile()?, false)));
    }

    #[test]
    fn spaces_lead_back_to_their_files() {
        let spaces = spaces();
        let (one, two) = (spaces.add(), spaces.add());
        keep(&spaces, &one);
        keep(&spaces, &two);
        let kept = Arc::clone(&spaces.lock().kept[&two.id].0);
        // Also far into a file, which is longer than the disk may be.
        for offset in [12_288, 4096 + (1 << 42), i64::MAX as u64 - 4096] {
            let target = spaces.target(two.area(offset, 4096));
            assert!(Arc::ptr_eq(&target.file, &kept) && target.offset == offset);
        }
        assert!(one.id != two.id && one.id != Space::DISK);
        assert_eq!(one.between(8192, u64::MAX).extent.end(), one.whole().extent.end());
        assert_eq!(one.between(8192, 12_288), one.area(8192, 4096));
    }

    #[test]
    fn what_is_clean_and_idle_is_let_go_and_its_number_too() {
        let spaces = spaces();
        let space = spaces.add();
        keep(&spaces, &space);
        let requests = (Arc::clone(&space), Arc::clone(&space));
        spaces.sweep(|all| vec![true; all.len()]);
        assert_eq!(spaces.kept_count(), 1, "a request is on its way");
        drop(requests);
        spaces.sweep(|all| vec![false; all.len()]);
        assert_eq!(spaces.kept_count(), 1, "something is dirty");
        spaces.sweep(|all| vec![true; all.len()]);
        assert_eq!(spaces.kept_count(), 0);
        keep(&spaces, &space);
        assert_eq!(spaces.kept_count(), 1, "written again");
        spaces.drop_kept(&space);
        let target = spaces.target(space.area(0, 4096));
        assert!(target.write_back(4096).is_ok(), "nothing is done for what is gone");
        drop(space);
        assert!(spaces.lock().used.is_empty());
    }
}
