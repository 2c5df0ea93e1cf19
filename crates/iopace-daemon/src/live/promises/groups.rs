//! What can be wrong with the promises of a group: limits, guarantees, weights, latency targets.
//!
//! Nothing is said where it cannot be told: counts of requests that are cut (`iops-size`) or
//! buffered, settings that have changed within the time that is judged.

use super::super::giving_way;
use super::super::limits::{Rate, rates};
use super::super::span::{Span, chain, counts, parent, place};
use super::alarms::Key;
use super::allowed::{at_once, mean_size};
use super::case::{Case, Judged};
use super::{JUDGED, Wrong, weights};
use crate::api::{LiveGroup, PromiseReport, WeightShare};
use crate::figures::{percent, permille, time};
use iopace_core::group::Settings;
use iopace_core::verdict::Reason;
use std::collections::BTreeMap;

/// A limit is broken when it is exceeded by more than a hundredth: what `iopace verify` allows.
const OVER_PERMILLE: u32 = 1_010;

/// A guarantee is missed below this: meters and requests in flight make a few hundredths.
const GUARANTEED_PERMILLE: u32 = 950;

/// A limit is out of reach when less than this part of it is got by who always wants more.
const REACHED_PERMILLE: u32 = 900;

/// With fewer requests in an interval, what half of them took is chance.
const LATE_MIN_COUNT: u64 = 10;

/// What a limit takes of the time, in thousandths, above which it is what holds a group up.
const LIMITED_PERMILLE: u32 = 100;

/// Intervals of work after which a setting that had no effect has none.
const INERT_AFTER: u32 = 60;

/// What is remembered of devices and groups.
#[derive(Default)]
pub(super) struct Memory {
    /// By device: the most bytes that were moved in a second, and intervals in which it was busy.
    best: BTreeMap<String, (u64, u32)>,
    /// By device and group: intervals in which it had work and none of its siblings had any.
    alone: BTreeMap<(String, String), u32>,
}

impl Memory {
    /// How the promises of groups stand, by path; and what is wrong.
    pub(super) fn judge<'a>(
        &mut self,
        judged: &Judged<'a>,
        wrong: &mut Wrong,
    ) -> BTreeMap<&'a str, PromiseReport> {
        let span = judged.span;
        let device = &span.last.device;
        self.learn(span);
        let listed = Listed::of(judged);
        let cases: Vec<Case<'a>> =
            giving_way(span.paths()).filter_map(|path| Case::new(judged, &listed, path)).collect();
        let siblings = weights::siblings(&cases);
        let is_fair = weights::is_fair(judged);
        let mut promises = BTreeMap::new();
        for case in giving_way(cases.iter()) {
            let mut add = |kind, text| {
                let key = Key { device: device.clone(), group: case.path.into(), kind };
                wrong.insert(key, text);
            };
            if let Some((kind, text)) = self.inert(judged, &listed, case) {
                add(kind, text);
            }
            let share = weights::share(case, &siblings).filter(|_| is_fair);
            for (kind, text) in case.wrong(span, share.as_ref()) {
                add(kind, text);
            }
            let promise = case.promise(span, share.map(|(share, _)| share));
            if promise != PromiseReport::default() || case.settings != Settings::default() {
                promises.insert(case.path, promise);
            }
        }
        self.alone.retain(|(on, path), _| on != device || span.has(path));
        promises
    }

    fn learn(&mut self, span: &Span<'_>) {
        let device = span.last;
        let activity = &device.activity;
        let (best, busy) = self.best.entry(device.device.clone()).or_default();
        *best = (*best).max(activity.read.bytes_s + activity.write.bytes_s);
        *busy = busy.saturating_add(u32::from(device.queue.in_flight_count > 0));
    }

    /// A setting that can have no effect.
    fn inert(
        &mut self,
        judged: &Judged<'_>,
        listed: &Listed<'_>,
        case: &Case<'_>,
    ) -> Option<(&'static str, String)> {
        let device = &judged.span.last.device;
        let set = rates(&case.settings.max.sustained, &case.sums, judged.span.over_ns);
        if let Some(rate) = set.iter().find(|rate| judged.is_read_only && rate.is_write()) {
            let text = format!("{} has no effect: {device} refuses writes", rate.written(rate.set));
            return Some(("limit_inert", text));
        }
        if judged.is_shared {
            // Who else uses the disk, and how much it moves for all, is not known of one host.
            return None;
        }
        let (best, busy) = self.best.get(device).copied().unwrap_or_default();
        let is_above = |rate: &&Rate| rate.is_bytes() && rate.set > best;
        if let Some(rate) = set.iter().find(is_above).filter(|_| busy >= INERT_AFTER) {
            let text = format!(
                "{} has no effect so far: the most that {device} has ever moved in a second is {}",
                rate.written(rate.set),
                rate.print(best)
            );
            return Some(("limit_inert", text));
        }
        let above = parent(case.path)?;
        let has_work = judged.span.now(case.path).is_some_and(has_work);
        let working_count = listed.working_count.get(above).copied().unwrap_or_default();
        let count = self.alone.entry((device.clone(), case.path.into())).or_default();
        match (has_work, working_count > u32::from(has_work)) {
            (_, true) => *count = 0,
            (true, false) => *count = count.saturating_add(1),
            (false, false) => {}
        }
        let weight = case.settings.weight;
        (weight != Settings::default().weight && *count >= INERT_AFTER).then(|| {
            let text = format!(
                "io.weight={} has no effect: no other group in {above} uses {device}",
                weight.get()
            );
            ("limit_inert", text)
        })
    }
}

