//! The cgroup of a process, from `/proc/PID/cgroup`.
//!
//! Each line is `ID:CONTROLLERS:PATH` (cgroups(7)); version 2 has the ID 0 and no controllers. With
//! version 1 beside it, the first of these that is not the root counts: version 2, the named
//! hierarchy of systemd, blkio. Where blkio has a cgroup below that one, it counts: crun and
//! libvirt put a process into `x.scope/container` and `x.scope/libvirt` there, and into `x.scope`
//! elsewhere.
//!
//! A user makes cgroups of any name in a part of the hierarchy that was handed over to him. So only
//! the part of a path is *vouched for* whose every cgroup lies in one where nobody but root (or the
//! daemon's own user) can make any.

use crate::printable;
use crate::process::{Hierarchy, Kernel, Proc};

/// Where a process is in a hierarchy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Cgroup {
    /// The path, with `/` in front; `/` where nothing says anything else.
    path: String,
    /// Length of its part that no user could choose.
    vouched_len: usize,
    /// The hierarchy that the path is of.
    hierarchy: Hierarchy,
    /// The hierarchy in which the same path has limits, if one does.
    limiting: Option<Hierarchy>,
}

/// The path of the cgroup of a process, as groups are named by it; `None` if it is gone, or cannot
/// be seen.
pub fn cgroup_of(pid: u32) -> Option<String> {
    Kernel.cgroup(pid).map(|text| find(&text).1.to_owned())
}

impl Cgroup {
    /// Reads `/proc/PID/cgroup`, and asks who can make cgroups in those above.
    pub(crate) fn look(text: &str, proc: &dyn Proc) -> Cgroup {
        let (hierarchy, path) = find(text);
        let vouched_len = vouched_len(path, |above| proc.is_own_cgroup(hierarchy, above));
        let limiting = match blkio(text) {
            Some(blkio) => (blkio == path).then_some(Hierarchy::Blkio),
            None => (hierarchy == Hierarchy::Unified).then_some(hierarchy),
        };
        Cgroup { path: path.to_owned(), vouched_len, hierarchy, limiting }
    }

    /// The hierarchy in which the path has limits; `None` where it is another path there, or one
    /// that leads out of our own root.
    pub(crate) fn limiting(&self) -> Option<Hierarchy> {
        self.limiting.filter(|_| !self.path.split('/').any(|name| name == ".."))
    }

    /// The hierarchy that the path is of.
    pub(crate) fn hierarchy(&self) -> Hierarchy {
        self.hierarchy
    }

    /// The whole path.
    pub(crate) fn path(&self) -> &str {
        &self.path
    }

    /// Its part that no user could choose; `/` if that is nothing.
    pub(crate) fn vouched(&self) -> &str {
        self.path.get(..self.vouched_len.max(1)).unwrap_or("/")
    }
}

/// The length of the longest part of the path whose every cgroup lies in one that `is_own`.
fn vouched_len(path: &str, is_own: impl Fn(&str) -> bool) -> usize {
    let mut len = 0;
    for name in path.split('/').skip(1) {
        let above = if len == 0 { "/" } else { &path[..len] };
        // A path that leads out of our own namespace cannot be looked at.
        if matches!(name, "" | "." | "..") || !is_own(above) {
            break;
        }
        len += 1 + name.len();
    }
    len
}

/// The path in the hierarchy of version 1 that has block I/O, if there is one.
fn blkio(text: &str) -> Option<&str> {
    text.lines().find_map(|line| {
        let (controllers, path) = line.split_once(':')?.1.split_once(':')?;
        let path = path.strip_suffix(" (deleted)").unwrap_or(path);
        controllers.split(',').any(|name| name == "blkio").then_some(path)
    })
}

/// The cgroups that the groups for a path stand for, in their order: see [`names`].
pub(crate) fn above(path: &str, depth: usize) -> impl Iterator<Item = &str> {
    let ends = path.match_indices('/').map(|(at, _)| at).skip(1).chain([path.len()]);
    let is_name = |path: &&str| !matches!(path.rsplit('/').next(), None | Some("" | "." | ".."));
    ends.map(|end| &path[..end]).filter(is_name).take(depth)
}

