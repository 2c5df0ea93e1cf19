//! A directory as an operator sees it: whether iopace is in front of it, who uses it past that, and
//! where else its files are seen.
//!
//! Nothing of a mount is touched, as it may not answer: the files below it are told by the table of
//! mounts.

use super::look::Looked;
use super::region::Region;
pub use super::region::is_ancestor;
use super::walk::OpenDirectory;
use crate::limits::BUSY_LOOK_PATIENCE;
use crate::mount_error::MountError;
use crate::mount_table::{self, Entry};
use rustix::process::geteuid;
use std::path::{Path, PathBuf};

/// A directory, and what is known of it.
#[derive(Clone, Debug)]
pub struct Survey {
    /// The directory in full.
    pub directory: PathBuf,
    /// The mount of the file system that it is on, below iopace.
    pub below: Entry,
    /// The mounts of iopace that show it, the latest last.
    pub mounts: Vec<Entry>,
    /// Mounts that have come to lie over one of these, and hide it.
    pub covers: Vec<Entry>,
    /// Where else the same files are seen, past iopace.
    pub elsewhere: Vec<PathBuf>,
    /// The processes that use it past iopace.
    pub looked: Looked,
}

impl Survey {
    /// That of a directory, or of a place where iopace is mounted. As seen by who is not root, only
    /// processes of the same user count. Takes 30 s at most.
    ///
    /// # Errors
    /// There is no such directory, a stranger's link leads to it, or the table of mounts cannot be
    /// read.
    pub fn of(path: &Path) -> Result<Survey, MountError> {
        let table = mount_table::read().map_err(MountError::Table)?;
        let path = mount_table::resolve(path, &table)
            .map_err(|error| MountError::open(path.to_owned(), error))?;
        let asked = table.iter().rev().find(|one| one.is_ours() && one.mountpoint == path);
        let directory = match asked {
            Some(entry) if is_believed(entry) => entry.source.clone(),
            Some(entry) => return Err(foreign(entry)),
            // Nothing is mounted there by iopace: it may be opened.
            None => OpenDirectory::open(&path)?.path,
        };
        let is_of = |one: &&Entry| is_believed(one) && one.source == directory;
        let mounts: Vec<Entry> = table.iter().filter(is_of).cloned().collect();
        let is_cover = |one: &&Entry| {
            let hidden = mounts.iter().any(|entry| entry.id == one.parent);
            hidden && mounts.iter().any(|entry| entry.mountpoint == one.mountpoint)
        };
        let covers = table.iter().filter(is_cover).cloned().collect();
        let below = below(&table, &directory).ok_or_else(|| {
            MountError::Table(std::io::Error::other("it has no mount for the directory"))
        })?;
        let mut region = Region::below(&table, &below, &directory).map_err(MountError::Table)?;
        let looked = region.users(BUSY_LOOK_PATIENCE);
        let elsewhere = region.elsewhere();
        Ok(Survey { directory, below, mounts, covers, elsewhere, looked })
    }
}

/// Whether it is a mount of iopace by root or by us: whoever has mounted it says what it shows, so
/// that another user could name any directory.
pub fn is_believed(entry: &Entry) -> bool {
    let own = geteuid().as_raw();
    entry.is_ours() && entry.uid().is_none_or(|uid| uid == 0 || uid == own)
}

fn foreign(entry: &Entry) -> MountError {
    let uid = entry.uid().unwrap_or_default();
    let reason = format!("it is a mount of the user {uid}; ask as that one");
    MountError::Open(entry.mountpoint.clone(), std::io::Error::other(reason))
}

/// The mount that a directory is on, below iopace.
fn below(table: &[Entry], directory: &Path) -> Option<Entry> {
    // Over the directory itself: the mount that the first of ours lies on.
    let over = table.iter().find(|one| is_believed(one) && one.mountpoint == directory);
    let beneath = over.and_then(|over| table.iter().find(|one| one.id == over.parent));
    let found = beneath.or_else(|| mount_table::covering(table, directory));
    found.cloned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_system_below_a_mount_is_found_without_touching_it() {
        let table = mount_table::parse(
            b"27 1 254:0 / / rw - ext4 /dev/vda rw\n\
              40 27 8:17 / /srv rw - xfs /dev/sdb1 rw\n\
              41 40 0:52 / /srv rw - fuse.iopace /srv rw,user_id=0\n\
              42 41 0:60 / /srv rw - tmpfs none rw\n\
              43 27 0:61 / /mnt rw - fuse.iopace /data rw,user_id=0\n",
        );
        let of = |path: &str| below(&table, Path::new(path)).expect("there").id;
        assert_eq!((of("/srv"), of("/data"), of("/")), (40, 27, 27));
    }

    #[test]
    fn a_mount_of_somebody_else_is_not_believed() {
        let table = mount_table::parse(
            b"41 27 0:52 / /mnt rw - fuse.iopace /etc rw,user_id=4294967\n\
              42 27 0:53 / /srv rw - fuse.iopace /srv rw,user_id=0\n",
        );
        assert!(!is_believed(&table[0]) && is_believed(&table[1]));
        assert!(foreign(&table[0]).to_string().contains("/mnt"));
    }

    #[test]
    fn a_directory_that_nobody_uses_has_no_users() {
        let folder = tempfile::tempdir().expect("a directory");
        let survey = Survey::of(folder.path()).expect("surveyed");
        assert_eq!(survey.directory, folder.path().canonicalize().expect("there"));
        assert!(survey.mounts.is_empty() && survey.covers.is_empty(), "{survey:?}");
        assert!(survey.looked.users.is_empty(), "{survey:?}");
        assert!(Survey::of(&folder.path().join("none")).is_err());
        std::fs::write(folder.path().join("file"), "").expect("written");
        assert!(Survey::of(&folder.path().join("file")).is_err());
    }
}
