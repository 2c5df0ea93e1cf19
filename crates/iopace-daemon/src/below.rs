//! The disk below a file, a directory or a block device, as the kernel describes it.

use rustix::fs::{major, minor};
use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

/// Schedulers of the kernel that go by the class of a request; `none` and `kyber` do not.
const GO_BY_CLASSES: [&str; 2] = ["bfq", "mq-deadline"];

/// Disks that are made of one other, one on the other, that are followed.
const CHAIN_MAX: usize = 8;

/// A disk of the kernel.
#[derive(Clone, Debug)]
pub struct Below {
    /// Its directory in sysfs.
    place: PathBuf,
    /// The numbers by which the kernel knows it and what was made of it on the way here, as `8:0`.
    numbers: Vec<String>,
}

/// The kernel's scheduler of a disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelScheduler {
    /// As `/sys/block/DISK/queue/scheduler` names it; `none` if there is none.
    pub name: String,
    /// Whether it goes by the class of a request.
    pub classes: bool,
}

impl Below {
    /// The disk that this is on, or is; `None` where the kernel knows none, as on network file
    /// systems.
    pub fn of(path: &Path) -> Option<Below> {
        let metadata = fs::metadata(path).ok()?;
        let is_block = metadata.file_type().is_block_device();
        let device = if is_block { metadata.rdev() } else { metadata.dev() };
        let number = format!("{}:{}", major(device), minor(device));
        let link = format!("/sys/dev/block/{number}");
        Below::whole(Path::new(&link), vec![number])
    }

    /// The same below whatever is made of one other disk (`dm`): where requests wait.
    pub fn lowest(path: &Path) -> Option<Below> {
        let mut lowest = Below::of(path)?;
        // A chain of them is short; a bound on what is no chain.
        for _ in 0..CHAIN_MAX {
            let below = fs::read_dir(lowest.place.join("slaves")).into_iter().flatten().flatten();
            let below: Vec<PathBuf> = below.map(|entry| entry.path()).collect();
            let [below] = &*below else { break };
            lowest = Below::whole(below, lowest.numbers)?;
        }
        Some(lowest)
    }

    /// The disk of this directory in sysfs: a partition is a directory in that of its disk.
    fn whole(link: &Path, mut numbers: Vec<String>) -> Option<Below> {
        let place = fs::canonicalize(link).ok()?;
        let is_part = place.join("partition").exists();
        let place = if is_part { place.parent()?.to_path_buf() } else { place };
        if let Ok(number) = fs::read_to_string(place.join("dev")) {
            numbers.push(number.trim().to_owned());
        }
        Some(Below { place, numbers })
    }

    /// Whether the kernel knows it, or what was made of it and led here, by this number.
    pub fn has_number(&self, number: &str) -> bool {
        self.numbers.iter().any(|one| one == number)
    }

    /// One that the kernel would know by these numbers.
    #[cfg(test)]
    pub(crate) fn numbered(numbers: &[&str]) -> Below {
        let numbers = numbers.iter().map(|number| (*number).to_owned()).collect();
        Below { place: PathBuf::new(), numbers }
    }

    /// Its name, as in `/dev`.
    pub fn name(&self) -> String {
        self.place.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
    }

    /// Whether it has a head; `None` where the kernel says yes of a disk that is made by software:
    /// Linux says so of every virtual one that does not object, whatever it is on.
    pub fn is_rotational(&self) -> Option<bool> {
        let is_real = || self.model().is_some_and(|name| !is_virtual(&name));
        match self.attribute("queue/rotational")?.trim() {
            "0" => Some(false),
            "1" => is_real().then_some(true),
            _ => None,
        }
    }

    /// The maker's name of it, where the kernel tells it.
    pub fn model(&self) -> Option<String> {
        let name = self.attribute("device/model")?;
        Some(name.trim().to_owned()).filter(|name| !name.is_empty())
    }

    /// The scheduler that the kernel has for it at present.
    pub fn scheduler(&self) -> Option<KernelScheduler> {
        chosen(&self.attribute("queue/scheduler")?)
    }

    /// A file of its directory in sysfs.
    pub(crate) fn attribute(&self, name: &str) -> Option<String> {
        fs::read_to_string(self.place.join(name)).ok()
    }
}

/// Whether a file, or the disk that is a block device, can be told what is not needed any more.
pub(crate) fn discards(path: &Path) -> bool {
    let is_block = fs::metadata(path).is_ok_and(|found| found.file_type().is_block_device());
    let most = || Below::of(path)?.attribute("queue/discard_max_bytes");
    !is_block || most().is_some_and(|bytes| bytes.trim() != "0")
}

/// The one in brackets; where there is only one, it stands alone.
fn chosen(all: &str) -> Option<KernelScheduler> {
    let in_brackets = all.split_once('[').and_then(|(_, rest)| rest.split_once(']'));
    let name = in_brackets.map_or(all, |(name, _)| name).trim();
    let classes = GO_BY_CLASSES.contains(&name);
    (!name.is_empty()).then(|| KernelScheduler { name: name.to_owned(), classes })
}

/// Whether a maker's name is one of those that QEMU, VMware, VirtualBox, Hyper-V and Xen give.
/// Disks of virtio and loop devices have none.
fn is_virtual(name: &str) -> bool {
    ["QEMU", "Virtual", "VIRTUAL", "VBOX", "Xen"].iter().any(|word| name.contains(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_virtual_disk_is_known_by_its_name() {
        let virtual_ones = ["QEMU HARDDISK", "Virtual disk", "VBOX HARDDISK", "VIRTUAL-DISK"];
        assert!(virtual_ones.iter().all(|name| is_virtual(name)));
        assert!(!["ST4000VN008-2DR1", "WDC WD40EFRX-68N"].iter().any(|name| is_virtual(name)));
    }

    #[test]
    fn the_scheduler_at_work_is_the_one_in_brackets() {
        let named = |text| chosen(text).map(|chosen| (chosen.name, chosen.classes));
        let cases = [
            ("none [mq-deadline] kyber bfq\n", Some(("mq-deadline".into(), true))),
            ("none mq-deadline kyber [bfq]\n", Some(("bfq".into(), true))),
            ("[none] mq-deadline\n", Some(("none".into(), false))),
            ("none\n", Some(("none".into(), false))),
            ("\n", None),
        ];
        for (text, expected) in cases {
            assert_eq!(named(text), expected, "{text}");
        }
    }

    #[test]
    fn a_partition_is_on_its_disk() {
        let mut seen = 0;
        for disk in fs::read_dir("/sys/block").into_iter().flatten().flatten() {
            let name = disk.file_name().to_string_lossy().into_owned();
            let parts = fs::read_dir(disk.path()).into_iter().flatten().flatten();
            let parts = parts.filter(|part| part.path().join("partition").exists());
            let nodes = parts.map(|part| part.file_name()).chain([disk.file_name()]);
            for node in nodes.map(|name| Path::new("/dev").join(name)).filter(|path| path.exists())
            {
                assert_eq!(Below::of(&node).map(|below| below.name()), Some(name.clone()));
                seen += 1;
            }
        }
        println!("{seen} disks and partitions");
    }
}