/// The hierarchy that counts, and the path in it.
fn find(text: &str) -> (Hierarchy, &str) {
    const ALL: [Hierarchy; 3] = [Hierarchy::Unified, Hierarchy::Systemd, Hierarchy::Blkio];
    let mut found: [Option<&str>; 3] = [None; 3];
    for line in text.lines() {
        let mut parts = line.splitn(3, ':');
        let (Some(id), Some(controllers), Some(path)) = (parts.next(), parts.next(), parts.next())
        else {
            continue;
        };
        let place = match (id, controllers) {
            ("0", "") => 0,
            (_, "name=systemd") => 1,
            (_, names) if names.split(',').any(|name| name == "blkio") => 2,
            _ => continue,
        };
        // What the kernel adds for a cgroup that was removed under the process.
        let path = path.strip_suffix(" (deleted)").unwrap_or(path);
        found[place] = Some(path).filter(|path| path.len() > 1 && path.starts_with('/'));
    }
    let blkio = found[2];
    let found = ALL.into_iter().zip(found).find_map(|(hierarchy, path)| Some((hierarchy, path?)));
    let found = found.unwrap_or((Hierarchy::Unified, "/"));
    blkio.filter(|path| is_below(path, found.1)).map_or(found, |path| (Hierarchy::Blkio, path))
}

/// Whether a cgroup lies below another one.
fn is_below(path: &str, above: &str) -> bool {
    path.strip_prefix(above).is_some_and(|rest| rest.starts_with('/'))
}

/// The names of the groups that stand for a cgroup: its own, with `@`, `%` and control characters
/// as `%40` and so on, and without the `..` in front of a path that is outside of our own root. At
/// most `depth` of them: what is deeper pays as the last.
pub(crate) fn names(path: &str, depth: usize) -> Vec<String> {
    let parts = path.split('/').filter(|part| !matches!(*part, "" | "." | ".."));
    parts.take(depth).map(name).collect()
}

