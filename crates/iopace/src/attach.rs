//! `iopace attach`: a disk behind iopace as a block device of the kernel, by a loop device over a
//! file that a daemon shows through FUSE.

pub mod detach;
mod list;

use crate::cli::AttachArgs;
use crate::log;
use crate::mount::detach::{Front, start};
use crate::mount::{leave_directory, quoted_path};
use crate::output::{Failure, note, print};
use crate::paths::{SocketDir, runtime_dir, runtime_dirs};
use crate::serve::{Plan, run_plan};
use crate::units;
use iopace_daemon::daemon::Daemon;
use iopace_daemon::fuse::image::attached::{Seen, all};
use iopace_daemon::fuse::image::loops::Attached;
use iopace_daemon::fuse::image::{clear_away, remove};
use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// What a killed daemon left is waited for this long: nobody answers there any more.
const LEFT_PATIENCE: Duration = Duration::from_secs(5);

/// Attaches, or lists what is attached.
///
/// # Errors
/// It could not be attached.
pub fn run(args: &AttachArgs) -> Result<(), Failure> {
    if args.list || (args.file.is_none() && args.device.emulate.is_none()) {
        if args.verbose > 0 {
            log::start(args.log_format.unwrap_or_default(), args.verbose, args.quiet);
        }
        return list::run(args.format.format);
    }
    if let Some(front) = Front::found() {
        return serve(front, args);
    }
    if !rustix::process::geteuid().is_root() {
        return Err(Failure::new(
            "only root may attach loop devices; 'iopace serve --fuse DIR' and NBD clients need no \
             root",
        ));
    }
    let directory = SocketDir::open(&runtime_dir())?;
    let plan = Plan::attach(args, directory.path())?;
    for seen in seen() {
        clear_left(&seen);
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
fn seen() -> Vec<Seen> {
    let mut dirs = runtime_dirs(None);
    dirs.dedup();
    dirs.iter().flat_map(|dir| all(dir)).collect()
}

/// Clears away what a killed daemon left. `None`: its daemon lives; else whether nobody has the
/// device in use any more.
fn clear_left(seen: &Seen) -> Option<bool> {
    if seen.is_held() {
        return None;
    }
    let record = &seen.record;
    let is_free = clear_away(record, LEFT_PATIENCE);
    let path = record.loop_device.display();
    if is_free {
        seen.remove();
        note(format_args!("{path}: its daemon was killed; what it left is cleared away"));
    } else {
        note(format_args!("{path}: its daemon was killed, but somebody still uses it"));
    }
    Some(is_free)
}

/// The daemon: a disk as a file, that as a loop device, until it is told to end.
fn serve(front: Front, args: &AttachArgs) -> Result<(), Failure> {
    let made = Made::new();
    let planned = made.and_then(|made| Ok((Plan::attach(args, made.path())?, made)));
    let (mut plan, made) = planned.map_err(|failure| front.tell(failure))?;
    let log = front.log().to_owned();
    plan.config.log = Some(log.clone());
    let source = args.file.as_ref().map(|file| std::path::absolute(file).unwrap_or(file.clone()));
    let block = args.block_size.as_ref().map(|text| text.parse().expect("one of the list"));
    log::start(plan.log_format, args.verbose, args.quiet);
    leave_directory();
    let served = front.run(|told| {
        run_plan(plan, |daemon, _| {
            let attached = daemon.attach(source.clone(), block);
            let attached = attached.map_err(Failure::new)?;
            told(&welcome(daemon, &attached, &log))
        })
    });
    drop(made);
    if served.is_ok() && args.log.is_none() {
        log::remove_if_clean(&log);
    }
    served
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
fn welcome(daemon: &Daemon, attached: &Attached, log: &Path) -> String {
    let path = attached.path.display();
    let info = daemon.devices().first().expect("there is one").info();
    let (name, size) = (&info.name, units::size(info.size_bytes));
    let behind = match (&info.model, &info.path) {
        (Some(model), Some(file)) => format!("{model}, kept in {}", file.display()),
        (Some(model), None) => format!("{model}, in memory"),
        (None, file) => file.as_ref().map_or(String::new(), |file| file.display().to_string()),
    };
    let read_only = if info.read_only { ", read-only" } else { "" };
    let cached =
        if attached.direct { "" } else { ", cached twice: this kernel allows no direct I/O" };
    format!(
        "{path}\nattached {behind}, {size} as '{name}'{read_only}{cached}\nlog: {}\nend: iopace \
         detach {}\n",
        log.display(),
        quoted_path(&attached.path)
    )
}
