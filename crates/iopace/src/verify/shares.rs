//! What a group was promised beside others: a weight, a class, a guarantee, a latency target.
//! Another group is put beside it for as long as that takes, and both ask for more than the disk
//! does.

use super::Verify;
use super::busy::Busy;
use super::check::{SETTLE, describe};
use super::load::{Direction, Side, Work};
use super::outcome::{Outcome, Unit, Waits, busy_reason};
use super::promise::{Key, Rates, decides_before};
use super::tally::{Counts, Tally, Times};
use super::target::{Sibling, Target, Way, failed};
use crate::output::Failure;
use crate::units;
use iopace_core::sched;
use iopace_core::time::Nanos;
use std::thread;
use std::time::Duration;

/// The same for a latency target: siblings are narrowed window by window, each of up to a second.
const SETTLE_LATENCY: Duration = Duration::from_secs(3);

/// A share may be off by one go of a task on a disk with a head.
const GO: Duration = Duration::from_millis(100);

/// Requests under way beside somebody: more than a disk holds at once.
const DEPTH: usize = 32;

/// Most requests under way on a connection: what the daemon takes from one.
const DEPTH_MAX: usize = 512;

/// Bytes of a request of those that compete.
const COMPETING: u32 = 64 * 1024;

/// The part of the disk that a strict order leaves to the other side, at most, in percent.
const CLASS_LEAVES_PERCENT: f64 = 3.0;

/// How it went for two beside each other.
struct Contest {
    /// Where the time of each went.
    waits: [Waits; 2],
    /// The part of the time in which somebody waited for a processor, in percent.
    busy: Option<f64>,
    /// Why the scheduler cannot keep what was set, and what could, if that is so.
    scheduler: Option<String>,
}

impl Contest {
    /// Whether there was a choice to make: at least a fifth of the time was spent in line. A disk
    /// that takes many requests at once has the larger part of a full queue.
    fn has_queue(&self) -> bool {
        let sum =
            |part: fn(&Waits) -> u64| self.waits.iter().map(|waits| part(waits) / 8).sum::<u64>();
        let in_line = sum(|waits| waits.held_ns) + sum(|waits| waits.queued_ns);
        in_line >= (in_line + sum(|waits| waits.disk_ns)) / 5
    }

    /// It was not kept: by a scheduler that does not know of it, by iopace, or by a machine that
    /// had no processor for it.
    fn missed(&self, outcome: Outcome, why: &str) -> Outcome {
        if let Some(scheduler) = &self.scheduler {
            return outcome.broken(scheduler);
        }
        match busy_reason(self.busy) {
            Some(reason) => outcome.not_tested(format!("{why}, but {reason}")),
            None => outcome.broken(why),
        }
    }
}

