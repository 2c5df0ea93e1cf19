//! The files by which the kernel holds a cgroup (version 2) back: `io.weight`, `io.max`.

use iopace_core::goal::Push;
use iopace_core::group::Class;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::Path;

/// The least weight, for class idle: the kernel's controller knows no classes.
const IDLE_WEIGHT: u32 = 1;

/// The most that `io.bfq.weight` takes.
const BFQ_WEIGHT_MAX: u32 = 1000;

/// The files of weights.
const WEIGHTS: [&str; 2] = ["io.weight", "io.bfq.weight"];

/// The errno of a disk that is gone, or that never had a queue.
const NO_DEVICE: i32 = 19;

/// What a cgroup had before it was held back, which is never exceeded.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FormerLimits {
    /// Bytes per second read and written, by number of the disk; a disk that is not in it has none.
    max: BTreeMap<String, [Option<u64>; 2]>,
    /// The default weight, by file.
    weights: BTreeMap<String, u32>,
}

impl FormerLimits {
    /// As the files of a cgroup say it.
    pub fn of(dir: &Path) -> FormerLimits {
        let read = |file: &str| fs::read_to_string(dir.join(file)).unwrap_or_default();
        let mut former = FormerLimits::default();
        for line in read("io.max").lines() {
            let mut words = line.split_whitespace();
            let Some(disk) = words.next() else { continue };
            let mut rates = [None; 2];
            for word in words {
                for (place, key) in ["rbps=", "wbps="].into_iter().enumerate() {
                    let rate = word.strip_prefix(key).and_then(|rate| rate.parse().ok());
                    rates[place] = rate.or(rates[place]);
                }
            }
            former.max.insert(disk.to_owned(), rates);
        }
        for file in WEIGHTS {
            let text = read(file);
            let default = text.lines().find_map(|line| line.strip_prefix("default "));
            if let Some(weight) = default.and_then(|weight| weight.trim().parse().ok()) {
                former.weights.insert(file.to_owned(), weight);
            }
        }
        former
    }

    /// Whether one of the files that this is about is there.
    pub fn has_any(dir: &Path) -> bool {
        WEIGHTS.iter().chain(&["io.max"]).any(|file| dir.join(file).exists())
    }

    /// Gives a cgroup what it may have at this moment: all files and disks that take it.
    ///
    /// # Errors
    /// A file that is there cannot be written, for a disk perhaps; the others are.
    pub fn hold(&self, dir: &Path, disks: &[String], push: &Push) -> io::Result<()> {
        let weight = if push.class == Class::Idle { IDLE_WEIGHT } else { push.weight.get() };
        let rate = push.rate.map(|rate| rate.0);
        self.write(dir, disks, rate, |_| weight)
    }

    /// Gives a cgroup what it had.
    ///
    /// # Errors
    /// As of [`FormerLimits::hold`].
    pub fn restore(&self, dir: &Path, disks: &[String]) -> io::Result<()> {
        let default = iopace_core::group::Weight::DEFAULT.get();
        self.write(dir, disks, None, |file| self.weights.get(file).copied().unwrap_or(default))
    }

    fn write(
        &self,
        dir: &Path,
        disks: &[String],
        rate: Option<u64>,
        weight: impl Fn(&str) -> u32,
    ) -> io::Result<()> {
        let mut result = Ok(());
        for file in WEIGHTS.into_iter().filter(|file| dir.join(file).exists()) {
            let most = if file == WEIGHTS[1] { BFQ_WEIGHT_MAX } else { u32::MAX };
            let text = format!("default {}", weight(file).min(most));
            result = result.and(write_told(dir, file, &text));
        }
        if dir.join("io.max").exists() {
            for disk in disks {
                let former = self.max.get(disk).copied().unwrap_or_default();
                let word = |own: Option<u64>| match own.into_iter().chain(rate).min() {
                    Some(rate) => rate.to_string(),
                    None => "max".to_owned(),
                };
                let [read, written] = former.map(word);
                let text = format!("{disk} rbps={read} wbps={written}");
                result = result.and(write_told(dir, "io.max", &text));
            }
        }
        result
    }
}

