//! Files that are exchanged as a whole: who reads one sees the old text or the new one.

use super::{MODE, RuntimeDir};
use rustix::fs::{OFlags, fsync, openat, renameat};
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Write};

impl RuntimeDir {
    /// Puts a file with this text in the place of the one of that name, if there is one.
    ///
    /// # Errors
    /// The error of the system call; the old file stays.
    pub fn replace(&self, name: &OsStr, text: &[u8]) -> io::Result<()> {
        let mut beside = OsString::from(".");
        beside.push(name);
        beside.push(format!(".{}", std::process::id()));
        self.remove(&beside);
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let mut file =
            File::from(openat(&self.directory, &beside, flags | OFlags::NOFOLLOW, MODE)?);
        let written = file.write_all(text).and_then(|()| Ok(fsync(&file)?));
        let put =
            written.and_then(|()| Ok(renameat(&self.directory, &*beside, &self.directory, name)?));
        if put.is_err() {
            self.remove(&beside);
        }
        put
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, symlink};

    #[test]
    fn a_file_is_exchanged_and_no_link_is_followed() {
        let parent = tempfile::tempdir().expect("a directory");
        let dir = RuntimeDir::make(&parent.path().join("state")).expect("made");
        let name = OsStr::new("file");
        let other = parent.path().join("other");
        std::fs::write(&other, "precious").expect("written");
        symlink(&other, dir.path().join(name)).expect("linked");
        for text in ["first", "second"] {
            dir.replace(name, text.as_bytes()).expect("replaced");
            assert_eq!(dir.read(name, 100).expect("read").1, text.as_bytes());
        }
        assert_eq!(std::fs::read(&other).expect("read"), b"precious");
        let mode = std::fs::metadata(dir.path().join(name)).expect("there").permissions().mode();
        let count = || std::fs::read_dir(dir.path()).expect("listed").count();
        assert_eq!((mode & 0o777, count()), (0o600, 1), "nothing is left beside it");
        std::fs::create_dir(dir.path().join("folder")).expect("made");
        assert!(dir.replace(OsStr::new("folder"), b"x").is_err());
        assert_eq!(count(), 2, "nothing is left of what failed");
    }
}
