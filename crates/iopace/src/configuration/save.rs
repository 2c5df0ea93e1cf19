//! `--save`: a change that holds is written to the configuration file of its daemon.

use super::document::Document;
use super::read_text;
use crate::output::{Failure, note};
use iopace_daemon::control::{Client, ClientError};
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

/// So often the lock is tried: somebody else may save, and anybody who can read the file may hold
/// it.
const TRIES_MAX: u32 = 100;

/// Between two tries.
const TRY_PAUSE: Duration = Duration::from_millis(50);

/// The file of a daemon, which nobody else saves to as long as this is there.
#[derive(Debug)]
pub struct Saver {
    path: PathBuf,
    text: String,
    _lock: File,
}

impl Saver {
    /// Opens the file before anything is changed, if it is to be saved.
    ///
    /// # Errors
    /// There is no file, or it is not ours to write, or wrong.
    pub fn open(client: &Client, save: bool) -> Result<Option<Saver>, Failure> {
        if !save {
            return Ok(None);
        }
        // A daemon of another user may name any file.
        let status = client.only_own().status().map_err(|error| match error {
            ClientError::Foreign(socket, _) => Failure::new(format!(
                "--save: the daemon at {socket} is another user's, and so is its file: save it as \
                 that user"
            )),
            error => Failure::new(error),
        })?;
        let Some(named) = status.config else {
            return Err(Failure::new(
                "--save: the daemon was started without a configuration file: 'iopace config show' \
                 prints one for '--config'",
            ));
        };
        let wrong = |error: io::Error| Failure::new(format!("--save: {named}: {error}"));
        // A link stays one.
        let path = fs::canonicalize(&named).map_err(wrong)?;
        let lock = locked(&path).map_err(wrong)?;
        let text = read_text(&path)?;
        Document::parse(&path, &text)?;
        // A directory that cannot be written is found before anything is changed.
        let folder = path.parent().unwrap_or(Path::new("/"));
        tempfile::NamedTempFile::new_in(folder).map_err(wrong)?;
        Ok(Some(Saver { path, text, _lock: lock }))
    }

    /// Whether a change can be written, before it is made.
    ///
    /// # Errors
    /// The file cannot say it.
    pub fn check(
        &self,
        edit: impl FnOnce(&mut Document) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let mut document = Document::parse(&self.path, &self.text)?;
        edit(&mut document).and_then(|()| document.finish()).map(|_| ())
    }

    /// Writes what holds now to the file, and says so.
    ///
    /// # Errors
    /// It cannot be written: it holds, but is not saved.
    pub fn save(
        self,
        edit: impl FnOnce(&mut Document) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let path = self.path.display();
        match self.write(edit) {
            Ok(true) => note(format_args!("saved: {path}")),
            Ok(false) => note(format_args!("{path} says so already")),
            Err(failure) => return Err(failure.but("it holds, but is not saved")),
        }
        Ok(())
    }

    /// Writes a change to the file, before it holds; whether there was one.
    ///
    /// # Errors
    /// It cannot be written, and is as before.
    pub fn write(
        &self,
        edit: impl FnOnce(&mut Document) -> Result<(), Failure>,
    ) -> Result<bool, Failure> {
        let mut document = Document::parse(&self.path, &self.text)?;
        edit(&mut document)?;
        let text = document.finish()?;
        if text == self.text {
            return Ok(false);
        }
        if read_text(&self.path)? != self.text {
            return Err(self.wrong(io::Error::other("somebody has changed it meanwhile")));
        }
        replace(&self.path, &text).map(|()| true).map_err(|error| self.wrong(error))
    }

    /// Writes the file as it was before [`Saver::write`].
    ///
    /// # Errors
    /// It cannot be written.
    pub fn put_back(&self) -> Result<(), Failure> {
        replace(&self.path, &self.text).map_err(|error| self.wrong(error))
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn wrong(&self, error: io::Error) -> Failure {
        Failure::new(format!("{}: {error}", self.path.display()))
    }
}

/// The file, locked: its name is still that of what is locked.
fn locked(path: &Path) -> io::Result<File> {
    for _ in 0..TRIES_MAX {
        let file = File::options().read(true).write(true).open(path)?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {
                let (own, there) = (file.metadata()?, fs::metadata(path)?);
                if (own.dev(), own.ino()) == (there.dev(), there.ino()) {
                    return Ok(file);
                }
            }
            // SLEEP: flock has no wait with an end; who saves has done so in a moment.
            Err(Errno::WOULDBLOCK) => thread::sleep(TRY_PAUSE),
            Err(error) => return Err(error.into()),
        }
    }
    Err(io::Error::other("another program holds its lock or replaces it all the time"))
}

/// Replaces a file as a whole; its owner and mode stay.
fn replace(path: &Path, text: &str) -> io::Result<()> {
    let former = fs::metadata(path)?;
    let folder = path.parent().unwrap_or(Path::new("/"));
    let mut file = tempfile::NamedTempFile::new_in(folder)?;
    file.write_all(text.as_bytes())?;
    let own = file.as_file().metadata()?;
    if (own.uid(), own.gid()) != (former.uid(), former.gid()) {
        std::os::unix::fs::fchown(file.as_file(), Some(former.uid()), Some(former.gid()))?;
    }
    file.as_file().set_permissions(fs::Permissions::from_mode(former.mode() & 0o7777))?;
    file.as_file().sync_all()?;
    file.persist(path)?;
    File::open(folder)?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_replaced_as_a_whole_and_keeps_its_mode() {
        let folder = tempfile::tempdir().expect("a directory");
        let path = folder.path().join("iopace.toml");
        fs::write(&path, "old").expect("written");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).expect("set");
        let lock = locked(&path).expect("locked");
        replace(&path, "new").expect("replaced");
        assert_eq!(fs::read_to_string(&path).expect("read"), "new");
        assert_eq!(fs::metadata(&path).expect("there").mode() & 0o777, 0o640);
        assert_eq!(fs::read_dir(folder.path()).expect("listed").count(), 1, "nothing is left");
        // The lock of the former one is nobody's obstacle.
        locked(&path).expect("locked");
        drop(lock);
    }
    #[test]
    fn a_file_that_was_changed_meanwhile_is_not_overwritten() {
        let folder = tempfile::tempdir().expect("a directory");
        let path = folder.path().join("iopace.toml");
        let text = "[[device]]\nfile = \"disk.img\"\n";
        fs::write(&path, text).expect("written");
        let lock = locked(&path).expect("locked");
        let saver = Saver { path: path.clone(), text: text.into(), _lock: lock };
        let other = format!("{text}# By an editor.\n");
        fs::write(&path, &other).expect("written");
        let refused = saver.save(|document| document.name_group("/vms")).expect_err("changed");
        assert!(refused.message.contains("meanwhile"), "{}", refused.message);
        assert_eq!(fs::read_to_string(&path).expect("read"), other);
    }
}
