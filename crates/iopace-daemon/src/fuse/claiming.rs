//! Claiming a directory, and waiting for the daemon that had it before.

use super::mounting::MountError;
use super::mounting::claim::{Claim, Refused};
use super::mounts::ours;
use super::record;
use crate::clock;
use crate::config::DaemonConfig;
use rustix::process::geteuid;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

/// A daemon that ends lets go of the mount first and of its directory when all is durable, which
/// takes as long as the disk.
const END_PATIENCE: Duration = Duration::from_secs(60);

/// One of which nothing is known, that was killed perhaps, has ended within this time.
const UNKNOWN_PATIENCE: Duration = Duration::from_secs(2);

/// A start that waits longer than this says for whom it waits.
const UNTOLD: Duration = Duration::from_secs(1);

/// Between two looks at a directory that is claimed.
const CLAIM_STEP: Duration = Duration::from_millis(20);

/// Claims a directory; a daemon that is just ending with it is waited for.
pub(super) fn claim(
    root: &OwnedFd,
    path: &Path,
    config: &DaemonConfig,
) -> Result<Claim, MountError> {
    let since = clock::now();
    let mut is_told = false;
    loop {
        let holder = match Claim::take(root, path) {
            Ok(claim) => return Ok(claim),
            Err(Refused::Failed(error)) => return Err(error),
            Err(Refused::Held(holder)) => holder,
        };
        let is_recorded = || {
            let held = record::held(config.runtime.as_slice());
            held.iter().any(|(_, seen)| seen.record.directory == path)
        };
        let patience = match holder.is_some() || geteuid().is_root() || is_recorded() {
            true => END_PATIENCE,
            false => UNKNOWN_PATIENCE,
        };
        let by = holder.map(|(pid, _)| format!(" (pid {pid})")).unwrap_or_default();
        if let Some(at) = mounted_at(path, holder) {
            return Err(MountError::MountedElsewhere(path.to_owned(), at, by));
        }
        if clock::elapsed(since) >= patience {
            return Err(MountError::Locked(path.to_owned(), by));
        }
        if !is_told && clock::elapsed(since) >= UNTOLD {
            is_told = true;
            let shown = path.display();
            config.notes.say(&format!("{shown}: waiting for its last daemon{by} to end"));
        }
        // SLEEP: a lock can be waited for only without a bound.
        thread::sleep(CLAIM_STEP);
    }
}

/// Where the holder of a claim is seen to have the directory mounted: it will not let go soon.
fn mounted_at(path: &Path, holder: Option<(u32, u32)>) -> Option<PathBuf> {
    let all = ours().unwrap_or_default();
    let found = all.into_iter().find(|entry| match holder {
        Some((_, connection)) if connection != 0 => entry.connection() == connection,
        _ => entry.source == path,
    });
    found.map(|entry| entry.mountpoint)
}
