//! Memory that programs share by a file, as SQLite's index of a write-ahead log: one side has it.

use super::{ALL, Locker, OFD, POSIX, POSIX_WAITS, both, past};
use crate::fuse::tree::tests::Mounted;
use libc::{F_RDLCK, F_UNLCK, F_WRLCK};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// The byte that SQLite locks while it has its index mapped.
const BYTE: (i64, i64) = (128, 1);

fn index(mounted: &Mounted, name: &str) -> (PathBuf, PathBuf) {
    (mounted.mount.join(name), past(mounted, name))
}

/// A process that shares the index, or would like to.
struct User(Locker);

impl User {
    fn new(path: &Path) -> User {
        User(Locker::new(path, POSIX))
    }

    fn reader(path: &Path) -> User {
        let mut one = User::new(path);
        one.0.fd = one.0.process.open_as(path, libc::O_RDONLY);
        one
    }

    fn set(&self, kind: i32, range: (i64, i64)) -> i32 {
        self.0.process.lock(self.0.fd, POSIX, kind, range).result
    }

    fn byte(&self, kind: i32) -> i32 {
        self.set(kind, BYTE)
    }

    /// The lock that is in the way of an exclusive one, and the process that has it.
    fn in_the_way(&self, range: (i64, i64)) -> (i32, i32) {
        let found = self.0.process.lock(self.0.fd, libc::F_GETLK, F_WRLCK, range);
        assert_eq!(found.result, 0);
        (found.kind, if found.kind == F_UNLCK { 0 } else { found.pid })
    }

    fn pid(&self) -> i32 {
        self.0.process.pid
    }

    fn end(self) {
        self.0.process.end();
    }
}

#[test]
fn programs_above_share_an_index_and_those_below_are_kept_out() {
    for mounted in both() {
        let (above, below) = index(&mounted, "db-shm");
        let (one, two, other) = (User::new(&above), User::new(&above), User::new(&below));
        assert_eq!(one.in_the_way(BYTE).0, F_UNLCK);
        assert_eq!(one.byte(F_WRLCK), 0);
        assert_eq!(two.in_the_way(BYTE), (F_WRLCK, one.pid()));
        assert_eq!(two.byte(F_RDLCK), -libc::EAGAIN);
        assert_eq!(one.byte(F_RDLCK), 0);
        assert_eq!(two.in_the_way(BYTE), (F_RDLCK, one.pid()));
        assert_eq!(two.byte(F_RDLCK), 0);
        assert_eq!(one.in_the_way(BYTE), (F_RDLCK, two.pid()));
        for kind in [F_RDLCK, F_WRLCK] {
            assert_eq!(other.byte(kind), -libc::EAGAIN);
            assert_eq!(other.in_the_way(BYTE).0, F_WRLCK);
        }
        // The other bytes are as ever, with the neighbour that is of the same kind.
        assert_eq!(one.set(F_WRLCK, (120, 1)), 0);
        assert_eq!(one.set(F_RDLCK, (127, 1)), 0);
        assert_eq!(two.set(F_WRLCK, (120, 1)), -libc::EAGAIN);
        assert_eq!(other.set(F_RDLCK, (120, 1)), -libc::EAGAIN);
        assert_eq!(other.set(F_RDLCK, (127, 1)), 0);
        assert_eq!(two.in_the_way((100, 100)), (F_WRLCK, one.pid()));
        assert_eq!(one.set(F_WRLCK, (127, 1)), -libc::EAGAIN);
        assert_eq!(other.set(F_UNLCK, (127, 1)), 0);
        assert_eq!(one.in_the_way((129, 100)).0, F_UNLCK);
        assert_eq!(two.set(F_RDLCK, ALL), -libc::EAGAIN, "120 is another's");
        assert_eq!(one.set(F_RDLCK, (120, 1)), 0);
        assert_eq!(two.set(F_RDLCK, ALL), -libc::ENOLCK, "a part is the guard's");
        // It is theirs until the last one has left, however that one goes.
        one.end();
        assert_eq!(other.byte(F_RDLCK), -libc::EAGAIN);
        two.0.process.close(two.0.fd);
        assert_eq!(other.byte(F_WRLCK), 0);
        assert_eq!(other.byte(F_UNLCK), 0);
        let last = User::new(&above);
        for how in [POSIX, OFD] {
            assert_eq!(last.0.process.lock(last.0.fd, how, F_RDLCK, BYTE).result, 0);
            assert_eq!(other.byte(F_RDLCK), -libc::EAGAIN);
            assert_eq!(last.0.process.lock(last.0.fd, how, F_UNLCK, ALL).result, 0);
            assert_eq!(other.byte(F_RDLCK), 0);
            assert_eq!(other.byte(F_UNLCK), 0);
        }
        // A file of another name is no index.
        let (above, below) = index(&mounted, "db-shn");
        let (one, other) = (User::new(&above), User::new(&below));
        assert_eq!((one.byte(F_RDLCK), other.byte(F_RDLCK)), (0, 0));
    }
}

