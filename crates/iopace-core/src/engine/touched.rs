//! Which stages a change of a group's settings reaches.

use crate::group::Settings;

/// Which stages depend on what has changed of a group's settings.
pub(super) struct Touched {
    pub(super) pace: bool,
    pub(super) admit: bool,
    pub(super) sched: bool,
    pub(super) target: bool,
}

impl Touched {
    /// `before` held until now, `None` if the group was not here, or elsewhere in the hierarchy.
    pub(super) fn by(before: Option<Settings>, now: &Settings) -> Touched {
        let Some(before) = before else {
            return Touched { pace: true, admit: true, sched: true, target: true };
        };
        let (weight, max) = (before.weight != now.weight, before.max != now.max);
        let (min, slots) = (before.min != now.min, before.slots != now.slots);
        Touched {
            pace: weight || max,
            admit: weight || max || min || slots,
            target: before.latency != now.latency,
            sched: weight || min || before.class != now.class,
        }
    }
}
