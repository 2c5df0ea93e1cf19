//! One event when something begins to be wrong and one when it is over.

use super::Wrong;
use std::collections::BTreeMap;

/// It is over when it was not so for this many intervals in a row: as long as is judged at once, so
/// that what comes and goes is one event.
const OVER_AFTER: u32 = 10;

/// Events that are raised after one interval; what else is wrong then is raised after the next
/// ones. A fault of a disk that has a thousand groups is not a thousand events at once.
const EVENTS_MAX: usize = 8;

/// The kind of event that says that something is over.
pub(crate) const OVER: &str = "over";

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

/// What depends on rates of a short time is wrong when it was so after so many intervals in a row:
/// one that was looked at late makes the next one short.
const WRONG_AFTER: u32 = 3;

/// The kinds of that.
const RATED: [&str; 4] =
    ["promise_broken", "guarantee_missed", "latency_missed", "limit_unreachable"];

#[derive(Debug, Default)]
pub(super) struct Alarms {
    /// What was raised and is not over, with the number of intervals since it was so.
    raised: BTreeMap<Key, u32>,
    /// What seems to be wrong, with the number of intervals in a row in which it did.
    seeming: BTreeMap<Key, u32>,
}

impl Alarms {
    /// Of what seems to be wrong after one more interval, what is: the rest may be chance.
    pub(super) fn confirm(&mut self, wrong: Wrong) -> Wrong {
        let former = std::mem::take(&mut self.seeming);
        let is_wrong = |(key, _): &(Key, String)| {
            let count = former.get(key).map_or(1, |count| count.saturating_add(1));
            self.seeming.insert(key.clone(), count);
            let is_new = RATED.contains(&key.kind) && !self.raised.contains_key(key);
            !is_new || count >= WRONG_AFTER
        };
        wrong.into_iter().filter(is_wrong).collect()
    }

    /// After one more interval.
    pub(super) fn after(&mut self, wrong: &Wrong) -> Vec<Raised> {
        let mut raised = Vec::new();
        self.raised.retain(|key, since| {
            *since = if wrong.contains_key(key) { 0 } else { *since + 1 };
            let is_over = *since >= OVER_AFTER && raised.len() < EVENTS_MAX;
            if is_over {
                raised.push(key.over());
            }
            !is_over
        });
        for (key, text) in wrong {
            if raised.len() < EVENTS_MAX && !self.raised.contains_key(key) {
                self.raised.insert(key.clone(), 0);
                raised.push(key.raise(text));
            }
        }
        raised
    }
}

impl Key {
    /// That it is over: of a kind of its own, which is no reason to worry.
    fn over(&self) -> Raised {
        let text = format!("{} is over: it has not been so for ten seconds", self.kind);
        Raised { kind: OVER, ..self.raise(&text) }
    }

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
