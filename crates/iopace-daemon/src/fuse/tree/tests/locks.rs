//! Locks through the mount and past it: who has one keeps the others out, wherever they come from.

mod differential;
mod memory;
mod process;

use super::{Mounted, until};
use libc::{F_RDLCK, F_UNLCK, F_WRLCK, LOCK_EX, LOCK_NB, LOCK_SH, LOCK_UN};
use process::{Process, end};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

const POSIX: i32 = libc::F_SETLK;
const POSIX_WAITS: i32 = libc::F_SETLKW;
const OFD: i32 = libc::F_OFD_SETLK;
const OFD_WAITS: i32 = libc::F_OFD_SETLKW;
const ALL: (i64, i64) = (0, 0);

/// A mount elsewhere, and one over the directory itself.
fn both() -> impl Iterator<Item = Mounted> {
    [Mounted::elsewhere, Mounted::over_itself].into_iter().filter_map(|mount| mount())
}

/// A file below, past the mount.
fn past(mounted: &Mounted, name: &str) -> PathBuf {
    let folder = format!("/proc/{}/fd/{}", std::process::id(), mounted.hidden.as_raw_fd());
    Path::new(&folder).join(name)
}

/// A process with a file open, and one way of locking.
struct Locker {
    process: Process,
    fd: i32,
    how: i32,
}

impl Locker {
    fn new(path: &Path, how: i32) -> Locker {
        let process = Process::new();
        let fd = process.open(path);
        Locker { process, fd, how }
    }

    /// Locks all of it, shared or exclusive, or unlocks it; the error if that fails.
    fn begin(&self, kind: i32, waits: bool) {
        let (command, kind) = match (self.how, kind) {
            (0, F_UNLCK) => (0, LOCK_UN),
            (0, kind) => {
                let kind = if kind == F_RDLCK { LOCK_SH } else { LOCK_EX };
                (0, if waits { kind } else { kind | LOCK_NB })
            }
            (POSIX, kind) if waits => (POSIX_WAITS, kind),
            (_, kind) if waits => (OFD_WAITS, kind),
            (how, kind) => (how, kind),
        };
        self.process.begin(self.fd, command, kind, ALL);
    }

    fn lock(&self, kind: i32) -> i32 {
        self.begin(kind, false);
        self.process.answer().result
    }
}

fn waiting(mounted: &Mounted, count: usize) {
    until("they wait", || mounted.tree.locks.waiting_count() == count);
}

#[test]
fn whoever_has_a_lock_keeps_the_others_out_above_and_below() {
    for mounted in both() {
        for how in [0, POSIX, OFD] {
            let (above, below) = (mounted.mount.join("f"), past(&mounted, "f"));
            for (one, other) in [(&above, &below), (&below, &above), (&above, &above)] {
                let (one, other) = (Locker::new(one, how), Locker::new(other, how));
                assert_eq!(one.lock(F_WRLCK), 0);
                assert_eq!(other.lock(F_WRLCK), -libc::EAGAIN, "{how}");
                assert_eq!(other.lock(F_RDLCK), -libc::EAGAIN, "{how}");
                assert_eq!(one.lock(F_RDLCK), 0, "it becomes shared");
                assert_eq!(other.lock(F_RDLCK), 0, "{how}");
                assert_eq!(one.lock(F_WRLCK), -libc::EAGAIN, "{how}");
                assert_eq!(other.lock(F_UNLCK), 0);
                assert_eq!(one.lock(F_WRLCK), 0, "it becomes exclusive");
                // Those who wait get it when it goes, whoever has it.
                other.begin(F_WRLCK, true);
                if other.process.has_answered(20) {
                    panic!("two have it: {how}");
                }
                assert_eq!(one.lock(F_UNLCK), 0);
                assert_eq!(other.process.answer().result, 0);
                assert_eq!(one.lock(F_RDLCK), -libc::EAGAIN, "{how}");
                // A process that is killed has no locks.
                one.begin(F_RDLCK, true);
                other.process.end();
                assert_eq!(one.process.answer().result, 0);
                // The kernel releases the file of a process after its end, without waiting: a lock
                // that is left to it could meet the next two.
                assert_eq!(one.lock(F_UNLCK), 0);
            }
        }
        assert_eq!(mounted.tree.locks.waiting_count(), 0);
    }
}

