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
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use watch::Watcher;

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
    check_log(args, &inserted)?;
    if let Some(seen) = of_volume(&inserted).iter().find(|seen| seen.is_held()) {
        let shown = inserted.path();
        return Err(Failure::new(format!(
            "{}: a daemon is in front of it already (pid {}): 'iopace sched' exchanges its \
             scheduler, 'iopace remove {}' takes it out",
            shown.display(),
            seen.record.pid,
            quoted_path(&shown)
        )));
    }
    let directory = SocketDir::open(&runtime_dir())?;
    let log = match &args.log {
        Some(path) => std::path::absolute(path)
            .map_err(|error| Failure::usage(format!("--log {}: {error}", path.display())))?,
        None => directory.path().join(format!("{}.log", Plan::volume_name(&inserted))),
    };
    let said = start(&log, std::env::args_os().skip(1).collect())?;
    let (path, rest) = said.split_once('\n').unwrap_or((&said, ""));
    note(format_args!("{}", rest.trim_end()));
    let printed = print(&format!("{path}\n"));
    printed.map_err(|failure| failure.but(&format!("it is inserted: 'iopace remove {path}'")))
}

/// A log on the volume would wait for the daemon that writes it.
fn check_log(args: &InsertVolumeArgs, inserted: &Inserted) -> Result<(), Failure> {
    let Some(log) = &args.log else { return Ok(()) };
    let log = std::path::absolute(log).unwrap_or(log.clone());
    let found = fs::metadata(&log).or_else(|_| fs::metadata(log.parent().unwrap_or(&log)));
    match found.is_ok_and(|found| found.dev() == inserted.number) {
        true => Err(Failure::usage(format!(
            "--log {}: is on the volume itself: the daemon would wait for its own log; name \
             another place, or leave it out",
            log.display()
        ))),
        false => Ok(()),
    }
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
    let (inserted, mut plan) = prepared.map_err(|failure| front.tell(failure))?;
    let log = front.log().to_owned();
    plan.config.log = Some(log.clone());
    log::start(plan.log_format, args.verbose, args.quiet);
    leave_directory();
    let served = front.run(|told| {
        run_plan(plan, |daemon, _| {
            begin(daemon, &inserted)?;
            // The command in front may be gone: what is inserted stays, as with one that waited.
            let _ = told(&welcome(daemon, &inserted, &log));
            Ok(())
        })
    });
    if served.is_err() {
        // What was not inserted leaves nothing.
        let _ = inserted.remove_below();
    }
    if served.is_ok() && args.log.is_none() {
        log::remove_if_clean(&log);
    }
    served
}

fn prepare(args: &InsertVolumeArgs, volume: &Path) -> Result<(Inserted, Plan), Failure> {
    ublk::prepare().map_err(Failure::new)?;
    let inserted = Inserted::find(volume).map_err(Failure::new)?;
    let below = inserted.make_below().map_err(Failure::new)?;
    let plan = Plan::insert(args, &inserted, &below);
    let plan = plan.inspect_err(|_| {
        let _ = inserted.remove_below();
    })?;
    stay_in_memory().map_err(|error| {
        let _ = inserted.remove_below();
        Failure::new(format!(
            "the daemon cannot be kept in memory: {error}; raise the limit ('ulimit -l unlimited')"
        ))
    })?;
    Ok((inserted, plan))
}

/// A device in front of the volume below, a watcher, and the volume's requests to the device.
fn begin(daemon: &Daemon, inserted: &Inserted) -> Result<(), Failure> {
    let left = of_volume(inserted);
    left::wait_for_killed(&left);
    let wish = UblkWish {
        source: Some(inserted.path()),
        block_bytes: None,
        left,
        inserted: Some(inserted.clone()),
    };
    daemon.attach_ublk(wish).map_err(Failure::new)?;
    watch::start()?;
    daemon.turn_in().map_err(Failure::new)
}

/// The path of the volume alone on its line, then what stands behind it.
fn welcome(daemon: &Daemon, inserted: &Inserted, log: &Path) -> String {
    let path = inserted.path();
    let info = daemon.devices().first().expect("there is one").info();
    let (name, size) = (&info.name, units::size(info.size_bytes));
    format!(
        "{}\ninserted into {}, {size}, as '{name}'\nlog: {}\nend: iopace remove {}\n",
        path.display(),
        path.display(),
        log.display(),
        quoted_path(&path)
    )
}

/// Where the volume's requests go, in a word for people.
pub fn state(way: Way, is_held: bool) -> &'static str {
    match (way, is_held) {
        (Way::Daemon, true) => "inserted",
        (Way::Daemon, false) => "waiting",
        (Way::Past, true) => "bypassed",
        (Way::Past, false) => "dead",
        (Way::Gone, _) => "no volume",
    }
}