#[test]
fn a_table_of_readers_is_for_one_side_and_who_waits_gets_it() {
    const FIRST: (i64, i64) = (0, 1);
    for mounted in both() {
        std::fs::create_dir(mounted.mount.join("env")).unwrap();
        for name in ["env/lock.mdb", "one.mdb-lock"] {
            let (above, below) = index(&mounted, name);
            let (one, two) = (User::new(&above), User::new(&above));
            let other = User::new(&below);
            // The first one has it alone for a moment, to make it; further ones take their part.
            assert_eq!(one.set(F_WRLCK, FIRST), 0);
            assert_eq!(two.set(F_WRLCK, FIRST), -libc::EAGAIN);
            assert_eq!((one.set(F_RDLCK, FIRST), two.set(F_RDLCK, FIRST)), (0, 0));
            assert_eq!(other.set(F_WRLCK, FIRST), -libc::EAGAIN);
            other.0.process.begin(other.0.fd, POSIX_WAITS, F_RDLCK, FIRST);
            // Each has a byte of its own as well, which is as ever.
            assert_eq!((one.set(F_WRLCK, (7, 1)), two.set(F_WRLCK, (8, 1))), (0, 0));
            one.end();
            assert!(!other.0.process.has_answered(200));
            two.end();
            assert_eq!(other.0.process.answer().result, 0);
            let late = User::new(&above);
            assert_eq!(late.set(F_RDLCK, FIRST), -libc::EAGAIN);
            other.end();
            assert_eq!(late.set(F_WRLCK, FIRST), 0);
        }
        let (above, below) = index(&mounted, "env/lock.mdc");
        let (one, other) = (User::new(&above), User::new(&below));
        assert_eq!((one.set(F_RDLCK, FIRST), other.set(F_RDLCK, FIRST)), (0, 0));
    }
}

#[test]
fn an_index_that_is_shared_below_is_refused_above() {
    for mounted in both() {
        let (above, below) = index(&mounted, "db-shm");
        let (one, two, other) = (User::new(&above), User::new(&below), User::new(&below));
        assert_eq!((two.byte(F_RDLCK), other.byte(F_RDLCK)), (0, 0));
        assert_eq!(one.in_the_way(BYTE).0, F_RDLCK);
        for kind in [F_RDLCK, F_WRLCK] {
            assert_eq!(one.byte(kind), -libc::EAGAIN);
        }
        assert_eq!(two.byte(F_WRLCK), -libc::EAGAIN, "nothing is left of that");
        let is_said = || {
            let files = mounted.tree.files.lock();
            files.iter().all(|(_, file)| file.inode.locks.is_refusal_said())
        };
        assert!(is_said(), "the first refusal");
        // Whoever waits gets it when the last one has left.
        one.0.process.begin(one.0.fd, POSIX_WAITS, F_RDLCK, BYTE);
        super::waiting(&mounted, 1);
        two.end();
        assert!(!one.0.process.has_answered(200));
        other.end();
        assert_eq!(one.0.process.answer().result, 0);
        assert!(!is_said());
        assert_eq!(User::new(&below).byte(F_RDLCK), -libc::EAGAIN);
    }
}

#[test]
fn a_reader_of_an_index_keeps_nobody_out() {
    for mounted in both() {
        let (above, below) = index(&mounted, "db-shm");
        let (writer, reader) = (User::new(&above), User::reader(&above));
        let other = User::new(&below);
        // It would not see what those below write there.
        assert_eq!(other.byte(F_RDLCK), 0);
        assert_eq!(reader.byte(F_RDLCK), -libc::EAGAIN);
        assert_eq!(other.byte(F_UNLCK), 0);
        assert_eq!((writer.byte(F_RDLCK), reader.byte(F_RDLCK)), (0, 0));
        assert_eq!(other.byte(F_RDLCK), -libc::EAGAIN);
        assert_eq!(writer.byte(F_UNLCK), 0);
        assert_eq!(other.byte(F_WRLCK), -libc::EAGAIN);
        assert_eq!(other.byte(F_RDLCK), 0);
        assert_eq!(writer.byte(F_RDLCK), -libc::EAGAIN);
        other.end();
        assert_eq!(writer.byte(F_RDLCK), 0);
        assert_eq!(User::new(&below).byte(F_RDLCK), -libc::EAGAIN);
    }
}

#[test]
fn the_database_of_an_index_is_asked_for_anew() {
    let Some(mounted) = Mounted::elsewhere() else { return };
    let names = ["db", "db-wal"];
    let mut kept = Vec::new();
    for name in names {
        std::fs::write(mounted.below.join(name), "old").unwrap();
        let file = std::fs::File::open(mounted.mount.join(name)).unwrap();
        assert_eq!(std::io::read_to_string(&file).unwrap(), "old");
        kept.push(file);
    }
    // From here on the kernel above has data and attributes, for a second at least.
    let one = User::new(&mounted.mount.join("db-shm"));
    let before = kept.iter().map(|file| file.metadata().unwrap().len()).collect::<Vec<_>>();
    assert_eq!(before, [3, 3]);
    for name in names {
        std::fs::write(mounted.below.join(name), "longer").unwrap();
    }
    assert_eq!(one.byte(F_WRLCK), 0);
    for file in &kept {
        assert_eq!(file.metadata().unwrap().len(), 6);
        let mut data = [0; 16];
        let len = file.read_at(&mut data, 0).unwrap();
        assert_eq!(&data[..len], b"longer");
    }
}
