//! What `ionice` has set, as a group below the one that pays.
//!
//! `ioprio_get(2)` says the class in the bits from 13 on and the level in the lowest three
//! (linux/ioprio.h). Class 0, nothing set, and class 2 with its default level, 4, make no
//! difference here. Otherwise the request pays as a group in the group that the rules give:
//!
//! ```text
//! class              level  group  what is set for it
//! 1 real time        any    rt     io.ioprio_class 1
//! 2 best effort      0..7   be0..  io.weight 200 175 150 125 - 75 50 25
//! 3 idle             -      idle   io.ioprio_class 3
//! ```
//!
//! Weights are those of `bfq_ioprio_to_weight` (block/bfq-iosched.c), ten for each level that is
//! missing to 8, scaled so that level 4 has the default of 100: 25 * (8 - level). Where nothing is
//! set the kernel derives a level from `nice`; that is left out, as `nice` is about processors.

use std::borrow::Cow;

/// A class that makes a difference.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Class {
    /// Before all others.
    RealTime,
    /// By weight: its level, not the default one.
    BestEffort(u8),
    /// When nobody else has anything to do.
    Idle,
}

/// The level of best effort that is the default: `IOPRIO_BE_NORM`.
const LEVEL_DEFAULT: u8 = 4;

impl Class {
    /// From what `ioprio_get(2)` says.
    pub(crate) fn of(ioprio: u16) -> Option<Class> {
        match (ioprio >> 13, (ioprio & 7) as u8) {
            (1, _) => Some(Class::RealTime),
            (2, level) if level != LEVEL_DEFAULT => Some(Class::BestEffort(level)),
            (3, _) => Some(Class::Idle),
            _ => None,
        }
    }

    /// The name of its group.
    pub(crate) fn name(self) -> Cow<'static, str> {
        match self {
            Class::RealTime => "rt".into(),
            Class::BestEffort(level) => format!("be{level}").into(),
            Class::Idle => "idle".into(),
        }
    }

    /// What is written to which file of its group.
    pub(crate) fn setting(self) -> (&'static str, String) {
        match self {
            Class::RealTime => ("io.ioprio_class", "1".into()),
            Class::BestEffort(level) => ("io.weight", (25 * (8 - u32::from(level))).to_string()),
            Class::Idle => ("io.ioprio_class", "3".into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_are_those_of_ionice() {
        let of = |class: u16, data: u16| Class::of(class << 13 | data);
        assert_eq!((of(0, 0), of(0, 4), of(2, 4)), (None, None, None));
        assert_eq!((of(1, 0), of(1, 4)), (Some(Class::RealTime), Some(Class::RealTime)));
        assert_eq!((of(3, 0), of(3, 7)), (Some(Class::Idle), Some(Class::Idle)));
        // Hints of Linux 6.5 stand between the class and the level.
        assert_eq!(of(2, 5 << 3 | 7), Some(Class::BestEffort(7)));
        assert_eq!((of(4, 0), of(7, 7)), (None, None));
    }

    #[test]
    fn levels_weigh_as_with_bfq() {
        for level in (0..8).filter(|level| *level != 4) {
            let class = Class::of(2 << 13 | level).expect("not the default");
            let (file, weight) = class.setting();
            assert_eq!(file, "io.weight");
            let weight: u16 = weight.parse().expect("a number");
            // bfq_ioprio_to_weight, and 40 there is 100 here.
            assert_eq!(weight, (8 - level) * 10 * 100 / 40);
            assert_eq!(class.name(), format!("be{level}"));
        }
        assert_eq!(Class::Idle.setting(), ("io.ioprio_class", "3".into()));
        assert_eq!(Class::RealTime.setting(), ("io.ioprio_class", "1".into()));
    }
}
