//! `fusermount3`, the set-user-id helper by which everybody else than root mounts.

use super::walk::OpenDirectory;
use super::{How, MountError, UnmountError};
use rustix::io::Errno;
use rustix::mount::MountFlags;
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{self, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const NAME: &str = "fusermount3";

/// Names the descriptor of the socket over which the helper hands out the open `/dev/fuse`, see
/// `util/fusermount.c` of libfuse. It is standard input: that one is inherited as it is.
const SOCKET: (&str, &str) = ("_FUSE_COMMFD", "0");

/// Where the helper may be when PATH does not name it (a service, a login without /sbin).
const PLACES: [&str; 3] = ["/usr/bin", "/bin", "/usr/sbin"];

/// Whether there is one.
pub(super) fn exists() -> bool {
    find().is_some()
}

fn find() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let places = std::env::split_paths(&path).chain(PLACES.map(PathBuf::from));
    places.map(|place| place.join(NAME)).find(|file| file.is_file())
}

/// Whether root lets users show their mounts to others.
pub(super) fn allows_other() -> bool {
    // Without the file, or where it cannot be read, the helper has the last word.
    fs::read_to_string("/etc/fuse.conf").map_or(true, |text| has_allow_other(&text))
}

fn has_allow_other(text: &str) -> bool {
    text.lines().any(|line| line.trim() == "user_allow_other")
}

pub(super) fn mount(mountpoint: &OpenDirectory, how: &How) -> Result<OwnedFd, MountError> {
    let program = find().ok_or(MountError::NoHelper)?;
    let path = &mountpoint.path;
    let failed = |error: io::Error| MountError::Helper(path.clone(), error.to_string());
    // It starts in the directory that is open: its path may lead elsewhere by now.
    let link = format!("/proc/{}/fd/{}", std::process::id(), mountpoint.fd.as_raw_fd());
    let (ours, theirs) = UnixStream::pair().map_err(failed)?;
    let child = Command::new(program)
        .arg("-o")
        .arg(options(how))
        .arg("--")
        .arg(".")
        .current_dir(link)
        .env(SOCKET.0, SOCKET.1)
        .env("LC_ALL", "C")
        .stdin(OwnedFd::from(theirs))
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn();
    // The command, and with it our copy of the socket's other end, is gone: if the helper ends
    // without a word, so does the socket.
    let child = child.map_err(failed)?;
    let device = receive(&ours);
    let output = child.wait_with_output().map_err(failed)?;
    let said = String::from_utf8_lossy(&output.stderr);
    let said = said.trim().trim_start_matches("fusermount3: ");
    match device {
        Ok(Some(device)) if output.status.success() => Ok(device),
        _ if said.contains("user_allow_other") => Err(MountError::AllowOther),
        _ if said.contains("fuse device not found") => Err(MountError::NoDevice),
        Err(error) => Err(failed(error.into())),
        Ok(_) => Err(MountError::Helper(path.clone(), said.to_owned())),
    }
}

fn options(how: &How) -> OsString {
    let mut options = String::from("default_permissions,subtype=iopace,fsname=");
    for c in how.fs_name.chars() {
        if matches!(c, ',' | '\\') {
            options.push('\\');
        }
        options.push(c);
    }
    // The helper sets nosuid and nodev by itself.
    if how.flags.contains(MountFlags::RDONLY) {
        options.push_str(",ro");
    }
    if how.flags.contains(MountFlags::NOEXEC) {
        options.push_str(",noexec");
    }
    if how.flags.contains(MountFlags::NOATIME) {
        options.push_str(",noatime");
    }
    if how.allow_other {
        options.push_str(",allow_other");
    }
    options.into()
}

/// The descriptor that comes over the socket; `None` if it was closed without one.
fn receive(socket: &UnixStream) -> Result<Option<OwnedFd>, Errno> {
    let mut byte = [0u8];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let mut parts = [IoSliceMut::new(&mut byte)];
    rustix::io::retry_on_intr(|| {
        recvmsg(socket, &mut parts, &mut ancillary, RecvFlags::CMSG_CLOEXEC)
    })?;
    let mut fds = ancillary.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut fds) => fds.next(),
        _ => None,
    });
    Ok(fds.next())
}

/// Unmounts what is seen at a name in a directory, in which the helper is started.
pub(super) fn unmount(above: &Path, name: &OsStr, lazily: bool) -> Result<(), UnmountError> {
    let program = find().ok_or(UnmountError::NoHelper)?;
    let mut command = Command::new(program);
    command.arg("-u").args(lazily.then_some("-z")).arg("--").arg(Path::new(".").join(name));
    command.current_dir(above).env("LC_ALL", "C");
    let output = command.stdin(Stdio::null()).output();
    let output = output.map_err(|error| UnmountError::Failed(error.to_string()))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(meaning(said.trim().trim_start_matches("fusermount3: ")))
}

/// What the helper means, in its words of libfuse 3.
fn meaning(said: &str) -> UnmountError {
    if said.contains("busy") {
        UnmountError::Busy
    } else if said.contains("not permitted") {
        UnmountError::Denied
    } else if said.contains("not found in") {
        // Its own table of mounts shows other users' mounts as not there.
        UnmountError::Denied
    } else {
        UnmountError::Failed(said.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_with_commas_reach_the_helper_whole() {
        let how = How {
            fs_name: "/a,b\\c".into(),
            allow_other: true,
            flags: MountFlags::RDONLY | MountFlags::NOEXEC,
        };
        assert_eq!(
            options(&how),
            "default_permissions,subtype=iopace,fsname=/a\\,b\\\\c,ro,noexec,allow_other"
        );
    }

    #[test]
    fn a_comment_in_fuse_conf_allows_nothing() {
        assert!(!has_allow_other("# user_allow_other\nmount_max = 1000\n"));
        assert!(has_allow_other("mount_max = 1000\n  user_allow_other  \n"));
    }

    #[test]
    fn what_the_helper_says_is_understood() {
        let busy = "failed to unmount /mnt: Device or resource busy";
        assert!(matches!(meaning(busy), UnmountError::Busy));
        let other = "entry for /mnt not found in /etc/mtab";
        assert!(matches!(meaning(other), UnmountError::Denied));
        assert!(matches!(meaning("odd"), UnmountError::Failed(text) if text == "odd"));
    }
}