impl Verify<'_> {
    /// The group beside another one, both with more requests than the disk holds: what each did,
    /// and where their time went.
    fn beside(
        &self,
        target: &Target,
        sibling: &Sibling<'_>,
        (what, works): (&str, [Work; 2]),
        times: Times,
    ) -> Result<([Tally; 2], Contest), Failure> {
        let writes = |work: &Work| work.direction != Direction::Read;
        let names = [&*target.group, &*sibling.group];
        let before = [target.waits(names[0])?, target.waits(names[1])?];
        let busy = Busy::begin();
        let connections = [
            target.connect(names[0], writes(&works[0]))?,
            target.connect(names[1], writes(&works[1]))?,
        ];
        let tallies = self.watched(what, times, || {
            let [own, other] = connections;
            thread::scope(|scope| {
                let other = scope.spawn(|| other.drive(&works[1], times, self.stop));
                let own = own.drive(&works[0], times, self.stop).map_err(failed)?;
                let other = other.join().map_err(|_| failed("a client panicked"))?;
                Ok([own, other.map_err(failed)?])
            })
        })?;
        let busy = busy.end();
        let after = [target.waits(names[0])?, target.waits(names[1])?];
        let waits = [after[0].since(before[0]), after[1].since(before[1])];
        Ok((tallies, Contest { waits, busy, scheduler: None }))
    }

    /// Both sides of a contest for the disk.
    fn competing(&self, target: &Target) -> [Work; 2] {
        // Slots go by weight where the scheduler does not: more than there are have to wait.
        let slots = usize::try_from(target.device.queue.nr_requests).unwrap_or(DEPTH);
        let divides = sched::divides(&target.device.scheduler.algorithm);
        let depth = if divides { DEPTH } else { slots.clamp(DEPTH, DEPTH_MAX) };
        let direction = Direction::Read;
        [Side::Even, Side::Odd].map(|side| {
            let (seed, side) = (side as u64, Some(side));
            Work { direction, block: COMPETING, depth, is_random: true, seed, side }
        })
    }

    pub(super) fn weight(
        &self,
        target: &Target,
        place: (&str, &str),
        value: &str,
        chain: &[(String, Rates)],
    ) -> Result<Outcome, Failure> {
        let weight: f64 = value.parse().map_err(|_| failed(format!("io.weight: '{value}'")))?;
        let asked = weight / (weight + 100.0) * 100.0;
        let mut outcome = Outcome::new(place, "weight", (asked, Unit::PercentOfBytes));
        outcome.tolerance_percent = self.tolerance_of_share();
        let works = self.competing(target);
        outcome.load = format!("{} beside the same of weight 100", describe(&works[0]));
        if let Some(reason) = no_contest(target) {
            return Ok(outcome.not_tested(reason));
        }
        if let Some(reason) = before_weights(target)? {
            return Ok(outcome.not_tested(reason));
        }
        let sibling = target.sibling(None)?;
        let what = format!("weight of {}, {}", target.group, outcome.load);
        let times = Times::from_now(SETTLE, self.options.time);
        let (tallies, contest) = self.beside(target, &sibling, (&what, works), times)?;
        outcome.seen(&tallies[0], times.steady());
        let ceiling = chain[0].1.ceiling(Direction::Read, COMPETING);
        let [own, other] = [0, 1].map(|at| tallies[at].rate(Counts::EACH));
        let is_first = |rate: f64| decides_before(rate, own, (own + other) * asked / 100.0);
        if let Some((rate, key)) = ceiling.filter(|(rate, _)| is_first(*rate)) {
            let reason =
                format!("{} of the group, {rate:.0} such requests/s, comes first", key.name());
            return Ok(outcome.not_tested(reason));
        }
        if let Some(reason) = all_read(target, &tallies) {
            return Ok(outcome.not_tested(reason));
        }
        let scheduler = unfair(target, "does not divide the disk by weight");
        Ok(judge_share(outcome, &tallies, &Contest { scheduler, ..contest }))
    }

    fn tolerance_of_share(&self) -> f64 {
        self.options.tolerance * 2.0 + GO.as_secs_f64() / self.options.time.as_secs_f64() * 100.0
    }

    pub(super) fn class(
        &self,
        target: &Target,
        place: (&str, &str),
        value: &str,
    ) -> Result<Option<Outcome>, Failure> {
        let (name, asked) = match value.split_whitespace().next() {
            Some("RT" | "1") => ("class RT", 100.0),
            Some("IDLE" | "3") => ("class IDLE", 0.0),
            // Nothing but weights holds among those of the middle.
            _ => return Ok(None),
        };
        let mut outcome = Outcome::new(place, name, (asked, Unit::PercentOfBytes));
        outcome.tolerance_percent = CLASS_LEAVES_PERCENT.max(self.tolerance_of_share());
        let works = self.competing(target);
        outcome.load = format!("{} beside the same of class BE", describe(&works[0]));
        if let Some(reason) = no_contest(target) {
            return Ok(Some(outcome.not_tested(reason)));
        }
        if let Some(reason) = unfair(target, "knows no classes") {
            return Ok(Some(outcome.not_tested(reason)));
        }
        let sibling = target.sibling(None)?;
        let what = format!("{name} of {}, {}", target.group, outcome.load);
        let times = Times::from_now(SETTLE, self.options.time);
        let (tallies, contest) = self.beside(target, &sibling, (&what, works), times)?;
        outcome.seen(&tallies[0], times.steady());
        Ok(Some(judge_share(outcome, &tallies, &contest)))
    }

    /// A rate of `io.min`, beside somebody of the largest weight.
    pub(super) fn guarantee(
        &self,
        target: &Target,
        key: Key,
        rate: u64,
    ) -> Result<Outcome, Failure> {
        let place = (&*target.group, &*target.device.name);
        let unit = if key.is_bytes() { Unit::BytesPerS } else { Unit::RequestsPerS };
        let promise = format!("guarantee {}", key.name());
        let mut outcome = Outcome::new(place, &promise, (rate as f64, unit));
        outcome.tolerance_percent = self.options.tolerance * 5.0;
        if let Some(reason) = no_contest(target) {
            return Ok(outcome.not_tested(reason));
        }
        let direction = key.direction();
        if direction == Direction::Write && !target.may_write() {
            return Ok(outcome.not_tested(target.no_scratch()));
        }
        let mut works = self.competing(target);
        // What counts reads and writes is seen with reads too.
        works[0].direction =
            if direction == Direction::Write { direction } else { Direction::Read };
        if !key.is_bytes() {
            works[0].block = 4096;
        }
        outcome.load = format!("{} beside a weight of 10000", describe(&works[0]));
        let sibling = target.sibling(Some(10_000))?;
        let what = format!("{promise} of {}, {}", target.group, outcome.load);
        let times = Times::from_now(SETTLE, self.options.time);
        let (tallies, contest) = self.beside(target, &sibling, (&what, works), times)?;
        outcome.seen(&tallies[0], times.steady());
        let counts = if key.is_bytes() { Counts::Bytes } else { Counts::EACH };
        let [own, other] = [0, 1].map(|at| tallies[at].rate(counts));
        let off = (own / rate as f64 - 1.0) * 100.0;
        (outcome.achieved, outcome.off_percent) = (Some(own), Some(off));
        outcome.beside = Some(other);
        if off >= -outcome.tolerance_percent {
            return Ok(outcome.holds());
        }
        if own + other < rate as f64 {
            return Ok(outcome.not_tested("not reached: the disk does no more, for all together"));
        }
        let why = "the group has less than its guarantee while others are served";
        let scheduler = unfair(target, "puts nobody first at the disk");
        Ok(Contest { scheduler, ..contest }.missed(outcome, why))
    }

    /// `io.latency`: one request at a time, beside somebody without a target.
    pub(super) fn latency(
        &self,
        target: &Target,
        place: (&str, &str),
        text: &str,
    ) -> Result<Outcome, Failure> {
        // Microseconds, as in the kernel's file.
        let asked = text.parse().map(Nanos::from_micros);
        let asked = asked.map_err(|_| failed(format!("io.latency: '{text}' is not understood")))?;
        let mut outcome = Outcome::new(place, "latency target", (asked.0 as f64, Unit::Ns));
        if let Some(reason) = no_contest(target) {
            return Ok(outcome.not_tested(reason));
        }
        let mut works = self.competing(target);
        (works[0].depth, works[0].block) = (1, 4096);
        outcome.load = format!("{} beside {}; p90", describe(&works[0]), describe(&works[1]));
        let what = format!("latency of {} alone", target.group);
        let times = Times::from_now(Duration::from_millis(200), Duration::from_secs(1));
        let alone = self.drive(target, &what, &works[0], times)?.latencies.quantile(900);
        let sibling = target.sibling(None)?;
        let what = format!("latency target of {}, {}", target.group, outcome.load);
        let times = Times::from_now(SETTLE_LATENCY, self.options.time);
        let (tallies, contest) = self.beside(target, &sibling, (&what, works), times)?;
        outcome.seen(&tallies[0], times.steady());
        let seen = tallies[0].latencies.quantile(900);
        outcome.achieved = Some(seen.0 as f64);
        outcome.off_percent = Some((seen.0 as f64 / asked.0 as f64 - 1.0) * 100.0);
        if seen <= asked {
            return Ok(outcome.holds());
        }
        if alone > asked {
            let alone = units::time(alone.0);
            return Ok(outcome.not_tested(format!("not reached: alone it has {alone} (p90)")));
        }
        let why = "more than a tenth of its requests took longer beside a group without one";
        Ok(contest.missed(outcome, why))
    }
}

