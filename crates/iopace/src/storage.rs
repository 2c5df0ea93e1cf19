//! The block devices below a directory, from its file system down to the disks, as sysfs has them.
//!
//! ```text
//!   mount table ──► dm-0 (dm, vg-data) ──► md0 (raid1) ──► sda1 ──► sda, sdb1 ──► sdb
//! ```
//! Nothing is opened but files of `/proc` and `/sys`.

use iopace_daemon::mount_table::{self, Entry};
use iopace_daemon::printable;
use rustix::fs::{major, minor};
use serde::Serialize;
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

/// So many block devices of one directory are followed: more are no stack that anybody has.
const LAYERS_MAX: usize = 64;

/// A block device on the way down.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Layer {
    /// As in `/dev`.
    pub name: String,
    /// `disk`, `partition`, `dm`, `md` or `loop`.
    pub kind: &'static str,
    /// The name of a mapped device, the level of a RAID, the file of a loop device, the maker's
    /// name of a disk; safe for a terminal.
    pub detail: Option<String>,
    /// The numbers by which the kernel knows it, as `8:0`.
    pub number: String,
    /// What it is on.
    pub below: Vec<String>,
    /// Whether it has a head, as the kernel has it: yes of many a virtual disk.
    pub rotational: Option<bool>,
    /// The kernel's scheduler at work.
    pub scheduler: Option<String>,
    /// Those that it may have.
    pub schedulers: Vec<String>,
    /// Requests that the kernel queues.
    pub nr_requests: Option<u64>,
    /// Commands that the disk takes at once, if it tells.
    pub queue_depth: Option<u64>,
    /// `write back` or `write through`, as the kernel flushes it.
    pub write_cache: Option<String>,
    /// The same as the disk says it.
    pub disk_cache: Option<String>,
    /// Members that a RAID lacks.
    pub degraded_count: u64,
    /// What a RAID does beside its work, as `resync`.
    pub sync_action: Option<String>,
}

impl Layer {
    /// The numbers of the device.
    pub fn numbers(&self) -> Option<(u32, u32)> {
        let (major, minor) = self.number.split_once(':')?;
        Some((major.parse().ok()?, minor.parse().ok()?))
    }

    /// Whether requests wait here for a device, and not for one below.
    pub fn is_disk(&self) -> bool {
        self.kind == "disk"
    }
}

/// Where the kernel tells of block devices.
#[derive(Clone, Copy, Debug)]
pub struct Sysfs<'a>(pub &'a Path);

impl Sysfs<'_> {
    /// The block devices below a mount, the topmost first; none where the kernel knows none, as of
    /// network file systems.
    pub fn below(&self, entry: &Entry) -> Vec<Layer> {
        let (major, minor) = entry.device;
        let number = format!("{major}:{minor}");
        let known = self.0.join("dev/block").join(&number).exists();
        // Btrfs, and others on several devices, have a number of their own.
        let is_plain = !entry.fs_type.starts_with("fuse") && entry.source.starts_with("/dev");
        let number = match known {
            true => Some(number),
            false => is_plain.then(|| number_of(&entry.source)).flatten(),
        };
        number.map_or(Vec::new(), |number| self.stack(&number))
    }

    /// The directory of a device.
    fn place(&self, link: &str) -> Option<PathBuf> {
        fs::canonicalize(self.0.join(link)).ok()
    }

    /// The device with these numbers and all that it is on.
    pub fn stack(&self, number: &str) -> Vec<Layer> {
        let mut layers: Vec<Layer> = Vec::new();
        let mut known: BTreeSet<PathBuf> = BTreeSet::new();
        let mut next: Vec<PathBuf> =
            self.place(&format!("dev/block/{number}")).into_iter().collect();
        while let Some(place) = next.pop() {
            if layers.len() >= LAYERS_MAX || !known.insert(place.clone()) {
                continue;
            }
            let below = self.below_of(&place);
            let mut layer = read(&place);
            layer.below = below.iter().map(|place| name(place)).collect();
            layers.push(layer);
            next.extend(below.into_iter().rev());
        }
        layers
    }

    fn below_of(&self, place: &Path) -> Vec<PathBuf> {
        if place.join("partition").exists() {
            return place.parent().map(Path::to_owned).into_iter().collect();
        }
        if let Some(file) = attribute(place, "loop/backing_file") {
            // By the table of mounts: the file may be on one that does not answer.
            let table = mount_table::read().unwrap_or_default();
            let on = mount_table::covering(&table, Path::new(&file)).map(|entry| entry.device);
            let link = on.map(|(major, minor)| format!("dev/block/{major}:{minor}"));
            return link.into_iter().filter_map(|link| self.place(&link)).collect();
        }
        let slaves = fs::read_dir(place.join("slaves")).into_iter().flatten().flatten();
        let mut slaves: Vec<PathBuf> =
            slaves.filter_map(|entry| fs::canonicalize(entry.path()).ok()).collect();
        slaves.sort();
        slaves
    }
}

/// The numbers of a block device by its node, which is not opened.
pub fn number_of(node: &Path) -> Option<String> {
    let found = fs::metadata(node).ok()?;
    let number = || format!("{}:{}", major(found.rdev()), minor(found.rdev()));
    found.file_type().is_block_device().then(number)
}

fn name(place: &Path) -> String {
    place.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}

