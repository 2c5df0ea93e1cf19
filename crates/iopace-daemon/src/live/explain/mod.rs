//! Why requests wait, in words and numbers: from live reports and settings to what is told.
//!
//! ```text
//!   LiveReports ──► span.rs  summed ──► causes by share ──► words.rs  what each means here
//!   settings ────────────────────────────────────────────► remedies.rs  what would change it
//! ```
//! Nothing here looks at a device or a clock: the same reports give the same words.
//!
//! # What the shares are taken from
//! The time of the requests that finished, which is exact by reason; write-back, for which nobody
//! waits, is left out. If what was seen standing adds up to more than twice of it, too little came
//! through to tell (a stalled disk, a limit of one request in a minute), and the standing is taken
//! instead.

mod holdings;
mod remedies;
#[cfg(test)]
mod tests;
mod words;
mod worst;

use super::limits::SettingsOf;
pub(crate) use super::span::chain;
use super::span::{REASONS, Span, Sums, Times, counts, is_within, place};
use crate::control::api::{Basis, Cause, Explained, ExplainedDevice, LiveReport, WaitCounts};
use crate::figures::{percent, permille, reason_word, time};
use holdings::Held;
use iopace_core::verdict::Reason;
use std::cmp::Reverse;

/// Below this part of the time in iopace, in thousandths, something else is what slows requests: a
/// tenth is not felt.
const FELT_PERMILLE: u32 = 100;

/// From this part on, in thousandths, what is held is held by the group itself.
const OWN_PERMILLE: u32 = 800;

/// Causes below this part, in thousandths, are not told if there are others.
const TOLD_PERMILLE: u32 = 1;

/// The device that a question is about.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Subject<'a> {
    /// Its name.
    pub(crate) device: &'a str,
    /// Whether it has a head: then it works on one request at a time.
    pub(crate) is_rotational: bool,
}

/// What all questions about one device have in common.
struct About<'a> {
    subject: Subject<'a>,
    span: Span<'a>,
    settings: &'a SettingsOf,
    held: Held<'a>,
}

/// One question about one group on one device.
struct Case<'a> {
    subject: Subject<'a>,
    span: &'a Span<'a>,
    settings: &'a SettingsOf,
    held: &'a Held<'a>,
    group: &'a str,
    sums: Sums,
}

impl<'a> Case<'a> {
    fn new(about: &'a About<'a>, group: &'a str) -> Case<'a> {
        let About { subject, span, settings, held } = about;
        Case { subject: *subject, span, settings, held, group, sums: span.sums(group) }
    }

    fn device(&self) -> &'a str {
        self.subject.device
    }

    /// The part that the group and those below it have of what all have, in thousandths.
    fn own_permille(&self, own: &[(&str, u128)]) -> u32 {
        let all = own.iter().map(|(_, part)| part).sum();
        let ours = own.iter().filter(|(path, _)| is_within(path, self.group));
        match all {
            // Nobody else has any.
            0 => 1_000,
            _ => permille(ours.map(|(_, part)| part).sum(), all),
        }
    }
}

/// What is to be said about a device, or a group on it, after these intervals, oldest first. None
/// if there is no such device in the last.
pub(crate) fn explain(
    reports: &[&LiveReport],
    subject: Subject<'_>,
    group: Option<&str>,
    settings: &SettingsOf,
) -> Option<ExplainedDevice> {
    let span = Span::new(reports, subject.device)?;
    let held = Held::of(&span);
    let about = About { subject, span, settings, held };
    let case = Case::new(&about, group.unwrap_or("/"));
    let (groups, groups_left_out_count) = match group {
        Some(_) => (Vec::new(), 0),
        None => worst::waiting(&about),
    };
    let mut of_device = explained(&case);
    let worst = groups.first().map(|first| explained(&Case::new(&about, &first.group)));
    if worst.is_some() {
        // What helps the sum of all may be what the worst off suffers from.
        of_device.causes.iter_mut().for_each(|cause| cause.remedies.clear());
    }
    Some(ExplainedDevice {
        device: subject.device.into(),
        scheduler: about.span.last.scheduler.clone(),
        explained: of_device,
        worst,
        holdings: holdings::all(&about.span, &about.held),
        groups,
        groups_left_out_count,
    })
}

/// Where the time went.
struct Shares {
    basis: Basis,
    times: Times,
    total: u128,
}

