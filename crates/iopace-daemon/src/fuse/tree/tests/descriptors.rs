//! More files and directories than descriptors.

use super::{Mounted, until};
use crate::fuse::tree::Options;
use rustix::fs::OFlags;
use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::{Command, Stdio};

/// A mount with few descriptors, or `None` where they are not evicted; says so then.
fn small(options: Options, over: bool) -> Option<Mounted> {
    let mounted = Mounted::start(Options { descriptors: 200, ..options }, over)?;
    let root = mounted.tree.inodes.get(super::super::numbers::ROOT).unwrap();
    if root.origin.has_handles() {
        return Some(mounted);
    }
    eprintln!("skipped: no file handles for files of {}", mounted.below.display());
    None
}

/// Something mounted at a place; unmounted when it goes.
struct Bound<'a>(&'a Path);

impl<'a> Bound<'a> {
    fn new(what: &Path, at: &'a Path) -> Bound<'a> {
        rustix::mount::mount_bind(what, at).unwrap();
        Bound(at)
    }
}

impl Drop for Bound<'_> {
    fn drop(&mut self) {
        let _ = rustix::mount::unmount(self.0, rustix::mount::UnmountFlags::DETACH);
    }
}

/// Looks at everything below, twice if it is a directory: as `find` does. Returns the numbers.
fn walk(at: &Path, numbers: &mut HashMap<std::path::PathBuf, u64>) {
    for entry in fs::read_dir(at).unwrap() {
        let path = entry.unwrap().path();
        let stat = fs::symlink_metadata(&path).unwrap();
        let before = numbers.insert(path.clone(), stat.ino());
        assert!(before.is_none_or(|before| before == stat.ino()), "{}", path.display());
        if stat.is_dir() {
            walk(&path, numbers);
        }
    }
}

/// Closes all descriptors that nobody uses.
fn evict(mounted: &Mounted) {
    for _ in 0..200 {
        mounted.tree.inodes.evict();
    }
}

/// Names change while nothing of them has a descriptor. `open` is open as `moved/f`.
fn change_names(mounted: &Mounted, open: &File) {
    let at = |name: &str| mounted.mount.join(name);
    evict(mounted);
    fs::rename(at("moved"), at("d7/moved")).unwrap();
    fs::remove_dir_all(at("removed")).unwrap();
    evict(mounted);
    open.write_all_at(b"open", 0).unwrap();
    assert_eq!(fs::read_to_string(at("d7/moved/f")).unwrap(), "opend");
    assert!(!at("removed").exists() && !at("moved").exists());
    fs::write(at("d6/link"), "both").unwrap();
    evict(mounted);
    assert_eq!(fs::read_to_string(at("d5/f")).unwrap(), "both");
    assert_eq!(fs::metadata(at("d5/f")).unwrap().ino(), fs::metadata(at("d6/link")).unwrap().ino());
}

