//! Files below one root directory, as those of the machine or of an image that is being made.
//!
//! Paths are followed with the root in the place of `/` (`RESOLVE_IN_ROOT` of openat2(2)): no link,
//! however it came there, leads out of it. Files are made and removed only in directories to which
//! nobody but root and the effective user can write, and never through a link; a FIFO in the place
//! of a file is not waited for.

use crate::output::Failure;
use rustix::fs::{
    AtFlags, FileType, Mode, OFlags, ResolveFlags, fchmod, fstat, fsync, mkdirat, openat, openat2,
    readlinkat, symlinkat, unlinkat,
};
use rustix::io::Errno;
use rustix::process::geteuid;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

/// Longest file that is read: units and records are far shorter.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// Of directories and files that are made: everybody may read them, as units are.
const FOLDER_MODE: Mode = Mode::RWXU.union(Mode::RGRP).union(Mode::XGRP).union(OTHERS);
const OTHERS: Mode = Mode::ROTH.union(Mode::XOTH);
const FILE_MODE: Mode = Mode::RUSR.union(Mode::WUSR).union(Mode::RGRP).union(Mode::ROTH);

/// Bits of a mode that let others write: group and everybody.
pub(super) const WRITABLE: u32 = 0o022;

/// An open root directory.
#[derive(Debug)]
pub(super) struct SetupRoot {
    fd: OwnedFd,
    path: PathBuf,
}

/// A thing that stands at a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    Nothing,
    /// A regular file with this text; `None` if it is too long, or not UTF-8.
    Text(Option<String>),
    Link(PathBuf),
    Other,
}