impl Shares {
    fn of(sums: &Sums, now: &WaitCounts) -> Shares {
        let finished = sums.of_tasks();
        let (came, stood): (u128, u128) = (sums.waits.iter().sum(), sums.standing.iter().sum());
        let (basis, times) = match () {
            () if stood > came * 2 => (Basis::Standing, sums.standing),
            () if finished.iter().sum::<u128>() > 0 => (Basis::Finished, finished),
            () => (Basis::Nothing, Times::default()),
        };
        let is_empty = basis == Basis::Standing && counts(now).iter().all(|count| *count == 0);
        match is_empty && came > 0 {
            // It is over.
            true => Shares::new(Basis::Finished, finished),
            false => Shares::new(basis, times),
        }
    }

    fn new(basis: Basis, times: Times) -> Shares {
        Shares { basis, times, total: times.iter().sum() }
    }

    /// The reasons with their time, the longest first; of equals, the earlier stage.
    fn ordered(&self) -> Vec<(Reason, u128)> {
        let mut all: Vec<_> = REASONS.into_iter().zip(self.times).collect();
        all.retain(|(_, time)| permille(*time, self.total) >= TOLD_PERMILLE);
        all.sort_by_key(|(_, time)| Reverse(*time));
        all
    }

    /// What a request waits for most; the disk is no waiting.
    fn main_wait(&self) -> Option<(Reason, u128)> {
        self.ordered().into_iter().find(|(reason, _)| *reason != Reason::Disk)
    }

    /// The time that was not the disk's.
    fn waited(&self) -> u128 {
        self.total - self.times[place(Reason::Disk)]
    }

    /// The part of the time that was not the disk's, in thousandths.
    fn waited_permille(&self) -> u32 {
        permille(self.waited(), self.total)
    }
}

/// So many finished, of what tasks wait for: requests and buffered writes, and not what was written
/// back for these; all requests if nobody waited for any.
fn finished_count(sums: &Sums) -> u64 {
    match sums.awaited_count() {
        0 => sums.ops_count,
        count => count,
    }
}

fn explained(case: &Case<'_>) -> Explained {
    let now = case.span.standing(case.group);
    let shares = Shares::of(&case.sums, &now);
    let finished_count = finished_count(&case.sums);
    let standing = counts(&now);
    let main_wait = shares.main_wait().map(|(reason, _)| reason);
    let told = shares.ordered().into_iter().map(|(reason, time)| Cause {
        reason: reason.name().into(),
        word: reason_word(reason).into(),
        share_permille: permille(time, shares.total),
        wait_ns: nanos(time),
        per_request_ns: per_request(&shares, time, finished_count),
        now_count: standing[place(reason)],
        text: words::cause(case, reason),
        remedies: remedies::of(case, reason, main_wait == Some(reason)),
    });
    let causes: Vec<Cause> = told.collect();
    let held_up = shares.waited_permille() >= FELT_PERMILLE;
    Explained {
        group: case.group.into(),
        summary: summary(case, &shares, &causes, held_up),
        held_up,
        basis: shares.basis,
        finished_count,
        total_ns: nanos(shares.total),
        causes,
        now,
    }
}

fn nanos(time: u128) -> u64 {
    u64::try_from(time).unwrap_or(u64::MAX)
}

/// Of each that finished; none of those that stand.
fn per_request(shares: &Shares, time: u128, finished_count: u64) -> u64 {
    match shares.basis {
        Basis::Finished => nanos(time / u128::from(finished_count.max(1))),
        Basis::Nothing | Basis::Standing => 0,
    }
}

/// The answer in a sentence or two.
fn summary(case: &Case<'_>, shares: &Shares, causes: &[Cause], held_up: bool) -> String {
    let who = words::who(case.group, case.device());
    let over = time(case.span.over_ns);
    let Some(first) = causes.first() else {
        return format!(
            "{who} has had nothing to wait for in the last {over}: iopace is not what slows it."
        );
    };
    let share = percent(first.share_permille);
    match shares.basis {
        Basis::Standing => {
            let oldest = time(case.span.standing(case.group).oldest_ns);
            let Cause { word, text, .. } = first;
            format!(
                "Next to nothing of {who} came through in the last {over}; the oldest request has \
                 been here for {oldest}. {share} of the waiting is '{word}': {text}."
            )
        }
        _ if !held_up => format!(
            "iopace is not what slows {who}: {} of the time of its requests is the disk itself.",
            percent(1_000 - shares.waited_permille())
        ),
        _ if first.reason == Reason::Disk.name() => {
            let next = causes.get(1).map(|next| {
                let share = percent(next.share_permille);
                format!(" Next, with {share}, is '{}': {}.", next.word, next.text)
            });
            let next = next.unwrap_or_default();
            format!("Of the time of {who}, {share} is the disk itself: {}.{next}", first.text)
        }
        _ => format!("Of the time of {who}, {share} is '{}': {}.", first.word, first.text),
    }
}
