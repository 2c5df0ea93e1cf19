//! Why requests wait: a letter, a word and a colour for each reason, and the shares of the time.

use iopace_daemon::api::{Activity, WaitsReport};

/// How many reasons there are, the disk at work included.
pub const COUNT: usize = 8;

/// A reason.
#[derive(Clone, Copy, Debug)]
pub struct Reason {
    /// Stands for it in bars, so that colour is never all there is.
    pub letter: char,
    /// What it is called.
    pub word: &'static str,
    /// The same where room is short.
    pub short: &'static str,
    /// Its place in the palette of 256 colours: those of Okabe and Ito (2008), which people with
    /// any kind of colour blindness tell apart, as near as the palette has them; as on the page.
    pub indexed: u8,
    /// Its place among the 8 colours of a plain terminal.
    pub plain: u8,
    /// Whether black is read better on it than white.
    pub is_light: bool,
}

const fn reason(
    letter: char,
    word: &'static str,
    short: &'static str,
    indexed: u8,
    plain: u8,
) -> Reason {
    // Of both palettes, only blue is dark.
    Reason { letter, word, short, indexed, plain, is_light: indexed != 25 }
}

/// All of them, in the order in which a request meets them.
pub const REASONS: [Reason; COUNT] = [
    reason('D', "dirty rate", "dirty", 214, 3),
    reason('M', "dirty limit", "memory", 166, 1),
    reason('S', "slot", "slot", 175, 5),
    reason('L', "limit", "limit", 227, 7),
    reason('T', "turn", "turn", 25, 4),
    reason('A', "anticipation", "antic.", 74, 6),
    reason('W', "window", "window", 36, 2),
    // It is no waiting.
    reason('=', "disk", "disk", 247, 0),
];

/// Place of the disk in [`REASONS`].
pub const DISK: usize = COUNT - 1;

/// What there are shares of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Of {
    /// Time in ns that tasks waited, of what finished.
    Tasks,
    /// Time in ns of write-back that finished, for which nobody waited; no task waited for any.
    WriteBack,
    /// Requests that are there now; nothing finished.
    #[default]
    Now,
}

/// How much of an activity falls to each reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Shares {
    /// By reason.
    pub values: [u64; COUNT],
    /// What they are.
    pub of: Of,
}

/// Time by reason.
fn times(waits: &WaitsReport) -> [u64; COUNT] {
    [
        waits.dirty_ns,
        waits.memory_ns,
        waits.slot_ns,
        waits.budget_ns,
        waits.turn_ns,
        waits.anticipation_ns,
        waits.window_ns,
        waits.disk_ns,
    ]
}

impl Shares {
    /// Those of an activity.
    pub fn of(activity: &Activity) -> Shares {
        let (all, unawaited) = (times(&activity.waits), times(&activity.unawaited));
        let awaited = std::array::from_fn(|at| all[at].saturating_sub(unawaited[at]));
        for (values, of) in [(awaited, Of::Tasks), (unawaited, Of::WriteBack)] {
            if values.iter().any(|time| *time > 0) {
                return Shares { values, of };
            }
        }
        let n = &activity.now;
        let counts = [
            n.dirty_count,
            n.memory_count,
            n.slot_count,
            n.budget_count,
            n.turn_count,
            n.anticipation_count,
            n.window_count,
            n.disk_count,
        ];
        Shares { values: counts.map(u64::from), of: Of::Now }
    }

    /// The time that tasks waited, the disk's left out; 0 if it is not known.
    pub fn waited_ns(&self) -> u64 {
        if self.of != Of::Tasks {
            return 0;
        }
        self.values[..DISK].iter().fold(0, |sum, value| sum.saturating_add(*value))
    }

    /// The letters of a bar of so many cells, each reason with its part (largest remainders), as
    /// places in [`REASONS`]; empty if there is nothing to show.
    pub fn bar(&self, cells: u16) -> Vec<usize> {
        let total = self.total();
        if total == 0 {
            return Vec::new();
        }
        let scaled = self.values.map(|value| u128::from(value) * u128::from(cells));
        let mut parts = scaled.map(|value| value / total);
        let mut places: Vec<usize> = (0..COUNT).collect();
        // Of equal remainders the reason that comes first has it.
        places.sort_by_key(|place| std::cmp::Reverse(scaled[*place] % total));
        let left = u128::from(cells) - parts.iter().sum::<u128>();
        for place in places.into_iter().take(usize::try_from(left).unwrap_or(0)) {
            parts[place] += 1;
        }
        let part = |place: usize| usize::try_from(parts[place]).unwrap_or(0);
        (0..COUNT).flat_map(|place| std::iter::repeat_n(place, part(place))).collect()
    }

