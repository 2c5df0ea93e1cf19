//! Settings of what is below a directory that cost time, or endanger what was made durable.

use super::Finding;
use crate::pasted::shell;
use crate::storage::Layer;
use iopace_daemon::mount_table::Entry;
use std::path::Path;

/// What is to be said of a file system and of the block devices below it.
pub fn findings(file_system: &Entry, layers: &[Layer]) -> Vec<Finding> {
    let of_file_system = barriers_off(file_system).into_iter();
    let checks = [scheduler, single_command, hidden_cache, degraded, rebuilding];
    let of_layers = layers.iter().flat_map(|layer| checks.map(|check| check(layer)));
    of_file_system.chain(of_layers.flatten()).collect()
}

/// Without barriers the file system does not have the disk's cache emptied.
fn barriers_off(entry: &Entry) -> Option<Finding> {
    let mut options = entry.options.split(',');
    let off = options.find(|option| ["nobarrier", "barrier=0"].contains(option))?;
    let on = if off == "nobarrier" { "barrier" } else { "barrier=1" };
    let shown = entry.mountpoint.display();
    Some(Finding {
        kind: "barriers-off",
        subject: shown.to_string(),
        text: format!(
            "the file system at {shown} is mounted with {off}: what a sync has made durable is \
             lost when the power fails, and iopace cannot help that"
        ),
        command: format!("mount -o remount,{on} {}", shell(&entry.mountpoint)),
    })
}

/// A second scheduler that keeps the disk idle for one process: all that comes by iopace is one.
/// And a head that nobody sorts for.
fn scheduler(layer: &Layer) -> Option<Finding> {
    let (name, now) = (&layer.name, layer.scheduler.as_deref().filter(|_| layer.is_disk())?);
    let is_rotational = layer.rotational == Some(true) && layer.detail.is_some();
    let (better, reason) = match now {
        "bfq" => (
            if layer.rotational == Some(true) { "mq-deadline" } else { "none" },
            "it keeps the disk idle to see whether a process goes on, and sees one process in all \
             that comes by iopace",
        ),
        "kyber" | "none" if is_rotational => {
            ("mq-deadline", "the disk has a head, and what passes iopace by is sorted by nobody")
        }
        _ => return None,
    };
    layer.schedulers.iter().any(|one| one == better).then(|| Finding {
        kind: "scheduler",
        subject: name.clone(),
        text: format!("the kernel's scheduler of {name} is {now}: {reason}"),
        command: format!("echo {better} > {}", file(name, "queue/scheduler")),
    })
}

/// A disk that gets one command at a time cannot sort them, or work on several.
fn single_command(layer: &Layer) -> Option<Finding> {
    (layer.queue_depth == Some(1)).then(|| Finding {
        kind: "queue-depth",
        subject: layer.name.clone(),
        text: format!("{} gets one command at a time: if it has a queue, it is off", layer.name),
        command: format!("echo 31 > {}", file(&layer.name, "device/queue_depth")),
    })
}

/// The kernel flushes no cache that it believes to be none.
fn hidden_cache(layer: &Layer) -> Option<Finding> {
    let is_hidden = layer.write_cache.as_deref() == Some("write through")
        && layer.disk_cache.as_deref().is_some_and(|cache| cache.starts_with("write back"));
    is_hidden.then(|| Finding {
        kind: "hidden-cache",
        subject: layer.name.clone(),
        text: format!(
            "{} has a write cache that the kernel does not flush: a sync makes nothing durable",
            layer.name
        ),
        command: format!("echo 'write back' > {}", file(&layer.name, "queue/write_cache")),
    })
}

fn degraded(layer: &Layer) -> Option<Finding> {
    let (name, count) = (&layer.name, layer.degraded_count);
    (count > 0).then(|| Finding {
        kind: "raid-degraded",
        subject: name.clone(),
        text: format!("the RAID {name} lacks {count} of its members: it is slower, and less safe"),
        command: format!("mdadm --detail /dev/{name}"),
    })
}

fn rebuilding(layer: &Layer) -> Option<Finding> {
    let (name, action) = (&layer.name, layer.sync_action.as_deref()?);
    Some(Finding {
        kind: "raid-sync",
        subject: name.clone(),
        text: format!("the RAID {name} is busy with {action}, past iopace"),
        command: format!("echo 10000 > {}", file(name, "md/sync_speed_max")),
    })
}

fn file(name: &str, attribute: &str) -> String {
    shell(&Path::new("/sys/block").join(name).join(attribute))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(options: &str) -> Entry {
        Entry {
            id: 2,
            parent: 1,
            device: (8, 1),
            root: "/".into(),
            mountpoint: "/srv data".into(),
            fs_type: "ext4".into(),
            source: "/dev/sda1".into(),
            options: options.into(),
        }
    }

    fn disk() -> Layer {
        let schedulers = ["none", "mq-deadline", "bfq"].map(str::to_owned).to_vec();
        let (name, kind) = ("sda".into(), "disk");
        Layer { name, kind, schedulers, detail: Some("WDC".into()), ..Layer::default() }
    }

    fn kinds(options: &str, layer: Layer) -> Vec<(&'static str, String)> {
        let all = findings(&entry(options), &[layer]);
        all.into_iter().map(|one| (one.kind, one.command)).collect()
    }

    #[test]
    fn a_sound_disk_has_no_findings() {
        let sound = Layer {
            rotational: Some(true),
            scheduler: Some("mq-deadline".into()),
            queue_depth: Some(32),
            write_cache: Some("write back".into()),
            disk_cache: Some("write back".into()),
            ..disk()
        };
        assert_eq!(kinds("rw,barrier=1", sound), []);
        let flash = Layer { rotational: Some(false), scheduler: Some("none".into()), ..disk() };
        assert_eq!(kinds("rw", flash), []);
    }

    #[test]
    fn each_finding_has_its_command() {
        let on = "mount -o remount,barrier=1 '/srv data'".to_owned();
        assert_eq!(kinds("rw,barrier=0", disk()), [("barriers-off", on)]);
        let bfq = Layer { rotational: Some(true), scheduler: Some("bfq".into()), ..disk() };
        let command = "echo mq-deadline > /sys/block/sda/queue/scheduler".to_owned();
        assert_eq!(kinds("rw", bfq), [("scheduler", command.clone())]);
        let none = Layer { rotational: Some(true), scheduler: Some("none".into()), ..disk() };
        assert_eq!(kinds("rw", none.clone()), [("scheduler", command)]);
        // Linux says of virtual disks without a maker that they have a head.
        assert_eq!(kinds("rw", Layer { detail: None, ..none.clone() }), []);
        assert_eq!(kinds("rw", Layer { schedulers: vec!["none".into()], ..none }), []);
        let hidden = Layer {
            write_cache: Some("write through".into()),
            disk_cache: Some("write back".into()),
            queue_depth: Some(1),
            ..disk()
        };
        let found: Vec<&str> = kinds("rw", hidden).into_iter().map(|one| one.0).collect();
        assert_eq!(found, ["queue-depth", "hidden-cache"]);
        let raid = Layer { degraded_count: 1, sync_action: Some("resync".into()), ..disk() };
        let found: Vec<&str> = kinds("rw", raid).into_iter().map(|one| one.0).collect();
        assert_eq!(found, ["raid-degraded", "raid-sync"]);
    }
}
