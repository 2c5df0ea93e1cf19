//! What became of a promise: asked, achieved, and whether it holds.

use super::tally::{Counts, Tally, Windows};
use serde::Serialize;
use std::time::Duration;

/// Powers of two of nanoseconds that latencies are told in: 1 us to 17 s.
const POWERS: std::ops::RangeInclusive<u32> = 10..=34;

/// Windows of 100 ms may be so many times further off than the whole.
pub const SHORT_WINDOWS_TIMES: f64 = 5.0;

/// Timers are late and clients have no requests ready if the processors are busy: what a limit did
/// not let through in time is lost then. Above this part of the time, a limit that was not reached
/// says nothing.
const BUSY_PERCENT: f64 = 10.0;

/// Whether a promise holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// It does.
    Holds,
    /// It does not.
    Broken,
    /// It could not be seen; the reason says why.
    NotTested,
}

/// What figures count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    /// Bytes per second.
    BytesPerS,
    /// Requests per second.
    RequestsPerS,
    /// Percent of the bytes of two that compete.
    PercentOfBytes,
    /// Nanoseconds.
    Ns,
}

/// Latencies of the requests that were counted.
#[derive(Clone, Debug, Serialize)]
pub struct Latencies {
    /// How many.
    pub count: u64,
    /// The mean.
    pub mean_ns: u64,
    /// The median.
    pub p50_ns: u64,
    /// The 90th percentile.
    pub p90_ns: u64,
    /// The 99th percentile.
    pub p99_ns: u64,
    /// The longest.
    pub max_ns: u64,
    /// Upper ends, powers of two, and how many were below that and not below the one before.
    pub histogram: Vec<(u64, u64)>,
}

impl Latencies {
    /// Of a tally.
    pub fn of(tally: &Tally) -> Latencies {
        let all = &tally.latencies;
        let below = all.below_powers(POWERS);
        let mut histogram = Vec::new();
        let mut before = 0;
        for (power, below) in POWERS.zip(below) {
            histogram.push((1 << power, below - before));
            before = below;
        }
        let end = histogram.iter().rposition(|(_, count)| *count > 0).map_or(0, |at| at + 1);
        let begin = histogram.iter().position(|(_, count)| *count > 0).unwrap_or(0);
        let quantile = |permille| all.quantile(permille).0;
        Latencies {
            count: all.count(),
            mean_ns: all.mean().0,
            p50_ns: quantile(500),
            p90_ns: quantile(900),
            p99_ns: quantile(990),
            max_ns: all.max().0,
            histogram: histogram[begin..end.max(begin)].to_vec(),
        }
    }
}

/// One promise and what became of it.
#[derive(Clone, Debug, Serialize)]
pub struct Outcome {
    /// The group.
    pub group: String,
    /// The device.
    pub device: String,
    /// `rbps`, `weight`, ...
    pub promise: String,
    /// What was done to see it.
    pub load: String,
    /// What the figures count.
    pub unit: Unit,
    /// What was asked for.
    pub asked: f64,
    /// What was seen.
    pub achieved: Option<f64>,
    /// How far from it: percent of what was asked for, or percentage points of a share.
    pub off_percent: Option<f64>,
    /// How far it may be.
    pub tolerance_percent: f64,
    /// Whether it holds.
    pub verdict: Verdict,
    /// Why not, or why that could not be seen.
    pub reason: Option<String>,
    /// How long was counted.
    pub steady_ms: u64,
    /// What passed before that, per second of it, in bytes.
    pub start_bytes_per_s: Option<f64>,
    /// How even it was.
    pub windows: Vec<Windows>,
    /// What the other one had that was put beside it, if it counts the same.
    pub beside: Option<f64>,
    /// Latencies of what was counted.
    pub latency: Option<Latencies>,
}

impl Outcome {
    /// Nothing was seen yet.
    pub fn new(place: (&str, &str), promise: &str, (asked, unit): (f64, Unit)) -> Outcome {
        Outcome {
            group: place.0.into(),
            device: place.1.into(),
            promise: promise.into(),
            load: String::new(),
            unit,
            asked,
            achieved: None,
            off_percent: None,
            tolerance_percent: 0.0,
            verdict: Verdict::NotTested,
            reason: None,
            steady_ms: 0,
            start_bytes_per_s: None,
            windows: Vec::new(),
            beside: None,
            latency: None,
        }
    }

