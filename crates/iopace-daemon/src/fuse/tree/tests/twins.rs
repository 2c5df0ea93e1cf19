//! Each operation on the mount and on a plain directory beside it: the same errors, the same files.

use super::Mounted;
use rustix::fs::{
    AtFlags, CWD, FallocateFlags, FileType, Mode, OFlags, RenameFlags, Timespec, Timestamps,
    XattrFlags,
};
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// All that can be seen of a file, besides its data, number and times.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Seen {
    mode: u32,
    owner: (u32, u32),
    nlink: u64,
    size: u64,
    device: u64,
    target: Option<PathBuf>,
    xattrs: BTreeMap<Vec<u8>, Vec<u8>>,
    data: Option<Vec<u8>>,
}

/// All files of a folder, by their path in it.
pub(super) fn seen(root: &Path) -> BTreeMap<PathBuf, Seen> {
    let mut all = BTreeMap::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            let stat = fs::symlink_metadata(&path).unwrap();
            let folder = stat.is_dir();
            let size = if folder { 0 } else { stat.len() };
            let seen = Seen {
                mode: stat.mode(),
                owner: (stat.uid(), stat.gid()),
                nlink: stat.nlink(),
                size,
                device: stat.rdev(),
                target: fs::read_link(&path).ok(),
                xattrs: xattrs(&path),
                data: stat.is_file().then(|| fs::read(&path).unwrap()),
            };
            all.insert(path.strip_prefix(root).unwrap().to_owned(), seen);
            if folder {
                folders.push(path);
            }
        }
    }
    all
}

fn xattrs(path: &Path) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let mut names = vec![0; 4096];
    let len = rustix::fs::llistxattr(path, &mut names[..]).unwrap();
    names[..len]
        .split(|&byte| byte == 0)
        .filter(|name| !name.is_empty())
        .map(|name| {
            let mut value = vec![0; 4096];
            let len = rustix::fs::lgetxattr(path, name, &mut value[..]).unwrap();
            (name.to_vec(), value[..len].to_vec())
        })
        .collect()
}

/// Does the same on both and compares what is said and what is there then.
pub(super) fn both<T: PartialEq + std::fmt::Debug>(
    mounted: &Mounted,
    what: &str,
    act: impl Fn(&Path) -> io::Result<T>,
) {
    let said = [&mounted.mount, &mounted.plain]
        .map(|root| act(root).map_err(|error| error.raw_os_error()));
    assert_eq!(said[0], said[1], "{what}");
    assert_eq!(seen(&mounted.mount), seen(&mounted.plain), "{what}");
}

type Act = fn(&Path) -> io::Result<()>;

fn renamed(root: &Path, old: &str, new: &str, flags: RenameFlags) -> io::Result<()> {
    Ok(rustix::fs::renameat_with(CWD, root.join(old), CWD, root.join(new), flags)?)
}

fn made(root: &Path, name: &str, kind: FileType, device: u64) -> io::Result<()> {
    let mode = Mode::from_raw_mode(0o640);
    Ok(rustix::fs::mknodat(CWD, root.join(name), kind, mode, device)?)
}

fn opened(root: &Path, name: &str, flags: OFlags) -> io::Result<()> {
    rustix::fs::openat(CWD, root.join(name), flags, Mode::from_raw_mode(0o666))?;
    Ok(())
}

fn moded(root: &Path, name: &str, mode: u32) -> io::Result<()> {
    let mode = Mode::from_raw_mode(mode);
    Ok(rustix::fs::chmodat(CWD, root.join(name), mode, AtFlags::empty())?)
}

fn truncated(root: &Path, name: &str, size: u64) -> io::Result<()> {
    fs::OpenOptions::new().write(true).open(root.join(name))?.set_len(size)
}

fn allocated(root: &Path, flags: FallocateFlags, offset: u64, len: u64) -> io::Result<()> {
    let file = fs::OpenOptions::new().write(true).open(root.join("f"))?;
    Ok(rustix::fs::fallocate(file, flags, offset, len)?)
}

fn attributed(root: &Path, name: &str, key: &str, value: &[u8], how: XattrFlags) -> io::Result<()> {
    Ok(rustix::fs::lsetxattr(root.join(name), key, value, how)?)
}

