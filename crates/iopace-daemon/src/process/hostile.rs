//! What users write into the kernel's tables of processes, see [`crate::fuzzing`].

use super::Stat;
use super::credentials::{Credentials, Namespace, parse_map};
use super::hierarchy::{Hierarchy, Mounted};

/// A text as each of the tables: nothing leads out of a hierarchy, and names can be printed.
pub(crate) fn processes(text: &[u8]) {
    let mounted = Mounted::parse(text);
    let text = String::from_utf8_lossy(text);
    for path in text.lines().chain(["/", "/a/b", "/../a"]) {
        for hierarchy in [Hierarchy::Unified, Hierarchy::Systemd, Hierarchy::Blkio] {
            if let Some(found) = mounted.directory(hierarchy, path) {
                assert!(mounted.holds(&found), "{hierarchy:?} {path}: {found:?}");
            }
        }
    }
    for line in text.lines() {
        if let Some(stat) = Stat::parse(line) {
            assert!(!stat.comm.chars().any(char::is_control), "{:?}", stat.comm);
        }
    }
    let _ = Credentials::parse(&text);
    let users = parse_map(&text);
    for &(first, count) in &users {
        let space = Namespace { users: users.clone(), groups: users.clone() };
        assert!(count == 0 || space.maps(first, first));
    }
}
