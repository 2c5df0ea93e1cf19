//! Keeping the kernel from remembering more files than there are descriptors for.
//!
//! The kernel forgets names only when it runs short of memory, and each file that it knows holds a
//! descriptor here. So past a number of files it is asked to forget those that it has known
//! longest and nobody has open. It does not forget what is in use, whatever it is asked.
//!
//! # Limits
//!
//! Directories stay: whoever works in one that is forgotten no longer knows where. A file on which
//! another is mounted (`mount --bind`) loses that mount if its name is among those forgotten.

use super::Tree;
use crate::limits::FUSE_TRIM_PERCENT;
use iopace_fuse::{Control, INodeNo, Notifier};
use rustix::process::{Resource, Rlimit};
use std::io;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, OnceLock, Weak};
use std::thread;

/// Names that the kernel is asked to forget between two looks at how many are left.
const AT_ONCE: usize = 1024;

/// When the kernel is to forget.
#[derive(Debug)]
pub(super) struct Trim {
    /// More files than this are too many.
    above: usize,
    wake: OnceLock<SyncSender<()>>,
}

impl Trim {
    /// The kernel may know so many files.
    pub(super) fn new(above: usize) -> Trim {
        Trim { above, wake: OnceLock::new() }
    }
}

/// Raises the number of descriptors of this process as far as it may, and returns it. Trees that
/// are made from then on make use of them.
///
/// # Errors
///
/// The system does not let the limit be raised up to what it says is allowed.
pub(crate) fn raise_descriptors() -> io::Result<usize> {
    let most = std::fs::read_to_string("/proc/sys/fs/nr_open").ok();
    let most: Option<u64> = most.and_then(|text| text.trim().parse().ok());
    let all = Rlimit { current: most, maximum: most };
    // Without the right to raise it, there is what we were given.
    if most.is_none() || rustix::process::setrlimit(Resource::Nofile, all).is_err() {
        let given = rustix::process::getrlimit(Resource::Nofile).maximum;
        let raised = Rlimit { current: given, maximum: given };
        rustix::process::setrlimit(Resource::Nofile, raised)?;
    }
    Ok(descriptors())
}

/// How many descriptors this process may have now.
pub(super) fn descriptors() -> usize {
    let limit = rustix::process::getrlimit(Resource::Nofile).current;
    limit.and_then(|limit| usize::try_from(limit).ok()).unwrap_or(usize::MAX)
}

/// How many files the kernel may know with so many descriptors.
pub(super) fn files_for(descriptors: usize) -> usize {
    descriptors / 100 * FUSE_TRIM_PERCENT
}

impl Tree {
    /// From now on the kernel is asked to forget when it knows too many files, and what waits for
    /// a thread is looked after. Until then, and
    /// where this is never called, it is not.
    ///
    /// # Errors
    ///
    /// There can be no further thread.
    pub(crate) fn trim_with(
        self: &Arc<Self>,
        notifier: Notifier,
        control: Control,
    ) -> io::Result<()> {
        self.running.notify_with(notifier.clone());
        self.running.control_with(control);
        let (wake, woken) = sync_channel(1);
        let tree = Arc::downgrade(self);
        thread::Builder::new().name("fuse-trim".into()).spawn(move || {
            trim(&tree, &notifier, &woken);
        })?;
        let _ = self.trim.wake.set(wake);
        Ok(())
    }

    /// Wakes the thread that asks, if there are too many.
    pub(super) fn trim_if_many(&self) {
        if self.inodes.len() > self.trim.above
            && let Some(wake) = self.trim.wake.get()
        {
            // If it is awake already, all the better.
            let _ = wake.try_send(());
        }
    }
}

/// Asks, until the tree is gone. The kernel takes the lock of the directory for it, which one who
/// waits for an answer from us may hold: so this is not done by a thread that gives answers.
fn trim(tree: &Weak<Tree>, notifier: &Notifier, woken: &Receiver<()>) {
    while woken.recv().is_ok() {
        let Some(tree) = tree.upgrade() else { return };
        let mut left = tree.inodes.len().saturating_sub(tree.trim.above / 10 * 9);
        while left > 0 {
            let places = tree.inodes.oldest(left.min(AT_ONCE));
            if places.is_empty() {
                break;
            }
            left -= places.len();
            for (parent, name) in places {
                if notifier.inval_entry(INodeNo(parent), &name).is_err() {
                    // Unmounted meanwhile, or another name was in use: nothing is lost.
                    break;
                }
            }
        }
    }
}