fn name(part: &str) -> String {
    use std::fmt::Write as _;
    let mut name = String::new();
    for c in part.chars() {
        if matches!(c, '@' | '%') || printable::is_commanding(c) {
            let mut bytes = [0; 4];
            for byte in c.encode_utf8(&mut bytes).bytes() {
                let _ = write!(name, "%{byte:02x}");
            }
        } else {
            name.push(c);
        }
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::fake::Fake;
    use iopace_groups::tree::Tree;
    use proptest::prelude::*;

    #[test]
    fn the_formats_of_the_kernel_are_read() {
        let nested = "/user.slice/user-1000.slice/user@1000.service/app.slice/backup.service";
        let hybrid = format!("12:pids:{nested}\n1:name=systemd:{nested}\n0::{nested}\n");
        let cases = [
            // Version 2 alone.
            ("0::/system.slice/backup.service\n", "/system.slice/backup.service"),
            // Hybrid as systemd has it, and with version 2 mounted but unused.
            (&hybrid, nested),
            ("9:name=systemd:/a\n7:blkio:/b\n0::/\n", "/a"),
            ("9:name=systemd:/\n7:blkio:/b\n0::/\n", "/b"),
            ("9:name=systemd:/a.scope\n7:blkio:/a.scope/container\n0::/\n", "/a.scope/container"),
            ("9:name=systemd:/a.scope\n7:blkio:/a.scope2/b\n0::/\n", "/a.scope"),
            ("9:name=systemd:/a.slice/b.service\n7:blkio:/a.slice\n", "/a.slice/b.service"),
            ("4:memory:/box/x\n1:cpu,cpuacct:/y\n0::/\n", "/"),
            ("7:net_cls,blkio:/b\n", "/b"),
            // Containers: Docker, Kubernetes under containerd, another namespace, and removed.
            ("0::/docker/4f2a\n", "/docker/4f2a"),
            (
                "0::/kubepods.slice/kubepods-pod1.slice:cri-containerd:77\n",
                "/kubepods.slice/kubepods-pod1.slice:cri-containerd:77",
            ),
            ("0::/../../machine.slice\n", "/../../machine.slice"),
            ("0::/gone (deleted)\n", "/gone"),
            // What should not be.
            ("", "/"),
            ("0::\n", "/"),
            ("0\n0:\n::\n:::\n", "/"),
            ("0::relative\n", "/"),
        ];
        for (text, right) in cases {
            assert_eq!(find(text).1, right, "{text}");
        }
        assert_eq!(find("9:name=systemd:/a\n7:blkio:/b\n0::/\n").0, Hierarchy::Systemd);
        assert_eq!(find("7:net_cls,blkio:/b\n").0, Hierarchy::Blkio);
    }

    #[test]
    fn a_path_is_vouched_for_as_far_as_root_made_it() {
        let vouched = |path: &str, handed_over: &str| {
            let len = vouched_len(path, |above| !above.starts_with(handed_over));
            path[..len].to_owned()
        };
        let session = "/user.slice/user-7.slice/user@7.service";
        assert_eq!(vouched(&format!("{session}/app.slice/db.service"), session), session);
        assert_eq!(vouched("/system.slice/db.service", session), "/system.slice/db.service");
        // The cgroup that was handed over has its name from root.
        assert_eq!(vouched("/box", "/box"), "/box");
        assert_eq!(vouched("/box/db.service", "/box"), "/box");
        assert_eq!(vouched("/db.service", "/"), "", "the root itself was handed over");
        assert_eq!(vouched("/../db.service", session), "", "outside of our own root");
        assert_eq!(vouched("/a/../db.service", session), "/a");
        assert_eq!(vouched("/", session), "");
    }

    #[test]
    fn limits_are_looked_for_where_the_same_path_is() {
        let limiting = |text: &str| Cgroup::look(text, &Fake::default()).limiting();
        assert_eq!(limiting("0::/a\n"), Some(Hierarchy::Unified));
        assert_eq!(limiting("7:blkio:/a\n0::/a\n"), Some(Hierarchy::Blkio));
        assert_eq!(limiting("7:net_cls,blkio:/a\n0::/\n"), Some(Hierarchy::Blkio));
        assert_eq!(limiting("9:name=systemd:/a\n7:blkio:/b\n0::/\n"), None);
        assert_eq!(limiting("9:name=systemd:/a\n7:blkio:/a/b\n0::/\n"), Some(Hierarchy::Blkio));
        assert_eq!(limiting("9:name=systemd:/a/b\n7:blkio:/a\n0::/\n"), None);
        assert_eq!(limiting("9:name=systemd:/a\n0::/\n"), None, "no hierarchy limits it");
        assert_eq!(limiting("0::/../a\n"), None);
    }

    #[test]
    fn each_group_stands_for_one_cgroup() {
        let all = |path, depth| above(path, depth).collect::<Vec<_>>();
        assert_eq!(all("/a/b.service/c", 9), ["/a", "/a/b.service", "/a/b.service/c"]);
        assert_eq!(all("/a/b/c", 2), ["/a", "/a/b"]);
        assert!(all("/", 9).is_empty());
    }

    #[test]
    fn names_can_be_those_of_groups() {
        assert_eq!(names("/a/user@10.service/x%\n", 9), ["a", "user%4010.service", "x%25%0a"]);
        assert_eq!(names("/../../machine.slice/a", 9), ["machine.slice", "a"]);
        assert_eq!(names("/a/b/c/d", 2), ["a", "b"]);
        assert!(names("/", 9).is_empty());
    }

    proptest! {
        #[test]
        fn whatever_the_path_a_group_can_be_made(
            text in "\\PC{0,60}",
            deep in "(/[\\PC\n@%]{0,9}){0,20}",
        ) {
            let _ = find(&text);
            let names = names(&deep, 15);
            prop_assert_eq!(names.len(), above(&deep, 15).count());
            let group = format!("/{}", names.join("/"));
            let made = Tree::new().create_all(&group);
            prop_assert!(made.is_ok(), "{}: {:?}", group, made);
        }
    }
}