    /// It could not be seen.
    pub fn not_tested(mut self, reason: impl Into<String>) -> Outcome {
        (self.verdict, self.reason) = (Verdict::NotTested, Some(reason.into()));
        self
    }

    /// It does not hold.
    pub fn broken(mut self, reason: impl Into<String>) -> Outcome {
        (self.verdict, self.reason) = (Verdict::Broken, Some(reason.into()));
        self
    }

    /// It does.
    pub fn holds(mut self) -> Outcome {
        (self.verdict, self.reason) = (Verdict::Holds, None);
        self
    }

    /// Takes over what a load generator saw of it.
    pub fn seen(&mut self, tally: &Tally, steady: Duration) {
        self.steady_ms = u64::try_from(steady.as_millis()).unwrap_or(u64::MAX);
        self.start_bytes_per_s = Some(tally.start_rate());
        self.latency = Some(Latencies::of(tally));
    }
}

/// Where the time of a group's requests went.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Waits {
    /// In stages pace and admit: a limit, dirty memory, a slot.
    pub held_ns: u64,
    /// In the scheduler, for a turn or for room at the disk.
    pub queued_ns: u64,
    /// At the disk.
    pub disk_ns: u64,
}

impl Waits {
    /// Since an earlier look.
    pub fn since(self, before: Waits) -> Waits {
        Waits {
            held_ns: self.held_ns.saturating_sub(before.held_ns),
            queued_ns: self.queued_ns.saturating_sub(before.queued_ns),
            disk_ns: self.disk_ns.saturating_sub(before.disk_ns),
        }
    }

    /// Whether most of the time went before the scheduler.
    pub fn is_held_back(self) -> bool {
        self.held_ns > self.queued_ns.saturating_add(self.disk_ns)
    }
}

/// That the machine had no processor for it, if that was so.
pub fn busy_reason(busy: Option<f64>) -> Option<String> {
    let busy = busy.filter(|busy| *busy > BUSY_PERCENT)?;
    Some(format!("somebody waited for a processor in {busy:.0} % of the time"))
}

/// A limit: what passed in the steady time is what was asked for, and so are nine in ten windows of
/// 100 ms, which may be further off. Only what is above the limit in a window breaks it: a client
/// that the machine was late for has less in one.
///
/// `one` is what one request counts; `waits` says whether the limit was what requests met, and
/// `busy` whether the processors were free for them.
pub fn judge_limit(
    mut outcome: Outcome,
    tally: &Tally,
    (waits, busy): (Waits, Option<f64>),
    one: f64,
) -> Outcome {
    let counts = match outcome.unit {
        Unit::BytesPerS => Counts::Bytes,
        _ => Counts::Requests(one),
    };
    let (asked, part) = (outcome.asked, outcome.tolerance_percent / 100.0);
    let steady = Duration::from_millis(outcome.steady_ms);
    let achieved = tally.rate(counts);
    let off = achieved - asked;
    outcome.achieved = Some(achieved);
    outcome.off_percent = Some(off / asked * 100.0);
    let second = tally.windows(Duration::from_secs(1), counts, asked, (part, one));
    let short = Duration::from_millis(100);
    let short = tally.windows(short, counts, asked, (part * SHORT_WINDOWS_TIMES, one));
    outcome.windows = second.into_iter().chain(short).collect();
    let room = asked * part + one / steady.as_secs_f64();
    if off > room {
        return outcome.broken("more passed than the limit allows");
    }
    if off < -room {
        return match busy_reason(busy) {
            _ if !waits.is_held_back() => {
                outcome.not_tested("not reached: the disk, or the machine, does no more")
            }
            Some(reason) => outcome.not_tested(format!("not reached: {reason}")),
            None => outcome.broken("it held back more than was asked for"),
        };
    }
    if short.is_some_and(|windows| windows.above_count * 10 > windows.count) {
        return outcome.broken("right on the whole, but it comes in bursts: see the windows");
    }
    outcome.holds()
}

