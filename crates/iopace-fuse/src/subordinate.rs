//! Subordinate numbers of users, which share what the user himself may have.
//!
//! `/etc/subuid` gives a user numbers for his containers, 65,536 as a rule. With them he would be
//! as many users, each with threads and queues of his own.
//!
//! # Rules
//!
//! 1. A number in a range shares with the user who has the range, by name or by number.
//! 2. Root hands its ranges out to containers of the whole system, in pieces of 65,536 by custom:
//!    each piece is one user, named by its first number. So is a piece of a range whose user is not
//!    in `/etc/passwd`.
//! 3. A number that `/etc/passwd` has is a user of its own.
//!
//! # Limits
//!
//! Ranges that come from elsewhere (`subid:` in `nsswitch.conf`) are not known: asking may block.

use rustix::fs::{AtFlags, FileType, Mode, OFlags};
use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Mutex, OnceLock, PoisonError, RwLock};
use std::thread;
use std::time::Duration;

const RANGES: &str = "subuid";
const USERS: &str = "passwd";

/// More is not read of either: some hundred thousand users.
const BYTES_MAX: u64 = 16 << 20;

/// Numbers that one container has by custom.
const PIECE: u32 = 65_536;

const ROOT: u32 = 0;

/// How often the files are looked at while nobody starts a thread: two `stat` each time.
const LOOK_EVERY: Duration = Duration::from_secs(5);

static SYSTEM: Source = Source::new("/etc");

/// Device, inode, size and time of the last change; `None` of a file that is not there, or that
/// others than root may write.
type Stamp = Option<(u64, u64, i64, (i64, u64))>;

/// The user whose share this one's requests count in.
pub fn share_of(uid: u32) -> u32 {
    SYSTEM.share_of(uid)
}

/// Reads the files if they have changed. Whoever starts a thread does so: nobody gets more threads
/// than one may have without that.
pub fn look_again() {
    SYSTEM.look_again();
}

/// Reads the files from now on when they have changed, within some seconds.
///
/// # Errors
/// The system gives no thread.
pub fn watch() -> io::Result<Watch> {
    Watch::start(&SYSTEM, LOOK_EVERY)
}

/// A thread that looks at the files as long as this is there. They may lie on a file system that
/// does not answer, for which no other thread is to wait.
#[derive(Debug)]
pub struct Watch {
    /// Closed when it goes.
    _end: mpsc::SyncSender<()>,
}

impl Watch {
    fn start(source: &'static Source, every: Duration) -> io::Result<Watch> {
        let (end, ended) = mpsc::sync_channel(0);
        thread::Builder::new().name("subuid".into()).spawn(move || {
            while ended.recv_timeout(every) == Err(RecvTimeoutError::Timeout) {
                source.look_again();
            }
        })?;
        Ok(Watch { _end: end })
    }
}

/// Both files in a folder, and what was found in them.
#[derive(Debug)]
struct Source {
    path: &'static str,
    /// The folder as it was when it was looked at first: a mount over it would have to answer what
    /// it needs to begin.
    folder: OnceLock<rustix::io::Result<OwnedFd>>,
    /// The first number that is subordinate: all below share with nobody.
    first: AtomicU32,
    known: RwLock<Subordinates>,
    /// What was read last, by which a change is seen.
    seen: Mutex<Option<[Stamp; 2]>>,
    /// That they cannot be read was said.
    is_said: AtomicBool,
}

impl Source {
    const fn new(path: &'static str) -> Source {
        Source {
            path,
            folder: OnceLock::new(),
            first: AtomicU32::new(u32::MAX),
            known: RwLock::new(Subordinates::none()),
            seen: Mutex::new(None),
            is_said: AtomicBool::new(false),
        }
    }

    fn folder(&self) -> Result<&OwnedFd, rustix::io::Errno> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let open = || rustix::fs::open(self.path, flags, Mode::empty());
        self.folder.get_or_init(open).as_ref().map_err(|errno| *errno)
    }

    fn share_of(&self, uid: u32) -> u32 {
        if uid < self.first.load(Relaxed) {
            return uid;
        }
        self.known.read().unwrap_or_else(PoisonError::into_inner).share_of(uid)
    }

    fn look_again(&self) {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let now = [self.stamp(RANGES), self.stamp(USERS)];
        if *seen == Some(now) {
            return;
        }
        let text =
            |name, stamp: Stamp| stamp.map_or_else(|| Ok(String::new()), |_| self.read(name));
        let (ranges, users) = match (text(RANGES, now[0]), text(USERS, now[1])) {
            (Ok(ranges), Ok(users)) => (ranges, users),
            (Err(error), _) | (_, Err(error)) => {
                if !self.is_said.swap(true, Relaxed) {
                    let kept = "kept as they were read before";
                    tracing::warn!(%error, "/etc/subuid or /etc/passwd: {kept}");
                }
                return;
            }
        };
        self.is_said.store(false, Relaxed);
        *seen = Some(now);
        let found = Subordinates::parse(&ranges, &users);
        let first = found.ranges.first().map_or(u32::MAX, |range| range.first);
        *self.known.write().unwrap_or_else(PoisonError::into_inner) = found;
        self.first.store(first, Relaxed);
    }

    fn stamp(&self, name: &str) -> Stamp {
        let file = rustix::fs::statat(self.folder().ok()?, name, AtFlags::empty()).ok()?;
        let is_file = FileType::from_raw_mode(file.st_mode) == FileType::RegularFile;
        let is_roots = is_file && file.st_uid == ROOT && file.st_mode & 0o022 == 0;
        let changed = (file.st_ctime, file.st_ctime_nsec);
        is_roots.then_some((file.st_dev, file.st_ino, file.st_size, changed))
    }

    fn read(&self, name: &str) -> io::Result<String> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        let file = rustix::fs::openat(self.folder()?, name, flags, Mode::empty())?;
        let mut bytes = Vec::new();
        File::from(file).take(BYTES_MAX).read_to_end(&mut bytes)?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }
}

