//! What users set for one group, file by file.

use super::Source;
use super::plain::Latency;
use crate::tree::Tree;
use iopace_core::group::{Class, Limits, Rates, Slots, Weight};
use iopace_core::request::GroupId;
use std::collections::BTreeMap;

/// A rate or number for each key that a group above bounds: those of [`Rates`] in their order, or
/// slots at the first place.
pub(crate) type Figures = [Option<u64>; 6];

/// Where a value is kept.
pub(crate) trait Kept: Sized {
    /// The name of its file.
    const FILE: &'static str;

    /// The file of a group.
    fn table(own: &Own) -> &Table<Self>;

    /// The same, to change it.
    fn table_mut(own: &mut Own) -> &mut Table<Self>;
}

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

/// One file of one group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Table<T> {
    /// For devices without a line; `None` where it is what is built in.
    default: Option<T>,
    /// By device.
    lines: BTreeMap<String, T>,
}

impl<T> Default for Table<T> {
    fn default() -> Table<T> {
        Table { default: None, lines: BTreeMap::new() }
    }
}

impl<T: Value> Table<T> {
    /// What holds on a device, or on one without a line (`None`).
    pub(crate) fn effective(&self, device: Option<&str>) -> T {
        self.own(device).unwrap_or_default()
    }

    /// The same, if the group has a value of its own.
    pub(crate) fn own(&self, device: Option<&str>) -> Option<T> {
        let line = device.and_then(|device| self.lines.get(device));
        line.copied().or(self.default)
    }

    /// The same with what the device gives every group.
    pub(crate) fn held(&self, tree: &Tree, id: GroupId, device: Option<&str>) -> T {
        let own = self.own(device).or_else(|| T::of_device(tree, id, device));
        own.unwrap_or_default()
    }

    /// Where [`Table::held`] has it from.
    pub(crate) fn source(&self, tree: &Tree, id: GroupId, device: &str) -> Source {
        match (self.lines.get(device), self.default) {
            (Some(_), _) => Source::Device,
            (None, Some(_)) => Source::Group,
            (None, None) => match T::of_device(tree, id, Some(device)) {
                Some(_) => Source::DeviceDefault,
                None => Source::BuiltIn,
            },
        }
    }

    /// Devices with a line.
    pub(crate) fn devices(&self) -> impl Iterator<Item = &str> {
        self.lines.keys().map(String::as_str)
    }

    /// Whether a device has a line.
    pub(crate) fn has_line(&self, device: &str) -> bool {
        self.lines.contains_key(device)
    }

    /// Sets the line of a device, or the default (`None`); no value takes it away.
    pub(crate) fn set(&mut self, device: Option<&str>, value: Option<T>) {
        match (device, value) {
            (None, value) => self.default = value.filter(|value| *value != T::default()),
            (Some(device), Some(value)) => _ = self.lines.insert(device.into(), value),
            (Some(device), None) => _ = self.lines.remove(device),
        }
    }

    /// Drops lines that say nothing, after a whole write.
    pub(crate) fn tidy(&mut self) {
        if !T::IS_PLAIN && self.default.is_none() {
            self.lines.retain(|_, value| *value != T::default());
        }
    }

    /// As lines that could be written.
    pub(crate) fn print(&self) -> String {
        let base = self.effective(None);
        let mut text = String::new();
        if T::IS_PLAIN || self.default.is_some() {
            text.push_str(&format!("default {}\n", base.print(T::default())));
        }
        for (device, value) in &self.lines {
            text.push_str(&format!("{device} {}\n", value.print(base)));
        }
        text
    }
}

/// The files of a group: where each is kept, what it holds, its name.
macro_rules! files {
    ($($field:ident: $value:ty = $name:literal,)*) => {
        /// All files of one group.
        #[derive(Clone, Debug, Default, PartialEq, Eq)]
        pub(crate) struct Own {
            $(pub(crate) $field: Table<$value>,)*
        }

        impl Own {
            /// Forgets the lines of a device.
            pub(crate) fn forget_device(&mut self, device: &str) {
                $(self.$field.set(Some(device), None);)*
            }
        }

        $(impl Kept for $value {
            const FILE: &'static str = $name;

            fn table(own: &Own) -> &Table<Self> {
                &own.$field
            }

            fn table_mut(own: &mut Own) -> &mut Table<Self> {
                &mut own.$field
            }
        })*
    };
}

files! {
    weight: Weight = "io.weight",
    class: Class = "io.ioprio_class",
    slots: Slots = "io.nr_group_requests",
    max: Limits = "io.max",
    min: Rates = "io.min",
    latency: Latency = "io.latency",
}
