//! Keeping the kernel from remembering more files than there is memory for.
//!
//! The kernel forgets files only when it runs short of memory, and each one that it knows takes
//! some here too. So past a number of files it is asked to forget those that nobody has asked for
//! longest (`FUSE_NOTIFY_PRUNE`). It does not forget what is in use: what is open or mounted on,
//! the working directory of somebody, or a directory with entries that it knows.
//!
//! # Limits
//!
//! Linux before 6.18 has no such question; there it forgets when it likes. (It could be told that
//! names are void, but whatever is mounted on one of them would be unmounted with it.)

use super::Tree;
use crate::limits::FUSE_INODES_PERCENT;
use iopace_fuse::{Control, INodeNo, Notifier};
use rustix::process::{Resource, Rlimit};
use std::io;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, OnceLock, Weak};
use std::thread;

/// Files that the kernel is asked to forget at once.
const AT_ONCE: usize = 512;

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

/// How many of so many descriptors inodes may have.
pub(super) fn inodes_for(descriptors: usize) -> usize {
    (descriptors / 100).saturating_mul(FUSE_INODES_PERCENT)
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
        self.inflight.notify_with(notifier.clone());
        self.inflight.control_with(control);
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
        if self.inodes.excess(self.trim.above) > 0
            && let Some(wake) = self.trim.wake.get()
        {
            // If it is awake already, all the better.
            let _ = wake.try_send(());
        }
    }
}

/// Asks, until the tree is gone. The kernel takes locks for it which one who waits for an answer
/// from us may hold: so this is not done by a thread that gives answers.
fn trim(tree: &Weak<Tree>, notifier: &Notifier, woken: &Receiver<()>) {
    while woken.recv().is_ok() {
        let Some(tree) = tree.upgrade() else { return };
        let mut left = tree.inodes.excess(tree.trim.above / 10 * 9);
        while left > 0 {
            let ids = tree.inodes.idle(left.min(AT_ONCE));
            if ids.is_empty() {
                break;
            }
            left -= ids.len();
            let numbers: Vec<INodeNo> = ids.into_iter().map(INodeNo).collect();
            match notifier.prune(&numbers) {
                Ok(()) => {}
                // The kernel does not know the question.
                Err(error) if error.raw_os_error() == Some(libc::EINVAL) => return,
                // Unmounted meanwhile: nothing is lost.
                Err(_) => break,
            }
        }
    }
}
