//! The rows with a limit for the sum of all hosts: what goes wrong, and what passes meanwhile.
//!
//! Eight hosts read as much as they may, and something changes or goes wrong from 20 s to 40 s.
//! *most in a second*: the most that passes in any second of the run, at the array; its bound is
//! the limit, 20 ms of it (the lateness of timers that is not lost) and a request of each host.
//! *used*: from 5 s to 20 s and from 50 s on. *used meanwhile*: from 20 s to 40 s. *back*: how long
//! after the change until 95 % of the limit is used in each second from then on.

use super::super::{Bound, TableRow};
use super::stories::{ms, reader, secs};
use super::{TABLE, millis};
use crate::hosts::{ClockRates, Coordination, HostsOutcome, HostsSetup, Program, Trouble};
use crate::milli::Milli;
use iopace_core::cluster::Allowance;
use iopace_core::time::Nanos;

/// The limit of all hosts, in bytes a second.
const LIMIT: u64 = 16_000_000;

/// So many hosts.
const HOSTS_COUNT: usize = 8;

/// Something changes, or goes wrong, from then until then.
const CHANGE: (Nanos, Nanos) = (secs(20), secs(40));

/// The end of a run.
const END: Nanos = secs(60);

/// The limit is used so long after the beginning, and so long after something went wrong.
const SETTLED: Nanos = secs(5);
const BACK_MOST: Nanos = secs(10);

/// That is when in each second at least so many thousandths of it are.
const USED_LEAST: u64 = 950;

/// A row.
pub(super) struct LimitStory {
    pub(super) name: &'static str,
    pub(super) setup: HostsSetup,
    /// The spans in which all of the limit is to be used, from when loads or the ways are so.
    spans: [(Nanos, Nanos); 2],
    /// The most in any second, as a part of the limit.
    most: Milli,
    /// Whether the limit has to be used: not with a store that is too slow for it.
    is_used: bool,
}

/// Makes a row of that name.
type LimitMaker = fn(&'static str) -> LimitStory;

/// The rows.
pub(super) const LIMITS: [(&str, LimitMaker); 11] = [
    ("limit, steady", steady),
    ("limit, loads move", moving),
    ("limit, a host is cut off", |name| trouble(name, Trouble::Cut(3))),
    ("limit, the store is lost", |name| trouble(name, Trouble::StoreLost)),
    ("limit, a host stands still", |name| trouble(name, Trouble::Stopped(3))),
    ("limit, clocks 1 % fast", |name| clocks(name, 1_010_000, 990_000)),
    ("limit, clocks 1 % slow", |name| clocks(name, 990_000, 1_010_000)),
    ("limit, a host hears late", |name| slow(name, Trouble::HearsLate(0, ms(400)))),
    ("limit, store of 50 ms", |name| slow(name, Trouble::StoreSlow(ms(50)))),
    ("limit, store of 500 ms", |name| LimitStory {
        is_used: false,
        ..slow(name, Trouble::StoreSlow(ms(500)))
    }),
    ("limit, store of 4 s", |name| trouble(name, Trouble::StoreSlow(secs(4)))),
];

/// All hosts read all the time.
fn steady(name: &'static str) -> LimitStory {
    let program = |host| Program { group: 0, depth: 16, ..reader(host, Nanos::ZERO, END) };
    let setup = HostsSetup {
        disk: "ssd-sata",
        hosts_count: HOSTS_COUNT,
        weights: vec![100],
        programs: (0..HOSTS_COUNT).map(program).collect(),
        coordination: Coordination::Together,
        target: Some(ms(2)),
        way_most: Nanos::ZERO,
        limit: Some(Allowance(LIMIT)),
        cell_size: None,
        clock_rates: None,
        troubles: Vec::new(),
        length: END,
        seed: 1,
    };
    let spans = [(Nanos::ZERO, END); 2];
    LimitStory { name, setup, spans, most: Milli(1_030), is_used: true }
}

/// Four hosts read, four others come, and the first ones go.
fn moving(name: &'static str) -> LimitStory {
    let mut story = steady(name);
    let (come, go) = CHANGE;
    for program in &mut story.setup.programs {
        match program.host < HOSTS_COUNT / 2 {
            true => program.until = go,
            false => program.from = come,
        }
    }
    story.spans = [CHANGE, (go, END)];
    story
}

/// Something goes wrong while all hosts read.
fn trouble(name: &'static str, trouble: Trouble) -> LimitStory {
    let mut story = steady(name);
    story.setup.troubles = vec![(CHANGE.0, CHANGE.1, trouble)];
    story.spans = [(CHANGE.1, END); 2];
    story
}

/// A host is cut off, with clocks of those rates: a second of a fast clock is shorter.
fn clocks(name: &'static str, of_hosts: u64, of_stores: u64) -> LimitStory {
    let mut story = trouble(name, Trouble::Cut(3));
    story.setup.clock_rates = Some(ClockRates { of_hosts, of_stores });
    story.most.0 += i64::try_from(of_hosts.saturating_sub(1_000_000) / 1_000).unwrap_or(0);
    story
}

/// Answers are slow from before loads move.
fn slow(name: &'static str, trouble: Trouble) -> LimitStory {
    let mut story = moving(name);
    story.setup.troubles = vec![(SETTLED, END, trouble)];
    story
}

/// The rows of a story.
pub(super) fn limit_rows(story: &LimitStory, outcome: &HostsOutcome) -> Vec<TableRow> {
    let calm = [(SETTLED, CHANGE.0), (CHANGE.1 + BACK_MOST, END)];
    let used = |spans: &[(Nanos, Nanos)]| {
        let passed: u64 = spans.iter().map(|(from, until)| outcome.passed(*from, *until)).sum();
        let length: u64 = spans.iter().map(|(from, until)| until.saturating_sub(*from).0).sum();
        let due = u128::from(LIMIT) * u128::from(length) / 1_000_000_000;
        Milli::ratio(passed.into(), due).unwrap_or_default()
    };
    let least = LIMIT * USED_LEAST / 1_000;
    let back = |(from, until): (Nanos, Nanos)| {
        outcome.back((from, until), least).unwrap_or(until.saturating_sub(from))
    };
    let most = Milli::ratio(outcome.most_in_second().into(), LIMIT.into()).unwrap_or_default();
    let back = story.spans.map(back).into_iter().max().unwrap_or_default();
    let is_used = |bound: Bound| story.is_used.then_some(bound);
    let figures = [
        ("most in a second", "of limit", most, Some(Bound::AtMost(story.most))),
        ("used", "of limit", used(&calm), is_used(Bound::AtLeast(Milli(950)))),
        ("used meanwhile", "of limit", used(&[CHANGE]), None),
        ("back", "s until 95 %", millis(back), is_used(Bound::AtMost(millis(BACK_MOST)))),
    ];
    let row = |(figure, unit, value, bound): (&'static str, _, _, Option<Bound>)| TableRow {
        table: TABLE,
        row: story.name,
        variant: "records",
        figure,
        unit,
        source: None,
        value,
        bound: bound.map(Bound::text),
        holds: bound.map(|bound| bound.holds(value, value)),
    };
    figures.into_iter().map(row).collect()
}