#[cfg(test)]
mod tests {
    use super::super::tally::Times;
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    /// A limit of 100 requests of 1000 bytes a second, and what passed at these times in ms.
    fn judged(at_ms: impl Iterator<Item = u32>, held_ns: u64) -> Outcome {
        judged_while(at_ms, held_ns, Some(1.0))
    }

    fn judged_while(at_ms: impl Iterator<Item = u32>, held_ns: u64, busy: Option<f64>) -> Outcome {
        let times = Times::from_now(500 * MS, 2000 * MS);
        let mut tally = Tally::new(times);
        at_ms.for_each(|at| tally.record(times.steady_from + at * MS, 1000, MS));
        let mut outcome = Outcome::new(("/a", "disk"), "rbps", (100_000.0, Unit::BytesPerS));
        outcome.tolerance_percent = 1.0;
        outcome.seen(&tally, times.steady());
        let waits = Waits { held_ns, queued_ns: 0, disk_ns: 10 };
        judge_limit(outcome, &tally, (waits, busy), 1000.0)
    }

    #[test]
    fn a_large_request_counts_as_several() {
        let times = Times::from_now(500 * MS, 2000 * MS);
        let judged = |count: u32, each: f64| {
            let mut tally = Tally::new(times);
            let every = 2000 / count;
            (0..count).for_each(|at| tally.record(times.steady_from + at * every * MS, 1, MS));
            let mut outcome = Outcome::new(("/a", "disk"), "wiops", (1000.0, Unit::RequestsPerS));
            outcome.tolerance_percent = 1.0;
            outcome.seen(&tally, times.steady());
            let waits = Waits { held_ns: 1000, queued_ns: 0, disk_ns: 10 };
            let outcome = judge_limit(outcome, &tally, (waits, Some(1.0)), each);
            (outcome.verdict, outcome.achieved)
        };
        assert_eq!(judged(250, 8.0), (Verdict::Holds, Some(1000.0)));
        assert_eq!(judged(250, 1.0), (Verdict::Broken, Some(125.0)));
        assert_eq!(judged(500, 8.0), (Verdict::Broken, Some(2000.0)));
    }

    #[test]
    fn what_was_asked_for_holds() {
        let outcome = judged((0..200).map(|at| at * 10), 1000);
        assert_eq!((outcome.verdict, outcome.off_percent), (Verdict::Holds, Some(0.0)));
        assert_eq!(outcome.windows.len(), 2);
        assert_eq!(outcome.latency.map(|latency| latency.count), Some(200));
    }

    #[test]
    fn too_much_is_broken_and_too_little_depends_on_why() {
        let outcome = judged((0..220).map(|at| at * 9), 1000);
        assert_eq!(outcome.verdict, Verdict::Broken);
        assert!((outcome.off_percent.expect("seen") - 10.0).abs() < 1e-6, "{outcome:?}");
        assert_eq!(judged((0..180).map(|at| at * 11), 1000).verdict, Verdict::Broken);
        assert_eq!(judged((0..180).map(|at| at * 11), 1).verdict, Verdict::NotTested);
        // A busy machine excuses too little, never too much.
        let busy = |ms: u32| judged_while((0..220).map(|at| at * ms), 1000, Some(50.0)).verdict;
        assert_eq!((busy(11), busy(9)), (Verdict::NotTested, Verdict::Broken));
        let unknown = judged_while((0..180).map(|at| at * 11), 1000, None);
        assert_eq!(unknown.verdict, Verdict::Broken);
    }

    #[test]
    fn a_rate_in_bursts_is_broken_though_it_is_right_on_the_whole() {
        // All of a fifth of a second at once, every other window.
        let outcome = judged((0..200).map(|at| at / 20 * 200), 1000);
        assert_eq!(outcome.off_percent, Some(0.0));
        assert_eq!(outcome.verdict, Verdict::Broken);
    }

    #[test]
    fn a_histogram_begins_and_ends_where_something_is() {
        let outcome = judged((0..200).map(|at| at * 10), 1000);
        let latency = outcome.latency.expect("seen");
        assert_eq!(latency.histogram, [(1 << 20, 200)]);
    }
}
