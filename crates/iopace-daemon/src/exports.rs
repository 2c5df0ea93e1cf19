//! What a daemon serves: its exports, each with its device, and who pays for their requests.

use crate::config::ExportConfig;
use crate::device::Device;
use crate::groups::Groups;
use crate::start_error::StartError;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

/// A way by which clients reach the exports: NBD, or the disks of virtual machines.
pub(crate) trait Frontend: Send + Sync {
    /// Something for each export on each socket that a user can paste: a URI, or options.
    fn uris(&self) -> Vec<String>;

    /// How many clients are connected.
    fn connections_count(&self) -> usize;

    /// Accepts nobody any more and removes the sockets. What was asked is answered.
    fn stop_accepting(&self);

    /// Reads again what may be renewed while it runs: certificates. `None` if there are none.
    ///
    /// # Errors
    /// What was read cannot be used; what holds stays.
    fn renewal(&self) -> Result<Option<Renewal>, StartError> {
        Ok(None)
    }

    /// Waits until all clients are gone, and cuts those that are not by then. How many.
    fn end(&self, patience: Duration) -> usize;

    /// Whether an export that is added now can be reached by it.
    fn takes_exports(&self) -> bool {
        false
    }

    /// Ends those of its clients that have these numbers: what they have asked for is answered
    /// first, unless it is to be cut off.
    fn end_some(&self, _numbers: &BTreeSet<u64>, _is_cut: bool) {}
}

/// Has what was read again hold from now on.
pub(crate) type Renewal = Box<dyn FnOnce() + Send>;

/// An export, and its device.
#[derive(Clone)]
pub struct Export {
    /// Its number in this daemon, which no other export has, before or after.
    pub(crate) number: usize,
    /// As clients see it.
    pub config: ExportConfig,
    /// What is behind it.
    pub device: Arc<dyn Device>,
}

/// An export as it is configured, and its device.
pub(crate) type Resolved = (ExportConfig, Arc<dyn Device>);

/// The exports of a daemon, which come and go.
pub struct ExportTable {
    groups: Arc<Groups>,
    all: RwLock<Arc<[Export]>>,
    /// The number of the next export.
    next: AtomicUsize,
    last_task: AtomicU64,
}

impl ExportTable {
    /// These exports, numbered from 0 as their groups are.
    pub(crate) fn new(groups: Arc<Groups>, all: Vec<Resolved>) -> ExportTable {
        let next = AtomicUsize::new(all.len());
        let all = all.into_iter().enumerate();
        let all = all.map(|(number, (config, device))| Export { number, config, device });
        let all = RwLock::new(all.collect());
        ExportTable { groups, all, next, last_task: AtomicU64::new(0) }
    }

    /// The exports as of now, in the order of the configuration, and then as they were added.
    pub fn all(&self) -> Arc<[Export]> {
        Arc::clone(&self.all.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// The export of that name.
    pub fn find(&self, name: &str) -> Option<Export> {
        self.all().iter().find(|export| export.config.name == name).cloned()
    }

    /// A number that no export has.
    pub(crate) fn next_number(&self) -> usize {
        self.next.fetch_add(1, Relaxed)
    }

    /// One more export, which clients see at once; no other one has its number or name.
    pub(crate) fn add(&self, export: Export) {
        let mut all = self.all.write().unwrap_or_else(PoisonError::into_inner);
        *all = all.iter().cloned().chain([export]).collect();
    }

    /// Has the exports of these names come first, in this order; the others as they were.
    pub(crate) fn arrange<'a>(&self, names: impl Iterator<Item = &'a str>) {
        let places: BTreeMap<&str, usize> = names.zip(0..).collect();
        let mut all = self.all.write().unwrap_or_else(PoisonError::into_inner);
        let mut arranged = all.to_vec();
        let place = |export: &Export| places.get(&*export.config.name).copied();
        arranged.sort_by_key(|export| place(export).unwrap_or(usize::MAX));
        *all = arranged.into();
    }

    /// The export of that number is seen no more.
    pub(crate) fn remove(&self, number: usize) {
        let mut all = self.all.write().unwrap_or_else(PoisonError::into_inner);
        *all = all.iter().filter(|export| export.number != number).cloned().collect();
    }

    /// Who pays.
    pub(crate) fn groups(&self) -> &Arc<Groups> {
        &self.groups
    }

    /// A number for one more task whose requests come through an export, counted from 1.
    pub(crate) fn next_task(&self) -> u64 {
        self.last_task.fetch_add(1, Relaxed) + 1
    }
}
