//! Outcome tables: measured figures beside those of the source systems, with the bounds to meet.

pub mod all;
pub mod commits;
pub mod congestion;
pub mod format;
pub mod further;
pub mod geom;
pub mod hosts;
pub mod merge;
pub mod nights;
pub mod pace;
pub mod page;
pub mod quantum;
pub mod rivals;
pub mod slots;
pub mod targets;
pub mod weights;

use crate::milli::Milli;
use serde::Serialize;

/// One figure of a table. The keys are part of the command line's promise: none is added, renamed
/// or left out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TableRow {
    /// The table.
    pub table: &'static str,
    /// The mix of programs.
    pub row: &'static str,
    /// The scheduler, or `none`.
    pub variant: &'static str,
    /// What was measured.
    pub figure: &'static str,
    /// Its unit.
    pub unit: &'static str,
    /// The figure of the source system, where it states one.
    pub source: Option<Milli>,
    /// What came out.
    pub value: Milli,
    /// What is to be met, where something is.
    pub bound: Option<String>,
    /// Whether it is met.
    pub holds: Option<bool>,
}

/// What a figure has to meet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bound {
    /// Not less.
    AtLeast(Milli),
    /// Not more.
    AtMost(Milli),
    /// At most so far from a number, in its unit.
    Within(Milli, Milli),
    /// At most so many percent from a number.
    WithinPercent(Milli, u32),
    /// Not less than this part of the same figure without a scheduler.
    OfNone(Milli),
}

impl Bound {
    /// Whether `value` meets it; `none` is the same figure without a scheduler.
    pub fn holds(self, value: Milli, none: Milli) -> bool {
        let distance = |target: Milli| value.0.abs_diff(target.0);
        match self {
            Bound::AtLeast(bound) => value >= bound,
            Bound::AtMost(bound) => value <= bound,
            Bound::Within(target, most) => distance(target) <= most.0.unsigned_abs(),
            Bound::WithinPercent(target, percent) => {
                distance(target) * 100 <= target.0.unsigned_abs() * u64::from(percent)
            }
            Bound::OfNone(part) => {
                i128::from(value.0) * 1_000 >= i128::from(none.0) * i128::from(part.0)
            }
        }
    }

    /// As it stands in the table: ASCII, as short as it can be.
    pub fn text(self) -> String {
        match self {
            Bound::AtLeast(bound) => format!(">= {}", short(bound)),
            Bound::AtMost(bound) => format!("<= {}", short(bound)),
            Bound::Within(target, most) => format!("{} +- {}", short(target), short(most)),
            Bound::WithinPercent(target, percent) => format!("{} +- {percent} %", short(target)),
            Bound::OfNone(part) => format!(">= {} of none", short(part)),
        }
    }
}

/// Two or three decimals for parts, as few as are needed for whole numbers.
fn short(number: Milli) -> String {
    match number.0 {
        n if n % 1_000 == 0 => format!("{number:.0}"),
        n if n % 100 == 0 && n > 1_000 => format!("{number:.1}"),
        n if n % 10 == 0 => format!("{number:.2}"),
        _ => format!("{number}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_read_as_they_are_checked() {
        let zero = Milli(0);
        let cases = [
            (Bound::AtLeast(Milli(30_000)), ">= 30", 30_000, 29_999),
            (Bound::AtLeast(Milli(400)), ">= 0.40", 400, 399),
            (Bound::AtLeast(Milli(999)), ">= 0.999", 999, 998),
            (Bound::AtMost(Milli(250)), "<= 0.25", 250, 251),
            (Bound::Within(Milli(6_000), Milli(1_500)), "6 +- 1.5", 4_500, 4_499),
            (Bound::WithinPercent(Milli(72_000), 3), "72 +- 3 %", 74_160, 74_161),
        ];
        for (bound, text, good, bad) in cases {
            assert_eq!(bound.text(), text);
            assert!(bound.holds(Milli(good), zero), "{text} {good}");
            assert!(!bound.holds(Milli(bad), zero), "{text} {bad}");
        }
        let of_none = Bound::OfNone(Milli(990));
        assert_eq!(of_none.text(), ">= 0.99 of none");
        assert!(of_none.holds(Milli(990), Milli(1_000)));
        assert!(!of_none.holds(Milli(989), Milli(1_000)));
    }
}
