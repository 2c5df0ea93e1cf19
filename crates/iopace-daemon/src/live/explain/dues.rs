//! What part of something is due to a group: by weight where it is divided so, else equal parts.

use super::super::limits::SettingsOf;
use super::super::span::{chain, parent};
use iopace_core::group::{Class, Settings, Weight};
use std::collections::{BTreeMap, BTreeSet};

/// A whole, in millionths: ten levels of rounding are not seen in thousandths.
const WHOLE: u64 = 1_000_000;

/// The weights of those that have a part, below each group.
pub(super) struct Dues<'a> {
    settings: &'a SettingsOf,
    by_class: bool,
    /// Groups that hold some, or below which some is held.
    active: BTreeSet<&'a str>,
    /// By group and class: the weights of the active ones right below it, together.
    below: BTreeMap<(&'a str, Class), u64>,
}

impl<'a> Dues<'a> {
    /// `by_class`: siblings of another class have no part. What a group has itself counts as
    /// `own_count` groups below it.
    pub(super) fn of(
        settings: &'a SettingsOf,
        holders: &[(&'a str, u128)],
        by_class: bool,
        own_count: impl Fn(&str) -> u64,
    ) -> Dues<'a> {
        let active: BTreeSet<&str> = holders.iter().flat_map(|(path, _)| chain(path)).collect();
        let mut dues = Dues { settings, by_class, active, below: BTreeMap::new() };
        for path in &dues.active {
            if let Some(above) = parent(path) {
                let (weight, class) = dues.set(path);
                *dues.below.entry((above, class)).or_default() += weight;
            }
        }
        // What a group has itself competes with those below it. Alone it is nobody's rival.
        for (path, _) in holders {
            let key = (*path, Class::default());
            let own = own_count(path) * u64::from(Weight::DEFAULT.get());
            *dues.below.entry(key).or_default() += own;
        }
        dues
    }

    /// The part that is due to a group, in thousandths: at each level by its weight, against those
    /// of its class that have some. What is above its class is no part of what is divided.
    pub(super) fn permille(&self, group: &str) -> u32 {
        let mut due = WHOLE;
        for path in chain(group) {
            let Some(above) = parent(path) else { break };
            let (weight, class) = self.set(path);
            let mut all = self.below.get(&(above, class)).copied().unwrap_or_default();
            if !self.active.contains(path) {
                all += weight;
            }
            due = due * weight / all.max(weight);
        }
        u32::try_from(due * 1_000 / WHOLE).unwrap_or(1_000)
    }

    /// The weight of a group, and the class in which it counts.
    fn set(&self, path: &str) -> (u64, Class) {
        let Settings { weight, class, .. } = self.settings.get(path).copied().unwrap_or_default();
        (u64::from(weight.get()), if self.by_class { class } else { Class::default() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn weighs(weight: u32, class: Class) -> Settings {
        Settings { weight: Weight::new(weight).expect("legal"), class, ..Settings::default() }
    }

    #[test]
    fn weights_divide_level_by_level() {
        let be = Class::BestEffort;
        let settings = SettingsOf::from([
            ("/a".into(), weighs(300, be)),
            ("/a/x".into(), weighs(100, be)),
            ("/a/y".into(), weighs(400, be)),
            ("/idle".into(), weighs(1_000, Class::Idle)),
            ("/asleep".into(), weighs(1_000, be)),
        ]);
        let holders = [("/a/x", 1), ("/a/y", 1), ("/b", 1), ("/idle", 1)];
        let dues = Dues::of(&settings, &holders, true, |_| 1);
        let of = ["/a", "/b", "/a/x", "/a/y", "/"].map(|group| dues.permille(group));
        assert_eq!(of, [750, 250, 150, 600, 1_000]);
        // One that has none would share with those that have.
        assert_eq!(dues.permille("/c"), 100 * 1_000 / 500);
        // Of its own class there is nobody else.
        assert_eq!(dues.permille("/idle"), 1_000);
        // Tasks of the root compete with the groups below it.
        let dues = Dues::of(&settings, &[("/a", 1), ("/", 1)], true, |_| 1);
        assert_eq!(dues.permille("/a"), 750);
        let dues = Dues::of(&settings, &[("/a", 1), ("/", 1)], true, |_| 3);
        assert_eq!(dues.permille("/a"), 500, "each of them, where each is one");
        // Without classes an idle one is one of many.
        let dues = Dues::of(&settings, &[("/a", 1), ("/idle", 1)], false, |_| 1);
        assert_eq!(dues.permille("/idle"), 769);
    }
}
