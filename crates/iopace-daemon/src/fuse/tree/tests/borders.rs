//! Other devices below the directory, the mount below itself, two mounts, flags of files.

use super::{Mounted, mount_tree};
use crate::fuse::mounting::detach::MountId;
use crate::fuse::mounting::unless_used;
use crate::fuse::tree::{Options, Tree};
use crate::mount_table;
use iopace_fuse::BackgroundSession;
use rustix::mount::MountFlags;
use std::fs::{self, File};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::sync::Arc;

/// Unmounts in order: a mount that keeps a descriptor within itself stays busy, as no other does.
fn unmount_in_order(session: BackgroundSession, mount: &Path) {
    let table = mount_table::read().unwrap();
    let id = MountId::of(mount_table::at(&table, mount).unwrap());
    let done = unless_used(|| Some(id.unmount(false)));
    if !matches!(done, Some(Ok(()))) {
        let _ = id.unmount(true);
        panic!("{}: {done:?}", mount.display());
    }
    session.join().unwrap();
}

/// A file system in memory; unmounted when it goes.
struct Tmpfs(std::path::PathBuf);

impl Tmpfs {
    fn new(path: std::path::PathBuf) -> Tmpfs {
        Tmpfs::with(path, MountFlags::empty())
    }

    fn with(path: std::path::PathBuf, flags: MountFlags) -> Tmpfs {
        fs::create_dir(&path).unwrap();
        rustix::mount::mount("none", &path, "tmpfs", flags, None).unwrap();
        Tmpfs(path)
    }
}

impl Drop for Tmpfs {
    fn drop(&mut self) {
        let _ = rustix::mount::unmount(&self.0, rustix::mount::UnmountFlags::DETACH);
    }
}

#[test]
fn other_devices_below_are_entered_and_their_files_told_apart() {
    let Some(mounted) = Mounted::elsewhere() else { return };
    let (a, b) = (Tmpfs::new(mounted.below.join("a")), Tmpfs::new(mounted.below.join("b")));
    fs::write(mounted.mount.join("a/f"), "of a").unwrap();
    fs::write(mounted.mount.join("b/f"), "of b").unwrap();
    fs::hard_link(mounted.mount.join("b/f"), mounted.mount.join("b/g")).unwrap();
    let below = ["a/f", "b/f"].map(|name| fs::metadata(mounted.below.join(name)).unwrap().ino());
    assert_eq!(below[0], below[1], "two tmpfs count from the same number");
    let number = |name: &str| fs::metadata(mounted.mount.join(name)).unwrap().ino();
    assert_ne!(number("a/f"), number("b/f"));
    assert_eq!(number("b/g"), number("b/f"));
    assert_ne!(number("a"), number("b"));
    assert_eq!(fs::read(a.0.join("f")).unwrap(), b"of a");
    assert_eq!(fs::read(b.0.join("g")).unwrap(), b"of b");
    let moved = fs::rename(mounted.mount.join("a/f"), mounted.mount.join("f"));
    assert_eq!(moved.unwrap_err().raw_os_error(), Some(libc::EXDEV));
    let spaces =
        ["a", ""].map(|name| rustix::fs::statvfs(mounted.mount.join(name)).unwrap().f_blocks);
    assert_eq!(spaces[0], rustix::fs::statvfs(&a.0).unwrap().f_blocks);
    assert_eq!(spaces[1], rustix::fs::statvfs(&mounted.below).unwrap().f_blocks);
    drop(mounted);
}

#[test]
fn a_mount_below_its_own_directory_is_not_entered_through_itself() {
    let Some(mounted) = Mounted::elsewhere() else { return };
    let directory = File::open(mounted.folder.path()).unwrap().into();
    let data = Arc::clone(&mounted.data) as _;
    let tree = Arc::new(Tree::new(directory, (data, Arc::default()), Options::shared()).unwrap());
    let point = mounted.folder.path().join("point");
    fs::create_dir(&point).unwrap();
    let session = mount_tree(&tree, &point);
    tree.mounted_as(fs::metadata(&point).unwrap().dev());
    let deeper = fs::metadata(point.join("point"));
    let listed = fs::read_dir(&point).unwrap().filter(|entry| entry.is_ok()).count();
    let other = fs::write(point.join("mount/f"), "through two mounts");
    unmount_in_order(session, &point);
    assert_eq!(deeper.unwrap_err().raw_os_error(), Some(libc::ELOOP));
    assert_eq!(listed, 4);
    other.unwrap();
    assert_eq!(fs::read(mounted.below.join("f")).unwrap(), b"through two mounts");
}

