//! `iopace insert`: a daemon in front of a volume that is in use.
//!
//! ```text
//!  command ─► daemon ─► volume below, ublk device, watcher ─► the volume's table is turned
//!                                                    │
//!                        the daemon is killed: the watcher takes over and turns it back
//! ```

pub mod remove;
mod rescue;
mod watch;

use crate::attach::{left, list, seen};
use crate::cli::InsertVolumeArgs;
use crate::log;
use crate::mount::detach::{Front, start};
use crate::mount::{leave_directory, quoted_path};
use crate::output::{Failure, note, print};
use crate::paths::{SocketDir, runtime_dir};
use crate::serve::{Plan, run_plan};
use crate::units;
use iopace_daemon::attached::Seen;
use iopace_daemon::daemon::Daemon;
use iopace_daemon::insertion::{Inserted, Way};
use iopace_daemon::resident::stay_in_memory;
use iopace_daemon::ublk::{self, UblkWish};
use rustix::fs::{major, makedev, minor};
use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use watch::Watcher;

/// `TMPFS_MAGIC` of linux/magic.h.
const TMPFS_MAGIC: i64 = 0x0102_1994;

/// Disks upon disks that are followed.
const STACKED_MAX: u32 = 8;

/// Inserts, or lists what is inserted.
///
/// # Errors
/// It could not be inserted: all is as before then.
pub fn run(args: &InsertVolumeArgs) -> Result<(), Failure> {
    let Some(volume) = &args.volume else {
        return list::run(args.format.format, |record| record.inserted.is_some());
    };
    if !rustix::process::geteuid().is_root() {
        return Err(Failure::new("only root may have the requests of a volume go elsewhere"));
    }
    if let Some(watcher) = Watcher::found() {
        log::start(args.log_format.unwrap_or_default(), args.verbose, args.quiet);
        return watcher.run();
    }
    if let Some(front) = Front::found() {
        return serve(front, args, volume);
    }
    ublk::prepare().map_err(Failure::new)?;
    let inserted = Inserted::find(volume).map_err(Failure::new)?;
    if let Some(seen) = of_volume(&inserted).iter().find(|seen| seen.is_held()) {
        return Err(taken(&inserted, seen));
    }
    let directory = SocketDir::open(&runtime_dir())?;
    let log = match &args.log {
        Some(path) => std::path::absolute(path)
            .map_err(|error| Failure::usage(format!("--log {}: {error}", path.display())))?,
        None => directory.path().join(format!("{}.log", Plan::volume_name(&inserted))),
    };
    check_log(&log, &inserted)?;
    let said = start(&log, std::env::args_os().skip(1).collect())?;
    let (path, rest) = said.split_once('\n').unwrap_or((&said, ""));
    note(format_args!("{}", rest.trim_end()));
    let printed = print(&format!("{path}\n"));
    printed.map_err(|failure| failure.but(&format!("it is inserted: 'iopace remove {path}'")))
}

/// A log on the volume, or above it, would wait for the daemon that writes it.
fn check_log(log: &Path, inserted: &Inserted) -> Result<(), Failure> {
    let beside = log.parent().unwrap_or(log);
    let found = fs::metadata(log).or_else(|_| fs::metadata(beside));
    let device = found.map_or(0, |found| found.dev());
    let is_memory = rustix::fs::statfs(beside).is_ok_and(|found| found.f_type == TMPFS_MAGIC);
    let is_unknown = major(device) == 0;
    if is_memory || !is_unknown && !is_on(device, inserted.number, STACKED_MAX) {
        return Ok(());
    }
    let why = if is_unknown { "may be on the volume" } else { "is on the volume" };
    Err(Failure::usage(format!(
        "the log {}: {why} itself: the daemon would wait for its own log; name a place in memory \
         or on another disk with --log",
        log.display()
    )))
}

/// Whether a disk is another one, or is made of it.
fn is_on(device: u64, other: u64, levels: u32) -> bool {
    let link = format!("/sys/dev/block/{}:{}/slaves", major(device), minor(device));
    let below = fs::read_dir(link).into_iter().flatten().flatten();
    let number = |path: PathBuf| {
        let text = fs::read_to_string(path.join("dev")).ok()?;
        let (major, minor) = text.trim().split_once(':')?;
        Some(makedev(major.parse().ok()?, minor.parse().ok()?))
    };
    let mut below = below.filter_map(|entry| number(entry.path()));
    device == other || levels > 0 && below.any(|below| is_on(below, other, levels - 1))
}

