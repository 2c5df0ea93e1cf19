//! Claiming a directory, and waiting for the daemon that had it before.

use super::mounting::MountError;
use super::mounting::busy;
use super::mounting::claim::{Claim, Refused};
use super::mounting::users;
use super::record::{self, Record};
use crate::clock;
use crate::config::{DaemonConfig, InUse};
use crate::mount_table;
use iopace_core::time::Instant;
use rustix::process::geteuid;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

/// A daemon that ends lets go of the mount first and of its directory when all is durable, which
/// takes as long as the disk.
const END_PATIENCE: Duration = Duration::from_secs(60);

/// One whose mount was unmounted lazily and is used still ends with its last user: whoever is just
/// ending too has ended within this time.
const USED_PATIENCE: Duration = Duration::from_secs(5);

/// One of which nothing is known, that was killed perhaps, has ended within this time.
const UNKNOWN_PATIENCE: Duration = Duration::from_secs(2);

/// A start that waits longer than this says for whom it waits; they are looked at so often.
const LOOK_STEP: Duration = Duration::from_secs(1);

/// Between two looks at a directory that is claimed.
const CLAIM_STEP: Duration = Duration::from_millis(20);

/// Claims a directory; a daemon that is just ending with it is waited for, from `since` on.
pub(super) fn claim(
    root: &OwnedFd,
    path: &Path,
    (wanted, since): (InUse, Instant),
    config: &DaemonConfig,
) -> Result<Claim, MountError> {
    let mut told: Option<Vec<u32>> = None;
    let mut next_look = wanted.wait.map_or(LOOK_STEP, |wait| wait.min(LOOK_STEP));
    loop {
        let holder = match Claim::take(root, path) {
            Ok(claim) => return Ok(claim),
            Err(Refused::Failed(error)) => return Err(error),
            Err(Refused::Held(holder)) => holder,
        };
        if !config.notes.is_heard() {
            return Err(MountError::GivenUp(path.to_owned()));
        }
        if let Some(at) = mounted_at(path, holder) {
            let by = holder.map(|(pid, _)| by(pid)).unwrap_or_default();
            return Err(MountError::MountedElsewhere(path.to_owned(), at, by));
        }
        let waited = clock::elapsed(since);
        if waited >= next_look {
            let last = Last::look(path, holder, config);
            let patience = wanted.wait.unwrap_or_else(|| last.patience());
            if waited >= patience {
                return Err(last.refusal(path));
            }
            next_look = patience.min(waited + LOOK_STEP);
            let pids: Vec<u32> = last.users.iter().map(|user| user.pid).collect();
            if told.as_ref() != Some(&pids) {
                let shown = path.display();
                config.notes.say(&format!("{shown}: waiting for its last daemon{}", last.shown()));
                told = Some(pids);
            }
        }
        // SLEEP: a lock can be waited for only without a bound.
        thread::sleep(CLAIM_STEP);
    }
}

fn by(pid: u32) -> String {
    format!(" (pid {pid})")
}

/// The daemon that has the directory, as far as it is known.
struct Last {
    pid: Option<u32>,
    mountpoint: Option<PathBuf>,
    /// Those who use its mount, which is out of sight.
    users: Vec<busy::User>,
}

impl Last {
    fn look(path: &Path, holder: Option<(u32, u32)>, config: &DaemonConfig) -> Last {
        let mut held = record::held(config.runtime.as_slice()).into_iter();
        let recorded = held.find(|(connection, seen)| match holder {
            Some((pid, claimed)) => {
                seen.record.pid == pid && (claimed == 0 || claimed == *connection)
            }
            None => seen.record.directory == path,
        });
        let (recorded, record): (Option<u32>, Option<Record>) =
            recorded.map(|(connection, seen)| (connection, seen.record)).unzip();
        let claimed = holder.map(|(_, connection)| connection).filter(|number| *number != 0);
        let device = claimed.or(recorded).map(mount_table::device_of);
        // The number is free for the next file system as soon as the kernel has let go of ours.
        let table = mount_table::read().unwrap_or_default();
        let device = device.filter(|one| table.iter().all(|entry| entry.device != *one));
        Last {
            pid: holder.map(|(pid, _)| pid).or(record.as_ref().map(|record| record.pid)),
            mountpoint: record.map(|record| record.mountpoint),
            users: device.map_or_else(Vec::new, |device| users::users(device).users),
        }
    }

    /// How long it is waited for if nothing was said.
    fn patience(&self) -> Duration {
        match self.pid.is_some() || geteuid().is_root() {
            _ if !self.users.is_empty() => USED_PATIENCE,
            true => END_PATIENCE,
            false => UNKNOWN_PATIENCE,
        }
    }

    fn by(&self) -> String {
        self.pid.map(by).unwrap_or_default()
    }

    fn shown(&self) -> String {
        let by = self.by();
        match &*self.users {
            [] => format!("{by} to end"),
            users => format!("{by} to end, which still serves {}", busy::list(users)),
        }
    }

    fn refusal(&self, path: &Path) -> MountError {
        if self.users.is_empty() {
            return MountError::Locked(path.to_owned(), self.by());
        }
        let cut = self
            .mountpoint
            .as_ref()
            .map(|at| format!(", or cut them off with 'iopace unmount --force {}'", at.display()));
        let reason = format!(
            "was unmounted lazily, and its last daemon{} still serves {}; end them \
             first, or --wait for their end{}",
            self.by(),
            busy::list(&self.users),
            cut.unwrap_or_default()
        );
        MountError::InUse(path.to_owned(), reason)
    }
}

/// Where the holder of a claim is seen to have the directory mounted: it will not let go soon.
fn mounted_at(path: &Path, holder: Option<(u32, u32)>) -> Option<PathBuf> {
    let all = mount_table::ours().unwrap_or_default();
    let found = all.into_iter().find(|entry| match holder {
        Some((_, connection)) if connection != 0 => entry.connection() == connection,
        _ => entry.source == path,
    });
    found.map(|entry| entry.mountpoint)
}
