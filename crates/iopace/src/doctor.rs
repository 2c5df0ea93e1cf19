//! `iopace doctor`: who passes iopace by, what is below it, and what would help.
//!
//! ```text
//!   Survey (of iopace-daemon)   the directory, its mounts, and the processes past them
//!   storage.rs                  the block devices below it
//!      │
//!      ├─► bypass.rs   processes, bind mounts and swap space past iopace
//!      ├─► advice.rs   settings of file systems, disks and RAIDs that cost or endanger
//!      └─► host.rs     FUSE and cgroups
//!                         └─► each finding: a sentence, and a command to be pasted ─► show.rs
//! ```
//! Names that others have chosen are material: they are shown safely, quoted for a shell, and their
//! files are never opened.

mod advice;
mod bypass;
mod host;
mod show;

pub use show::of_layer;

use crate::cli::DoctorArgs;
use crate::output::{Failure, Format, note, print, print_json};
use crate::pasted::{self, shell};
use crate::paths::runtime_dirs;
use crate::storage::{Layer, Sysfs};
use iopace_daemon::fuse::mounting::look::Looked;
use iopace_daemon::fuse::mounting::probe::{Answer, probe};
use iopace_daemon::fuse::mounting::survey::{Survey, is_believed};
use iopace_daemon::fuse::record;
use iopace_daemon::limits::PROBE_PATIENCE;
use iopace_daemon::mount_table;
use rustix::process::geteuid;
use serde::Serialize;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Something that passes iopace by, or costs or endangers what is behind it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// Its kind, which stays the same between releases.
    pub kind: &'static str,
    /// The directory, disk or setting that it is about.
    pub subject: String,
    /// What is so, and what comes of it.
    pub text: String,
    /// What would help, as a line for a shell.
    pub command: String,
}

/// A mount of iopace.
#[derive(Clone, Debug, Serialize)]
struct MountState {
    mountpoint: PathBuf,
    state: &'static str,
}

/// A directory, and what is below it.
#[derive(Clone, Debug, Serialize)]
struct DirectoryReport {
    directory: PathBuf,
    mounts: Vec<MountState>,
    file_system: String,
    file_system_at: PathBuf,
    options: String,
    layers: Vec<Layer>,
}

/// All that was seen.
#[derive(Clone, Debug, Serialize)]
struct DoctorReport {
    /// Whether processes of all users were looked at.
    saw_all_users: bool,
    directories: Vec<DirectoryReport>,
    findings: Vec<Finding>,
}

/// Looks, and says what was found: true if nothing was.
///
/// # Errors
/// There is no such directory, or it cannot be looked at.
pub fn run(args: &DoctorArgs) -> Result<bool, Failure> {
    let table = mount_table::read().map_err(|error| {
        Failure::new(format!("/proc/self/mountinfo cannot be read: {error}; is /proc mounted?"))
    })?;
    let asked: BTreeSet<PathBuf> = match &args.dir {
        Some(dir) => [dir.clone()].into(),
        None => table.iter().filter(|one| is_believed(one)).map(|one| one.source.clone()).collect(),
    };
    let mut findings = host::findings(&table);
    let mut directories = Vec::new();
    for path in asked {
        let survey = Survey::of(&path).map_err(|error| match &args.dir {
            Some(_) => Failure::new(error),
            None => Failure::new(format!("{error}; name another directory: 'iopace doctor DIR'")),
        })?;
        directories.push(look(survey, &mut findings));
    }
    // One disk may be below several directories.
    let mut known = BTreeSet::new();
    findings.retain(|one| known.insert((one.kind, one.text.clone(), one.command.clone())));
    let report = DoctorReport { saw_all_users: geteuid().is_root(), directories, findings };
    match args.format.format {
        Format::Json => print_json(&report)?,
        Format::Table => {
            if !report.saw_all_users {
                note(format_args!("processes of other users are seen by root only"));
            }
            print(&show::text(&report))?;
        }
    }
    Ok(report.findings.is_empty())
}

fn look(mut survey: Survey, findings: &mut Vec<Finding>) -> DirectoryReport {
    let layers = Sysfs(Path::new("/sys")).below(&survey.below);
    leave_out_daemons(&survey.directory, &mut survey.looked);
    let states = survey.mounts.iter().map(|entry| MountState {
        mountpoint: entry.mountpoint.clone(),
        state: match probe(&entry.mountpoint, PROBE_PATIENCE) {
            Answer::Dead => "dead",
            Answer::Silent => "silent",
            Answer::Alive => "serving",
        },
    });
    let mounts: Vec<MountState> = states.collect();
    findings.extend(mounts.iter().filter_map(broken));
    if mounts.is_empty() {
        let shown = survey.directory.display();
        findings.push(Finding {
            kind: "not-mounted",
            subject: shown.to_string(),
            text: format!("{shown} is not behind iopace: nothing in it is scheduled or paced"),
            command: format!("iopace mount {}", shell(&survey.directory)),
        });
    }
    findings.extend(bypass::findings(&survey, &layers));
    findings.extend(advice::findings(&survey.below, &layers));
    DirectoryReport {
        directory: survey.directory,
        mounts,
        file_system: survey.below.fs_type,
        file_system_at: survey.below.mountpoint,
        options: survey.below.options,
        layers,
    }
}

/// A daemon has open below what programs have open above.
fn leave_out_daemons(directory: &Path, looked: &mut Looked) {
    let held = record::held(&runtime_dirs(None));
    let of = held.iter().filter(|(_, seen)| seen.record.directory == directory);
    let daemons: Vec<u32> = of.map(|(_, seen)| seen.record.pid).collect();
    looked.users.retain(|user| !daemons.contains(&user.pid) && !pasted::is_iopace(user.pid));
    looked.missed.retain(|missed| !daemons.contains(&missed.pid));
}

fn broken(mount: &MountState) -> Option<Finding> {
    let (shown, at) = (mount.mountpoint.display(), shell(&mount.mountpoint));
    let (kind, text, command) = match mount.state {
        "dead" => (
            "dead-mount",
            format!("the daemon of the mount at {shown} was killed: every access fails"),
            format!("iopace unmount {at}"),
        ),
        "silent" => (
            "silent-mount",
            format!(
                "the mount at {shown} does not answer: its daemon waits for the file system below"
            ),
            format!("iopace unmount --force {at}"),
        ),
        _ => return None,
    };
    Some(Finding { kind, subject: shown.to_string(), text, command })
}