const NAMES: &[(&str, Act)] = &[
    ("mkdir", |r| fs::create_dir(r.join("d"))),
    ("mkdir again", |r| fs::create_dir(r.join("d"))),
    ("mkdir in nothing", |r| fs::create_dir(r.join("x/y"))),
    ("write", |r| fs::write(r.join("f"), b"0123456789")),
    ("write over", |r| fs::write(r.join("f"), b"01234")),
    ("mkdir in a file", |r| fs::create_dir(r.join("f/d"))),
    ("exclusive over a file", |r| opened(r, "f", OFlags::CREATE | OFlags::EXCL | OFlags::RDWR)),
    ("exclusive", |r| opened(r, "g", OFlags::CREATE | OFlags::EXCL | OFlags::RDWR)),
    ("truncating open", |r| opened(r, "g", OFlags::CREATE | OFlags::TRUNC | OFlags::WRONLY)),
    ("open a directory to write", |r| opened(r, "d", OFlags::WRONLY)),
    ("open a file as a directory", |r| opened(r, "f", OFlags::DIRECTORY)),
    ("open nothing", |r| opened(r, "nothing", OFlags::RDWR)),
    ("symlink", |r| std::os::unix::fs::symlink("f", r.join("s"))),
    ("symlink again", |r| std::os::unix::fs::symlink("g", r.join("s"))),
    ("open a symlink itself", |r| opened(r, "s", OFlags::NOFOLLOW)),
    ("create over a symlink", |r| opened(r, "s", OFlags::CREATE | OFlags::EXCL | OFlags::RDWR)),
    ("link", |r| fs::hard_link(r.join("f"), r.join("d/l"))),
    ("link again", |r| fs::hard_link(r.join("f"), r.join("d/l"))),
    ("link a directory", |r| fs::hard_link(r.join("d"), r.join("e"))),
    ("link a symlink itself", |r| {
        let (old, new) = (r.join("s"), r.join("d/s"));
        Ok(rustix::fs::linkat(CWD, old, CWD, new, AtFlags::empty())?)
    }),
    ("fifo", |r| made(r, "fifo", FileType::Fifo, 0)),
    ("socket", |r| made(r, "socket", FileType::Socket, 0)),
    ("node as file", |r| made(r, "node", FileType::RegularFile, 0)),
    ("character device", |r| made(r, "null", FileType::CharacterDevice, rustix::fs::makedev(1, 3))),
    ("block device", |r| made(r, "sda", FileType::BlockDevice, rustix::fs::makedev(259, 70_000))),
    ("rmdir with files", |r| fs::remove_dir(r.join("d"))),
    ("rmdir of a file", |r| fs::remove_dir(r.join("f"))),
    ("unlink of a directory", |r| fs::remove_file(r.join("d"))),
    ("unlink of nothing", |r| fs::remove_file(r.join("nothing"))),
    ("rename", |r| fs::rename(r.join("g"), r.join("h"))),
    ("rename over", |r| fs::rename(r.join("h"), r.join("f"))),
    ("rename a file over a directory", |r| fs::rename(r.join("f"), r.join("d"))),
    ("rename a directory over a file", |r| fs::rename(r.join("d"), r.join("f"))),
    ("rename into itself", |r| fs::rename(r.join("d"), r.join("d/e"))),
    ("rename nothing", |r| fs::rename(r.join("nothing"), r.join("n"))),
    ("rename not over", |r| renamed(r, "s", "f", RenameFlags::NOREPLACE)),
    ("rename to a free name", |r| renamed(r, "s", "t", RenameFlags::NOREPLACE)),
    ("exchange", |r| renamed(r, "t", "d", RenameFlags::EXCHANGE)),
    ("exchange back", |r| renamed(r, "t", "d", RenameFlags::EXCHANGE)),
    ("exchange with nothing", |r| renamed(r, "t", "nothing", RenameFlags::EXCHANGE)),
    ("whiteout", |r| renamed(r, "t", "u", RenameFlags::WHITEOUT)),
    ("rename between links", |r| fs::rename(r.join("d/l"), r.join("f"))),
    ("name of 255", |r| fs::write(r.join("n".repeat(255)), b"")),
    ("name of 256", |r| fs::write(r.join("n".repeat(256)), b"")),
    ("not UTF-8", |r| fs::write(r.join(std::ffi::OsStr::from_bytes(b"\xff\xfe\n\x01")), b"x")),
    ("deep", |r| {
        fs::create_dir_all(r.join("p/".repeat(100)))?;
        fs::write(r.join("p/".repeat(100)).join("f"), b"deep")?;
        fs::remove_dir_all(r.join("p"))
    }),
    ("remove all", |r| fs::remove_dir_all(r.join("d"))),
];