#[derive(Debug)]
struct Range {
    first: u32,
    last: u32,
    /// The last number of this range and all before it.
    most_last: u32,
    /// The user who has it; none if it counts in pieces.
    user: Option<u32>,
}

#[derive(Debug)]
pub(crate) struct Subordinates {
    /// By their first number.
    ranges: Vec<Range>,
    /// All that `/etc/passwd` has, in order.
    users: Vec<u32>,
}

impl Subordinates {
    const fn none() -> Subordinates {
        Subordinates { ranges: Vec::new(), users: Vec::new() }
    }

    /// From the texts of both files. Lines that cannot be understood count for nothing.
    pub(crate) fn parse(ranges: &str, users: &str) -> Subordinates {
        let user = |line: &str| {
            let mut words = line.split(':').map(str::to_owned);
            Some((words.next()?, words.nth(1)?.parse::<u32>().ok()?))
        };
        let names: HashMap<String, u32> = users.lines().filter_map(user).collect();
        let range = |line: &str| {
            let mut words = line.trim().split(':');
            let (name, first) = (words.next()?, words.next()?.parse::<u32>().ok()?);
            let count = words.next()?.parse::<u32>().ok()?;
            let last = first.saturating_add(count.checked_sub(1)?);
            let user = names.get(name).copied().or_else(|| name.parse().ok());
            Some(Range {
                first,
                last,
                most_last: last,
                user: user.filter(|user| *user != ROOT && name != "root"),
            })
        };
        let mut ranges: Vec<Range> = ranges.lines().filter_map(range).collect();
        ranges.sort_by_key(|range| range.first);
        let mut most_last = 0;
        for range in &mut ranges {
            most_last = most_last.max(range.last);
            range.most_last = most_last;
        }
        let mut users: Vec<u32> = names.into_values().collect();
        users.sort_unstable();
        Subordinates { ranges, users }
    }

    pub(crate) fn share_of(&self, uid: u32) -> u32 {
        let before = self.ranges.partition_point(|range| range.first <= uid);
        let mut near = self.ranges[..before].iter().rev().take_while(|one| uid <= one.most_last);
        let range = near.find(|range| uid <= range.last);
        match range {
            Some(range) if self.users.binary_search(&uid).is_err() => {
                // Nobody shares with root.
                range.user.unwrap_or_else(|| (uid - (uid - range.first) % PIECE).max(ROOT + 1))
            }
            _ => uid,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_shares_with_the_user_who_has_it() {
        let users = "root:x:0:0::/root:/bin/sh\nanna:x:1001:1001::/:/bin/sh\nodd\n\
                     ben:x:1002:1:::\nlate:x:231073:1:::\n";
        let ranges = "anna:165536:65536\n1002:231072:65536\nroot:1000:1\nroot:1000000:1000000000\n\
                      ldap:300000:131072\n# none\nanna:x:1\nanna:400000:0\nanna:4294967000:65536\n\
                      ben:2000000:10\n";
        let known = Subordinates::parse(ranges, users);
        let expected = [
            // Himself, and what he has been given.
            (1001, 1001),
            (165_535, 165_535),
            (165_536, 1001),
            (231_071, 1001),
            (u32::MAX, 1001),
            // By number, and one of them that is a user of its own.
            (231_072, 1002),
            (231_073, 231_073),
            (296_608, 296_608),
            // In pieces: of root, and of a user who is not known here.
            (1000, 1000),
            (1_000_001, 1_000_000),
            (1_065_537, 1_065_536),
            (300_001, 300_000),
            (365_536, 365_536),
            (400_000, 365_536),
            // A range within another one.
            (2_000_009, 1002),
            (2_000_010, 1_983_040),
            (0, 0),
        ];
        for (uid, share) in expected {
            assert_eq!(known.share_of(uid), share, "{uid}");
        }
        let none = Subordinates::parse("", "");
        assert_eq!((none.share_of(0), none.share_of(165_536)), (0, 165_536));
    }

    #[test]
    fn what_this_machine_says_is_read_once() {
        look_again();
        look_again();
        assert_eq!(share_of(ROOT), ROOT);
        assert!(SYSTEM.seen.lock().expect("whole").is_some());
    }

    #[test]
    fn a_change_is_seen_though_nobody_starts_a_thread() {
        if !rustix::process::geteuid().is_root() {
            return println!("skipped: only files of root count");
        }
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().to_str().expect("text").to_owned();
        let source: &Source = Box::leak(Box::new(Source::new(path.leak())));
        let watch = Watch::start(source, Duration::from_millis(1)).expect("a thread");
        let set = |name: &str, text: &str| {
            std::fs::write(folder.path().join("new"), text).expect("written");
            std::fs::rename(folder.path().join("new"), folder.path().join(name)).expect("named");
        };
        set("passwd", "anna:x:1001:1001::/:/bin/sh\n");
        for (ranges, share) in [("anna:165536:65536\n", 1001), ("anna:300000:9\n", 165_536)] {
            set("subuid", ranges);
            // A test that is slow is ended by its runner.
            while source.share_of(165_536) != share {
                // SLEEP: the pause between two looks at the condition.
                thread::sleep(Duration::from_millis(1));
            }
        }
        drop(watch);
    }
}