/// Writes a line to a file of a cgroup, in one call; a file that is not there is not made.
///
/// # Errors
/// What the system said.
pub fn write(dir: &Path, file: &str, text: &str) -> io::Result<()> {
    fs::File::options()
        .write(true)
        .open(dir.join(file))
        .and_then(|mut file| io::Write::write_all(&mut file, text.as_bytes()))
}

/// The same with an error that says what could not be written. A disk that is gone is none.
fn write_told(dir: &Path, file: &str, text: &str) -> io::Result<()> {
    match write(dir, file, text) {
        Err(error) if error.raw_os_error() == Some(NO_DEVICE) => Ok(()),
        Err(error) => Err(io::Error::other(format!("'{text}' to {file}: {error}"))),
        Ok(()) => Ok(()),
    }
}

/// The numbers of the disks of this machine that can be limited, as in `8:0`: those with hardware
/// or another disk below.
pub fn disks(block: &Path) -> Vec<String> {
    let mut disks = Vec::new();
    for entry in fs::read_dir(block).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let is_memory = ["loop", "ram", "zram"]
            .iter()
            .any(|kind| name.to_str().is_some_and(|name| name.starts_with(kind)));
        let size = fs::read_to_string(entry.path().join("size")).unwrap_or_default();
        if !is_memory && size.trim() != "0" {
            let number = fs::read_to_string(entry.path().join("dev"));
            disks.extend(number.ok().map(|number| number.trim().to_owned()));
        }
    }
    disks.sort();
    disks
}

#[cfg(test)]
mod tests {
    use super::*;
    use iopace_core::group::Weight;
    use iopace_core::units::BytesPerSec;

    #[test]
    fn what_it_had_is_never_exceeded_and_comes_back() {
        let dir = tempfile::tempdir().expect("a directory");
        let file = |name: &str| fs::read_to_string(dir.path().join(name)).expect("read");
        let set = |name: &str, text: &str| fs::write(dir.path().join(name), text).expect("set");
        set("io.max", "8:0 rbps=500 wbps=max riops=max wiops=7\n");
        set("io.weight", "default 300\n8:0 50\n");
        let former = FormerLimits::of(dir.path());
        let push = |rate| Push {
            class: Class::Idle,
            weight: Weight::DEFAULT,
            rate: Some(BytesPerSec(rate)),
        };
        // A plain file has all that was written to it one after the other, from its start.
        let hold = |rate| {
            set("io.max", "");
            set("io.weight", "");
            former.hold(dir.path(), &["8:0".to_owned()], &push(rate)).expect("held");
            (file("io.max"), file("io.weight"))
        };
        assert_eq!(hold(100), ("8:0 rbps=100 wbps=100".into(), "default 1".into()));
        assert_eq!(hold(900), ("8:0 rbps=500 wbps=900".into(), "default 1".into()));
        set("io.max", "");
        set("io.weight", "");
        former.restore(dir.path(), &["8:0".to_owned()]).expect("restored");
        assert_eq!(file("io.max"), "8:0 rbps=500 wbps=max");
        assert_eq!(file("io.weight"), "default 300");
    }

    #[test]
    fn disks_in_memory_are_none() {
        let dir = tempfile::tempdir().expect("a directory");
        for (name, size) in [("sda", "8"), ("loop0", "8"), ("zram0", "8"), ("sr0", "0")] {
            fs::create_dir(dir.path().join(name)).expect("made");
            fs::write(dir.path().join(name).join("size"), size).expect("written");
            fs::write(dir.path().join(name).join("dev"), "8:16\n").expect("written");
        }
        assert_eq!(disks(dir.path()), ["8:16"]);
    }
}