#[test]
fn a_file_that_only_grows_can_be_appended_to() {
    let Some(mounted) = Mounted::elsewhere() else { return };
    let path = mounted.mount.join("f");
    fs::write(&path, "begin").unwrap();
    let flags = rustix::fs::ioctl_getflags(File::open(&path).unwrap()).unwrap();
    let grows = flags | rustix::fs::IFlags::APPEND;
    fs::metadata(&path).unwrap();
    if rustix::fs::ioctl_setflags(File::open(&path).unwrap(), grows).is_err() {
        eprintln!("skipped: the file system has no such flag");
        return;
    }
    let changed = |path: &Path| {
        let found = fs::metadata(path).unwrap();
        (found.ctime(), found.ctime_nsec())
    };
    let times = [&path, &mounted.below.join("f")].map(|path| changed(path));
    let below = rustix::fs::ioctl_getflags(File::open(mounted.below.join("f")).unwrap()).unwrap();
    let refused = fs::write(&path, "over");
    let appended = File::options()
        .append(true)
        .open(&path)
        .and_then(|mut file| std::io::Write::write_all(&mut file, b" end"));
    rustix::fs::ioctl_setflags(File::open(&path).unwrap(), flags).unwrap();
    assert!(below.contains(rustix::fs::IFlags::APPEND));
    assert_eq!(times[0], times[1], "the time of change is not the one before");
    assert_eq!(refused.unwrap_err().raw_os_error(), Some(libc::EPERM));
    appended.unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"begin end");
    let folder = File::open(&mounted.mount).unwrap();
    rustix::fs::ioctl_getflags(&folder).unwrap();
}

#[test]
fn locks_hold_among_the_users_of_a_mount() {
    use rustix::fs::{FlockOperation, flock};
    let Some(mounted) = Mounted::elsewhere() else { return };
    let path = mounted.mount.join("f");
    fs::write(&path, "").unwrap();
    let (one, two) = (File::open(&path).unwrap(), File::open(&path).unwrap());
    flock(&one, FlockOperation::LockExclusive).unwrap();
    assert!(flock(&two, FlockOperation::NonBlockingLockShared).is_err());
    drop(one);
    flock(&two, FlockOperation::NonBlockingLockShared).unwrap();
}

#[test]
fn two_mounts_of_a_directory_see_the_same_files() {
    let Some(mounted) = Mounted::elsewhere() else { return };
    let directory = File::open(&mounted.below).unwrap().into();
    let data = Arc::clone(&mounted.data) as _;
    let tree = Arc::new(Tree::new(directory, (data, Arc::default()), Options::shared()).unwrap());
    let other = mounted.folder.path().join("other");
    fs::create_dir(&other).unwrap();
    let session = mount_tree(&tree, &other);
    let text = |path: &Path| fs::read_to_string(path).unwrap_or_default();
    fs::write(mounted.mount.join("f"), "one").unwrap();
    let first = text(&other.join("f"));
    fs::write(other.join("f"), "and two").unwrap();
    // What is known of a file may be a second old.
    super::until("the other sees it", || text(&mounted.mount.join("f")) == "and two");
    let created = File::create_new(other.join("g")).and(File::create_new(mounted.mount.join("g")));
    let number = |folder: &Path| fs::metadata(folder.join("f")).unwrap().ino();
    let numbers = [number(&other), number(&mounted.mount)];
    unmount_in_order(session, &other);
    assert_eq!(first, "one");
    assert_eq!(created.unwrap_err().kind(), std::io::ErrorKind::AlreadyExists);
    assert_eq!(numbers[0], numbers[1]);
}

