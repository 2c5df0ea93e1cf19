//! `iopace mount`: a directory behind iopace, by a daemon or in the foreground.

pub mod detach;
pub mod helper;
mod list;

use crate::cli::MountArgs;
use crate::log;
use crate::output::{Failure, print};
use crate::paths::{SocketDir, runtime_dir};
use crate::serve::{Doors, Plan, ready, run_plan};
use iopace_daemon::api::MountReport;
use iopace_daemon::daemon::Daemon;
use iopace_daemon::printable::quoted;
use std::ffi::OsString;
use std::fmt::Write as _;
use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};

/// Mounts, or lists what is mounted.
///
/// # Errors
/// It could not be mounted, or ended with something not durable.
pub fn run(args: &MountArgs) -> Result<(), Failure> {
    if args.dir.is_none() && args.config.is_none() {
        if args.verbose > 0 {
            log::start(args.log_format.unwrap_or_default(), args.verbose, args.quiet);
        }
        return list::run(args.format.format);
    }
    if let Some(front) = detach::Front::found() {
        let log = front.log().to_owned();
        let mut plan = Plan::mount(args).map_err(|failure| front.tell(failure))?;
        plan.config.log = Some(log.clone());
        plan.config.notes = front.notes();
        log::start(plan.log_format, args.verbose, args.quiet);
        leave_directory();
        let served = front
            .run(|told| run_plan(plan, |daemon, doors| told(&welcome(daemon, doors, Some(&log)))));
        if served.is_ok() && args.log.is_none() {
            log::remove_if_clean(&log);
        }
        return served;
    }
    let plan = Plan::mount(args)?;
    if args.foreground {
        log::start(plan.log_format, args.verbose, args.quiet);
        leave_directory();
        return run_plan(plan, |daemon, doors| {
            print(&welcome(daemon, doors, None))?;
            ready();
            Ok(())
        });
    }
    let said = start(args, &plan, std::env::args_os().skip(1).collect())?;
    print(&said).map_err(|failure| failure.but("what was asked for is mounted: see 'iopace mount'"))
}

/// The same by a daemon that is given these words, without a word of its own.
///
/// # Errors
/// It could not be mounted.
fn run_quietly(args: &MountArgs, words: Vec<OsString>) -> Result<(), Failure> {
    start(args, &Plan::mount(args)?, words).map(|_| ())
}

/// Starts the daemon; what it says when all is mounted.
fn start(args: &MountArgs, plan: &Plan, words: Vec<OsString>) -> Result<String, Failure> {
    let directory = SocketDir::open(&runtime_dir())?;
    let log = match &args.log {
        Some(path) => std::path::absolute(path)
            .map_err(|error| Failure::usage(format!("--log {}: {error}", path.display())))?,
        None => directory.path().join(format!("{}.log", plan.socket_name)),
    };
    detach::start(&log, words)
}

/// The working directory may lie under the mount: a daemon that is in it would keep it busy itself.
pub fn leave_directory() {
    if let Err(error) = std::env::set_current_dir("/") {
        tracing::warn!(%error, "the working directory stays as it is");
    }
}

/// Each mount with its directory, then where the log is and what to do next.
fn welcome(daemon: &Daemon, doors: &Doors, log: Option<&PathBuf>) -> String {
    let mut text = String::new();
    for MountReport { mountpoint, device, .. } in daemon.mounts().reports() {
        let all = &daemon.config().mounts;
        let config = all.iter().find(|mount| mount.device.name == device).expect("one of ours");
        let over = match &config.mountpoint {
            Some(_) => format!("{} at {}", config.directory.display(), mountpoint.display()),
            None => mountpoint.display().to_string(),
        };
        let read_only = if config.device.read_only { ", read-only" } else { "" };
        let _ = writeln!(text, "mounted {over} as '{device}'{read_only}");
    }
    for uri in daemon.uris() {
        let _ = writeln!(text, "{uri}");
    }
    if let Some(log) = log {
        let _ = writeln!(text, "log: {}", log.display());
    }
    text.push_str(&doors.ports(log.is_none() && std::io::stdout().is_terminal()));
    if let Some(control) =
        doors.control().filter(|control| control.parent() != Some(&*runtime_dir()))
    {
        let _ = writeln!(text, "control: {}", control.display());
    }
    match (log, daemon.mounts().reports().first()) {
        (Some(_), Some(MountReport { mountpoint, device, .. })) => {
            let _ = writeln!(text, "next: iopace pace status {}", quoted(device));
            let _ = writeln!(text, "end: iopace unmount {}", quoted_path(mountpoint));
        }
        _ => text.push_str("stop: Ctrl-C\n"),
    }
    text
}

/// A path as a shell takes it.
pub fn quoted_path(path: &Path) -> String {
    let shown = path.display().to_string();
    quoted(&shown)
}
