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

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError, RwLock};

const RANGES: &str = "/etc/subuid";
const USERS: &str = "/etc/passwd";

/// More is not read of either: some hundred thousand users.
const BYTES_MAX: u64 = 16 << 20;

/// Numbers that one container has by custom.
const PIECE: u32 = 65_536;

const ROOT: u32 = 0;

/// The first number that is subordinate: all below share with nobody.
static FIRST: AtomicU32 = AtomicU32::new(u32::MAX);
static KNOWN: RwLock<Subordinates> = RwLock::new(Subordinates::none());
/// What was read last, by which a change is seen.
static SEEN: Mutex<Option<[Stamp; 2]>> = Mutex::new(None);

/// Device, inode, size and time of the last change; `None` of a file that is not there, or that
/// others than root may write.
type Stamp = Option<(u64, u64, u64, i64, i64)>;

/// The user whose share this one's requests count in.
pub fn share_of(uid: u32) -> u32 {
    if uid < FIRST.load(Relaxed) {
        return uid;
    }
    KNOWN.read().unwrap_or_else(PoisonError::into_inner).share_of(uid)
}

/// Reads the files if they have changed. Whoever starts a thread does so: nobody gets more threads
/// than one may have without that.
pub fn look_again() {
    let mut seen = SEEN.lock().unwrap_or_else(PoisonError::into_inner);
    let now = [stamp(RANGES), stamp(USERS)];
    if *seen == Some(now) {
        return;
    }
    *seen = Some(now);
    let text = |path, stamp: Stamp| stamp.map_or_else(String::new, |_| read(path));
    let found = Subordinates::parse(&text(RANGES, now[0]), &text(USERS, now[1]));
    let first = found.ranges.first().map_or(u32::MAX, |range| range.first);
    *KNOWN.write().unwrap_or_else(PoisonError::into_inner) = found;
    FIRST.store(first, Relaxed);
}

fn stamp(path: &str) -> Stamp {
    let file = fs::metadata(path).ok()?;
    let is_roots = file.is_file() && file.uid() == ROOT && file.mode() & 0o022 == 0;
    let of = (file.dev(), file.ino(), file.size(), file.ctime(), file.ctime_nsec());
    is_roots.then_some(of)
}

fn read(path: &str) -> String {
    let mut bytes = Vec::new();
    let done = File::open(path).and_then(|file| file.take(BYTES_MAX).read_to_end(&mut bytes));
    if let Err(error) = done {
        tracing::warn!(%error, path, "subordinate numbers of users are not known");
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[derive(Debug)]
struct Range {
    first: u32,
    last: u32,
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
            Some(Range { first, last, user: user.filter(|user| *user != ROOT && name != "root") })
        };
        let mut ranges: Vec<Range> = ranges.lines().filter_map(range).collect();
        ranges.sort_by_key(|range| range.first);
        let mut users: Vec<u32> = names.into_values().collect();
        users.sort_unstable();
        Subordinates { ranges, users }
    }

    pub(crate) fn share_of(&self, uid: u32) -> u32 {
        let before = self.ranges.partition_point(|range| range.first <= uid);
        let range = self.ranges[..before].iter().rev().find(|range| uid <= range.last);
        match range {
            Some(range) if self.users.binary_search(&uid).is_err() => {
                range.user.unwrap_or_else(|| uid - (uid - range.first) % PIECE)
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
        assert!(SEEN.lock().expect("whole").is_some());
    }
}
