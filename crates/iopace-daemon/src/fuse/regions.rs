//! Where the dirty memory of files lies, as the engine of their device sees it.
//!
//! Pages that were just written have no place on the disk yet. So every file that is written gets
//! a region of addresses of its own, far behind those of any disk; what is dirty of a file lies
//! side by side there, and write-back finds the file from the address. Regions are 4 TiB: in a
//! longer file two pages share an address, which makes the count of dirty memory a little less
//! exact and no data less safe (a sync of a file is the kernel's own in the end).

use crate::io::file::File;
use crate::io::target::{Places, Target};
use crate::limits::FUSE_KEPT_PERCENT;
use iopace_core::request::Extent;
use iopace_core::units::Bytes;
use rustix::process::{Resource, getrlimit};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst, fence};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// The first address: no disk has 4 EiB.
const BASE: u64 = 1 << 62;

/// Size of a region.
const SIZE: u64 = 1 << 42;

/// Most regions: they end at 8 EiB. More files than can be open at once (`fs.nr_open`).
const COUNT: u32 = 1 << 20;

/// Files that are looked at in one go for whether anything of them is dirty still.
const SWEEP_MAX: usize = 1_024;

/// The region of a file, as long as anybody knows it.
#[derive(Debug)]
pub(crate) struct Region {
    number: u32,
    /// Whether its file is kept for write-back.
    is_kept: AtomicBool,
    of: Weak<Regions>,
}

impl Region {
    /// Whether its file is kept for write-back, as something of it may be dirty.
    pub(crate) fn is_kept(&self) -> bool {
        self.is_kept.load(SeqCst)
    }

    /// Where a piece of the file lies.
    pub(crate) fn extent(&self, offset: u64, len: u64) -> Extent {
        let from = BASE + u64::from(self.number) * SIZE;
        let at = offset % SIZE;
        // What goes on behind the end of the region lies at its beginning.
        let at = if at + len > SIZE { 0 } else { at };
        Extent::new(Bytes(from + at), Bytes(len)).expect("below 2^63")
    }

    /// All of it.
    pub(crate) fn whole(&self) -> Extent {
        self.extent(0, SIZE)
    }

    /// What lies between two offsets of the file.
    pub(crate) fn between(&self, from: u64, to: u64) -> Extent {
        let len = to.saturating_sub(from);
        if len >= SIZE || from % SIZE + len > SIZE {
            // To the end of the file or of the region, whichever comes first.
            let at = if from >= SIZE { 0 } else { from };
            return self.extent(at, SIZE - at);
        }
        self.extent(from, len)
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        if let Some(of) = self.of.upgrade() {
            of.lock().used.remove(&self.number);
        }
    }
}

/// All regions of a mount.
#[derive(Debug)]
pub(crate) struct Regions {
    /// Stands for files that are gone.
    root: Arc<File>,
    /// Most files that are kept open.
    kept_max: usize,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    next: u32,
    used: BTreeSet<u32>,
    /// Files of which something may be dirty.
    kept: BTreeMap<u32, (Arc<File>, Arc<Region>)>,
    /// Where the last sweep has ended.
    swept: u32,
}

