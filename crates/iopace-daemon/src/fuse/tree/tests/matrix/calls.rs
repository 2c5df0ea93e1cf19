//! The calls that are made.

use super::GROUP;
use rustix::fs::{
    Access, AtFlags, CWD, FallocateFlags, FileType, Mode, OFlags, Timespec, Timestamps, XattrFlags,
};
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{FileExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};

pub(super) type Act = fn(&Path) -> io::Result<()>;

pub(super) fn moded(path: PathBuf, mode: u32) -> io::Result<()> {
    fs::set_permissions(path, fs::Permissions::from_mode(mode))
}

pub(super) fn opened(path: PathBuf, flags: OFlags) -> io::Result<File> {
    Ok(rustix::fs::openat(CWD, path, flags | OFlags::CLOEXEC, Mode::from_raw_mode(0o666))?.into())
}

fn timed(path: PathBuf, access: i64, modification: i64) -> io::Result<()> {
    let at = |nanos| Timespec { tv_sec: 5, tv_nsec: nanos };
    let times = Timestamps { last_access: at(access), last_modification: at(modification) };
    Ok(rustix::fs::utimensat(CWD, path, &times, AtFlags::empty())?)
}

pub(super) fn attributed(path: PathBuf, name: &str, value: &[u8]) -> io::Result<()> {
    Ok(rustix::fs::lsetxattr(path, name, value, XattrFlags::empty())?)
}

fn made(path: PathBuf, kind: FileType, mode: u32) -> io::Result<()> {
    let device = rustix::fs::makedev(1, 3);
    Ok(rustix::fs::mknodat(CWD, path, kind, Mode::from_raw_mode(mode), device)?)
}

/// Sets one more flag of a file, and takes it away again.
fn flagged(path: PathBuf, flag: rustix::fs::IFlags) -> io::Result<()> {
    let file = opened(path, OFlags::RDONLY)?;
    let flags = rustix::fs::ioctl_getflags(&file)?;
    rustix::fs::ioctl_setflags(&file, flags | flag)?;
    Ok(rustix::fs::ioctl_setflags(&file, flags)?)
}

