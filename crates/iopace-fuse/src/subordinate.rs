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
use rustix::io::Errno;
use std::collections::HashMap;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Mutex, OnceLock, PoisonError, RwLock};
use std::thread;
use std::time::{Duration, Instant};

const RANGES: &str = "subuid";
const USERS: &str = "passwd";

/// More is not read of either: some hundred thousand users.
const BYTES_MAX: u64 = 16 << 20;

/// Numbers that one container has by custom.
const PIECE: u32 = 65_536;

const ROOT: u32 = 0;

/// How often the files are looked at while nobody starts a thread: two `stat` each time.
const LOOK_EVERY: Duration = Duration::from_secs(5);

static SYSTEM: Source = Source::new("/etc", LOOK_EVERY);

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

/// A file of this name in a folder as it was when it was looked at first: a mount over it would
/// have to answer what it needs to begin. So no link is followed after that.
#[derive(Debug)]
struct Place {
    folder: OwnedFd,
    name: OsString,
}

impl Place {
    /// Where `name` in the folder leads to now.
    fn find(folder: &Path, name: &str) -> io::Result<Place> {
        // A file that is not there may come up here.
        let path = folder.join(name).canonicalize().unwrap_or_else(|_| folder.join(name));
        let (folder, name) = (path.parent().unwrap_or(folder), path.file_name());
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let folder = rustix::fs::open(folder, flags, Mode::empty())?;
        Ok(Place { folder, name: name.unwrap_or_default().to_owned() })
    }

    fn stamp(&self) -> io::Result<Stamp> {
        let flags = AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT;
        let file = match rustix::fs::statat(&self.folder, &self.name, flags) {
            Err(Errno::NOENT) => return Ok(None),
            file => file?,
        };
        if FileType::from_raw_mode(file.st_mode) == FileType::Symlink {
            return Err(io::Error::other("now a symbolic link: restart iopace to follow it"));
        }
        let is_file = FileType::from_raw_mode(file.st_mode) == FileType::RegularFile;
        let is_roots = is_file && file.st_uid == ROOT && file.st_mode & 0o022 == 0;
        let changed = (file.st_ctime, file.st_ctime_nsec);
        Ok(is_roots.then_some((file.st_dev, file.st_ino, file.st_size, changed)))
    }

    fn read(&self) -> io::Result<String> {
        // Something else that came up meanwhile is not waited for.
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
        let file = rustix::fs::openat(&self.folder, &self.name, flags, Mode::empty())?;
        let mut bytes = Vec::new();
        File::from(file).take(BYTES_MAX).read_to_end(&mut bytes)?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }
}

/// What was read last, by which a change is seen.
#[derive(Debug)]
struct Seen {
    stamps: Option<[Stamp; 2]>,
    /// They could not be read, and are not tried again before.
    again: Option<Instant>,
}

/// Both files in a folder, and what was found in them.
#[derive(Debug)]
struct Source {
    path: &'static str,
    /// How long files that cannot be read are left alone.
    pause: Duration,
    places: OnceLock<io::Result<[Place; 2]>>,
    /// The first number that is subordinate: all below share with nobody.
    first: AtomicU32,
    known: RwLock<Subordinates>,
    seen: Mutex<Seen>,
    /// That they cannot be read was said.
    is_said: AtomicBool,
}

impl Source {
    const fn new(path: &'static str, pause: Duration) -> Source {
        Source {
            path,
            pause,
            places: OnceLock::new(),
            first: AtomicU32::new(u32::MAX),
            known: RwLock::new(Subordinates::none()),
            seen: Mutex::new(Seen { stamps: None, again: None }),
            is_said: AtomicBool::new(false),
        }
    }

    fn places(&self) -> io::Result<&[Place; 2]> {
        let find = |name| Place::find(Path::new(self.path), name);
        let found = self.places.get_or_init(|| Ok([find(RANGES)?, find(USERS)?]));
        found.as_ref().map_err(|error| io::Error::new(error.kind(), error.to_string()))
    }

    fn share_of(&self, uid: u32) -> u32 {
        if uid < self.first.load(Relaxed) {
            return uid;
        }
        self.known.read().unwrap_or_else(PoisonError::into_inner).share_of(uid)
    }

    fn look_again(&self) {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if seen.again.is_some_and(|again| Instant::now() < again) {
            return;
        }
        match self.read_changed(&mut seen) {
            Ok(()) => {
                seen.again = None;
                self.is_said.store(false, Relaxed);
            }
            Err(error) => {
                seen.again = Some(Instant::now() + self.pause);
                if !self.is_said.swap(true, Relaxed) {
                    let kept = "kept as they were read before";
                    tracing::warn!(%error, "/etc/subuid or /etc/passwd: {kept}");
                }
            }
        }
    }

    fn read_changed(&self, seen: &mut Seen) -> io::Result<()> {
        let [ranges, users] = self.places()?;
        let now = [ranges.stamp()?, users.stamp()?];
        if seen.stamps == Some(now) {
            return Ok(());
        }
        let text =
            |place: &Place, stamp: Stamp| stamp.map_or_else(|| Ok(String::new()), |_| place.read());
        let found = Subordinates::parse(&text(ranges, now[0])?, &text(users, now[1])?);
        seen.stamps = Some(now);
        let first = found.ranges.first().map_or(u32::MAX, |range| range.first);
        *self.known.write().unwrap_or_else(PoisonError::into_inner) = found;
        self.first.store(first, Relaxed);
        Ok(())
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
mod tests;