#[test]
fn who_has_a_range_is_told_with_its_process() {
    for mounted in both() {
        let (above, below) = (mounted.mount.join("f"), past(&mounted, "f"));
        let one = Locker::new(&above, POSIX);
        let range = |locker: &Locker, kind, range| {
            locker.process.lock(locker.fd, POSIX, kind, range).result
        };
        assert_eq!(range(&one, F_WRLCK, (10, 10)), 0);
        assert_eq!(range(&one, F_RDLCK, (40, 0)), 0);
        for path in [&above, &below] {
            let other = Locker::new(path, POSIX);
            let ask = |kind, range| other.process.lock(other.fd, libc::F_GETLK, kind, range);
            let found = ask(F_RDLCK, (0, 0));
            assert_eq!((found.kind, found.start, found.len), (F_WRLCK, 10, 10));
            if path == &above {
                assert_eq!(found.pid, one.process.pid);
            }
            assert_eq!(ask(F_RDLCK, (20, 100)).kind, F_UNLCK);
            let found = ask(F_WRLCK, (20, 100));
            assert_eq!((found.kind, found.start, found.len), (F_RDLCK, 40, 0));
            assert_eq!(range(&other, F_WRLCK, (0, 11)), -libc::EAGAIN);
            assert_eq!(range(&other, F_WRLCK, (0, 10)), 0);
            assert_eq!(range(&other, F_RDLCK, (50, 1)), 0);
        }
        let other = Locker::new(&below, POSIX);
        assert_eq!(range(&other, F_WRLCK, (20, 5)), 0);
        let found = one.process.lock(one.fd, libc::F_GETLK, F_WRLCK, (0, 30));
        assert_eq!((found.kind, found.start, found.len), (F_WRLCK, 20, 5));
        assert_eq!(found.pid, other.process.pid, "also of one past the mount");
    }
}

#[test]
fn closing_takes_what_it_takes_elsewhere() {
    for mounted in both() {
        let path = mounted.mount.join("f");
        let (one, other) = (Process::new(), Process::new());
        let (fd, second) = (one.open(&path), one.open_as(&path, libc::O_RDONLY));
        let foreign = other.open(&past(&mounted, "f"));
        let try_it = |how, fd| {
            let result =
                other.lock(fd, how, if how == 0 { LOCK_EX | LOCK_NB } else { F_WRLCK }, ALL);
            if result.result == 0 {
                let unlocked = other.lock(fd, how, if how == 0 { LOCK_UN } else { F_UNLCK }, ALL);
                assert_eq!(unlocked.result, 0);
            }
            result.result
        };
        // Any descriptor of the file, for a process.
        assert_eq!(one.lock(fd, POSIX, F_WRLCK, (5, 5)).result, 0);
        assert_eq!(try_it(POSIX, foreign), -libc::EAGAIN);
        one.close(second);
        assert_eq!(try_it(POSIX, foreign), 0);
        // A child has none of its locks, and its end takes none.
        assert_eq!(one.lock(fd, POSIX, F_RDLCK, (5, 5)).result, 0);
        end(one.fork());
        assert_eq!(try_it(POSIX, foreign), -libc::EAGAIN);
        assert_eq!(one.lock(fd, POSIX, F_UNLCK, ALL).result, 0);
        // The last descriptor, also that of a child, for an open file.
        let above = other.open(&path);
        for how in [0, OFD] {
            let fd = one.open(&path);
            let again = one.dup(fd);
            let kind = if how == 0 { LOCK_SH } else { F_RDLCK };
            assert_eq!(one.lock(fd, how, kind, ALL).result, 0);
            one.close(fd);
            assert_eq!(try_it(how, above), -libc::EAGAIN);
            let child = one.fork();
            one.close(again);
            assert_eq!(try_it(how, foreign), -libc::EAGAIN);
            one.signal(0);
            // The child is a child of the other process: it is gone when its lock is.
            // SAFETY: it was forked by our own child.
            unsafe { libc::kill(child, libc::SIGKILL) };
            until("its lock goes with it", || try_it(how, foreign) == 0);
            assert_eq!(try_it(how, above), 0);
        }
        // Closing is over when `close` returns, for one who does not wait.
        for how in [0, OFD].into_iter().cycle().take(40) {
            let fd = one.open(&path);
            let kind = if how == 0 { LOCK_EX } else { F_WRLCK };
            assert_eq!(one.lock(fd, how, kind, ALL).result, 0);
            one.close(fd);
            assert_eq!(try_it(how, above), 0);
        }
    }
}

#[test]
fn a_ring_of_those_who_wait_is_a_deadlock() {
    for mounted in both() {
        let (one, other) = (mounted.mount.join("one"), mounted.mount.join("other"));
        let all: Vec<Process> = (0..3).map(|_| Process::new()).collect();
        let open = |process: &Process| (process.open(&one), process.open(&other));
        let fds: Vec<(i32, i32)> = all.iter().map(open).collect();
        let lock = |who: usize, fd, range| all[who].lock(fd, POSIX, F_WRLCK, range).result;
        assert_eq!(lock(0, fds[0].0, (0, 1)), 0);
        assert_eq!(lock(1, fds[1].0, (1, 1)), 0);
        assert_eq!(lock(2, fds[2].1, (0, 1)), 0);
        all[0].begin(fds[0].0, POSIX_WAITS, F_WRLCK, (1, 1));
        waiting(&mounted, 1);
        all[1].begin(fds[1].1, POSIX_WAITS, F_RDLCK, (0, 1));
        waiting(&mounted, 2);
        let last = all[2].lock(fds[2].0, POSIX_WAITS, F_WRLCK, (0, 1));
        assert_eq!(last.result, -libc::EDEADLK);
        // It goes on in order when that one gives up.
        assert_eq!(all[2].lock(fds[2].1, POSIX, F_UNLCK, ALL).result, 0);
        assert_eq!(all[1].answer().result, 0);
        assert_eq!(all[1].lock(fds[1].0, POSIX, F_UNLCK, ALL).result, 0);
        assert_eq!(all[0].answer().result, 0);
    }
}

