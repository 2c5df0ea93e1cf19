//! What users set for one group, file by file.

use super::Source;
use super::plain::Latency;
use iopace_core::group::{Class, Limits, Rates, Slots, Weight};
use std::collections::BTreeMap;

/// A rate or number for each key that a group above bounds: those of [`Rates`] in their order, or
/// slots at the first place.
pub(crate) type Figures = [Option<u64>; 6];

/// What a file holds for a device. Its `default()` is what is built in.
pub(crate) trait Value: Copy + Default + PartialEq + 'static {
    /// The name of the file.
    const FILE: &'static str;
    /// Whether a value alone sets the default, which is printed always. Where not, a file has
    /// lines of keys, and a line that sets nothing stays only to except a device from the default.
    const IS_PLAIN: bool;
    /// Whether the file knows `default VALUE`.
    const HAS_DEFAULT: bool;

    /// Where it is kept.
    fn table(own: &Own) -> &Table<Self>;

    /// The same, to change it.
    fn table_mut(own: &mut Own) -> &mut Table<Self>;

    /// The value that the words behind a device make of the one before.
    fn parse(self, words: &[&str]) -> Result<Self, String>;

    /// As words that [`Value::parse`] makes this value of, starting from `base`.
    fn print(self, base: Self) -> String;

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
        let line = device.and_then(|device| self.lines.get(device));
        line.copied().or(self.default).unwrap_or_default()
    }

    /// Where [`Table::effective`] has it from.
    pub(crate) fn source(&self, device: &str) -> Source {
        match (self.lines.get(device), self.default) {
            (Some(_), _) => Source::Device,
            (None, Some(_)) => Source::Group,
            (None, None) => Source::BuiltIn,
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

/// All files of one group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Own {
    /// `io.weight`.
    pub(crate) weight: Table<Weight>,
    /// `io.ioprio_class`.
    pub(crate) class: Table<Class>,
    /// `io.nr_group_requests`.
    pub(crate) slots: Table<Slots>,
    /// `io.max`.
    pub(crate) max: Table<Limits>,
    /// `io.min`.
    pub(crate) min: Table<Rates>,
    /// `io.latency`.
    pub(crate) latency: Table<Latency>,
}

impl Own {
    /// Forgets the lines of a device.
    pub(crate) fn forget_device(&mut self, device: &str) {
        self.weight.set(Some(device), None);
        self.class.set(Some(device), None);
        self.slots.set(Some(device), None);
        self.max.set(Some(device), None);
        self.min.set(Some(device), None);
        self.latency.set(Some(device), None);
    }
}