/// That one side has read all its places and is answered from a page cache since.
fn all_read(target: &Target, tallies: &[Tally; 2]) -> Option<&'static str> {
    let side = target.device.size_bytes.unwrap_or(u64::MAX) / 2 / u64::from(COMPETING);
    // What was read before it was counted is the rest.
    let is_over = |tally: &Tally| tally.latencies.count() >= side - side / 8;
    (!target.device.direct && tallies.iter().any(is_over)).then_some(
        "one side has read all of its half and finds it in the page cache: take a shorter --time, \
         a larger device, or one with --direct",
    )
}

/// What the scheduler at work does not do and one that divides the disk does, with the command;
/// none if such a one is at work.
fn unfair(target: &Target, what: &str) -> Option<String> {
    let scheduler = &target.device.scheduler;
    let algorithm = &scheduler.algorithm;
    let verb = if scheduler.inserted { "configure" } else { "insert" };
    let device = units::shell_word(&target.device.name);
    let better = sched::dividing().name;
    (!sched::divides(algorithm))
        .then(|| format!("scheduler {algorithm} {what}: iopace sched {verb} -a {better} {device}"))
}

/// What decides before the weight of a group does.
fn before_weights(target: &Target) -> Result<Option<&'static str>, Failure> {
    let (class, _) = target.value(&target.group, "io.ioprio_class")?;
    if class != "BE" && sched::divides(&target.device.scheduler.algorithm) {
        return Ok(Some("its class comes before weights"));
    }
    let (min, _) = target.value(&target.group, "io.min")?;
    let min = Rates::parse(&min).map_err(failed)?;
    Ok((!min.rates.is_empty()).then_some("its guarantee comes before weights"))
}