const ATTRIBUTES: &[(&str, Act)] = &[
    ("write", |r| fs::write(r.join("f"), vec![7; 20_000])),
    ("mkdir", |r| fs::create_dir(r.join("d"))),
    ("symlink", |r| std::os::unix::fs::symlink("f", r.join("s"))),
    ("chmod", |r| moded(r, "f", 0o6751)),
    ("chmod of a directory", |r| moded(r, "d", 0o3777)),
    ("chmod of nothing", |r| moded(r, "nothing", 0o777)),
    ("chown", |r| std::os::unix::fs::chown(r.join("f"), Some(1000), Some(1001))),
    ("chmod once more", |r| moded(r, "f", 0o6755)),
    ("chown of nobody", |r| std::os::unix::fs::chown(r.join("f"), None, None)),
    ("chown of a symlink", |r| std::os::unix::fs::lchown(r.join("s"), Some(5), Some(6))),
    ("chown of the group", |r| std::os::unix::fs::chown(r.join("d"), None, Some(1001))),
    ("truncate", |r| truncated(r, "f", 777)),
    ("grow", |r| truncated(r, "f", 70_000)),
    ("too large", |r| truncated(r, "f", 1 << 62)),
    ("truncate a directory", |r| truncated(r, "d", 0)),
    ("truncate by name", |r| {
        let name = std::ffi::CString::new(r.join("f").as_os_str().as_bytes()).unwrap();
        // SAFETY: the name ends with a 0 and lives through the call.
        match unsafe { libc::truncate(name.as_ptr(), 60_000) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }),
    ("allocate", |r| allocated(r, FallocateFlags::empty(), 50_000, 60_000)),
    ("allocate behind the end", |r| allocated(r, FallocateFlags::KEEP_SIZE, 200_000, 60_000)),
    ("punch", |r| allocated(r, FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE, 100, 9_000)),
    ("zero", |r| allocated(r, FallocateFlags::ZERO_RANGE, 60_000, 60_000)),
    ("punch without keeping the size", |r| allocated(r, FallocateFlags::PUNCH_HOLE, 0, 1)),
    ("set user.a", |r| attributed(r, "f", "user.a", b"1", XattrFlags::empty())),
    ("set user.a anew", |r| attributed(r, "f", "user.a", b"2", XattrFlags::CREATE)),
    ("replace user.a", |r| attributed(r, "f", "user.a", &[0; 500], XattrFlags::REPLACE)),
    ("replace user.b", |r| attributed(r, "f", "user.b", b"2", XattrFlags::REPLACE)),
    ("of a directory", |r| attributed(r, "d", "user.a", b"d", XattrFlags::empty())),
    ("of a symlink", |r| attributed(r, "s", "user.a", b"d", XattrFlags::empty())),
    ("trusted of a symlink", |r| attributed(r, "s", "trusted.a", b"d", XattrFlags::empty())),
    ("trusted", |r| attributed(r, "f", "trusted.t", b"", XattrFlags::empty())),
    ("security", |r| attributed(r, "f", "security.x", b"s", XattrFlags::empty())),
    ("unknown kind", |r| attributed(r, "f", "what.a", b"s", XattrFlags::empty())),
    ("read nothing", |r| {
        rustix::fs::lgetxattr(r.join("f"), "user.none", &mut [0; 10][..])?;
        Ok(())
    }),
    ("read into too little", |r| {
        rustix::fs::lgetxattr(r.join("f"), "user.a", &mut [0; 10][..])?;
        Ok(())
    }),
    ("names into too little", |r| {
        rustix::fs::llistxattr(r.join("f"), &mut [0; 3][..])?;
        Ok(())
    }),
    ("remove user.a", |r| Ok(rustix::fs::lremovexattr(r.join("f"), "user.a")?)),
    ("remove user.a again", |r| Ok(rustix::fs::lremovexattr(r.join("f"), "user.a")?)),
];

#[test]
fn names_are_as_on_a_plain_directory() {
    for mounted in Mounted::all() {
        for (what, act) in NAMES {
            both(&mounted, what, act);
        }
    }
}

#[test]
fn attributes_are_as_on_a_plain_directory() {
    for mounted in Mounted::all() {
        for (what, act) in ATTRIBUTES {
            both(&mounted, what, act);
        }
    }
}

#[test]
fn access_control_lists_are_inherited_and_change_modes() {
    let Some(mounted) = Mounted::elsewhere() else { return };
    // Version 2, then tag, permissions and number of each entry: owner rwx, user 1000 rwx, group
    // r-x, mask rwx, others none.
    let mut list = vec![2, 0, 0, 0];
    for (tag, permissions, id) in
        [(1, 7, u32::MAX), (2, 7, 1000), (4, 5, u32::MAX), (16, 7, u32::MAX), (32, 0, u32::MAX)]
    {
        list.extend(u16::to_le_bytes(tag));
        list.extend(u16::to_le_bytes(permissions));
        list.extend(u32::to_le_bytes(id));
    }
    let (access, default) = ("system.posix_acl_access", "system.posix_acl_default");
    both(&mounted, "mkdir", |r| fs::create_dir(r.join("d")));
    both(&mounted, "default", |r| attributed(r, "d", default, &list, XattrFlags::empty()));
    both(&mounted, "file", |r| fs::write(r.join("d/f"), b"f"));
    both(&mounted, "directory", |r| fs::create_dir(r.join("d/e")));
    both(&mounted, "fifo", |r| made(r, "d/fifo", FileType::Fifo, 0));
    both(&mounted, "access", |r| attributed(r, "d/f", access, &list, XattrFlags::empty()));
    both(&mounted, "chmod", |r| moded(r, "d/f", 0o640));
    both(&mounted, "wrong", |r| attributed(r, "d/f", access, &list[..9], XattrFlags::empty()));
    both(&mounted, "none", |r| Ok(rustix::fs::lremovexattr(r.join("d/f"), access)?));
    both(&mounted, "none by default", |r| Ok(rustix::fs::lremovexattr(r.join("d"), default)?));
    both(&mounted, "file again", |r| fs::write(r.join("d/g"), b"f"));
    assert!(seen(&mounted.mount)[Path::new("d/e")].xattrs.len() >= 2);
}

#[test]
fn times_are_kept_to_the_nanosecond() {
    let Some(mounted) = Mounted::elsewhere() else { return };
    let at = |tv_sec, tv_nsec| Timespec { tv_sec, tv_nsec };
    let omit = at(0, rustix::fs::UTIME_OMIT);
    let cases = [
        (at(1_000_000_007, 123_456_789), at(5, 1)),
        (omit, at(2_000_000_000, 999_999_999)),
        (at(-2, 800_000_000), at(-1_000_000_000, 1)),
        (at(4_000_000_000, 0), omit),
        (at(0, 0), at(-1, 0)),
    ];
    both(&mounted, "write", |r| fs::write(r.join("f"), b""));
    both(&mounted, "symlink", |r| std::os::unix::fs::symlink("f", r.join("s")));
    both(&mounted, "mkdir", |r| fs::create_dir(r.join("d")));
    for (last_access, last_modification) in cases {
        let times = Timestamps { last_access, last_modification };
        for name in ["f", "s", "d"] {
            both(&mounted, "set times", |r| {
                let flags = AtFlags::SYMLINK_NOFOLLOW;
                rustix::fs::utimensat(CWD, r.join(name), &times, flags)?;
                let stat = fs::symlink_metadata(r.join(name))?;
                let access = (last_access != omit).then(|| (stat.atime(), stat.atime_nsec()));
                Ok((access, stat.mtime(), stat.mtime_nsec()))
            });
        }
    }
    let file = fs::File::open(mounted.mount.join("f")).unwrap();
    let now = at(0, rustix::fs::UTIME_NOW);
    let before = std::time::SystemTime::now();
    rustix::fs::futimens(&file, &Timestamps { last_access: omit, last_modification: now }).unwrap();
    let set = file.metadata().unwrap().modified().unwrap();
    assert!(set + std::time::Duration::from_secs(1) > before);
}