pub(super) fn truncated(path: PathBuf, size: i64) -> io::Result<()> {
    let path = std::ffi::CString::new(path.into_os_string().into_encoded_bytes()).unwrap();
    // SAFETY: the path ends with a 0 and lives through the call.
    match unsafe { libc::truncate(path.as_ptr(), size) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Version 2, then tag, permissions and number of each entry: all for the owner and its group,
/// reading for user 7, nothing for others.
pub(super) fn list() -> Vec<u8> {
    let mut list = vec![2, 0, 0, 0];
    for (tag, permissions, id) in
        [(1u16, 7u16, u32::MAX), (2, 4, 7), (4, 7, u32::MAX), (16, 7, u32::MAX), (32, 0, u32::MAX)]
    {
        list.extend(tag.to_le_bytes());
        list.extend(permissions.to_le_bytes());
        list.extend(id.to_le_bytes());
    }
    list
}

/// The capability to use raw sockets, effective when the program is run (`VFS_CAP_REVISION_2`).
pub(super) const RAW_SOCKETS: [u8; 20] =
    [1, 0, 0, 2, 0, 0x20, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];

/// All calls, each with the names that it is about.
pub(super) const ACTS: &[(&str, &[&str], Act)] = &[
    ("chmod", &["f"], |r| moded(r.join("f"), 0o640)),
    ("chmod of a directory", &["d"], |r| moded(r.join("d"), 0o700)),
    ("chmod with set-user-id and set-group-id", &["f"], |r| moded(r.join("f"), 0o6775)),
    ("chmod with set-group-id only", &["sgid"], |r| moded(r.join("sgid"), 0o2755)),
    ("chown to oneself", &["f"], |r| chown(r.join("f"), Some(1003), None)),
    ("chown to another group", &["f"], |r| chown(r.join("f"), None, Some(3000))),
    ("chown to the same group", &["suid"], |r| chown(r.join("suid"), None, Some(GROUP))),
    ("chown of nothing", &["f"], |r| chown(r.join("f"), None, None)),
    ("chown of nothing, set-user-id", &["suid"], |r| chown(r.join("suid"), None, None)),
    ("chown of nothing, capabilities", &["able"], |r| chown(r.join("able"), None, None)),
    ("chown of a link itself", &["link"], |r| {
        std::os::unix::fs::lchown(r.join("link"), Some(1003), None)
    }),
    ("times, now", &["f"], |r| timed(r.join("f"), rustix::fs::UTIME_NOW, rustix::fs::UTIME_NOW)),
    ("times, given", &["f"], |r| timed(r.join("f"), 7, 8)),
    ("times, one now", &["f"], |r| {
        timed(r.join("f"), rustix::fs::UTIME_NOW, rustix::fs::UTIME_OMIT)
    }),
    ("link", &["f", "new"], |r| fs::hard_link(r.join("f"), r.join("new"))),
    ("link of what may not be written", &["own", "new"], |r| {
        fs::hard_link(r.join("own"), r.join("new"))
    }),
    ("link of set-user-id", &["suid", "new"], |r| fs::hard_link(r.join("suid"), r.join("new"))),
    ("link in a private directory", &["f", "private/new"], |r| {
        fs::hard_link(r.join("f"), r.join("private/new"))
    }),
    ("unlink", &["d/root"], |r| fs::remove_file(r.join("d/root"))),
    ("unlink in a sticky directory", &["sticky/root"], |r| fs::remove_file(r.join("sticky/root"))),
    ("unlink of the owner's", &["sticky/owner"], |r| fs::remove_file(r.join("sticky/owner"))),
    ("unlink in a private directory", &["private/owner"], |r| {
        fs::remove_file(r.join("private/owner"))
    }),
    ("rename in a sticky directory", &["sticky/root", "sticky/new"], |r| {
        fs::rename(r.join("sticky/root"), r.join("sticky/new"))
    }),
    ("rename over", &["sticky/owner", "shared/root"], |r| {
        fs::rename(r.join("sticky/owner"), r.join("shared/root"))
    }),
    ("rename out", &["d/owner", "new"], |r| fs::rename(r.join("d/owner"), r.join("new"))),
    ("rename of a directory", &["d", "sticky/d"], |r| fs::rename(r.join("d"), r.join("sticky/d"))),
    ("rmdir", &["d"], |r| fs::remove_dir(r.join("d"))),
    ("truncate", &["f"], |r| truncated(r.join("f"), 3)),
    ("truncate what is private", &["own"], |r| truncated(r.join("own"), 3)),
    ("truncate set-user-id", &["suid"], |r| truncated(r.join("suid"), 3)),
    ("truncate an open file", &["suid"], |r| opened(r.join("suid"), OFlags::WRONLY)?.set_len(4)),
    ("truncate while opening", &["suid"], |r| {
        opened(r.join("suid"), OFlags::WRONLY | OFlags::TRUNC).map(drop)
    }),
    ("open to read", &["own"], |r| opened(r.join("own"), OFlags::RDONLY).map(drop)),
    ("open to write", &["f"], |r| opened(r.join("f"), OFlags::WRONLY).map(drop)),
    ("open without access time", &["f"], |r| opened(r.join("f"), OFlags::NOATIME).map(drop)),
    ("open a directory", &["private"], |r| opened(r.join("private"), OFlags::DIRECTORY).map(drop)),
    ("list a directory", &["private"], |r| fs::read_dir(r.join("private")).map(drop)),
    ("look into a directory", &["private/root"], |r| {
        fs::metadata(r.join("private/root")).map(drop)
    }),
    ("access", &["run"], |r| {
        Ok(rustix::fs::accessat(CWD, r.join("run"), Access::EXEC_OK, AtFlags::EACCESS)?)
    }),
    ("run what may not be read", &["run"], |r| {
        std::process::Command::new(r.join("run")).status().map(|status| assert!(status.success()))
    }),
    ("run what is private", &["own"], |r| {
        std::process::Command::new(r.join("own")).status().map(drop)
    }),
    ("create", &["d/new"], |r| opened(r.join("d/new"), OFlags::CREATE | OFlags::RDWR).map(drop)),
    ("create again", &["sticky/root"], |r| {
        opened(r.join("sticky/root"), OFlags::CREATE | OFlags::EXCL | OFlags::RDWR).map(drop)
    }),
    ("create in a private directory", &["private/new"], |r| {
        opened(r.join("private/new"), OFlags::CREATE | OFlags::WRONLY).map(drop)
    }),
    ("create with set-group-id", &["group/new"], |r| {
        let mode = Mode::from_raw_mode(0o6775);
        let flags = OFlags::CREATE | OFlags::WRONLY | OFlags::CLOEXEC;
        Ok(rustix::fs::openat(CWD, r.join("group/new"), flags, mode).map(drop)?)
    }),
    ("create without any right to it", &["sticky/new"], |r| {
        let flags = OFlags::CREATE | OFlags::RDWR | OFlags::CLOEXEC;
        Ok(rustix::fs::openat(CWD, r.join("sticky/new"), flags, Mode::empty()).map(drop)?)
    }),
    ("mkdir", &["group/new"], |r| fs::create_dir(r.join("group/new"))),
    ("mkdir in a private directory", &["private/new"], |r| fs::create_dir(r.join("private/new"))),
    ("symlink", &["d/new"], |r| std::os::unix::fs::symlink("f", r.join("d/new"))),
    ("fifo", &["shared/new"], |r| made(r.join("shared/new"), FileType::Fifo, 0o666)),
    ("node of a file", &["shared/new"], |r| {
        made(r.join("shared/new"), FileType::RegularFile, 0o6775)
    }),
    ("node of a device", &["sticky/new"], |r| {
        made(r.join("sticky/new"), FileType::CharacterDevice, 0o666)
    }),
    ("set user.", &["f"], |r| attributed(r.join("f"), "user.a", b"1")),
    ("set user. of what is private", &["own"], |r| attributed(r.join("own"), "user.a", b"1")),
    ("set user. of a sticky directory", &["sticky"], |r| {
        attributed(r.join("sticky"), "user.a", b"1")
    }),
    ("set an access control list", &["sgid"], |r| {
        attributed(r.join("sgid"), "system.posix_acl_access", &list())
    }),
    ("set a default list", &["d"], |r| {
        attributed(r.join("d"), "system.posix_acl_default", &list())
    }),
    ("remove a list", &["f"], |r| {
        Ok(rustix::fs::removexattr(r.join("f"), "system.posix_acl_access")?)
    }),
    ("set capabilities", &["run"], |r| {
        attributed(r.join("run"), "security.capability", &RAW_SOCKETS)
    }),
    ("remove capabilities", &["able"], |r| {
        Ok(rustix::fs::removexattr(r.join("able"), "security.capability")?)
    }),
    ("set security.", &["f"], |r| attributed(r.join("f"), "security.x", b"1")),
    ("set trusted.", &["f"], |r| attributed(r.join("f"), "trusted.x", b"1")),
    ("read user. of what is private", &["own"], |r| {
        rustix::fs::getxattr(r.join("own"), "user.a", &mut [0; 9][..])?;
        Ok(())
    }),
    ("write to set-user-id", &["suid"], |r| {
        opened(r.join("suid"), OFlags::WRONLY)?.write_all_at(b"x", 0)
    }),
    ("write to set-group-id without running", &["sgid"], |r| {
        opened(r.join("sgid"), OFlags::WRONLY)?.write_all_at(b"x", 0)
    }),
    ("write to what has capabilities", &["able"], |r| {
        opened(r.join("able"), OFlags::WRONLY)?.write_all_at(b"x", 0)
    }),
    ("write past the cache", &["suid"], |r| {
        let mut block = crate::buffer::Buffer::new(4096);
        block.as_mut_slice().fill(b'x');
        let file = opened(r.join("suid"), OFlags::WRONLY | OFlags::DIRECT)?;
        file.write_all_at(block.as_slice(), 0)
    }),
    ("allocate", &["suid"], |r| {
        let file = opened(r.join("suid"), OFlags::WRONLY)?;
        Ok(rustix::fs::fallocate(&file, FallocateFlags::empty(), 0, 9_000)?)
    }),
    ("copy", &["f", "suid"], |r| {
        let from = opened(r.join("f"), OFlags::RDONLY)?;
        let to = opened(r.join("suid"), OFlags::WRONLY)?;
        rustix::fs::copy_file_range(&from, None, &to, None, 4)?;
        Ok(())
    }),
    ("set flags", &["f"], |r| flagged(r.join("f"), rustix::fs::IFlags::NODUMP)),
    ("make immutable and not", &["f"], |r| flagged(r.join("f"), rustix::fs::IFlags::IMMUTABLE)),
];