impl Regions {
    /// None yet.
    pub(crate) fn new(root: Arc<File>) -> Arc<Regions> {
        let descriptors = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
        let kept_max = usize::try_from(descriptors / 100).unwrap_or(usize::MAX / 100);
        let kept_max = kept_max.max(1) * FUSE_KEPT_PERCENT;
        Arc::new(Regions { root, kept_max, state: Mutex::default() })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A region for a file.
    pub(crate) fn add(self: &Arc<Self>) -> Arc<Region> {
        let mut state = self.lock();
        // With all of them in use the last one is shared, as by the pages of a very long file.
        let number = (0..COUNT).map(|step| state.next.wrapping_add(step) % COUNT);
        let number = number.take(COUNT as usize).find(|number| !state.used.contains(number));
        let number = number.unwrap_or(COUNT - 1);
        state.next = (number + 1) % COUNT;
        state.used.insert(number);
        Arc::new(Region { number, is_kept: AtomicBool::new(false), of: Arc::downgrade(self) })
    }

    /// Something of the file is dirty or will be: it is kept open until that is written back.
    ///
    /// `open` opens it anew: each open file hears once of an error of write-back, and the program's
    /// own must hear of it from `fsync`. If that is not possible the kernel writes it back.
    pub(crate) fn keep(&self, region: &Arc<Region>, open: impl FnOnce() -> io::Result<File>) {
        fence(SeqCst);
        if region.is_kept.swap(true, SeqCst) {
            return;
        }
        let is_full = self.lock().kept.len() >= self.kept_max;
        match if is_full { Err(io::ErrorKind::QuotaExceeded.into()) } else { open() } {
            Ok(file) => {
                let entry = (Arc::new(file), Arc::clone(region));
                let before = self.lock().kept.insert(region.number, entry);
                drop(before);
            }
            Err(error) => {
                tracing::debug!(%error, "a file is not kept for its write-back");
                region.is_kept.store(false, SeqCst);
            }
        }
    }

    /// Nothing of it need be written back.
    pub(crate) fn drop_kept(&self, region: &Region) {
        let dropped = self.lock().kept.remove(&region.number);
        region.is_kept.store(false, SeqCst);
        drop(dropped);
    }

    /// How many files are kept open.
    pub(crate) fn kept_count(&self) -> usize {
        self.lock().kept.len()
    }

    /// Lets go of files that no request is on its way to and of which nothing is dirty, as
    /// `are_clean` says; some of them each time, in turn.
    pub(crate) fn sweep(&self, are_clean: impl Fn(&[Extent]) -> Vec<bool>) {
        let mut state = self.lock();
        let from = state.swept;
        let ahead = state.kept.range(from..).chain(state.kept.range(..from)).take(SWEEP_MAX);
        let seen: Vec<(u32, bool, Extent)> =
            ahead.map(|(number, (_, region))| (*number, is_idle(region), region.whole())).collect();
        state.swept = seen.last().map_or(0, |(number, ..)| number + 1);
        drop(state);
        let idle: Vec<(u32, Extent)> =
            seen.into_iter().filter(|(_, idle, _)| *idle).map(|(n, _, e)| (n, e)).collect();
        let extents: Vec<Extent> = idle.iter().map(|(_, extent)| *extent).collect();
        let clean = are_clean(&extents);
        let mut dropped = Vec::new();
        let mut state = self.lock();
        for ((number, _), is_clean) in idle.into_iter().zip(clean) {
            let Some((_, region)) = state.kept.get(&number).filter(|_| is_clean) else { continue };
            // A writer makes itself known before it looks whether the file is kept: either it is
            // seen here, or it sees that the file is not.
            region.is_kept.store(false, SeqCst);
            fence(SeqCst);
            if is_idle(region) {
                dropped.extend(state.kept.remove(&number));
            } else {
                region.is_kept.store(true, SeqCst);
            }
        }
        drop(state);
        // Only now: what is let go takes the lock.
        drop(dropped);
    }
}

/// Whether only its file and the list of those that are kept know it: no request.
fn is_idle(region: &Arc<Region>) -> bool {
    Arc::strong_count(region) <= 2
}

impl Places for Regions {
    fn target(&self, extent: Extent) -> Target {
        let at = extent.offset().get().saturating_sub(BASE);
        let number = u32::try_from(at / SIZE).unwrap_or(COUNT);
        let kept = self.lock().kept.get(&number).map(|(file, _)| Arc::clone(file));
        match kept {
            Some(file) => Target::new(file, at % SIZE),
            None => Target::gone(Arc::clone(&self.root)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn regions() -> Arc<Regions> {
        let file = tempfile::tempfile().expect("a temporary file");
        Regions::new(Arc::new(File::of_tree(file, false)))
    }

    fn keep(regions: &Regions, region: &Arc<Region>) {
        regions.keep(region, || Ok(File::of_tree_unread(tempfile::tempfile()?, false)));
    }

    #[test]
    fn addresses_lead_back_to_their_files() {
        let regions = regions();
        let (one, two) = (regions.add(), regions.add());
        keep(&regions, &one);
        keep(&regions, &two);
        let target = regions.target(two.extent(12_288, 4096));
        let kept = Arc::clone(&regions.lock().kept[&two.number].0);
        assert!(Arc::ptr_eq(&target.file, &kept) && target.offset == 12_288);
        assert!(!one.whole().overlaps(two.whole()));
        assert_eq!(one.between(8192, u64::MAX).end(), one.whole().end());
        assert_eq!(one.between(8192, 12_288), one.extent(8192, 4096));
        assert_eq!(one.extent(SIZE + 4096, 10).offset(), one.extent(4096, 10).offset());
        assert_eq!(one.extent(SIZE - 5, 10).offset(), one.whole().offset());
    }

    #[test]
    fn what_is_clean_and_idle_is_let_go_and_its_number_too() {
        let regions = regions();
        let region = regions.add();
        keep(&regions, &region);
        let requests = (Arc::clone(&region), Arc::clone(&region));
        regions.sweep(|all| vec![true; all.len()]);
        assert_eq!(regions.kept_count(), 1, "a request is on its way");
        drop(requests);
        regions.sweep(|all| vec![false; all.len()]);
        assert_eq!(regions.kept_count(), 1, "something is dirty");
        regions.sweep(|all| vec![true; all.len()]);
        assert_eq!(regions.kept_count(), 0);
        keep(&regions, &region);
        assert_eq!(regions.kept_count(), 1, "written again");
        regions.drop_kept(&region);
        let target = regions.target(region.extent(0, 4096));
        assert!(target.write_back(4096).is_ok(), "nothing is done for what is gone");
        drop(region);
        assert!(regions.lock().used.is_empty());
    }
}