#[test]
fn who_is_interrupted_waits_no_more_and_has_nothing() {
    for mounted in both() {
        for how in [0, POSIX, OFD] {
            let holders = [mounted.mount.join("f"), past(&mounted, "f")];
            for holder in holders.map(|path| Locker::new(&path, how)) {
                let (one, last) = (
                    Locker::new(&mounted.mount.join("f"), how),
                    Locker::new(&mounted.mount.join("f"), how),
                );
                assert_eq!(holder.lock(F_WRLCK), 0);
                one.begin(F_WRLCK, true);
                waiting(&mounted, 1);
                one.process.signal(libc::SIGUSR1);
                assert_eq!(one.process.answer().result, -libc::EINTR);
                waiting(&mounted, 0);
                one.begin(F_RDLCK, true);
                waiting(&mounted, 1);
                one.process.end();
                waiting(&mounted, 0);
                assert_eq!(holder.lock(F_UNLCK), 0);
                assert_eq!(last.lock(F_WRLCK), 0);
            }
        }
    }
}

#[test]
fn those_who_wait_keep_nobody_from_reading() {
    const STRANGER: u32 = 1001;
    const COUNT: usize = 200;
    for mounted in both() {
        let path = mounted.mount.join("f");
        std::fs::write(&path, "text").unwrap();
        let anybody = std::os::unix::fs::PermissionsExt::from_mode(0o666);
        std::fs::set_permissions(&path, anybody).unwrap();
        let holder = Locker::new(&past(&mounted, "f"), POSIX);
        assert_eq!(holder.lock(F_WRLCK), 0);
        let whole = Locker::new(&path, 0);
        assert_eq!(whole.lock(F_WRLCK), 0);
        let lockers: Vec<Process> = (0..COUNT).map(|_| Process::of(STRANGER)).collect();
        let fds: Vec<i32> = lockers.iter().map(|one| one.open_as(&path, libc::O_RDWR)).collect();
        for (number, (one, fd)) in lockers.iter().zip(&fds).enumerate() {
            match number % 2 {
                0 => one.begin(*fd, POSIX_WAITS, F_RDLCK, (number as i64, 1)),
                _ => one.begin(*fd, 0, LOCK_SH, ALL),
            }
        }
        waiting(&mounted, COUNT);
        for reader in [Process::of(STRANGER), Process::of(1002), Process::new()] {
            let fd = reader.open_as(&path, libc::O_RDONLY);
            assert_eq!(reader.read(fd), 1);
            reader.close(fd);
        }
        assert_eq!(holder.lock(F_UNLCK), 0);
        assert_eq!(whole.lock(F_UNLCK), 0);
        lockers.iter().for_each(|one| assert_eq!(one.answer().result, 0));
    }
}

#[test]
fn changes_past_the_mount_are_seen_with_the_next_lock() {
    let Some(mounted) = Mounted::elsewhere() else { return };
    let (above, below) = (mounted.mount.join("f"), mounted.below.join("f"));
    let journal = (mounted.mount.join("f-journal"), mounted.below.join("f-journal"));
    std::fs::write(&below, "old.").unwrap();
    let file = std::fs::File::options().read(true).write(true).open(&above).unwrap();
    let text = || {
        let mut data = [0; 16];
        let len = std::os::unix::fs::FileExt::read_at(&file, &mut data, 0).unwrap();
        String::from_utf8_lossy(&data[..len]).into_owned()
    };
    let operations = [
        (rustix::fs::FlockOperation::LockShared, 0),
        (rustix::fs::FlockOperation::LockExclusive, 1),
        (rustix::fs::FlockOperation::LockShared, 2),
    ];
    for (operation, round) in operations {
        // All of it is in the kernel's memory now.
        let before = text();
        assert_eq!(file.metadata().unwrap().len(), before.len() as u64);
        std::fs::write(&journal.1, "").unwrap();
        assert!(journal.0.exists());
        std::fs::remove_file(&journal.1).unwrap();
        let after = "x".repeat(4 + round);
        std::fs::write(&below, &after).unwrap();
        rustix::fs::flock(&file, operation).unwrap();
        assert_eq!((text(), file.metadata().unwrap().len()), (after.clone(), after.len() as u64));
        let is_there = journal.0.exists();
        let knows_epochs = mounted.session.as_ref().unwrap().notifier().inc_epoch().is_ok();
        assert!(!is_there || !knows_epochs, "a name that is gone below");
        if !knows_epochs {
            println!("skipped: names, before Linux 6.16");
        }
        rustix::fs::flock(&file, rustix::fs::FlockOperation::Unlock).unwrap();
    }
    // The same with opening it.
    std::fs::write(&below, "longer than before").unwrap();
    let again = std::fs::File::open(&above).unwrap();
    assert_eq!(again.metadata().unwrap().len(), 18);
    assert_eq!(std::io::read_to_string(again).unwrap(), "longer than before");
}