#[test]
fn a_number_is_not_given_away_while_the_kernel_knows_it() {
    let Some(mounted) = Mounted::elsewhere() else { return };
    fs::write(mounted.below.join("old"), "old").unwrap();
    let number = fs::metadata(mounted.mount.join("old")).unwrap().ino();
    // On ext4 the next file gets the number that was freed last.
    fs::remove_file(mounted.below.join("old")).unwrap();
    for name in 0..50 {
        let path = mounted.below.join(format!("new{name}"));
        fs::write(&path, "new").unwrap();
        assert_ne!(fs::metadata(&path).unwrap().ino(), number);
    }
}

#[test]
fn what_is_not_passed_through_says_so() {
    use rustix::fs::{FallocateFlags, OFlags};
    use std::os::unix::fs::OpenOptionsExt;
    let Some(mounted) = Mounted::elsewhere() else { return };
    let mut options = File::options();
    options.read(true).write(true);
    let file = options.clone().create(true).truncate(false).open(mounted.mount.join("f")).unwrap();
    file.set_len(64 * 1024).unwrap();
    let unnamed = options.custom_flags(OFlags::TMPFILE.bits().cast_signed()).open(&mounted.mount);
    assert_eq!(unnamed.unwrap_err().raw_os_error(), Some(libc::EOPNOTSUPP));
    for flags in [FallocateFlags::COLLAPSE_RANGE, FallocateFlags::INSERT_RANGE] {
        let refused = rustix::fs::fallocate(&file, flags, 0, 4096).unwrap_err();
        assert_eq!(refused, rustix::io::Errno::OPNOTSUPP);
    }
    let refused = rustix::fs::ioctl_ficlone(&file, &file).unwrap_err();
    assert!([libc::EOPNOTSUPP, libc::EINVAL].contains(&refused.raw_os_error()), "{refused}");
    let refused = rustix::io::ioctl_fionread(&file);
    assert_eq!(refused.unwrap_or(64 * 1024), 64 * 1024, "answered by the kernel itself");
    let refused = rustix::fs::ioctl_blksszget(&file).unwrap_err();
    assert_eq!(refused, rustix::io::Errno::NOTTY);
}

#[test]
fn pipes_and_sockets_meet_at_the_mount() {
    use std::io::{Read, Write};
    use std::os::unix::net::{UnixListener, UnixStream};
    let Some(mounted) = Mounted::over_itself() else { return };
    let path = mounted.mount.join("socket");
    let listener = UnixListener::bind(&path).unwrap();
    let mut client = UnixStream::connect(&path).unwrap();
    client.write_all(b"through").unwrap();
    drop(client);
    let mut text = String::new();
    listener.accept().unwrap().0.read_to_string(&mut text).unwrap();
    assert_eq!(text, "through");
    let path = mounted.mount.join("pipe");
    let mode = rustix::fs::Mode::RWXU;
    let kind = rustix::fs::FileType::Fifo;
    rustix::fs::mknodat(rustix::fs::CWD, &path, kind, mode, 0).unwrap();
    let mut pipe = File::options().read(true).write(true).open(&path).unwrap();
    pipe.write_all(b"pipe").unwrap();
    let mut text = [0; 4];
    File::open(&path).unwrap().read_exact(&mut text).unwrap();
    assert_eq!(&text, b"pipe");
    rustix::fs::setxattr(&path, "trusted.a", b"1", rustix::fs::XattrFlags::CREATE).unwrap();
}

