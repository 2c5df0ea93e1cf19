//! What the files of a group hold, and how it is read, written and compared.

use super::Source;
use crate::own::{Kept, Table};
use crate::tree::Tree;
use iopace_core::request::GroupId;

/// A rate or number for each key that a group above bounds: those of [`iopace_core::group::Rates`]
/// in their order, or slots at the first place.
pub(crate) type Figures = [Option<u64>; 6];

/// What a file holds for a device. Its `default()` is what is built in.
pub(crate) trait Value: Kept + Copy + Default + PartialEq + 'static {
    /// Whether a value alone sets the default, which is printed always. Where not, a file has
    /// lines of keys, and a line that sets nothing stays only to except a device from the default.
    const IS_PLAIN: bool;
    /// Whether the file knows `default VALUE`.
    const HAS_DEFAULT: bool;

    /// The value that the words behind a device make of the one before.
    fn parse(self, words: &[&str]) -> Result<Self, String>;

    /// As words that [`Value::parse`] makes this value of, starting from `base`.
    fn print(self, base: Self) -> String;

    /// The value of a group on a device (`None`: on those without a line) for which it has none of
    /// its own: the device's value for every group, if there is one.
    fn of_device(_tree: &Tree, _id: GroupId, _device: Option<&str>) -> Option<Self> {
        None
    }

    /// What bounds the groups below, each by itself.
    fn ceilings(self) -> Figures {
        Figures::default()
    }

    /// What bounds the children, all together.
    fn promises(self) -> Figures {
        Figures::default()
    }

    /// A figure as it is written.
    fn figure(_index: usize, _value: u64) -> String {
        String::new()
    }
}

impl<T: Value> Table<T> {
    /// The value that was written for a device, or for those without a line (`None`), else the
    /// device's value for every group. The kernel's cgroup does not count.
    pub(crate) fn held(&self, tree: &Tree, id: GroupId, device: Option<&str>) -> T {
        let own = self.own(device).or_else(|| T::of_device(tree, id, device));
        own.unwrap_or_default()
    }

    /// The value that holds on a device: the one that was written, else that of the group's cgroup
    /// in the kernel, else as [`Table::held`].
    pub(crate) fn in_force(&self, tree: &Tree, id: GroupId, device: Option<&str>) -> T {
        self.of_cgroup(tree, id, device).unwrap_or_else(|| self.held(tree, id, device))
    }

    /// The value of the group's cgroup in the kernel for a device, unless one was written.
    pub(crate) fn of_cgroup(&self, tree: &Tree, id: GroupId, device: Option<&str>) -> Option<T> {
        let followed = tree.followed(id).filter(|_| !self.names(device))?;
        T::table(followed).own(device)
    }

    /// Where [`Table::in_force`] has it from.
    pub(crate) fn source(&self, tree: &Tree, id: GroupId, device: &str) -> Source {
        if self.has_line(device) {
            Source::Device
        } else if self.default.is_some() {
            Source::Group
        } else if self.of_cgroup(tree, id, Some(device)).is_some() {
            Source::Cgroup
        } else if T::of_device(tree, id, Some(device)).is_some() {
            Source::DeviceDefault
        } else {
            Source::BuiltIn
        }
    }

    /// Drops what says nothing, after a whole write. Where a cgroup may have something else, all
    /// says something.
    pub(crate) fn tidy(&mut self) {
        self.default = self.default.filter(|value| *value != T::default());
        if !T::IS_PLAIN && self.default.is_none() {
            self.lines.retain(|_, value| *value != T::default());
        }
    }

    /// As lines that could be written; `over_cgroup` if a cgroup of the kernel has something too.
    pub(crate) fn print(&self, over_cgroup: bool) -> String {
        let base = self.effective(None);
        let mut text = String::new();
        if self.default.is_some() || T::IS_PLAIN && !over_cgroup {
            text.push_str(&format!("default {}\n", base.print(T::default())));
        }
        for (device, value) in &self.lines {
            text.push_str(&format!("{device} {}\n", value.print(base)));
        }
        text
    }
}
