//! The user, groups and user namespace that a thread acts with.

use super::kernel::read;
use std::fs::read_link;
use std::path::PathBuf;
use std::sync::OnceLock;

/// The identity of a thread on file systems, as far as `/proc` says it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Credentials {
    /// Its user for file systems (`fsuid`).
    pub(crate) uid: u32,
    /// Its group for file systems (`fsgid`).
    pub(crate) gid: u32,
    /// Its further groups.
    pub(crate) groups: Vec<u32>,
    /// Its user namespace; `None` if that is ours.
    pub(crate) namespace: Option<Namespace>,
}

/// The users and groups that a user namespace maps, by their numbers in ours.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Namespace {
    pub(super) users: Vec<Range>,
    pub(super) groups: Vec<Range>,
}

/// First number and how many.
pub(super) type Range = (u32, u32);

impl Credentials {
    /// Those of a thread; `None` if it is gone or cannot be seen.
    pub(crate) fn of(thread: u32) -> Option<Credentials> {
        let mut credentials = Credentials::parse(&read(thread, "status")?)?;
        // A namespace that cannot be looked at is taken for another one: that allows less.
        let theirs = read_link(format!("/proc/{thread}/ns/user")).ok();
        if theirs.is_none() || theirs.as_ref() != own_namespace() {
            let ranges = |file| read(thread, file).map(|text| parse_map(&text)).unwrap_or_default();
            credentials.namespace =
                Some(Namespace { users: ranges("uid_map"), groups: ranges("gid_map") });
        }
        Some(credentials)
    }

    /// Reads `/proc/PID/status`.
    pub(super) fn parse(status: &str) -> Option<Credentials> {
        let field = |name| status.lines().find_map(|line| line.strip_prefix(name));
        // Real, effective, saved, for file systems (proc_pid_status(5)).
        let fourth = |line: &str| line.split_ascii_whitespace().nth(3)?.parse().ok();
        let groups = field("Groups:")?.split_ascii_whitespace();
        Some(Credentials {
            uid: fourth(field("Uid:")?)?,
            gid: fourth(field("Gid:")?)?,
            groups: groups.map(str::parse).collect::<Result<_, _>>().ok()?,
            namespace: None,
        })
    }
}

impl Namespace {
    /// Whether it knows this user and this group, so that its capabilities count for their files.
    pub(crate) fn maps(&self, uid: u32, gid: u32) -> bool {
        let has = |ranges: &[Range], id: u32| {
            ranges.iter().any(|&(first, count)| id.checked_sub(first).is_some_and(|at| at < count))
        };
        has(&self.users, uid) && has(&self.groups, gid)
    }
}

/// Lines of `/proc/PID/uid_map`: first number there, first number here, how many.
pub(super) fn parse_map(text: &str) -> Vec<Range> {
    let range = |line: &str| {
        let mut fields = line.split_ascii_whitespace().skip(1);
        Some((fields.next()?.parse().ok()?, fields.next()?.parse().ok()?))
    };
    text.lines().filter_map(range).collect()
}

fn own_namespace() -> Option<&'static PathBuf> {
    static OWN: OnceLock<Option<PathBuf>> = OnceLock::new();
    OWN.get_or_init(|| read_link("/proc/self/ns/user").ok()).as_ref()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_acts_as_its_file_system_user() {
        let text = "Name:\tx\nUid:\t1\t2\t3\t4\nGid:\t5\t6\t7\t8\nFDSize:\t64\nGroups:\t9 10 \n";
        let credentials = Credentials::parse(text).expect("whole");
        assert_eq!((credentials.uid, credentials.gid), (4, 8));
        assert_eq!(credentials.groups, [9, 10]);
        assert_eq!(Credentials::parse("Uid:\t1\t2\t3\t4\n"), None);
        let own = Credentials::of(std::process::id()).expect("we are here");
        assert_eq!(own.uid, rustix::process::geteuid().as_raw());
        assert_eq!(own.namespace, None);
    }

    #[test]
    fn a_namespace_knows_only_what_it_maps() {
        let users =
            parse_map("         0       1001          1\n         1     100000      65536\n");
        let space = Namespace { users, groups: parse_map("0 1001 1\n") };
        assert!(space.maps(1001, 1001) && space.maps(165_535, 1001));
        assert!(!space.maps(165_536, 1001) && !space.maps(0, 1001) && !space.maps(1001, 0));
        assert!(!Namespace::default().maps(0, 0));
        let all = parse_map("0 0 4294967295");
        assert!(Namespace { users: all.clone(), groups: all }.maps(u32::MAX - 1, 0));
    }
}