#[test]
fn what_a_file_system_below_forbids_is_forbidden() {
    use super::callers::shell;
    use rustix::fs::{CWD, FileType, Mode, XattrFlags, makedev, mknodat, setxattr};
    let Some(mounted) = Mounted::elsewhere() else { return };
    let capable = [1u8, 0, 0, 2, 0, 0x20, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    let fill = |folder: &Path| {
        fs::set_permissions(folder, fs::Permissions::from_mode(0o755)).unwrap();
        fs::copy("/usr/bin/id", folder.join("sid")).unwrap();
        setxattr(folder.join("sid"), "security.capability", &capable, XattrFlags::empty()).unwrap();
        fs::set_permissions(folder.join("sid"), fs::Permissions::from_mode(0o4755)).unwrap();
        let kind = FileType::CharacterDevice;
        let node = folder.join("null");
        mknodat(CWD, &node, kind, Mode::from_raw_mode(0o666), makedev(1, 3)).unwrap();
        fs::set_permissions(&node, fs::Permissions::from_mode(0o666)).unwrap();
    };
    let below = |name: &str| mounted.below.join(name);
    let all = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    let stick = Tmpfs::with(below("stick"), all);
    let disk = Tmpfs::with(below("disk"), MountFlags::NOSUID);
    let free = Tmpfs::new(below("free"));
    for folder in [&stick, &disk, &free] {
        fill(&folder.0);
    }
    let say = |script: &str| shell(&mounted.mount, "--clear-groups", script).unwrap();
    let denied = |said: &str| said.contains("Permission denied");
    assert!(denied(&say("stick/sid -u")), "noexec");
    assert!(denied(&say("echo x > stick/null")), "nodev");
    let said = std::process::Command::new(mounted.mount.join("stick/sid")).status();
    assert_eq!(said.unwrap_err().raw_os_error(), Some(libc::EACCES), "noexec, for root too");
    let opened = File::open(mounted.mount.join("stick/null"));
    assert_eq!(opened.unwrap_err().raw_os_error(), Some(libc::ENXIO), "nodev, for root too");
    assert_eq!(say("disk/sid -u"), "1000\n", "nosuid");
    assert_eq!(say("echo x > disk/null && echo done"), "done\n");
    assert_eq!(say("free/sid -u"), "0\n");
    let named = |name: &str| {
        let mut names = [0; 4096];
        let len = rustix::fs::listxattr(mounted.mount.join(name), &mut names[..]).unwrap();
        names[..len].windows(19).any(|part| part == b"security.capability")
    };
    assert_eq!([named("disk/sid"), named("free/sid")], [false, true]);
    // One file, reached by a mount that forbids it and by one that does not.
    fs::create_dir(below("bound")).unwrap();
    rustix::mount::mount_bind(&free.0, below("bound")).unwrap();
    let bound = Tmpfs(below("bound"));
    let flags = MountFlags::BIND | MountFlags::NOSUID;
    rustix::mount::mount_remount(&bound.0, flags, "").unwrap();
    // The kernel knows it by its name for a second.
    super::until("nosuid", || say("bound/sid -u") == "1000\n");
    drop(mounted);
}

#[test]
fn a_file_with_a_huge_number_is_one_file() {
    use crate::fuse::tiny::Tiny;
    use rustix::fs::{FlockOperation, flock};
    let Some(mounted) = Mounted::elsewhere() else { return };
    let at = |name: &str| mounted.folder.path().join(name);
    for name in ["lower", "over"] {
        fs::create_dir(at(name)).unwrap();
    }
    fs::write(mounted.plain.join("f"), "data").unwrap();
    let mut tiny = Tiny::new(File::open(&mounted.plain).unwrap().into());
    tiny.high = 3 << 62;
    let lower = super::mount_any(tiny, &at("lower"));
    let directory = File::open(at("lower")).unwrap().into();
    let data = Arc::clone(&mounted.data) as _;
    let options = Options { names: std::time::Duration::ZERO, ..Options::shared() };
    let tree = Arc::new(Tree::new(directory, (data, Arc::default()), options).unwrap());
    let session = mount_tree(&tree, &at("over"));
    let seen = || {
        let file = File::open(at("over/f")).unwrap();
        let number = file.metadata().unwrap().ino();
        (file, number)
    };
    let (one, two) = (seen(), seen());
    let locked = flock(&one.0, FlockOperation::LockExclusive);
    let again = flock(&two.0, FlockOperation::NonBlockingLockExclusive);
    let below = fs::metadata(at("lower/f")).unwrap().ino();
    let numbers = (one.1, two.1);
    drop((one, two));
    super::unmount(session, &at("over"));
    drop(tree);
    super::unmount(lower, &at("lower"));
    assert!(below >= 3 << 62, "{below:x}");
    assert_eq!(numbers.0, numbers.1);
    assert!(locked.is_ok() && again.is_err(), "two exclusive locks");
}