fn taken(inserted: &Inserted, seen: &Seen) -> Failure {
    let shown = inserted.path();
    Failure::new(format!(
        "{}: a daemon is in front of it already (pid {}): 'iopace sched' exchanges its scheduler, \
         'iopace remove {}' takes it out",
        shown.display(),
        seen.record.pid,
        quoted_path(&shown)
    ))
}

/// The records of daemons in front of a volume: one that serves it, and what killed ones have left.
fn of_volume(inserted: &Inserted) -> Vec<Seen> {
    let is_of =
        |seen: &Seen| seen.record.inserted.as_ref().is_some_and(|one| one.is_same(inserted));
    seen().into_iter().filter(is_of).collect()
}

/// The daemon, until it is told to end: it is out of the way then.
fn serve(front: Front, args: &InsertVolumeArgs, volume: &Path) -> Result<(), Failure> {
    let prepared = prepare(args, volume);
    let (inserted, lock, mut plan) = prepared.map_err(|failure| front.tell(failure))?;
    let log = front.log().to_owned();
    plan.config.log = Some(log.clone());
    log::start(plan.log_format, args.verbose, args.quiet);
    leave_directory();
    let served = front.run(|told| {
        run_plan(plan, |daemon, _| {
            let is_recovered = begin(daemon, &inserted)?;
            drop(lock);
            // Programs that use it already wait for the daemon, not for the command in front.
            told(&welcome(daemon, &inserted, &log))
                .or_else(|gone| is_recovered.then_some(()).ok_or(gone))
        })
    });
    if served.is_err() {
        clear_below(&inserted);
    }
    if served.is_ok() && args.log.is_none() {
        log::remove_if_clean(&log);
    }
    served
}

/// Removes the volume below after a failure, unless another daemon is at the volume by now.
fn clear_below(inserted: &Inserted) {
    let Ok(_lock) = inserted.lock() else { return };
    let is_free = !of_volume(inserted).iter().any(Seen::is_held);
    if is_free && inserted.way() == Way::Past {
        let _ = inserted.remove_below();
    }
}

/// The volume below, with the lock of the volume.
fn prepare(args: &InsertVolumeArgs, volume: &Path) -> Result<(Inserted, File, Plan), Failure> {
    ublk::prepare().map_err(Failure::new)?;
    let inserted = Inserted::find(volume).map_err(Failure::new)?;
    let lock = inserted.lock().map_err(Failure::new)?;
    stay_in_memory().map_err(|error| {
        Failure::new(format!(
            "the daemon cannot be kept in memory: {error}; raise the limit ('ulimit -l unlimited')"
        ))
    })?;
    let left = of_volume(&inserted);
    left::wait_for_killed(&left);
    if let Some(seen) = left.iter().find(|seen| seen.is_held()) {
        return Err(taken(&inserted, seen));
    }
    let below = inserted.make_below().map_err(Failure::new)?;
    let plan = Plan::insert(args, &inserted, &below).inspect_err(|_| {
        if inserted.way() == Way::Past {
            let _ = inserted.remove_below();
        }
    })?;
    Ok((inserted, lock, plan))
}

/// A device in front of the volume below, a watcher, and the volume's requests to the device.
/// Whether it was there, and waited.
fn begin(daemon: &Daemon, inserted: &Inserted) -> Result<bool, Failure> {
    let wish = UblkWish {
        source: Some(inserted.path()),
        block_bytes: None,
        left: of_volume(inserted),
        inserted: Some(inserted.clone()),
    };
    let attached = daemon.attach_ublk(wish).map_err(Failure::new)?;
    watch::start()?;
    daemon.turn_in().map_err(Failure::new)?;
    Ok(attached.is_recovered)
}

/// The path of the volume alone on its line, then what stands behind it.
fn welcome(daemon: &Daemon, inserted: &Inserted, log: &Path) -> String {
    let path = inserted.path();
    let devices = daemon.devices();
    let info = devices.first().expect("there is one").info();
    let (name, size) = (&info.name, units::size(info.size_bytes));
    format!(
        "{}\ninserted into {}, {size}, as '{name}'\nlog: {}\nend: iopace remove {}\n",
        path.display(),
        path.display(),
        log.display(),
        quoted_path(&path)
    )
}
