//! Where sockets are made when nothing is said.
//!
//! `$IOPACE_RUNTIME_DIR`, and then nothing else is looked at: daemons there and elsewhere know
//! nothing of each other. Else the first that applies: `$XDG_RUNTIME_DIR/iopace`, if nobody else
//! can put or replace anything there; `/run/iopace` for root, or where it belongs to us (a service
//! manager made it); `/tmp/iopace-UID`. The directory is ours alone (mode 0700), so that nobody can
//! put a socket of his own in the place of ours. Directories of others are ignored, see
//! [`runtime_files`](iopace_daemon::runtime_files).

use crate::output::Failure;
use iopace_daemon::runtime_files::{Distrust, RuntimeDir, trusted};
use rustix::process::geteuid;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The control socket's name where nothing is said.
pub const CONTROL: &str = "iopace.ctl";

/// Ending of all control sockets.
pub const CONTROL_ENDING: &str = "ctl";

/// The directory that is used instead of all others, if one is named.
fn named_dir() -> Option<PathBuf> {
    let named = std::env::var_os("IOPACE_RUNTIME_DIR").map(PathBuf::from);
    named.filter(|dir| dir.is_absolute())
}

/// Where sockets are made; it need not exist.
pub fn runtime_dir() -> PathBuf {
    if let Some(named) = named_dir() {
        return named;
    }
    let own = geteuid().as_raw();
    let session = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
    if let Some(dir) = session.filter(|dir| dir.is_absolute() && is_usable(dir)) {
        return dir.join("iopace");
    }
    let system = PathBuf::from("/run/iopace");
    if own == 0 || fs::symlink_metadata(&system).is_ok_and(|dir| dir.uid() == own) {
        return system;
    }
    PathBuf::from(format!("/tmp/iopace-{own}"))
}

/// Whether our directory is in `dir`, or can be made there.
fn is_usable(dir: &Path) -> bool {
    RuntimeDir::is_safe_parent(dir)
        && match RuntimeDir::open(&dir.join("iopace")) {
            Ok(_) => true,
            Err(reason) => reason.is_missing(),
        }
}

/// Where a daemon of that user may have made its directory: our own place first.
pub fn runtime_dirs(uid: Option<u32>) -> Vec<PathBuf> {
    if let Some(named) = named_dir() {
        return vec![named];
    }
    let uid = uid.unwrap_or(geteuid().as_raw());
    let mut dirs = vec![runtime_dir(), "/run/iopace".into()];
    dirs.push(PathBuf::from(format!("/run/user/{uid}/iopace")));
    dirs.push(PathBuf::from(format!("/tmp/iopace-{uid}")));
    dirs
}

/// The control sockets to ask: the named one, or all in the places where daemons of ours make them,
/// the usual one of the default place first. Root's services have another place than root's shell.
pub fn controls(named: Option<&Path>) -> Vec<PathBuf> {
    if let Some(path) = named {
        return vec![path.to_owned()];
    }
    let directory = runtime_dir();
    let usual = directory.join(CONTROL);
    let own = geteuid().as_raw();
    let is_own = |path: &Path| fs::symlink_metadata(path).is_ok_and(|found| found.uid() == own);
    let mut paths: Vec<PathBuf> = Vec::new();
    let mut seen: Vec<PathBuf> = Vec::new();
    for place in runtime_dirs(None) {
        if seen.contains(&place) {
            continue;
        }
        let names = trusted(&place).map(|found| found.names()).unwrap_or_default();
        let here = names.iter().map(|name| place.join(name));
        let is_control =
            |path: &PathBuf| path.extension().is_some_and(|ending| ending == CONTROL_ENDING);
        // Elsewhere there may be sockets of others, which only they and root may use.
        paths.extend(here.filter(is_control).filter(|path| place == directory || is_own(path)));
        seen.push(place);
    }
    paths.sort_by_key(|path| (*path != usual, !path.starts_with(&directory), path.clone()));
    if paths.is_empty() {
        paths.push(usual);
    }
    paths
}

/// A directory for sockets, made if it is missing; removed with this if nothing is left in it.
#[derive(Debug)]
pub struct SocketDir(PathBuf);

impl SocketDir {
    /// Makes the directory if it is missing, and sees to it that it is ours alone.
    ///
    /// # Errors
    /// It cannot be made, or is not ours alone.
    pub fn open(path: &Path) -> Result<SocketDir, Failure> {
        let shown = path.display();
        // Others may pass through (a service manager's 0755), but not write.
        match RuntimeDir::make(path) {
            Ok(_) => Ok(SocketDir(path.to_owned())),
            Err(Distrust::System(_, error)) => Err(Failure::new(format!(
                "the directory for sockets {shown} cannot be made: {error}; name another place \
                 with --socket and --control"
            ))),
            Err(reason) => Err(Failure::new(format!(
                "{shown} is not a directory that only you can write to, so somebody else could put \
                 his sockets there: {reason}; remove it, or name another place with --socket and \
                 --control"
            ))),
        }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for SocketDir {
    /// Leaves nothing behind. What another daemon uses is not empty, and stays.
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_directory_is_made_private_and_removed_when_empty() {
        let parent = tempfile::tempdir().expect("a directory");
        let path = parent.path().join("iopace");
        let first = SocketDir::open(&path).expect("made");
        assert_eq!(fs::metadata(&path).expect("there").permissions().mode() & 0o777, 0o700);
        let second = SocketDir::open(&path).expect("found");
        fs::write(path.join("x"), "").expect("written");
        drop(first);
        assert!(path.exists(), "the other one uses it");
        fs::remove_file(path.join("x")).expect("removed");
        drop(second);
        assert!(!path.exists());
    }

    #[test]
    fn a_place_that_others_can_write_to_is_refused() {
        let parent = tempfile::tempdir().expect("a directory");
        let path = parent.path().join("iopace");
        fs::create_dir(&path).expect("made");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o777)).expect("set");
        assert!(SocketDir::open(&path).is_err());
        let link = parent.path().join("link");
        std::os::unix::fs::symlink(parent.path(), &link).expect("linked");
        assert!(SocketDir::open(&link).is_err());
    }
}
