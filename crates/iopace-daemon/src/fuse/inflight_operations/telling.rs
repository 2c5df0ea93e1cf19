//! Telling the kernel that something has changed which it did not ask for.

use super::InflightOperations;
use iopace_fuse::{INodeNo, Notifier};
use std::ffi::OsString;

impl InflightOperations {
    /// Tells the kernel to ask anew for names, each in its directory. What is mounted on one of
    /// them goes, and who works in such a directory no longer knows where. By another thread,
    /// as the kernel takes locks for it which one who waits for an answer from us may hold.
    pub(crate) fn ask_anew(&self, uid: u32, names: Vec<(u64, OsString)>) {
        self.notify(uid, move |notifier| {
            for (parent, name) in names {
                let _ = notifier.inval_entry(INodeNo(parent), &name);
            }
        });
    }

    /// The attributes of a file have changed without the kernel having asked for it. It is told at
    /// once: it takes no lock for this that one who waits for us may hold.
    pub(crate) fn attributes_changed(&self, id: u64) {
        if let Some(notifier) = self.notifier.get() {
            // Below 0: its data stays valid. One that the kernel has forgotten has nothing cached.
            let _ = notifier.inval_inode(INodeNo(id), -1, 0);
        }
    }

    /// Somebody past the mount may have changed a file: the kernel asks anew for its data and
    /// attributes, and for all names. It waits for pages that are being read: not to be called by a
    /// thread that answers such requests.
    pub(crate) fn changed_below(&self, id: u64) {
        if let Some(notifier) = self.notifier.get() {
            // One that the kernel has forgotten has nothing cached.
            let _ = notifier.inval_inode(INodeNo(id), 0, 0);
            // Before Linux 6.16 names stay for as long as the kernel was told.
            let _ = notifier.inc_epoch();
        }
    }

    /// By a thread of the user whose operation has changed it: the kernel waits for pages that he
    /// may keep locked, and he has so many threads and no more.
    pub(super) fn notify(&self, uid: u32, tell: impl FnOnce(&Notifier) + Send + 'static) {
        let Some(notifier) = self.notifier.get().cloned() else { return };
        self.tellers.submit(uid, move || tell(&notifier));
    }
}
