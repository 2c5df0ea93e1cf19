//! The settings of a group as text, under the names and in the lines of cgroup v2.
//!
//! [`FILES`] lists them. A line is `DEVICE VALUE`, with the name of a device of iopace where the
//! kernel has `MAJ:MIN`, or `default VALUE` for every device without a line of its own. In
//! `io.weight`, `io.ioprio_class` and `io.nr_group_requests` a value alone is the default too.
//! `DEVICE default` takes the line of a device away. In files of `key=value` pairs, keys that a
//! line does not name keep their value; the first line for a device starts from the default.
//!
//! A device may have a value for every group below the root that has none of its own:
//! `nr_group_requests`, for slots ([`Tree::with_group_requests`]).
//!
//! A write is all or nothing, and what [`Tree::read`] gives may be written back, to this group or
//! to a new one. Nothing is inherited: a limit or a guarantee of a group above holds because the
//! engine counts a request in all of its groups. So that what is written is what can be had, a
//! limit above that of the nearest group above that has one is refused, and so are guarantees that
//! add up to more than the group above them has.

use crate::limits::GROUP_FILE_BYTES_MAX;
use crate::own::{Latency, Table};
use crate::tree::Tree;
use core::fmt;
use iopace_core::group::{Class, Limits, Rates, Settings, Slots, Weight};
use iopace_core::request::GroupId;
use std::collections::BTreeMap;
use value::Value;

mod error;
mod lines;
mod nesting;
mod plain;
pub(crate) mod rates;
#[cfg(test)]
mod tests;
pub(crate) mod value;
mod words;

pub use error::{FileError, FileProblem};

/// Suffixes of sizes in files of groups and on the command line, each with its bytes. A lone letter
/// counts in 1024, as with QEMU, fio and truncate.
pub const SIZE_SUFFIXES: [(&str, u64); 15] = [
    ("", 1),
    ("B", 1),
    ("k", 1 << 10),
    ("K", 1 << 10),
    ("M", 1 << 20),
    ("G", 1 << 30),
    ("T", 1 << 40),
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
    ("TiB", 1 << 40),
    ("kB", 1_000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
    ("TB", 1_000_000_000_000),
];

/// What one file of a group is.
#[derive(Debug, PartialEq, Eq)]
pub struct FileSpec {
    /// Its name.
    pub name: &'static str,
    /// What it is for, in a sentence or two.
    pub summary: &'static str,
    /// A line that may be written, or one that is read where nothing may be.
    pub example: &'static str,
    /// Whether users may write it.
    pub writable: bool,
}

/// The files of a group, those that users write first.
pub static FILES: [FileSpec; 8] = [
    FileSpec {
        name: "io.weight",
        summary: "Share of what is left, relative to the siblings: 1 to 10000, default 100.",
        example: "disk 200",
        writable: true,
    },
    FileSpec {
        name: "io.ioprio_class",
        summary: "Strict order among siblings: 1 or RT (before all others), 2 or BE (by weight, \
                  the default), 3 or IDLE (when nobody else has anything to do).",
        example: "disk IDLE",
        writable: true,
    },
    FileSpec {
        name: "io.max",
        summary: "What the group and those below it never exceed. Keys: rbps wbps bps (bytes per \
                  second), riops wiops iops (requests per second), each with -burst for a moment; \
                  burst-length (default 1s, up to 60s), iops-size. 'max' lifts a limit. k, M, G \
                  and T count in 1024.",
        example: "disk rbps=2097152 wiops=120",
        writable: true,
    },
    FileSpec {
        name: "io.min",
        summary: "What the group gets before weights count. Keys as the rates of io.max; 0 takes \
                  a guarantee away.",
        example: "disk rbps=20M wiops=50",
        writable: true,
    },
    FileSpec {
        name: "io.latency",
        summary: "Completion latency that the group is to have, in microseconds or with a unit; 0 \
                  takes the target away.",
        example: "disk target=5ms",
        writable: true,
    },
    FileSpec {
        name: "io.nr_group_requests",
        summary: "Slots: most requests that the group and those below it have in the scheduler \
                  and at the disk ('max': as many as the device), and how many it gets first.",
        example: "disk 100 guaranteed=20",
        writable: true,
    },
    FileSpec {
        name: "io.stat",
        summary: "What the group did on each device since it was made.",
        example: "disk rbytes=4096 wbytes=0 rios=1 wios=0 dbytes=0 dios=0",
        writable: false,
    },
    FileSpec {
        name: "io.pressure",
        summary: "Share of time in which some or all tasks of the group waited for a device.",
        example: "some avg10=0.00 avg60=0.00 avg300=0.00 total=0",
        writable: false,
    },
];

/// What a write changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Changed {
    /// The group.
    pub group: GroupId,
    /// The file.
    pub file: &'static str,
    /// The devices on which something else holds now, of those that the write was given.
    pub devices: Vec<String>,
}

/// Where an effective value comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// A line for this device.
    Device,
    /// The group's default.
    Group,
    /// The cgroup of the kernel that the group stands for.
    Cgroup,
    /// The device's value for every group (`nr_group_requests`).
    DeviceDefault,
    /// Nobody set it.
    BuiltIn,
}

/// An effective value of a group on a device and where it comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explained {
    /// The file.
    pub file: &'static str,
    /// The device.
    pub device: String,
    /// The value as it stands behind the device in the file.
    pub value: String,
    /// Where it comes from.
    pub source: Source,
}

