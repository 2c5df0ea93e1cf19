//! `iopace attach`: a disk behind iopace as a block device of the kernel, by a loop device over a
//! file that a daemon shows through FUSE, or by the kernel's ublk driver.

pub mod detach;
pub(crate) mod left;
pub(crate) mod list;

use left::{clear_left, loop_refused, of_file, source_of, wait_for_killed};

use crate::cli::AttachArgs;
use crate::log;
use crate::mount::detach::{Front, start};
use crate::mount::{leave_directory, quoted_path};
use crate::output::{Failure, note, print};
use crate::paths::{SocketDir, runtime_dir, runtime_dirs};
use crate::serve::{Plan, run_plan};
use crate::units;
use iopace_daemon::attached::{Seen, all};
use iopace_daemon::daemon::Daemon;
use iopace_daemon::fuse::image::remove;
use iopace_daemon::ublk::{self, UblkAttached, UblkWish};
use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

/// Attaches, or lists what is attached.
///
/// # Errors
/// It could not be attached.
pub fn run(args: &AttachArgs) -> Result<(), Failure> {
    if args.list || (args.file.is_none() && args.device.emulate.is_none()) {
        if args.verbose > 0 {
            log::start(args.log_format.unwrap_or_default(), args.verbose, args.quiet);
        }
        return list::run(args.format.format, |_| true);
    }
    if let Some(front) = Front::found() {
        return serve(front, args);
    }
    if !rustix::process::geteuid().is_root() {
        return Err(Failure::new(
            "only root may attach block devices; 'iopace serve --fuse DIR' and NBD clients need no \
             root",
        ));
    }
    if args.ublk {
        ublk::prepare().map_err(Failure::new)?;
    }
    let directory = SocketDir::open(&runtime_dir())?;
    let plan = Plan::attach(args, None)?;
    for seen in seen() {
        clear_left(&seen);
    }
    let known = of_file(source_of(args).as_deref());
    wait_for_killed(&known);
    if let Some(seen) = known.iter().find(|seen| !args.ublk && !seen.is_held()) {
        return Err(loop_refused(&seen.record));
    }
    let log = match &args.log {
        Some(path) => std::path::absolute(path)
            .map_err(|error| Failure::usage(format!("--log {}: {error}", path.display())))?,
        None => directory.path().join(format!("{}.log", plan.socket_name)),
    };
    let said = start(&log, std::env::args_os().skip(1).collect())?;
    let (path, rest) = said.split_once('\n').unwrap_or((&said, ""));
    note(format_args!("{}", rest.trim_end()));
    let printed = print(&format!("{path}\n"));
    printed.map_err(|failure| failure.but(&format!("{path} is attached: 'iopace detach {path}'")))
}

/// All that is attached, or was by a daemon that was killed.
pub(crate) fn seen() -> Vec<Seen> {
    let mut dirs = runtime_dirs(None);
    dirs.dedup();
    dirs.iter().flat_map(|dir| all(dir)).collect()
}

/// The daemon: a disk as a file, that as a loop device, or a disk as a ublk device, until it is
/// told to end.
fn serve(front: Front, args: &AttachArgs) -> Result<(), Failure> {
    let planned = plan(args);
    let (mut plan, made) = planned.map_err(|failure| front.tell(failure))?;
    let log = front.log().to_owned();
    plan.config.log = Some(log.clone());
    log::start(plan.log_format, args.verbose, args.quiet);
    // Named from the directory that is left now.
    let source = source_of(args);
    leave_directory();
    let served = front.run(|told| {
        run_plan(plan, |daemon, _| {
            let (shown, is_recovered) = begin(daemon, args, (source.clone(), &log))?;
            // Programs that use it already wait for the daemon, not for the command in front.
            told(&shown).or_else(|gone| is_recovered.then_some(()).ok_or(gone))
        })
    });
    drop(made);
    if served.is_ok() && args.log.is_none() {
        log::remove_if_clean(&log);
    }
    served
}

/// Attaches the disk: what to say of it, and whether it was there and waited.
fn begin(
    daemon: &Daemon,
    args: &AttachArgs,
    (source, log): (Option<PathBuf>, &Path),
) -> Result<(String, bool), Failure> {
    let block_bytes = args.block_size.as_ref().map(|text| text.parse().expect("one of the list"));
    // The file is ours by now: whoever else has a device of it was killed.
    let left = of_file(source.as_deref());
    if args.ublk {
        wait_for_killed(&left);
        let attached = daemon.attach_ublk(UblkWish { source, block_bytes, left, inserted: None });
        let UblkAttached { path, is_recovered } = attached.map_err(Failure::new)?;
        let again = if is_recovered { ", taken over" } else { "" };
        return Ok((welcome(daemon, &path, (again, log)), is_recovered));
    }
    if let Some(seen) = left.first() {
        return Err(loop_refused(&seen.record));
    }
    let attached = daemon.attach(source, block_bytes).map_err(Failure::new)?;
    let cached = ", cached twice: this kernel allows no direct I/O";
    let cached = if attached.direct { "" } else { cached };
    Ok((welcome(daemon, &attached.path, (cached, log)), false))
}

/// The plan of the daemon, and the directory for its file, if there is to be one.
fn plan(args: &AttachArgs) -> Result<(Plan, Option<Made>), Failure> {
    if args.ublk {
        ublk::prepare().map_err(Failure::new)?;
        return Ok((Plan::attach(args, None)?, None));
    }
    let made = Made::new()?;
    Ok((Plan::attach(args, Some(made.path()))?, Some(made)))
}

/// The directory that the daemon shows its file in; removed when it is mounted no more.
struct Made {
    path: PathBuf,
    _directory: SocketDir,
}

impl Made {
    fn new() -> Result<Made, Failure> {
        let directory = SocketDir::open(&runtime_dir())?;
        let path = directory.path().join(format!("attach-{}", std::process::id()));
        let made = DirBuilder::new().mode(0o700).create(&path);
        made.map_err(|error| Failure::new(format!("{}: {error}", path.display())))?;
        Ok(Made { path, _directory: directory })
    }

    fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Made {
    fn drop(&mut self) {
        remove(&self.path);
    }
}

/// The path of the device alone on its line, then what stands behind it.
fn welcome(daemon: &Daemon, attached: &Path, (remark, log): (&str, &Path)) -> String {
    let path = attached.display();
    let devices = daemon.devices();
    let info = devices.first().expect("there is one").info();
    let (name, size) = (&info.name, units::size(info.size_bytes));
    let behind = match (&info.model, &info.path) {
        (Some(model), Some(file)) => format!("{model}, kept in {}", file.display()),
        (Some(model), None) => format!("{model}, in memory"),
        (None, file) => file.as_ref().map_or(String::new(), |file| file.display().to_string()),
    };
    let read_only = if info.read_only { ", read-only" } else { "" };
    format!(
        "{path}\nattached {behind}, {size} as '{name}'{read_only}{remark}\nlog: {}\nend: iopace \
         detach {}\n",
        log.display(),
        quoted_path(attached)
    )
}
