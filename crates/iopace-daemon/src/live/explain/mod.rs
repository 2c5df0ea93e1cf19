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
//! instead. Requests and buffered writes are told apart where a group has both: the time of the
//! latter is in stage pace, and all the rest is that of requests.

mod changes;
mod dues;
mod facts;
mod holdings;
mod remedies;
mod shares;
#[cfg(test)]
mod tests;
mod words;
mod worst;

use super::limits::Rate;
pub(crate) use super::limits::SettingsOf;
pub(crate) use super::span::chain;
use super::span::{Span, Sums, counts, is_within, place};
use crate::api::{
    Basis, BelowReport, Cause, Explained, ExplainedDevice, ExplainedKind, LiveReport, LiveTask,
};
use crate::figures::{percent, permille, reason_word, time};
use crate::groups::SharedDevice;
use holdings::{Held, Holders};
use iopace_core::time::Nanos;
use iopace_core::verdict::Reason;
use shares::{Kind, Shares};

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
    /// How it stands as a part of a volume of several hosts, if it is one.
    pub(crate) shared: Option<&'a SharedDevice>,
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

    /// Whether a limit is this host's part of one of all hosts.
    fn is_part(&self, path: &str, rate: &Rate) -> bool {
        let end = self.settings.get(path).and_then(|of| of.max.end);
        match self.subject.shared.and_then(|shared| shared.limits.get(path)) {
            Some(part) => rate.of(part) == Some(rate.set),
            None => end.is_some(),
        }
    }

    /// For how long the store of the volume has not been reached, if it is not.
    fn dark_for(&self) -> Option<Nanos> {
        self.subject.shared.and_then(|shared| shared.dark_for)
    }

    /// The part that the group and those below it have of what all have, in thousandths.
    fn own_permille(&self, holders: &Holders<'_>) -> u32 {
        holders.permille_of(self.group)
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
    let held = Held::of(&span, settings);
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
        inserted: about.span.last.inserted,
        auto: about.span.last.auto,
        failure: None,
        window: Some(&about.span.last.window).filter(|of| of.narrowed.is_some()).cloned(),
        disk: about.span.last.disk,
        explained: of_device,
        worst,
        below: None,
        holdings: holdings::all(&about.span, &about.held),
        groups,
        groups_left_out_count,
    })
}

/// Adds where time goes below iopace, of a look. Where nothing of iopace is felt, that is the
/// answer.
pub(crate) fn add_below(told: &mut ExplainedDevice, below: BelowReport) {
    let ExplainedDevice { device, explained, .. } = told;
    if !explained.held_up && below.loses_to_others && explained.basis == Basis::Finished {
        let disk = explained.causes.iter().find(|cause| cause.reason == Reason::Disk.name());
        explained.summary = format!(
            "{} of the time of requests of {} is at the disk. {}",
            percent(disk.map_or(0, |disk| disk.share_permille)),
            words::who(&explained.group, device),
            below.text
        );
    }
    told.below = Some(below);
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
    let standing = counts(&now);
    let main_wait = shares.all.main_wait().map(|(reason, _)| reason);
    let told = shares.all.ordered().into_iter().map(|(reason, time)| Cause {
        reason: reason.name().into(),
        word: reason_word(reason).into(),
        share_permille: permille(time, shares.all.total),
        wait_ns: nanos(time),
        per_request_ns: nanos(shares.each(false, reason)),
        per_buffered_write_ns: nanos(shares.each(true, reason)),
        now_count: standing[place(reason)],
        bound: facts::bound(case, reason),
        holder: facts::holder(case, reason),
        text: words::cause(case, reason, ""),
        remedies: remedies::of(case, reason, main_wait == Some(reason)),
    });
    let causes: Vec<Cause> = told.collect();
    Explained {
        group: case.group.into(),
        summary: summary(case, &shares, &causes),
        held_up: shares.is_felt(),
        basis: shares.basis,
        finished_count: finished_count(&case.sums),
        total_ns: nanos(shares.all.total),
        kinds: shares.apart().into_iter().map(|kind| explained_kind(case, kind)).collect(),
        causes,
        now,
    }
}

/// Requests, or buffered writes, of a group that has both.
fn explained_kind(case: &Case<'_>, kind: &Kind) -> ExplainedKind {
    let first = kind.split.ordered().first().copied();
    let (reason, time) = first.unwrap_or((Reason::Idle, 0));
    ExplainedKind {
        kind: kind.name.into(),
        finished_count: kind.finished_count,
        each_ns: nanos(kind.each(kind.split.total)),
        each_waits_ns: nanos(kind.each(kind.split.waited())),
        reason: first.map_or("", |_| reason.name()).into(),
        word: first.map_or("", |_| reason_word(reason)).into(),
        share_permille: permille(time, kind.split.total),
        text: words::cause(case, reason, kind.name),
    }
}

fn nanos(time: u128) -> u64 {
    u64::try_from(time).unwrap_or(u64::MAX)
}

/// The answer in a sentence or two.
fn summary(case: &Case<'_>, shares: &Shares, causes: &[Cause]) -> String {
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
        _ if !shares.is_felt() && is_shared(case) => format!(
            "{} of the time of requests of {who} is at the disk, where requests of others are that \
             iopace has let through: {}. Whether a smaller window or another scheduler would \
             change that, a look tells: 'iopace explain --look 2s'.",
            percent(1_000 - shares.all.waited_permille()),
            words::cause(case, Reason::Disk, "")
        ),
        _ if !shares.is_felt() => format!(
            "iopace is not what slows {who}: {} of the time of its requests is the disk itself.",
            percent(1_000 - shares.all.waited_permille())
        ),
        _ if !shares.apart().is_empty() => apart(case, shares, &who),
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

/// Whether others have a part of the disk's time that is felt: other groups, or other tasks of the
/// group.
fn is_shared(case: &Case<'_>) -> bool {
    let has_disk =
        |task: &&LiveTask| is_within(&task.group, case.group) && task.activity.waits.disk_ns > 0;
    let tasks_count = case.span.last.tasks.iter().filter(has_disk).count();
    case.own_permille(&case.held.disk_time) < OWN_PERMILLE || tasks_count > 1
}

/// A sentence for requests, and one for buffered writes.
fn apart(case: &Case<'_>, shares: &Shares, who: &str) -> String {
    let sentence = |kind: &Kind| {
        let ExplainedKind { each_ns, word, share_permille, text, .. } = explained_kind(case, kind);
        match &*word {
            "" => "take no time".into(),
            _ => format!(
                "take {} each, {} of it '{word}': {text}",
                time(each_ns),
                percent(share_permille)
            ),
        }
    };
    let all = shares.apart().into_iter().map(|kind| format!("{} {}.", kind.name, sentence(kind)));
    let all: Vec<String> = all.collect();
    format!("{who}: {}", all.join(" Its "))
}
