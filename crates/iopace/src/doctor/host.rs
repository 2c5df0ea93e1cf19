//! What iopace needs of the machine.

use super::Finding;
use iopace_daemon::mount_table::Entry;
use std::path::Path;

/// What is missing.
pub fn findings(table: &[Entry]) -> Vec<Finding> {
    let mut all = Vec::new();
    if !Path::new("/dev/fuse").exists() {
        all.push(Finding {
            kind: "no-fuse",
            subject: "/dev/fuse".into(),
            text: "there is no /dev/fuse: no directory can be mounted".into(),
            command: "modprobe fuse".into(),
        });
    }
    all.extend(no_cgroups(table));
    all
}

fn no_cgroups(table: &[Entry]) -> Option<Finding> {
    let has_cgroups = table.iter().any(|entry| ["cgroup2", "cgroup"].contains(&&*entry.fs_type));
    (!has_cgroups).then(|| Finding {
        kind: "no-cgroups",
        subject: "/sys/fs/cgroup".into(),
        text:
            "no cgroup hierarchy is mounted: rules for services and containers (cgroup=NAME) fit \
               nobody"
                .into(),
        command: "mount -t cgroup2 none /sys/fs/cgroup".into(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn either_version_of_cgroups_will_do() {
        let entry = |fs_type: &str| Entry {
            id: 2,
            parent: 1,
            device: (0, 26),
            root: "/".into(),
            mountpoint: "/sys/fs/cgroup".into(),
            fs_type: fs_type.into(),
            source: "none".into(),
            options: "rw".into(),
        };
        assert_eq!(no_cgroups(&[entry("cgroup2")]), None);
        assert_eq!(no_cgroups(&[entry("tmpfs"), entry("cgroup")]), None);
        assert!(no_cgroups(&[entry("tmpfs")]).is_some());
    }
}