#[test]
fn more_directories_than_descriptors_are_slower_and_never_broken() {
    let Some(mounted) = small(Options::alone(), true) else { return };
    let at = |name: &str| mounted.mount.join(name);
    let most = mounted.tree.inodes.bound() + 128;
    for name in ["cwd", "on", "removed", "moved"] {
        fs::create_dir(at(name)).unwrap();
        fs::write(at(name).join("f"), name).unwrap();
    }
    fs::write(mounted.plain.join("bound"), "bound").unwrap();
    let (on_file, on_directory) = (at("on/f"), at("removed"));
    let mounts = (
        Bound::new(&mounted.plain.join("bound"), &on_file),
        Bound::new(&mounted.plain, &on_directory),
    );
    // Somebody works in a directory, and has a file open.
    let mut working = Command::new("sh")
        .args(["-c", "read go; cat f; touch g; ls"])
        .current_dir(at("cwd"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let open = File::options().read(true).write(true).open(at("moved/f")).unwrap();
    let plain = mounted.tree.inodes.len();
    for number in 0..1_200 {
        fs::create_dir(at(&format!("d{number}"))).unwrap();
        fs::write(at(&format!("d{number}/f")), number.to_string()).unwrap();
        assert!(mounted.tree.inodes.open_count() <= most);
    }
    fs::hard_link(at("d5/f"), at("d6/link")).unwrap();
    assert!(mounted.tree.inodes.len() > plain + 1_000, "the kernel remembers them");
    let mut numbers = HashMap::new();
    walk(&mounted.mount, &mut numbers);
    evict(&mounted);
    walk(&mounted.mount, &mut numbers);
    assert!(mounted.tree.inodes.open_count() <= most, "{}", mounted.tree.inodes.open_count());

    // The mounts are there still, and what lies below them is itself.
    assert_eq!(fs::read_to_string(&on_file).unwrap(), "bound");
    assert_eq!(fs::read_to_string(at("removed/bound")).unwrap(), "bound");
    drop(mounts);
    assert_eq!(fs::read_to_string(&on_file).unwrap(), "on");

    change_names(&mounted, &open);
    working.stdin.take().unwrap().write_all(b"go\n").unwrap();
    let mut said = String::new();
    working.stdout.take().unwrap().read_to_string(&mut said).unwrap();
    assert!(working.wait().unwrap().success());
    assert_eq!(said, "cwdf\ng\n");
    for number in (0..1_200).filter(|number| *number != 5) {
        let below = fs::read_to_string(at(&format!("d{number}/f"))).unwrap();
        assert_eq!(below, number.to_string());
    }
}

#[test]
fn a_directory_that_was_removed_is_that_still_for_who_is_in_it() {
    let Some(mounted) = small(Options::alone(), true) else { return };
    let gone = mounted.mount.join("gone");
    fs::create_dir(&gone).unwrap();
    let inside = File::open(&gone).unwrap();
    evict(&mounted);
    fs::remove_dir(&gone).unwrap();
    evict(&mounted);
    assert_eq!(inside.metadata().unwrap().nlink(), 0);
    let created = rustix::fs::mkdirat(&inside, "x", rustix::fs::Mode::RWXU);
    assert_eq!(created, Err(rustix::io::Errno::NOENT));
}

#[test]
fn a_number_that_is_used_again_below_shows_the_new_file() {
    let Some(mounted) = small(Options::shared(), false) else { return };
    fs::write(mounted.below.join("old"), "old").unwrap();
    assert_eq!(fs::read_to_string(mounted.mount.join("old")).unwrap(), "old");
    until("the file is closed", || mounted.tree.files_open() == 0);
    evict(&mounted);
    let number = fs::metadata(mounted.below.join("old")).unwrap().ino();
    fs::remove_file(mounted.below.join("old")).unwrap();
    let reused = (0..2_000).map(|at| format!("new{at}")).find(|name| {
        fs::write(mounted.below.join(name), "another").unwrap();
        fs::metadata(mounted.below.join(name)).unwrap().ino() == number
    });
    let Some(name) = reused else {
        eprintln!("skipped: the file system uses no number again");
        return;
    };
    assert_eq!(fs::read_to_string(mounted.mount.join(&name)).unwrap(), "another");
    assert_eq!(fs::metadata(mounted.mount.join(&name)).unwrap().ino(), number);
    until("the old name is gone", || !mounted.mount.join("old").exists());
    assert_eq!(fs::read_to_string(mounted.mount.join(&name)).unwrap(), "another");
}

#[test]
fn the_kernel_forgets_when_it_knows_too_many() {
    let options = Options { known_max: 280, ..Options::alone() };
    let Some(mounted) = Mounted::start(options, true) else { return };
    let at = |name: usize| mounted.mount.join(format!("d/{name}"));
    fs::create_dir(mounted.mount.join("d")).unwrap();
    let notifier = mounted.session.as_ref().unwrap().notifier();
    if notifier.prune(&[]).is_err() {
        eprintln!("skipped: the kernel cannot be asked to forget (Linux before 6.18)");
        return;
    }
    let open: Vec<_> = (0..50).map(|name| File::create(at(name)).unwrap()).collect();
    fs::write(at(50), "below").unwrap();
    fs::write(mounted.plain.join("bound"), "bound").unwrap();
    let on = at(50);
    let bound = Bound::new(&mounted.plain.join("bound"), &on);
    for name in 51..1_500 {
        if name % 2 == 0 { fs::write(at(name), "x") } else { fs::create_dir(at(name)) }.unwrap();
    }
    // Nothing is evicted before: descriptors are plenty. So the oldest are asked for as more come.
    mounted.tree.trim_if_many();
    for (name, file) in open.iter().enumerate() {
        assert!(fs::canonicalize(at(name)).is_ok());
        file.set_len(10).unwrap();
        let link = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(file));
        assert_eq!(fs::read_link(link).unwrap(), at(name), "its name was taken away");
    }
    until("most are forgotten", || {
        mounted.tree.trim_if_many();
        mounted.tree.inodes_known() <= 280
    });
    assert_eq!(fs::read_to_string(&on).unwrap(), "bound", "it is mounted still");
    drop(bound);
    assert_eq!(fs::read_to_string(&on).unwrap(), "below");
}

/// Has a thread with this user's rights do it.
fn as_user<T: Send>(uid: u32, act: impl FnOnce() -> T + Send) -> T {
    let become_user = move || {
        // SAFETY: the bare call changes this thread alone, which ends right after.
        let done = unsafe { libc::syscall(libc::SYS_setresuid, uid, uid, uid) };
        assert_eq!(done, 0, "{}", std::io::Error::last_os_error());
        act()
    };
    std::thread::scope(|scope| scope.spawn(become_user).join().unwrap())
}

#[test]
fn a_user_who_opens_many_files_leaves_descriptors_to_others() {
    let options = Options { descriptors: 200, ..Options::shared() };
    let Some(mounted) = Mounted::start(options, false) else { return };
    fs::set_permissions(&mounted.below, fs::Permissions::from_mode(0o755)).unwrap();
    for number in 0..80 {
        fs::write(mounted.below.join(format!("f{number}")), "x").unwrap();
    }
    let root = File::open(&mounted.mount).unwrap();
    let open = |number: usize| {
        let (flags, mode) = (OFlags::RDONLY | OFlags::CLOEXEC, rustix::fs::Mode::empty());
        rustix::fs::openat(&root, format!("f{number}"), flags, mode)
    };
    let all: Vec<_> = as_user(61_001, || (0..80).map(open).collect());
    let count = all.iter().take_while(|one| one.is_ok()).count();
    // Half of three eighths of 200; fewer where other tests have mounts in this process.
    assert!((16..=37).contains(&count), "{count}");
    assert!(all[count..].iter().all(|one| matches!(one, Err(rustix::io::Errno::MFILE))));
    let listed = as_user(61_001, || {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY;
        rustix::fs::openat(&root, ".", flags, rustix::fs::Mode::empty())
    });
    assert_eq!(listed.err(), Some(rustix::io::Errno::MFILE), "a directory is a file");
    for uid in [0, 61_002] {
        let other = as_user(uid, || (0..16).map(open).collect::<Vec<_>>());
        assert!(other.iter().all(Result::is_ok), "user {uid}: {other:?}");
    }
    drop(all);
    // The kernel says some time later that they are closed.
    until("closed", || as_user(61_001, || open(0)).is_ok());
}