impl SetupRoot {
    /// Opens it.
    ///
    /// # Errors
    /// There is no such directory.
    pub(super) fn open(path: &Path) -> Result<SetupRoot, Failure> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let fd = rustix::fs::open(path, flags, Mode::empty()).map_err(|errno| {
            Failure::usage(format!("--root {}: {}", path.display(), io::Error::from(errno)))
        })?;
        Ok(SetupRoot { fd, path: path.to_owned() })
    }

    /// Whether it is that of the machine, and not of an image.
    pub(super) fn is_machine(&self) -> bool {
        self.path == Path::new("/")
    }

    /// A path in here as it is seen from outside.
    pub(super) fn shown(&self, path: &Path) -> PathBuf {
        self.path.join(path.strip_prefix("/").unwrap_or(path))
    }

    fn failed(&self, path: &Path, what: &str, errno: Errno) -> Failure {
        let hint = match errno {
            Errno::NOSYS => " (setup takes openat2(2) of Linux 5.6)",
            Errno::ROFS => " (is the file system read-only?)",
            _ => "",
        };
        let error = io::Error::from(errno);
        Failure::new(format!("{}: {what}: {error}{hint}", self.shown(path).display()))
    }

    fn folder(&self, path: &Path) -> Result<OwnedFd, Errno> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
        let relative = path.strip_prefix("/").unwrap_or(path);
        let relative = if relative.as_os_str().is_empty() { Path::new(".") } else { relative };
        openat2(&self.fd, relative, flags, Mode::empty(), resolve)
    }

    /// Whether there is such a directory.
    pub(super) fn has_folder(&self, path: &Path) -> bool {
        self.folder(path).is_ok()
    }

    /// The directory of a file, which only root and we can change, and the name in it.
    ///
    /// # Errors
    /// There is none, or others can change it.
    pub(super) fn parent<'a>(&self, path: &'a Path) -> Result<(OwnedFd, &'a OsStr), Failure> {
        let (parent, name) = path.parent().zip(path.file_name()).expect("a path of setup");
        let fd = self.folder(parent).map_err(|errno| self.failed(parent, "no directory", errno))?;
        let found =
            fstat(&fd).map_err(|errno| self.failed(parent, "cannot be looked at", errno))?;
        let is_own = found.st_uid == 0 || found.st_uid == geteuid().as_raw();
        match is_own && found.st_mode & WRITABLE == 0 {
            true => Ok((fd, name)),
            false => Err(Failure::new(format!(
                "{}: others than root can write to it, so nothing is written there; say 'chown \
                 root' and 'chmod go-w'",
                self.shown(parent).display()
            ))),
        }
    }

    /// What stands at a path; nothing where its directory is missing.
    ///
    /// # Errors
    /// It cannot be looked at.
    pub(super) fn standing(&self, path: &Path) -> Result<Standing, Failure> {
        let (parent, name) = path.parent().zip(path.file_name()).expect("a path of setup");
        let failed = |errno| self.failed(path, "cannot be looked at", errno);
        let fd = match self.folder(parent) {
            Ok(fd) => fd,
            Err(Errno::NOENT) => return Ok(Standing::Nothing),
            Err(errno) => return Err(failed(errno)),
        };
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK;
        let flags = flags | OFlags::NOCTTY | OFlags::CLOEXEC;
        // A device or a FIFO is not opened at all.
        let seen = match openat(&fd, name, OFlags::PATH | flags, Mode::empty()) {
            Ok(seen) => seen,
            Err(Errno::NOENT) => return Ok(Standing::Nothing),
            Err(errno) => return Err(failed(errno)),
        };
        let kind = FileType::from_raw_mode(fstat(&seen).map_err(failed)?.st_mode);
        match kind {
            FileType::Symlink => {
                let to = readlinkat(&seen, "", Vec::new()).map_err(failed)?;
                Ok(Standing::Link(PathBuf::from(OsString::from_vec(to.into_bytes()))))
            }
            FileType::RegularFile => {
                let file = File::from(openat(&fd, name, flags, Mode::empty()).map_err(failed)?);
                let is_file = FileType::from_raw_mode(fstat(&file).map_err(failed)?.st_mode);
                if is_file != FileType::RegularFile {
                    return Ok(Standing::Other);
                }
                let mut bytes = Vec::new();
                let read = file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes);
                read.map_err(|error| failed(Errno::from_io_error(&error).unwrap_or(Errno::IO)))?;
                let fits = bytes.len() as u64 <= FILE_BYTES_MAX;
                let text = fits.then(|| String::from_utf8(bytes).ok()).flatten();
                Ok(Standing::Text(text))
            }
            _ => Ok(Standing::Other),
        }
    }

    /// The names in a directory; none if there is none.
    pub(super) fn names(&self, path: &Path) -> Vec<OsString> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let opened = self.folder(path).and_then(|fd| openat(&fd, ".", flags, Mode::empty()));
        let all = opened.and_then(rustix::fs::Dir::new).into_iter().flatten().flatten();
        let mut names: Vec<OsString> =
            all.map(|one| OsString::from_vec(one.file_name().to_bytes().to_vec())).collect();
        names.retain(|name| name != "." && name != "..");
        names.sort();
        names
    }

    /// The directories above a file that are missing, the topmost first.
    pub(super) fn missing_folders(&self, path: &Path) -> Vec<PathBuf> {
        let above = path.ancestors().skip(1).filter(|folder| *folder != Path::new("/"));
        let missing = above.take_while(|folder| matches!(self.folder(folder), Err(Errno::NOENT)));
        let mut missing: Vec<PathBuf> = missing.map(Path::to_owned).collect();
        missing.reverse();
        missing
    }

    /// Makes a directory whose parent is there.
    ///
    /// # Errors
    /// It is there, or cannot be made.
    pub(super) fn make_folder(&self, path: &Path) -> Result<(), Failure> {
        let (parent, name) = self.parent(path)?;
        let failed = |errno| self.failed(path, "cannot be made", errno);
        mkdirat(&parent, name, FOLDER_MODE).map_err(failed)?;
        // Whatever the umask is.
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let made = openat(&parent, name, flags, Mode::empty()).map_err(failed)?;
        fchmod(&made, FOLDER_MODE).map_err(failed)
    }

    /// Makes a file with this text, durably. One that is there stays, and is an error.
    ///
    /// # Errors
    /// It is there, or cannot be written; nothing is left then.
    pub(super) fn make_file(&self, path: &Path, text: &str) -> Result<(), Failure> {
        let (parent, name) = self.parent(path)?;
        let failed = |errno| self.failed(path, "cannot be made", errno);
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW;
        let made = openat(&parent, name, flags | OFlags::CLOEXEC, FILE_MODE).map_err(failed)?;
        let mut file = File::from(made);
        let written = file
            .write_all(text.as_bytes())
            .map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO));
        let done = written.and_then(|()| fchmod(&file, FILE_MODE)).and_then(|()| fsync(&file));
        done.map_err(|errno| {
            let _ = unlinkat(&parent, name, AtFlags::empty());
            failed(errno)
        })
    }

    /// Makes a symbolic link.
    ///
    /// # Errors
    /// Something is there, or it cannot be made.
    pub(super) fn make_link(&self, path: &Path, to: &Path) -> Result<(), Failure> {
        let (parent, name) = self.parent(path)?;
        symlinkat(to, &parent, name).map_err(|errno| self.failed(path, "cannot be made", errno))
    }

    /// Removes a file or a link.
    ///
    /// # Errors
    /// It cannot be removed; that there is none is no error.
    pub(super) fn remove(&self, path: &Path) -> Result<(), Failure> {
        self.unlink(path, AtFlags::empty(), &[Errno::NOENT])
    }

    /// Removes a directory if nothing is in it.
    ///
    /// # Errors
    /// It cannot be removed.
    pub(super) fn remove_folder(&self, path: &Path) -> Result<(), Failure> {
        self.unlink(path, AtFlags::REMOVEDIR, &[Errno::NOENT, Errno::NOTEMPTY, Errno::EXIST])
    }

    fn unlink(&self, path: &Path, flags: AtFlags, passed: &[Errno]) -> Result<(), Failure> {
        let folder = path.parent().expect("a path of setup");
        if matches!(self.folder(folder), Err(Errno::NOENT)) {
            return Ok(());
        }
        let (parent, name) = self.parent(path)?;
        match unlinkat(&parent, name, flags) {
            Err(errno) if !passed.contains(&errno) => {
                Err(self.failed(path, "cannot be removed", errno))
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};

    #[test]
    fn files_are_made_once_and_removed() {
        let place = tempfile::tempdir().expect("a directory");
        let root = SetupRoot::open(place.path()).expect("opened");
        let path = Path::new("/etc/a/b.conf");
        let missing = root.missing_folders(path);
        assert_eq!(missing, [Path::new("/etc"), Path::new("/etc/a")]);
        missing.iter().for_each(|folder| root.make_folder(folder).expect("made"));
        root.make_file(path, "text").expect("made");
        assert_eq!(root.standing(path).expect("seen"), Standing::Text(Some("text".into())));
        let again = root.make_file(path, "other").expect_err("it is there").message;
        assert!(again.contains("etc/a/b.conf: cannot be made"), "{again}");
        assert_eq!(fs::read_to_string(place.path().join("etc/a/b.conf")).expect("read"), "text");
        root.make_link(Path::new("/etc/a/link"), Path::new("/nowhere")).expect("made");
        let link = root.standing(Path::new("/etc/a/link")).expect("seen");
        assert_eq!(link, Standing::Link("/nowhere".into()));
        root.remove_folder(Path::new("/etc/a")).expect("not empty: stays");
        assert_eq!(root.names(Path::new("/etc/a")), ["b.conf", "link"]);
        for name in ["b.conf", "link", "none"] {
            root.remove(&Path::new("/etc/a").join(name)).expect("removed");
        }
        root.remove_folder(Path::new("/etc/a")).expect("removed");
        assert!(!root.has_folder(Path::new("/etc/a")) && root.has_folder(Path::new("/etc")));
    }

    #[test]
    fn no_link_leads_out_of_the_root() {
        let place = tempfile::tempdir().expect("a directory");
        let (inside, outside) = (place.path().join("root"), place.path().join("outside"));
        for folder in [&inside, &outside, &inside.join("outside")] {
            fs::create_dir(folder).expect("made");
        }
        symlink("../../outside", inside.join("etc")).expect("linked");
        symlink(&outside, inside.join("var")).expect("linked");
        symlink(outside.join("precious"), inside.join("outside/file")).expect("linked");
        fs::write(outside.join("precious"), "precious").expect("written");
        let root = SetupRoot::open(&inside).expect("opened");
        root.make_file(Path::new("/etc/new"), "text").expect("made");
        assert!(inside.join("outside/new").exists() && !outside.join("new").exists());
        assert!(root.make_file(Path::new("/var/new"), "text").is_err(), "nothing is there");
        assert!(root.make_file(Path::new("/outside/file"), "text").is_err(), "a link is there");
        assert_eq!(fs::read_to_string(outside.join("precious")).expect("read"), "precious");
    }

    #[test]
    fn a_directory_that_others_can_write_to_and_a_fifo_are_left_alone() {
        let place = tempfile::tempdir().expect("a directory");
        let root = SetupRoot::open(place.path()).expect("opened");
        let open = place.path().join("open");
        fs::create_dir(&open).expect("made");
        fs::set_permissions(&open, fs::Permissions::from_mode(0o777)).expect("set");
        let refused = root.make_file(Path::new("/open/file"), "text").expect_err("refused");
        assert!(refused.message.contains("others than root can write"), "{refused:?}");
        let fifo = place.path().join("fifo");
        rustix::fs::mknodat(rustix::fs::CWD, &fifo, FileType::Fifo, FILE_MODE, 0).expect("made");
        assert_eq!(root.standing(Path::new("/fifo")).expect("seen"), Standing::Other);
    }
}