fn attribute(place: &Path, name: &str) -> Option<String> {
    let text = fs::read_to_string(place.join(name)).ok()?;
    Some(text.trim_end().to_owned()).filter(|text| !text.is_empty())
}

fn read(place: &Path) -> Layer {
    let text = |name: &str| attribute(place, name);
    let number = |name: &str| text(name)?.parse().ok();
    let (kind, detail) = if place.join("partition").exists() {
        ("partition", None)
    } else if place.join("dm").exists() {
        ("dm", text("dm/name"))
    } else if place.join("md").exists() {
        ("md", text("md/level"))
    } else if place.join("loop").exists() {
        ("loop", text("loop/backing_file"))
    } else {
        ("disk", text("device/model").map(|model| model.trim().to_owned()))
    };
    let (scheduler, schedulers) = schedulers(&text("queue/scheduler").unwrap_or_default());
    Layer {
        name: name(place),
        kind,
        detail: detail.map(|detail| printable::name(&detail).into_owned()),
        number: text("dev").unwrap_or_default(),
        below: Vec::new(),
        rotational: text("queue/rotational").map(|word| word == "1"),
        scheduler,
        schedulers,
        nr_requests: number("queue/nr_requests"),
        queue_depth: number("device/queue_depth"),
        write_cache: text("queue/write_cache"),
        disk_cache: disk_cache(place),
        degraded_count: number("md/degraded").unwrap_or(0),
        sync_action: text("md/sync_action").filter(|action| action != "idle"),
    }
}

/// The scheduler in brackets, and all that stand there.
fn schedulers(text: &str) -> (Option<String>, Vec<String>) {
    let all = text.split_whitespace().map(|word| word.trim_matches(['[', ']']).to_owned());
    let all: Vec<String> = all.collect();
    let in_brackets = text.split_once('[').and_then(|(_, rest)| rest.split_once(']'));
    let chosen = in_brackets.map(|(name, _)| name.to_owned()).or_else(|| all.first().cloned());
    (chosen, all)
}

/// The write cache as a SCSI or ATA disk says it.
fn disk_cache(place: &Path) -> Option<String> {
    let disks = fs::read_dir(place.join("device/scsi_disk")).ok()?;
    disks.flatten().find_map(|disk| attribute(&disk.path(), "cache_type"))
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    /// A sysfs of our own: `files` below it, and the block devices at these places.
    pub fn fake(files: &[(&str, &str)], devices: &[(&str, &str)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().expect("a directory");
        for (path, text) in files {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().expect("below")).expect("made");
            fs::write(path, text).expect("written");
        }
        fs::create_dir_all(root.path().join("dev/block")).expect("made");
        for (number, place) in devices {
            let place = root.path().join(place);
            fs::write(place.join("dev"), format!("{number}\n")).expect("written");
            symlink(place, root.path().join("dev/block").join(number)).expect("linked");
        }
        root
    }

    #[test]
    fn a_volume_on_a_raid_is_followed_to_its_disks() {
        let root = fake(
            &[
                ("b/dm-0/dm/name", "vg-\x1b[2Jdata\n"),
                ("b/md0/md/level", "raid1\n"),
                ("b/md0/md/degraded", "1\n"),
                ("b/md0/md/sync_action", "resync\n"),
                ("b/sda/sda1/partition", "1\n"),
                ("b/sda/queue/rotational", "1\n"),
                ("b/sda/queue/scheduler", "none [mq-deadline] bfq\n"),
                ("b/sda/device/queue_depth", "32\n"),
                ("b/sda/device/scsi_disk/0:0/cache_type", "write back\n"),
                ("b/sdb/queue/scheduler", "none\n"),
            ],
            &[
                ("252:0", "b/dm-0"),
                ("9:0", "b/md0"),
                ("8:1", "b/sda/sda1"),
                ("8:0", "b/sda"),
                ("8:16", "b/sdb"),
            ],
        );
        for (from, to) in [("dm-0", "md0"), ("md0", "sda/sda1"), ("md0", "sdb")] {
            let slaves = root.path().join("b").join(from).join("slaves");
            fs::create_dir_all(&slaves).expect("made");
            let link = slaves.join(Path::new(to).file_name().expect("a name"));
            symlink(root.path().join("b").join(to), link).expect("linked");
        }
        let layers = Sysfs(root.path()).stack("252:0");
        let names: Vec<(&str, &str)> =
            layers.iter().map(|layer| (&*layer.name, layer.kind)).collect();
        let expected = [("dm-0", "dm"), ("md0", "md"), ("sda1", "partition"), ("sda", "disk")];
        assert_eq!(names, [&expected[..], &[("sdb", "disk")]].concat());
        assert_eq!(layers[0].detail.as_deref(), Some(r"vg-\x1b[2Jdata"));
        let raid = (layers[1].degraded_count, layers[1].sync_action.as_deref());
        assert_eq!(raid, (1, Some("resync")));
        let disk = &layers[3];
        assert_eq!((disk.rotational, disk.queue_depth), (Some(true), Some(32)));
        assert_eq!(disk.scheduler.as_deref(), Some("mq-deadline"));
        assert_eq!(disk.disk_cache.as_deref(), Some("write back"));
        assert_eq!((layers[4].scheduler.as_deref(), disk.numbers()), (Some("none"), Some((8, 0))));
        assert!(Sysfs(root.path()).stack("1:1").is_empty());
    }
}
