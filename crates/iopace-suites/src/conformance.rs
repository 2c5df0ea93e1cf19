//! Random histories in a whole engine: nothing is lost or comes twice, flushes and FUA are kept,
//! waits are bounded; with disks that fail and lose commands, in chaos, and while schedulers are
//! exchanged.

use crate::bare::STATE_CHARS_MAX;
use crate::chaos;
use crate::outcome::{Outcome, Progress};
use crate::random::Random;
use crate::world::{Setup, World};
use iopace_core::engine::Control;
use iopace_core::sched::profile::WaitMax;
use iopace_core::sched::{Algorithm, Load, Params, REGISTRY};
use iopace_core::time::{Instant, Nanos};
use std::ops::Range;

/// Each seed is another history, with another window, number of slots and kind of disk.
pub const SEEDS: Range<u64> = 1..25;

/// Seeds of the exchanges, each of which puts hundreds of schedulers in.
const EXCHANGE_SEEDS: Range<u64> = 1..9;

/// One part of the suite.
type Part = fn(&'static Algorithm, &mut dyn FnMut()) -> Outcome;

/// The parts and the runs of each.
const PARTS: [(Part, Range<u64>); 7] = [
    (histories, SEEDS),
    (merging, SEEDS),
    (in_chaos, SEEDS),
    (merging_in_chaos, SEEDS),
    (exchanged, EXCHANGE_SEEDS),
    (repeated, 5..6),
    (waits, SEEDS),
];

/// All parts of the suite.
pub fn run(algorithm: &'static Algorithm, progress: Progress<'_>) -> Outcome {
    let all = PARTS.iter().map(|(_, seeds)| seeds.end - seeds.start).sum();
    let (mut outcome, mut before) = (Outcome::default(), 0);
    for (part, seeds) in PARTS {
        let mut done = before;
        let part = part(algorithm, &mut || {
            done += 1;
            progress(done, all);
        });
        outcome = outcome.and(part);
        before += seeds.end - seeds.start;
    }
    outcome
}

/// One run of a scheduler.
pub fn history(algorithm: &'static Algorithm, setup: Setup) -> World {
    let mut world = World::new(REGISTRY[0], setup);
    world.insert(algorithm);
    world.run(|_| {});
    world
}

/// Histories one after the other, beside a disk that fails and loses commands.
pub fn histories(algorithm: &'static Algorithm, tick: &mut dyn FnMut()) -> Outcome {
    each(algorithm, Setup::new, "", tick)
}

/// The same where adjoining requests go in one command.
pub fn merging(algorithm: &'static Algorithm, tick: &mut dyn FnMut()) -> Outcome {
    each(algorithm, Setup::merging, "", tick)
}

/// The same as [`histories`] while the scheduler is held back, made anew and configured.
pub fn in_chaos(algorithm: &'static Algorithm, tick: &mut dyn FnMut()) -> Outcome {
    each(chaos::in_chaos(algorithm), Setup::new, "in chaos, ", tick)
}

/// The same with merging.
pub fn merging_in_chaos(algorithm: &'static Algorithm, tick: &mut dyn FnMut()) -> Outcome {
    each(chaos::in_chaos(algorithm), Setup::merging, "in chaos, ", tick)
}

fn each(
    algorithm: &'static Algorithm,
    setup: fn(u64) -> Setup,
    heading: &str,
    tick: &mut dyn FnMut(),
) -> Outcome {
    let mut outcome = Outcome::default();
    for setup in SEEDS.map(setup) {
        let world = history(algorithm, setup);
        outcome.add(&format!("{heading}{setup}"), &world);
        tick();
        if outcome.is_enough() {
            break;
        }
    }
    outcome
}

impl Outcome {
    /// A run has come to its end, or to an hour without one.
    fn add(&mut self, heading: &str, world: &World) {
        self.runs += 1;
        self.count("requests", world.report.finished);
        self.count("merged", world.engine.status().merged_count);
        let report = &world.report;
        // It fails again each time that it is put in again: the first says it all.
        if let (Some(fault), Some(dump)) = (report.faults.first(), report.dumps.first()) {
            let state: String = dump.chars().take(STATE_CHARS_MAX).collect();
            let (what, more) = (fault.describe(), more(report.faults.len()));
            self.failures.push(format!(
                "{heading}: it {what}, and fifo took over{more}; its state: {state}"
            ));
        }
        if let Some(first) = report.violations.first() {
            let more = more(report.violations.len());
            self.failures.push(format!("{heading}: {first}{more}"));
        }
    }
}

/// So many more than the first, in words.
fn more(count: usize) -> String {
    match count.saturating_sub(1) {
        0 => String::new(),
        more => format!(", and {more} more of the kind"),
    }
}

/// The scheduler and those of the registry take turns within a history, with parameters by chance.
pub fn exchanged(algorithm: &'static Algorithm, tick: &mut dyn FnMut()) -> Outcome {
    let mut outcome = Outcome::default();
    for seed in EXCHANGE_SEEDS {
        let (mut random, mut exchanges) = (Random(seed), 0);
        let mut world = World::new(REGISTRY[0], Setup::new(seed));
        world.run(|world| {
            if random.below(3) == 0 {
                exchange(world, algorithm, &mut random);
                exchanges += 1;
            }
        });
        outcome.add(&format!("exchanged under way, {}", Setup::new(seed)), &world);
        outcome.count("exchanges", exchanges);
        tick();
        if outcome.is_enough() {
            break;
        }
    }
    outcome
}

fn exchange(world: &mut World, algorithm: &'static Algorithm, random: &mut Random) {
    let other = REGISTRY[random.below(REGISTRY.len() as u64) as usize];
    let algorithm = if random.below(2) == 0 { algorithm } else { other };
    let inserted = world.engine.status().inserted;
    let params = chaos::params(algorithm, random, 8);
    let control = match (inserted, random.below(4)) {
        (false, _) => Control::Insert(algorithm, params),
        (true, 0) => Control::Destroy,
        (true, _) => Control::Configure(Some(algorithm), params.changes()),
    };
    world.engine.control(world.now, control).expect("a legal change");
    world.drain();
}

/// The same seed gives the same history.
pub fn repeated(algorithm: &'static Algorithm, tick: &mut dyn FnMut()) -> Outcome {
    let setup = Setup::new(5);
    let (one, two) = (history(algorithm, setup), history(algorithm, setup));
    let mut outcome = Outcome { runs: 2, ..Outcome::default() };
    if (one.now, one.report.longest_wait) != (two.now, two.report.longest_wait) {
        let ends = [one.now, two.now].map(|now| now.since(Instant::ZERO));
        outcome.failures.push(format!(
            "{setup}: run twice it ends after {} and after {}: it depends on more than its calls",
            ends[0], ends[1]
        ));
    }
    tick();
    outcome
}

/// The longest wait for a start under [`Load::CLOSED_LOOP`], whatever window and slots.
pub fn longest_wait(algorithm: &'static Algorithm, seed: u64) -> Nanos {
    let (requests, nr_requests, clients) = (4_000, 32, Load::CLOSED_LOOP.clients_count);
    let without = Setup { fail_permille: 0, lose_permille: 0, ..Setup::new(seed) };
    history(algorithm, Setup { requests, nr_requests, clients, ..without }).report.longest_wait
}

/// The promise of a scheduler under these parameters; a bound of nothing is none.
pub(crate) fn promise(of: Option<WaitMax>, params: &Params, load: &Load) -> Option<Nanos> {
    of.map(|wait| wait(params, load)).filter(|bound| *bound > Nanos::ZERO)
}

fn bound(algorithm: &Algorithm) -> Option<Nanos> {
    promise(algorithm.profile.closed_loop_wait, &algorithm.defaults(), &Load::CLOSED_LOOP)
}

/// The longest wait that any scheduler of the registry promises.
pub fn loosest_bound() -> Nanos {
    REGISTRY.iter().filter_map(|algorithm| bound(algorithm)).max().expect("fifo has one")
}

/// Waits in the closed loop are within the promise; one that would be kept is to be made.
pub fn waits(algorithm: &'static Algorithm, tick: &mut dyn FnMut()) -> Outcome {
    let mut outcome = Outcome::default();
    let waited = |seed| {
        tick();
        (longest_wait(algorithm, seed), seed)
    };
    let (longest, seed) = SEEDS.map(waited).max().expect("there are seeds");
    outcome.runs += SEEDS.end - SEEDS.start;
    match bound(algorithm) {
        Some(bound) if longest > bound => outcome.failures.push(format!(
            "seed {seed}: a request waits {longest} in a closed loop, {bound} is promised"
        )),
        Some(bound) => {
            outcome.notes.push(format!("longest wait {longest} in a closed loop, of {bound}"));
        }
        None if longest > loosest_bound() => outcome
            .notes
            .push(format!("longest wait {longest} in a closed loop, where it promises no bound")),
        None => outcome.unstated.push(format!(
            "no request waits longer than {longest} in a closed loop: state a bound of the wait"
        )),
    }
    outcome
}