/// Whether something of a group was at the disk, or is on its way there.
fn has_work(group: &LiveGroup) -> bool {
    group.activity.waits.disk_ns > 0 || group.slots_taken_count > 0
}

/// What is looked up for each group, found once for all of them.
struct Listed<'a> {
    /// Dirty memory at the beginning, with that of the groups below each.
    dirty: BTreeMap<&'a str, u64>,
    /// How many of the groups right below each have work now.
    working_count: BTreeMap<&'a str, u32>,
}

impl<'a> Listed<'a> {
    fn of(judged: &Judged<'a>) -> Listed<'a> {
        let name = &judged.span.last.device;
        let first = judged.reports.first().into_iter().flat_map(|report| &report.devices);
        let first = first.filter(|one| one.device == *name).flat_map(|one| &one.groups);
        let mut dirty = BTreeMap::new();
        for group in first.filter(|group| group.dirty_bytes > 0) {
            for above in chain(&group.group) {
                *dirty.entry(above).or_default() += group.dirty_bytes;
            }
        }
        let mut working_count = BTreeMap::new();
        let working = judged.span.last.groups.iter().filter(|group| has_work(group));
        for above in working.filter_map(|group| parent(&group.group)) {
            *working_count.entry(above).or_default() += 1;
        }
        Listed { dirty, working_count }
    }
}

impl<'a> Case<'a> {
    fn new(judged: &Judged<'a>, listed: &Listed<'a>, path: &'a str) -> Option<Case<'a>> {
        let span = judged.span;
        span.now(path)?;
        let name = &span.last.device;
        // One for each report, as it is listed in the last.
        let each = span.each(path);
        let waits = |group: &LiveGroup| {
            let now = &group.activity.now;
            counts(now).iter().sum::<u32>() > now.disk_count
        };
        let is_full = each.len() == JUDGED;
        let settings = judged.settings.get(path).copied().unwrap_or_default();
        let late = |group: &&LiveGroup| {
            let latency = &group.activity.latency;
            let target = settings.latency?.as_nanos();
            let is_late = latency.count >= LATE_MIN_COUNT && latency.p50_ns > target;
            is_late.then_some(latency.p50_ns)
        };
        let settled = judged.settled.get(&(name.clone(), path.to_owned()));
        let first = each.first().copied().flatten();
        let dirty = listed.dirty.get(path).copied().unwrap_or_default();
        Some(Case {
            path,
            settings,
            sums: span.sums(path),
            late: each.iter().flatten().filter_map(late).collect(),
            waits: is_full && each.iter().all(|group| group.is_some_and(waits)),
            is_settled: is_full && settled.is_some_and(|(_, count)| *count > JUDGED),
            backlog: (first.map_or(0, |first| u64::from(first.slots_taken_count)), dirty),
            largest: each.iter().flatten().map(|group| mean_size(group)).max().unwrap_or(0),
        })
    }

    /// The part of the time that a limit took.
    fn limited_permille(&self) -> u32 {
        permille(self.sums.waits[place(Reason::Budget)], self.sums.waits.iter().sum())
    }

    fn promise(&self, span: &Span<'_>, weight_share: Option<WeightShare>) -> PromiseReport {
        let of = |set| rates(set, &self.sums, span.over_ns);
        let limits = of(&self.settings.max.sustained);
        let guarantees = of(&self.settings.min);
        PromiseReport {
            limit_used_permille: limits.iter().map(Rate::permille).max(),
            guarantee_permille: guarantees.iter().map(Rate::permille).min(),
            weight_share,
            broken: Vec::new(),
        }
    }

    fn wrong(
        &self,
        span: &Span<'_>,
        share: Option<&(WeightShare, bool)>,
    ) -> Vec<(&'static str, String)> {
        if !self.is_settled {
            return Vec::new();
        }
        let share = share.filter(|(_, is_off)| *is_off).map(|(share, _)| {
            let WeightShare { due_permille, got_permille } = share;
            let text = format!(
                "by weight it is due {} of the disk's time and has had {}",
                percent(*due_permille),
                percent(*got_permille)
            );
            ("promise_broken", text)
        });
        let all =
            [self.exceeded(span), share, self.missed(span), self.late(), self.unreached(span)];
        all.into_iter().flatten().collect()
    }

    /// A limit that was exceeded.
    fn exceeded(&self, span: &Span<'_>) -> Option<(&'static str, String)> {
        let max = &self.settings.max;
        let (slots, dirty) = self.backlog;
        let each = (self.sums.read_bytes + self.sums.write_bytes)
            .checked_div(self.sums.ops_count)
            .unwrap_or(0);
        let has_written = self.sums.write_bytes > 0 || self.sums.write_ops_milli > 0;
        let writes_back = has_written && span.last.pace.is_some();
        let is_over = |rate: &Rate| {
            // What was let in before, and finished in this time.
            let late = match rate.is_bytes() {
                true => slots * each + if rate.is_read() { 0 } else { dirty },
                false => slots,
            };
            let request = if rate.is_bytes() { self.largest } else { 1 };
            let at_once = at_once(rate, max, writes_back) + u128::from(request + late);
            let at_once_milli = at_once * 1_000_000_000_000 / u128::from(span.over_ns.max(1));
            let allowed = u128::from(rate.set) * u128::from(OVER_PERMILLE) + at_once_milli;
            let is_told = rate.is_bytes() || (dirty == 0 && max.iops_size.is_none());
            is_told && u128::from(rate.had_milli) > allowed
        };
        let limits = rates(&max.sustained, &self.sums, span.over_ns);
        let rate = limits.iter().find(|rate| is_over(rate))?;
        let text = format!(
            "the limit {} is exceeded: {} over {}",
            rate.written(rate.set),
            rate.print_had(),
            time(span.over_ns)
        );
        Some(("promise_broken", text))
    }

    /// A guarantee that was asked for and not given.
    fn missed(&self, span: &Span<'_>) -> Option<(&'static str, String)> {
        if !self.waits || self.limited_permille() >= LIMITED_PERMILLE {
            return None;
        }
        let (reads, writes) = (self.sums.read_ops_milli, self.sums.write_ops_milli);
        // Only where it is known what the waiting requests are.
        let is_asked = |rate: &Rate| match (rate.is_read(), rate.is_write()) {
            (true, _) => reads > 0 && writes == 0,
            (_, true) => writes > 0 && reads == 0,
            _ => true,
        };
        let guarantees = rates(&self.settings.min, &self.sums, span.over_ns);
        let is_missed = |rate: &&Rate| is_asked(rate) && rate.permille() < GUARANTEED_PERMILLE;
        let rate = guarantees.iter().find(is_missed)?;
        let text = format!(
            "it waits, and has {} instead of the guaranteed {}",
            rate.print_had(),
            rate.print_set()
        );
        Some(("guarantee_missed", text))
    }

    /// A latency target that more than half of the requests miss, in most of the intervals: the
    /// promise is nine of ten, and reports have no quantile between.
    fn late(&self) -> Option<(&'static str, String)> {
        let target = self.settings.latency?.as_nanos();
        let late = &self.late;
        (late.len() > JUDGED / 2).then(|| {
            let text = format!(
                "half of the requests took {} or more in {} of the last {JUDGED} seconds; the \
                 target is {}",
                time(late.iter().min().copied().unwrap_or_default()),
                late.len(),
                time(target)
            );
            ("latency_missed", text)
        })
    }

    /// A limit that something else keeps the group below.
    fn unreached(&self, span: &Span<'_>) -> Option<(&'static str, String)> {
        if !self.waits || self.limited_permille() >= LIMITED_PERMILLE {
            return None;
        }
        let limits = rates(&self.settings.max.sustained, &self.sums, span.over_ns);
        let rate = limits.iter().max_by_key(|rate| rate.permille())?;
        let times = self.sums.waits;
        let most = (0..times.len()).max_by_key(|at| times[*at])?;
        let reason = super::super::span::REASONS[most].name();
        (rate.permille() < REACHED_PERMILLE).then(|| {
            let share = percent(permille(times[most], times.iter().sum()));
            let text = format!(
                "it always wants more, and has {} of the {} that it may have: {share} of its time \
                 is '{reason}', not the limit",
                rate.print_had(),
                rate.print_set()
            );
            ("limit_unreachable", text)
        })
    }
}