/// Why nobody can be put beside it.
fn no_contest(target: &Target) -> Option<&'static str> {
    match target.way {
        _ if target.group == "/" => Some("the root has nobody beside it"),
        Way::Mount(_) => Some("it takes two programs: verify it through an export"),
        Way::Nbd { .. } => None,
    }
}

/// A share of the bytes, by equal requests all over the export: of the disk's time as well.
fn judge_share(mut outcome: Outcome, tallies: &[Tally; 2], contest: &Contest) -> Outcome {
    let [own, other] = [0, 1].map(|at| tallies[at].rate(Counts::Bytes));
    if own + other == 0.0 {
        return outcome.not_tested("nothing was answered in time");
    }
    let share = own / (own + other) * 100.0;
    outcome.achieved = Some(share);
    outcome.off_percent = Some(share - outcome.asked);
    if !contest.has_queue() {
        return outcome.not_tested("the disk was never the bottleneck: nobody had to wait");
    }
    if (share - outcome.asked).abs() > outcome.tolerance_percent {
        return contest.missed(outcome, "the disk is not divided as asked");
    }
    outcome.holds()
}

#[cfg(test)]
mod tests {
    use super::super::outcome::Verdict;
    use super::*;
    use std::time::Instant;

    /// Two that had so many bytes, on a machine that was that busy.
    fn judged(bytes: [u64; 2], queued_ns: u64, busy: Option<f64>) -> Outcome {
        judged_by(bytes, queued_ns, busy, None)
    }

    fn judged_by(
        bytes: [u64; 2],
        queued_ns: u64,
        busy: Option<f64>,
        scheduler: Option<&str>,
    ) -> Outcome {
        let times = Times::from_now(Duration::ZERO, Duration::from_secs(1));
        let tallies = bytes.map(|bytes| {
            let mut tally = Tally::new(times);
            tally.record(Instant::now().max(times.steady_from), bytes, Duration::from_millis(1));
            tally
        });
        let mut outcome = Outcome::new(("/a", "disk"), "weight", (75.0, Unit::PercentOfBytes));
        outcome.tolerance_percent = 3.0;
        let waits = [Waits { held_ns: 0, queued_ns, disk_ns: 1_000 }; 2];
        let scheduler = scheduler.map(str::to_owned);
        judge_share(outcome, &tallies, &Contest { waits, busy, scheduler })
    }

    #[test]
    fn a_share_is_compared_where_somebody_had_to_wait() {
        assert_eq!(judged([74, 26], 1_000, Some(1.0)).verdict, Verdict::Holds);
        let equal = judged([50, 50], 1_000, Some(1.0));
        assert_eq!((equal.verdict, equal.off_percent), (Verdict::Broken, Some(-25.0)));
        let idle = judged([50, 50], 100, Some(1.0));
        assert_eq!(idle.verdict, Verdict::NotTested);
        assert!(idle.reason.is_some_and(|why| why.contains("never the bottleneck")));
    }

    #[test]
    fn a_scheduler_that_cannot_divide_is_blamed_before_the_machine() {
        let fifo = "scheduler fifo does not divide the disk by weight";
        for busy in [Some(1.0), Some(50.0)] {
            let outcome = judged_by([50, 50], 1_000, busy, Some(fifo));
            assert_eq!((outcome.verdict, outcome.reason.as_deref()), (Verdict::Broken, Some(fifo)));
        }
        // Slots go by weight under every scheduler: that may be enough.
        assert_eq!(judged_by([74, 26], 1_000, None, Some(fifo)).verdict, Verdict::Holds);
    }

    #[test]
    fn a_busy_machine_is_told_from_a_broken_promise() {
        let busy = judged([50, 50], 1_000, Some(50.0));
        assert_eq!(busy.verdict, Verdict::NotTested);
        assert_eq!(judged([50, 50], 1_000, None).verdict, Verdict::Broken);
        assert_eq!(judged([75, 25], 1_000, Some(50.0)).verdict, Verdict::Holds);
        assert_eq!(judged([0, 0], 1_000, None).verdict, Verdict::NotTested);
    }
}
