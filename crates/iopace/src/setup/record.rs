//! What `iopace setup` has made for a directory, so that it can be taken away again.

use super::root::{SetupRoot, Standing};
use super::systemd::escaped;
use crate::output::Failure;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// Where the records are.
pub(super) const FOLDER: &str = "/var/lib/iopace/setup";

/// A file or a link that is made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum MadeFile {
    /// A file with this text.
    Text(String),
    /// A symbolic link.
    Link(PathBuf),
}

impl MadeFile {
    /// Whether this is what stands there.
    pub(super) fn is(&self, standing: &Standing) -> bool {
        match (self, standing) {
            (MadeFile::Text(own), Standing::Text(Some(text))) => own == text,
            (MadeFile::Link(own), Standing::Link(to)) => own == to,
            _ => false,
        }
    }
}

/// The record of a directory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SetupRecord {
    /// The directory, in the root.
    pub(super) directory: PathBuf,
    /// Its service, if there is one.
    pub(super) unit: Option<String>,
    /// Services that require it, which end before it does.
    pub(super) services: Vec<String>,
    /// Directories that were made for this one or others, the topmost first.
    pub(super) folders: Vec<PathBuf>,
    /// Files and links that were made, in that order.
    pub(super) files: Vec<(PathBuf, MadeFile)>,
}

impl SetupRecord {
    /// The file of the record of a directory.
    pub(super) fn path_of(directory: &Path) -> PathBuf {
        Path::new(FOLDER).join(format!("{}.json", escaped(directory)))
    }

    /// The record of a directory, if there is one.
    ///
    /// # Errors
    /// It is there and cannot be read.
    pub(super) fn read(root: &SetupRoot, directory: &Path) -> Result<Option<SetupRecord>, Failure> {
        SetupRecord::read_at(root, &SetupRecord::path_of(directory))
    }

    fn read_at(root: &SetupRoot, path: &Path) -> Result<Option<SetupRecord>, Failure> {
        let wrong = |why: &str| {
            Failure::new(format!("{}: is no record of setup: {why}", root.shown(path).display()))
        };
        match root.standing(path)? {
            Standing::Nothing => Ok(None),
            Standing::Text(Some(text)) => {
                // A record that a stranger can write says what he likes.
                root.parent(path)?;
                let record: SetupRecord =
                    serde_json::from_str(&text).map_err(|error| wrong(&error.to_string()))?;
                record.check().map_err(|why| wrong(&why))?;
                Ok(Some(record))
            }
            _ => Err(wrong("a file with text is needed")),
        }
    }

    /// The directories that all records name, as they were made for several.
    pub(super) fn folders_of_all(root: &SetupRoot) -> BTreeSet<PathBuf> {
        let names = root.names(Path::new(FOLDER)).into_iter();
        let read = |name: OsString| {
            let path = Path::new(FOLDER).join(name);
            SetupRecord::read_at(root, &path).ok().flatten()
        };
        names.filter_map(read).flat_map(|record| record.folders).collect()
    }

    /// Its own text.
    pub(super) fn text(&self) -> String {
        serde_json::to_string_pretty(self).expect("strings and lists") + "\n"
    }

    /// Paths are absolute and name something.
    fn check(&self) -> Result<(), String> {
        let files = self.files.iter().map(|(path, _)| path);
        let odd = |path: &&PathBuf| !path.is_absolute() || path.file_name().is_none();
        match self.folders.iter().chain(files).find(odd) {
            Some(path) => Err(format!("'{}' is no absolute path", path.display())),
            None => Ok(()),
        }
    }
}
