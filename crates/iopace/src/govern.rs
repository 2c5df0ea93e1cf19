//! `iopace govern`: cgroups that are there give way to others, by the kernel alone.
//!
//! ```text
//!  io.pressure of others ──► Controller   iopace_core::goal, as of `nice`, once a second
//!  io.stat of the cgroup ──►     │
//!                                ▼
//!                  io.weight and io.max of the cgroup, never more than it had
//! ```
//! The controller has a guard: at most one in a hundred requests of others is late. Here a request
//! is a microsecond of their time, and one in which they wait for a disk is late; those that wait
//! are counted in hundredths of what is allowed.

mod record;
mod tree;

use crate::cgroup_limits::{FormerLimits, disks};
use crate::cli::GovernArgs;
use crate::nice::words;
use crate::output::{Failure, note, note_over};
use iopace_core::goal::{Controller, Goals, Push, Seen};
use iopace_core::time::{Instant, Nanos};
use iopace_core::units::Bytes;
use iopace_daemon::clock;
use record::GovernRecord;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::thread;
use std::time::Duration;
use tree::{CgroupName, CgroupTree, Waiting};

/// The time between two looks, as of `nice`.
const TICK: Duration = Duration::from_secs(1);

/// After so many looks the files are written again: systemd may have set them meanwhile.
const AGAIN_TICKS: u64 = 10;

/// Carries out the command.
///
/// # Errors
/// The kernel cannot do it, a word names no cgroup, or another iopace holds one of them.
pub fn run(args: &GovernArgs) -> Result<(), Failure> {
    let tree = CgroupTree::find().map_err(Failure::new)?;
    let name = |word: &String| CgroupName::parse(word, tree.root()).map_err(Failure::usage);
    let wanted = args.cgroups.iter().map(name).collect::<Result<Vec<_>, _>>()?;
    let others = args.others.iter().map(name).collect::<Result<Vec<_>, _>>()?;
    if args.release {
        return release(&tree, &wanted);
    }
    let mut governor = Governor::new(tree, (wanted, others), args);
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP])
        .map_err(|error| Failure::new(format!("no signal handler: {error}")))?;
    let (end, ended) = sync_channel(1);
    thread::spawn(move || signals.forever().next().map(|_| end.send(())));
    let shows = !args.quiet && io::stderr().is_terminal();
    let failed = loop {
        match governor.tick(clock::now()) {
            Ok(line) if shows => note_over(format_args!("{line}")),
            Ok(_) => {}
            Err(failure) => break Err(failure),
        }
        if ended.recv_timeout(TICK) != Err(RecvTimeoutError::Timeout) {
            break Ok(());
        }
    };
    if shows {
        note_over(format_args!(""));
    }
    failed.and(governor.end())
}

/// Gives back what is left of an iopace that was killed.
fn release(tree: &CgroupTree, wanted: &[CgroupName]) -> Result<(), Failure> {
    for name in wanted {
        let Some(path) = tree.locate(name) else { continue };
        if let Some(former) = record::left_behind(&path)? {
            let restored = former.restore(&tree.dir(&path), &disks(Path::new("/sys/block")));
            restored.map_err(|error| Failure::new(format!("{name}: {error}")))?;
        }
    }
    Ok(())
}

/// A cgroup that is held back, as long as it is there.
struct Governed {
    path: PathBuf,
    former: FormerLimits,
    /// What it had is there as long as this.
    _record: Option<GovernRecord>,
    controller: Controller,
    push: Option<Push>,
}

/// All of them.
struct Governor {
    tree: CgroupTree,
    wanted: Vec<CgroupName>,
    others: Vec<CgroupName>,
    /// By place in `wanted`.
    held: Vec<Option<Governed>>,
    disks: Vec<String>,
    percent: u32,
    goals: Goals,
    waiting: Waiting,
    last: Option<Instant>,
    ticks: u64,
    is_told: bool,
}

impl Governor {
    fn new(
        tree: CgroupTree,
        (wanted, others): (Vec<CgroupName>, Vec<CgroupName>),
        args: &GovernArgs,
    ) -> Governor {
        Governor {
            tree,
            held: wanted.iter().map(|_| None).collect(),
            wanted,
            others,
            disks: disks(Path::new("/sys/block")),
            percent: args.keep_pressure,
            goals: Goals { limit: args.limit, guarded: true, ..Goals::default() },
            waiting: Waiting::default(),
            last: None,
            ticks: 0,
            is_told: false,
        }
    }

