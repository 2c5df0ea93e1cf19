//! The rates that are set for a group, beside those that it had.

use super::span::{Span, Sums, chain};
use iopace_core::group::{Rates, Settings};
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// What is set for groups on one device, by path.
pub(crate) type SettingsOf = BTreeMap<String, Settings>;

/// One rate of a group, as `io.max` or `io.min` set it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Rate {
    /// Its key.
    pub(super) key: &'static str,
    /// What is set, per second.
    pub(super) set: u64,
    /// What it was, per second, in thousandths.
    pub(super) had_milli: u64,
    /// The time over which it was that.
    pub(super) over_ns: u64,
}

impl Rate {
    /// The part of what is set that it was, in thousandths.
    pub(super) fn permille(&self) -> u32 {
        u32::try_from(self.had_milli / self.set.max(1)).unwrap_or(u32::MAX)
    }

    /// Whether so much of it was used that requests may have waited for it.
    pub(super) fn is_used_up(&self) -> bool {
        self.permille() >= USED_UP_PERMILLE
    }

    pub(super) fn is_bytes(&self) -> bool {
        self.key.ends_with("bps")
    }

    pub(super) fn is_read(&self) -> bool {
        self.key.starts_with('r')
    }

    pub(super) fn is_write(&self) -> bool {
        self.key.starts_with('w')
    }

    /// The same of other rates.
    pub(super) fn of(&self, rates: &Rates) -> Option<u64> {
        let Rates { rbps, wbps, bps, riops, wiops, iops } = *rates;
        let all = [
            ("rbps", rbps),
            ("wbps", wbps),
            ("bps", bps),
            ("riops", riops),
            ("wiops", wiops),
            ("iops", iops),
        ];
        all.iter().find(|(key, _)| *key == self.key)?.1.map(std::num::NonZeroU64::get)
    }

    /// A figure of this rate, as `2 MiB/s` or `120 requests/s`.
    pub(super) fn print(&self, figure: u64) -> String {
        match self.is_bytes() {
            true => format!("{}/s", crate::figures::size(figure)),
            false => format!("{figure} requests/s"),
        }
    }

    /// What is set.
    pub(super) fn print_set(&self) -> String {
        self.print(self.set)
    }

    /// What it was, rounded.
    pub(super) fn print_had(&self) -> String {
        self.print(self.had_milli.saturating_add(500) / 1_000)
    }

    /// As it is written: `rbps=2M`.
    pub(super) fn written(&self, figure: u64) -> String {
        let units = [(40, 'T'), (30, 'G'), (20, 'M'), (10, 'k')];
        let whole =
            units.iter().find(|(shift, _)| self.is_bytes() && figure.is_multiple_of(1 << shift));
        match whole.filter(|_| figure > 0) {
            Some((shift, unit)) => format!("{}={}{unit}", self.key, figure >> shift),
            None => format!("{}={figure}", self.key),
        }
    }
}

/// The rates that are set, with what was counted in that time at the disk.
pub(super) fn rates(set: &Rates, sums: &Sums, over_ns: u64) -> Vec<Rate> {
    rates_of(set, sums, (sums.write_bytes, sums.write_ops_milli), over_ns)
}

/// The same with so many bytes and operations (in thousandths) written.
fn rates_of(set: &Rates, sums: &Sums, written: (u64, u64), over_ns: u64) -> Vec<Rate> {
    let per_second_milli = |count_milli: u128| {
        let rate = count_milli * 1_000_000_000 / u128::from(over_ns.max(1));
        u64::try_from(rate).unwrap_or(u64::MAX)
    };
    let milli = |count: u64| u128::from(count) * 1_000;
    let (read, write) = (milli(sums.read_bytes), milli(written.0));
    let (reads, writes) = (u128::from(sums.read_ops_milli), u128::from(written.1));
    let all = [
        ("rbps", set.rbps, read),
        ("wbps", set.wbps, write),
        ("bps", set.bps, read + write),
        ("riops", set.riops, reads),
        ("wiops", set.wiops, writes),
        ("iops", set.iops, reads + writes),
    ];
    let rate = |(key, set, had): (&'static str, Option<std::num::NonZeroU64>, u128)| {
        set.map(|set| Rate { key, set: set.get(), had_milli: per_second_milli(had), over_ns })
    };
    all.into_iter().filter_map(rate).collect()
}

/// A limit counts as used up from this part of it on, in thousandths. Where limits of both
/// directions are, or a cap of a process beside them, nobody knows for which a request waited.
const USED_UP_PERMILLE: u32 = 900;

/// The limit of a group or of one above it that is nearest to being used up, of those that
/// `concerns` names, by what programs read and wrote: a buffered write uses the limit up at the
/// door, long before its write-back does. The time counts in which requests waited for a limit, if
/// they did at all: who is idle uses up none. If it is one of reads or of writes, the tightest of
/// the other direction comes second if that is used up as well.
pub(super) fn tightest<'a>(
    span: &Span<'_>,
    settings: &SettingsOf,
    group: &'a str,
    concerns: impl Fn(&Rate) -> bool,
) -> Vec<(&'a str, Rate)> {
    let limits = chain(group).flat_map(|path| {
        let set = settings.get(path).map(|settings| settings.max.sustained).unwrap_or_default();
        let (sums, over_ns) = match span.held_by_limit(path) {
            (_, 0) => (span.sums(path), span.over_ns),
            held => held,
        };
        let rates = rates_of(&set, &sums, sums.written(), over_ns);
        rates.into_iter().map(move |rate| (path, rate))
    });
    let mut limits: Vec<(&str, Rate)> = limits.filter(|(_, rate)| concerns(rate)).collect();
    // Of equals, the nearest.
    limits.sort_by_key(|(_, rate)| Reverse(rate.permille()));
    let mut all = limits.into_iter();
    let first = all.next();
    let is_other = |rate: &Rate| match first {
        Some((_, first)) if first.is_read() => rate.is_write(),
        Some((_, first)) if first.is_write() => rate.is_read(),
        _ => false,
    };
    let second = all.find(|(_, rate)| is_other(rate) && rate.is_used_up());
    first.into_iter().chain(second).collect()
}
