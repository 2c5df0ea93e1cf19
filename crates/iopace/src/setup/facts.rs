//! What can be found out of a directory that is to be set up.

use super::root::SetupRoot;
use super::services::{self, WorkingService};
use crate::doctor::of_layer;
use crate::output::Failure;
use crate::pasted::{is_iopace, service_of, shell};
use crate::storage::Sysfs;
use iopace_daemon::fuse::mounting::busy::{self, User};
use iopace_daemon::fuse::mounting::survey::Survey;
use iopace_daemon::printable;
use std::path::{Path, PathBuf};

/// A directory, what it is on, and who works in it.
#[derive(Debug)]
pub(super) struct SetupFacts {
    /// In full, as the system that is set up sees it.
    pub(super) directory: PathBuf,
    /// What it is on: a line for the file system, and one for each block device.
    pub(super) below: Vec<String>,
    /// Whether its file system refuses writes.
    pub(super) is_read_only: bool,
    /// The services that work in it.
    pub(super) services: Vec<WorkingService>,
    /// Whether iopace is in front of it at this moment.
    is_mounted: bool,
    /// The processes that use it now.
    users: Vec<User>,
}

impl SetupFacts {
    /// Whether a mount can be started now.
    ///
    /// # Errors
    /// Who is in the way.
    pub(super) fn check_startable(&self) -> Result<(), Failure> {
        let (shown, at) = (self.directory.display(), shell(&self.directory));
        if self.is_mounted {
            return Err(Failure::new(format!(
                "{shown}: iopace is mounted there already, and would be twice; nothing was done: \
                 'iopace unmount {at}' first, or say --no-start"
            )));
        }
        match self.users.is_empty() {
            true => Ok(()),
            false => Err(Failure::new(format!(
                "{shown}: is in use by {}, which would go on past iopace; nothing was done: end \
                 that first, or say --no-start and have it mounted at the next boot",
                busy::list(&self.users)
            ))),
        }
    }
}

/// Looks at a directory; with `in_image` at one of a root that does not run.
///
/// # Errors
/// There is no such directory, or its name cannot be written down.
pub(super) fn look(dir: &Path, root: &SetupRoot, in_image: bool) -> Result<SetupFacts, Failure> {
    let facts = if in_image { look_in(dir, root)? } else { look_here(dir, root)? };
    if facts.directory == Path::new("/") {
        return Err(Failure::new("/: iopace is not mounted over the root directory"));
    }
    match facts.directory.to_str() {
        Some(_) => Ok(facts),
        None => Err(Failure::new(format!(
            "{}: the path is no UTF-8, so no configuration can name it; rename the directory",
            facts.directory.display()
        ))),
    }
}

fn look_here(dir: &Path, root: &SetupRoot) -> Result<SetupFacts, Failure> {
    let survey = Survey::of(dir).map_err(Failure::new)?;
    let entry = &survey.below;
    let mut below = vec![format!(
        "{} at {}",
        printable::name(&entry.fs_type),
        printable::name(&entry.mountpoint.display().to_string())
    )];
    below.extend(Sysfs(Path::new("/sys")).below(entry).iter().map(of_layer));
    // Of the mount or of the file system.
    let is_read_only = entry.options.split(',').any(|option| option == "ro");
    let users: Vec<User> =
        survey.looked.users.into_iter().filter(|user| !is_iopace(user.pid)).collect();
    let live = users.iter().filter(|user| user.writes()).filter_map(|user| {
        let name = service_of(user.pid)?;
        Some(WorkingService { name, reason: format!("{} (pid {}) writes", user.name, user.pid) })
    });
    let named = services::naming(root, &survey.directory);
    Ok(SetupFacts {
        services: services::joined(live.chain(named)),
        directory: survey.directory,
        below,
        is_read_only,
        is_mounted: !survey.mounts.is_empty(),
        users,
    })
}

fn look_in(dir: &Path, root: &SetupRoot) -> Result<SetupFacts, Failure> {
    let is_plain = dir.is_absolute()
        && dir.components().all(|part| !matches!(part, std::path::Component::ParentDir));
    if !is_plain {
        return Err(Failure::usage(format!(
            "{}: with --root the directory is named in full, as the system in there sees it",
            dir.display()
        )));
    }
    if !root.has_folder(dir) {
        return Err(Failure::new(format!(
            "{}: there is no such directory; make it with 'mkdir -p'",
            root.shown(dir).display()
        )));
    }
    let directory: PathBuf = dir.components().collect();
    Ok(SetupFacts {
        services: services::joined(services::naming(root, &directory)),
        directory,
        below: Vec::new(),
        is_read_only: false,
        is_mounted: false,
        users: Vec::new(),
    })
}