    /// The reasons that have a part, as places in [`REASONS`], the largest first, with their
    /// percents in text: what is there at all is not 0 %.
    pub fn percents(&self) -> Vec<(usize, String)> {
        let total = self.total();
        let mut places: Vec<usize> = (0..COUNT).filter(|place| self.values[*place] > 0).collect();
        places.sort_by_key(|place| std::cmp::Reverse(self.values[*place]));
        let percent =
            |place: usize| match (u128::from(self.values[place]) * 200 / total).div_ceil(2) {
                0 => "<1%".to_owned(),
                percent => format!("{percent}%"),
            };
        places.into_iter().map(|place| (place, percent(place))).collect()
    }

    fn total(&self) -> u128 {
        self.values.iter().map(|value| u128::from(*value)).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::reason_word;
    use iopace_core::verdict::Reason::{
        Anticipation, Budget, Dirty, Disk, Memory, Slot, Turn, Window,
    };

    fn letters(values: [u64; COUNT], cells: u16) -> String {
        let bar = Shares { values, of: Of::Tasks }.bar(cells);
        bar.into_iter().map(|place| REASONS[place].letter).collect()
    }

    #[test]
    fn a_bar_is_as_long_as_it_may_be_and_shared_by_time() {
        assert_eq!(letters([50, 0, 25, 0, 0, 0, 0, 25], 8), "DDDDSS==");
        assert_eq!(letters([1, 0, 1, 0, 0, 0, 0, 1], 4), "DDS=", "the first has the remainder");
        assert_eq!(letters([0, 0, 0, 0, 0, 0, 1, 999], 10), "==========");
        assert_eq!(letters([u64::MAX; COUNT], 8), "DMSLTAW=", "no sum is too large");
        assert_eq!(letters([0; COUNT], 8), "");
        assert_eq!(letters([5; COUNT], 0), "");
        for cells in 1..50 {
            assert_eq!(letters([3, 1, 4, 1, 5, 9, 2, 6], cells).len(), usize::from(cells));
        }
    }

    #[test]
    fn percents_come_with_the_largest_first() {
        let shares = Shares { values: [1, 0, 800, 0, 0, 0, 0, 1199], of: Of::Tasks };
        let words: Vec<String> = shares
            .percents()
            .into_iter()
            .map(|(place, percent)| format!("{} {percent}", REASONS[place].word))
            .collect();
        assert_eq!(words, ["disk 60%", "slot 40%", "dirty rate <1%"]);
        // The same as everywhere.
        let all = [Dirty, Memory, Slot, Budget, Turn, Anticipation, Window, Disk].map(reason_word);
        assert_eq!(REASONS.map(|reason| reason.word), all);
        assert_eq!(shares.waited_ns(), 801);
        assert!(Shares::default().percents().is_empty());
    }

    #[test]
    fn where_nothing_finished_the_requests_that_wait_count() {
        let mut activity = Activity::default();
        activity.now.slot_count = 3;
        activity.now.disk_count = 1;
        let shares = Shares::of(&activity);
        assert_eq!((shares.values[2], shares.values[DISK], shares.of), (3, 1, Of::Now));
        assert_eq!(shares.waited_ns(), 0, "requests are no time");
        activity.waits.budget_ns = 7;
        let shares = Shares::of(&activity);
        assert_eq!((shares.values[2], shares.values[3], shares.of), (0, 7, Of::Tasks));
    }

    #[test]
    fn write_back_is_shown_where_no_task_waited() {
        let mut activity = Activity::default();
        (activity.waits.budget_ns, activity.waits.disk_ns) = (900, 300);
        (activity.unawaited.budget_ns, activity.unawaited.disk_ns) = (900, 200);
        let shares = Shares::of(&activity);
        assert_eq!((shares.values[3], shares.values[DISK], shares.of), (0, 100, Of::Tasks));
        assert_eq!(shares.waited_ns(), 0, "only write-back waited for the limit");
        activity.waits.disk_ns = 200;
        let shares = Shares::of(&activity);
        assert_eq!((shares.values[3], shares.values[DISK], shares.of), (900, 200, Of::WriteBack));
        assert_eq!(shares.waited_ns(), 0, "nobody waited");
    }

    #[test]
    fn every_reason_has_a_letter_and_colours_of_its_own() {
        for (at, one) in REASONS.iter().enumerate() {
            for other in &REASONS[at + 1..] {
                assert_ne!(one.letter, other.letter);
                assert_ne!((one.indexed, one.plain), (other.indexed, other.plain));
                assert!(one.indexed != other.indexed && one.plain != other.plain);
            }
        }
    }
}