    /// Looks once, and gives each what it may have until the next look. How all stand, for people.
    fn tick(&mut self, now: Instant) -> Result<String, Failure> {
        self.ticks += 1;
        let is_again = self.ticks.is_multiple_of(AGAIN_TICKS);
        self.find()?;
        let since = self.last.replace(now).map_or(Nanos::ZERO, |last| now.since(last));
        let waited_us = self.look();
        let interval_us = since.0 / 1_000;
        let seen = Seen {
            others_count: interval_us,
            late_count: waited_us.unwrap_or_default() / u64::from(self.percent),
            is_blind: waited_us.is_none() || interval_us == 0,
            ..Seen::default()
        };
        let mut lines = Vec::new();
        for (held, name) in self.held.iter_mut().zip(&self.wanted) {
            let Some(governed) = held else { continue };
            let [read, written] = self.tree.moved(&governed.path);
            let seen = Seen { moved: Bytes(read.max(written)), ..seen };
            let push = governed.controller.tick(now, &seen).push;
            if governed.push.replace(push) != Some(push) || is_again {
                let dir = self.tree.dir(&governed.path);
                let set = governed.former.hold(&dir, &self.disks, &push);
                if let Err(error) = set
                    && dir.exists()
                    && !std::mem::replace(&mut self.is_told, true)
                {
                    note(format_args!("warning: {name} does not take all: {error}"));
                }
            }
            lines.push(format!("{name}: {}", words(&push)));
        }
        if lines.is_empty() {
            return Ok("none of them is there yet".into());
        }
        let permille = waited_us.unwrap_or_default() * 1_000 / interval_us.max(1);
        let (waits, percent) = (permille as f64 / 10.0, self.percent);
        Ok(format!("{}; others wait {waits:.1} % (of {percent} %)", lines.join(", ")))
    }

    /// Takes those that have come, and forgets those that are gone.
    fn find(&mut self) -> Result<(), Failure> {
        for (held, name) in self.held.iter_mut().zip(&self.wanted) {
            if held.as_ref().is_some_and(|governed| self.tree.dir(&governed.path).is_dir()) {
                continue;
            }
            *held = None;
            let Some(path) = self.tree.locate(name) else { continue };
            let dir = self.tree.dir(&path);
            if !FormerLimits::has_any(&dir) {
                return Err(Failure::new(format!(
                    "{name}: has neither io.max nor io.weight: have systemd give it the \
                     controller ('systemctl set-property {name} IOAccounting=yes'), or write '+io' \
                     to cgroup.subtree_control above it"
                )));
            }
            let former = record::left_behind(&path)?.unwrap_or_else(|| FormerLimits::of(&dir));
            let record = GovernRecord::make(&path, &former);
            let controller = Controller::new(self.goals);
            *held = Some(Governed { path, former, _record: record, controller, push: None });
        }
        Ok(())
    }

    /// How long others have waited since the last look, in µs.
    fn look(&mut self) -> Option<u64> {
        let others: Vec<PathBuf> = match &*self.others {
            [] => {
                let held = self.held.iter().flatten();
                let held: Vec<PathBuf> = held.map(|governed| governed.path.clone()).collect();
                self.tree.beside(&held)
            }
            named => named.iter().filter_map(|name| self.tree.locate(name)).collect(),
        };
        self.waiting.look(&self.tree, &others)
    }

    /// Gives back what all had.
    fn end(self) -> Result<(), Failure> {
        let mut failed = None;
        for (held, name) in self.held.into_iter().zip(&self.wanted) {
            let Some(governed) = held else { continue };
            let dir = self.tree.dir(&governed.path);
            if let Err(error) = governed.former.restore(&dir, &self.disks)
                && dir.exists()
            {
                failed = Some(Failure::new(format!("{name}: has not what it had: {error}")));
            }
        }
        failed.map_or(Ok(()), Err)
    }
}

#[cfg(test)]
mod tests;
