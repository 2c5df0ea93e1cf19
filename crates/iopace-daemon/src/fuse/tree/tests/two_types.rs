//! A file system that a user serves, and that says of one number what he likes.

use super::{Mounted, mount_any};
use iopace_fuse::{
    Errno, FileAttr, FileHandle, FileType, Filesystem, Generation, INodeNo, ReplyAttr, ReplyEntry,
    Request,
};
use rustix::mount::{MountFlags, mount_remount};
use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::time::{Duration, SystemTime};

/// `plain`, `sid` and `null` have one number; the first is a file, the second one for everybody to
/// run as root, the third the device `/dev/null`.
struct TwoTypes;

const NUMBER: u64 = 5;

fn attributes(ino: u64, kind: FileType, perm: u16) -> FileAttr {
    let time = SystemTime::UNIX_EPOCH;
    FileAttr {
        ino: INodeNo(ino),
        size: 0,
        blocks: 0,
        atime: time,
        mtime: time,
        ctime: time,
        kind,
        perm,
        nlink: 1,
        uid: 0,
        gid: 0,
        rdev: 0x103,
        blksize: 4096,
    }
}

impl Filesystem for TwoTypes {
    fn lookup(&self, _: &Request, _: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let (kind, perm) = match name.to_str() {
            Some("plain") => (FileType::Directory, 0o755),
            Some("sid") => (FileType::RegularFile, 0o4755),
            Some("null") => (FileType::CharDevice, 0o666),
            _ => return reply.error(Errno::ENOENT),
        };
        reply.entry(&Duration::from_secs(3_600), &attributes(NUMBER, kind, perm), Generation(0));
    }

    fn getattr(&self, _: &Request, id: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        let kind = if id == INodeNo::ROOT { FileType::Directory } else { FileType::RegularFile };
        reply.attr(&Duration::ZERO, &attributes(id.0, kind, 0o755));
    }
}

#[test]
fn a_number_with_two_types_leads_to_no_device() {
    let Some(mounted) = Mounted::elsewhere() else { return };
    let lower = mounted.below.join("lower");
    fs::create_dir(&lower).unwrap();
    let session = mount_any(TwoTypes, &lower);
    let flags = MountFlags::BIND | MountFlags::NOSUID | MountFlags::NODEV;
    mount_remount(&lower, flags, "").unwrap();
    let at = |name: &str| mounted.mount.join("lower").join(name);
    // It stays known as what it was first as long as somebody has it open.
    let first = rustix::fs::open(
        at("plain"),
        rustix::fs::OFlags::PATH | rustix::fs::OFlags::CLOEXEC,
        rustix::fs::Mode::empty(),
    );
    let sid = fs::symlink_metadata(at("sid")).map(|found| found.mode());
    let null = fs::symlink_metadata(at("null"));
    let opened = File::open(at("null"));
    drop(first);
    // The tree has files of it open: it ends when that does.
    let _ = rustix::mount::unmount(&lower, rustix::mount::UnmountFlags::DETACH);
    drop(mounted);
    let _ = session.join();
    assert_eq!(sid.map_or(0, |mode| mode & 0o6000), 0, "set-user-id");
    if let Ok(found) = null {
        let is_device = found.file_type().is_char_device();
        assert!(!is_device || (found.mode() & 0o777, found.rdev() == 0x103) == (0, false));
    }
    assert!(opened.is_err(), "a device of a file system that forbids them is open");
}