impl fmt::Display for Explained {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (", self.value)?;
        match self.source {
            Source::Device => write!(f, "set for {})", self.device),
            Source::Group => f.write_str("default of the group)"),
            Source::Cgroup => f.write_str("cgroup of the kernel)"),
            Source::DeviceDefault => write!(f, "default of {})", self.device),
            Source::BuiltIn => f.write_str("built in)"),
        }
    }
}

/// Calls the method of the value that a file holds.
macro_rules! by_file {
    ($self:ident, $id:ident, $file:ident, $method:ident($($argument:expr),*)) => {
        match $file {
            "io.weight" => Ok($self.$method::<Weight>($($argument),*)),
            "io.ioprio_class" => Ok($self.$method::<Class>($($argument),*)),
            "io.max" => Ok($self.$method::<Limits>($($argument),*)),
            "io.min" => Ok($self.$method::<Rates>($($argument),*)),
            "io.latency" => Ok($self.$method::<Latency>($($argument),*)),
            "io.nr_group_requests" => Ok($self.$method::<Slots>($($argument),*)),
            _ => Err(FileError::no_such($self.path($id), $file)),
        }
    };
}

impl Tree {
    /// What holds for a group on a device: the line of the device if there is one, else the
    /// group's default, else what its cgroup in the kernel has, else what the device gives every
    /// group, else what is built in. Groups above are not looked at.
    pub fn effective(&self, id: GroupId, device: &str) -> Settings {
        let own = self.own(id);
        Settings {
            weight: own.weight.in_force(self, id, Some(device)),
            class: own.class.in_force(self, id, Some(device)),
            slots: own.slots.in_force(self, id, Some(device)),
            max: own.max.in_force(self, id, Some(device)),
            min: own.min.in_force(self, id, Some(device)),
            latency: own.latency.in_force(self, id, Some(device)).0,
        }
    }

    /// A file of a group, as lines that could be written; empty if nothing is set.
    ///
    /// # Errors
    /// The file is not a setting, or there is none of this name.
    pub fn read(&self, id: GroupId, file: &str) -> Result<String, FileError> {
        by_file!(self, id, file, print(id))
    }

    /// The effective value of a group on a device as text, and where it comes from.
    ///
    /// # Errors
    /// As [`Tree::read`].
    pub fn explain(&self, id: GroupId, file: &str, device: &str) -> Result<Explained, FileError> {
        by_file!(self, id, file, explain_value(id, device))
    }

    /// Writes lines to a file of a group: all of them or, on an error, none. `devices` are the
    /// names of the devices that there are; a line for another is an error, unless the file has a
    /// line for it from before.
    ///
    /// # Errors
    /// Which line is wrong and what would be right. A line that contradicts the groups above or
    /// below (see [the module](self)) is an error too.
    pub fn write(
        &mut self,
        id: GroupId,
        file: &str,
        text: &str,
        devices: &[&str],
    ) -> Result<Changed, FileError> {
        by_file!(self, id, file, set(id, text, devices))?
    }

    /// Forgets the lines of a device that there is no more, in all groups.
    pub fn forget_device(&mut self, device: &str) {
        let ids: Vec<GroupId> = self.iter().collect();
        for id in ids {
            self.own_mut(id).forget_device(device);
        }
    }

    fn print<T: Value>(&self, id: GroupId) -> String {
        let over_cgroup = self.followed(id).is_some_and(|own| !T::table(own).is_empty());
        T::table(self.own(id)).print(over_cgroup)
    }

    fn explain_value<T: Value>(&self, id: GroupId, device: &str) -> Explained {
        let table = T::table(self.own(id));
        let value = table.in_force(self, id, Some(device)).print(T::default());
        let source = table.source(self, id, device);
        Explained { file: T::FILE, device: device.into(), value, source }
    }

    fn set<T: Value>(
        &mut self,
        id: GroupId,
        text: &str,
        devices: &[&str],
    ) -> Result<Changed, FileError> {
        let fail = |line, bad| FileError::new::<T>(self.path(id), line, bad);
        if text.len() > GROUP_FILE_BYTES_MAX {
            let problem = format!("a write of more than {GROUP_FILE_BYTES_MAX} bytes");
            return Err(fail(None, (FileProblem::Malformed, problem)));
        }
        let old = T::table(self.own(id));
        let mut new: Table<T> = old.clone();
        // Who was written where, for errors that only the whole text shows.
        let mut places: BTreeMap<Option<&str>, usize> = BTreeMap::new();
        for (number, line) in text.lines().enumerate().map(|(at, line)| (at + 1, line)) {
            let before = |table: &Table<T>, device: Option<&str>| {
                let followed = table.of_cgroup(self, id, device);
                followed.unwrap_or_else(|| table.effective(device))
            };
            match lines::apply(&mut new, line, devices, before) {
                Ok(Some(target)) => _ = places.insert(target, number),
                Ok(None) => {}
                Err(bad) => return Err(fail(Some(number), bad)),
            }
        }
        if !self.is_mapped(id) {
            new.tidy();
        }
        nesting::check(self, id, &new, devices).map_err(|(device, problem)| {
            let line = places.get(&device.as_deref()).or_else(|| places.get(&None));
            fail(line.copied(), (FileProblem::Nesting, problem))
        })?;
        let holds = |table: &Table<T>, device: &str| table.in_force(self, id, Some(device));
        let differs = |device: &&&str| holds(old, device) != holds(&new, device);
        let devices = devices.iter().filter(differs).map(|device| (*device).into()).collect();
        *T::table_mut(self.own_mut(id)) = new;
        Ok(Changed { group: id, file: T::FILE, devices })
    }
}
