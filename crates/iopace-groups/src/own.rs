//! What users set for one group, file by file.

use iopace_core::group::{Class, Limits, Rates, Slots, Weight};
use iopace_core::time::Nanos;
use std::collections::BTreeMap;

/// A latency target, if there is one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Latency(pub(crate) Option<Nanos>);

/// Where a value is kept.
pub(crate) trait Kept: Sized {
    /// The name of its file.
    const FILE: &'static str;

    /// The file of a group.
    fn table(own: &Own) -> &Table<Self>;

    /// The same, to change it.
    fn table_mut(own: &mut Own) -> &mut Table<Self>;
}

/// One file of one group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Table<T> {
    /// For devices without a line, if it was written; it may be what is built in.
    pub(crate) default: Option<T>,
    /// By device.
    pub(crate) lines: BTreeMap<String, T>,
}

impl<T> Default for Table<T> {
    fn default() -> Table<T> {
        Table { default: None, lines: BTreeMap::new() }
    }
}

impl<T: Copy + Default + PartialEq> Table<T> {
    /// What holds on a device, or on one without a line (`None`).
    pub(crate) fn effective(&self, device: Option<&str>) -> T {
        self.own(device).unwrap_or_default()
    }

    /// The same, if the group has a value of its own.
    pub(crate) fn own(&self, device: Option<&str>) -> Option<T> {
        let line = device.and_then(|device| self.lines.get(device));
        line.copied().or(self.default.filter(|value| *value != T::default()))
    }

    /// Whether something was written that holds for a device, be it what is built in.
    pub(crate) fn names(&self, device: Option<&str>) -> bool {
        self.default.is_some() || device.is_some_and(|device| self.has_line(device))
    }

    /// Whether nothing was written.
    pub(crate) fn is_empty(&self) -> bool {
        self.default.is_none() && self.lines.is_empty()
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
            (None, value) => self.default = value,
            (Some(device), Some(value)) => _ = self.lines.insert(device.into(), value),
            (Some(device), None) => _ = self.lines.remove(device),
        }
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
