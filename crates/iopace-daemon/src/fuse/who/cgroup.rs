//! The cgroup of a process, from `/proc/PID/cgroup`.
//!
//! Each line is `ID:CONTROLLERS:PATH` (cgroups(7)); version 2 has the ID 0 and no controllers. With
//! version 1 beside it, the first of these that is not the root counts: version 2, the named
//! hierarchy of systemd, blkio.

/// The path, with `/` in front; `/` where nothing says anything else.
pub(super) fn path(text: &str) -> &str {
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
    found.into_iter().flatten().next().unwrap_or("/")
}

/// The names of the groups that stand for a cgroup: its own, with `@`, `%` and control characters
/// as `%40` and so on, and without the `..` in front of a path that is outside of our own root. At
/// most `depth` of them: what is deeper pays as the last.
pub(super) fn names(path: &str, depth: usize) -> Vec<String> {
    let parts = path.split('/').filter(|part| !matches!(*part, "" | "." | ".."));
    parts.take(depth).map(name).collect()
}

fn name(part: &str) -> String {
    use std::fmt::Write as _;
    let mut name = String::new();
    for c in part.chars() {
        if matches!(c, '@' | '%') || c.is_control() {
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
    use iopace_core::group::tree::Tree;
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
            assert_eq!(path(text), right, "{text}");
        }
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
            let _ = path(&text);
            let names = names(&deep, 15);
            let group = format!("/{}", names.join("/"));
            let made = Tree::new().create_all(&group);
            prop_assert!(made.is_ok(), "{}: {:?}", group, made);
        }
    }
}
