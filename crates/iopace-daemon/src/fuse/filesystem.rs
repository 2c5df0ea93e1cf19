//! What a mount shows: from its configuration and the open directory to a file system.

use super::backing::Backing;
use super::tree::{Options, Served};
use super::who::Who;
use crate::config::MountConfig;
use crate::groups::Groups;
use crate::start_error::StartError;
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// The file system of a mount, with who pays for what is done in it; `flush` says whether closing a
/// file can tell anything. `root` is the real directory, opened (`O_PATH`) before anything is
/// mounted over it; what is reached from it is below the mount.
pub(super) fn filesystem(
    groups: &Arc<Groups>,
    (mount, is_over_itself, flush): (&MountConfig, bool, bool),
    backing: &Backing,
    root: OwnedFd,
) -> Result<(Served, Arc<Who>), StartError> {
    let who = Who::new(groups, mount.rules.clone());
    let who = who.map_err(|error| StartError::Group(error.to_string()))?;
    // Programs that had files open before go on past the mount.
    let is_passed = mount.in_use.while_in_use || mount.in_use.while_written;
    let is_alone = is_over_itself && !is_passed;
    let mut options = if is_alone { Options::alone() } else { Options::shared() };
    options.flush = flush;
    let tree = backing.tree(root, Arc::clone(&who), options);
    let tree = tree.map_err(|error| StartError::open(&mount.directory, &error))?;
    Ok((Served(Arc::new(tree)), who))
}
