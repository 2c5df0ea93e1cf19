//! One event when something begins to be wrong and one when it is over.

use super::Wrong;
use std::collections::BTreeMap;

/// It is over when it was not so for this many intervals in a row: as long as is judged at once, so
/// that what comes and goes is one event.
const OVER_AFTER: u32 = 10;

/// Events that are raised after one interval; what else is wrong then is raised after the next
/// ones. A fault of a disk that has a thousand groups is not a thousand events at once.
const EVENTS_MAX: usize = 8;

/// What is wrong with whom.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Key {
    pub(super) device: String,
    /// The group; empty for the device itself.
    pub(super) group: String,
    /// The kind of event.
    pub(super) kind: &'static str,
}

/// Something that has begun or ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Raised {
    pub(crate) device: String,
    pub(crate) kind: &'static str,
    pub(crate) text: String,
}

/// What was raised and is not over, with the number of intervals since it was so.
#[derive(Debug, Default)]
pub(super) struct Alarms(BTreeMap<Key, u32>);

impl Alarms {
    /// After one more interval.
    pub(super) fn after(&mut self, wrong: &Wrong) -> Vec<Raised> {
        let mut raised = Vec::new();
        self.0.retain(|key, since| {
            *since = if wrong.contains_key(key) { 0 } else { *since + 1 };
            let is_over = *since >= OVER_AFTER && raised.len() < EVENTS_MAX;
            if is_over {
                raised.push(key.raise("over: this has not been so for ten seconds"));
            }
            !is_over
        });
        for (key, text) in wrong {
            if raised.len() < EVENTS_MAX && !self.0.contains_key(key) {
                self.0.insert(key.clone(), 0);
                raised.push(key.raise(text));
            }
        }
        raised
    }
}

impl Key {
    fn raise(&self, text: &str) -> Raised {
        let text = match &*self.group {
            "" => text.into(),
            group => format!("{group}: {text}"),
        };
        Raised { device: self.device.clone(), kind: self.kind, text }
    }
}

/// The kinds of what is wrong with a group.
pub(super) fn kinds(wrong: &Wrong, device: &str, group: &str) -> Vec<String> {
    let of = |key: &&Key| key.device == device && key.group == group;
    wrong.keys().filter(of).map(|key| key.kind.to_owned()).collect()
}
