//! One request beside a stream that never ends: of any task and under any legal parameters, it is
//! served within a bound. Closed loops do not show this, as their clients stop when they are passed
//! over.

use crate::bare::{Bare, PIECE, fenced, waited_for};
use crate::chaos;
use crate::conformance::promise;
use crate::outcome::{Outcome, Progress};
use crate::random::Random;
use iopace_core::group::Settings;
use iopace_core::request::{GroupId, Op, Submit, TaskId};
use iopace_core::sched::{Algorithm, Load, Params};
use iopace_core::time::Nanos;

/// The load beside the one.
const LOAD: Load = Load::STREAM;

/// After this long it starves.
pub const PATIENCE: Nanos = Nanos::from_secs(3_600);

/// Draws of parameters and of the stream.
const SEEDS: std::ops::Range<u64> = 1..9;

/// The tasks of the stream, and the one.
#[derive(Clone, Copy, Debug)]
pub struct Cast {
    /// Tasks of the stream.
    pub tasks: u64,
    /// Direction of the stream.
    pub stream: Op,
    /// The one that waits: its task and direction.
    pub one: (TaskId, Op),
    /// How many of the stream come right behind the one, before anything is served.
    pub behind: u64,
    /// Something else in which the one differs from the stream.
    pub differs: Differs,
}

/// Something in which one request differs from others, which a scheduler may go by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Differs {
    /// In its task and direction at most. It lies below the head.
    Not,
    /// It lies far above the head, where the stream does not come.
    Above,
    /// It is a sixteenth as long.
    Shorter,
    /// It is sixteen times as long.
    Longer,
    /// Its group has a lower number.
    LowerGroup,
    /// Its group has a higher number.
    HigherGroup,
    /// Its task waits for it, those of the stream do not.
    Sync,
    /// Its task does not wait for it, those of the stream do.
    Async,
}

impl Differs {
    const ALL: [Differs; 7] = [
        Differs::Above,
        Differs::Shorter,
        Differs::Longer,
        Differs::LowerGroup,
        Differs::HigherGroup,
        Differs::Sync,
        Differs::Async,
    ];

    /// The group of the one, and that of the stream.
    fn groups(self) -> [GroupId; 2] {
        match self {
            Differs::LowerGroup => [GroupId(1), GroupId(2)],
            Differs::HigherGroup => [GroupId(2), GroupId(1)],
            _ => [GroupId::ROOT; 2],
        }
    }

    /// Where the one lies, and its bytes.
    fn place(self) -> (u64, u64) {
        match self {
            Differs::Above => (1 << 60, PIECE),
            Differs::Shorter => (0, PIECE / 16),
            Differs::Longer => (0, PIECE * 16),
            _ => (0, PIECE),
        }
    }

    /// Whether a task waits for the one, and for those of the stream.
    fn sync(self) -> [bool; 2] {
        match self {
            Differs::Sync => [true, false],
            Differs::Async => [false, true],
            _ => [true, true],
        }
    }
}

/// All casts that are tried.
pub fn casts() -> Vec<Cast> {
    let mut casts = Vec::new();
    for differs in Differs::ALL {
        for op in [Op::Read, Op::Write] {
            let (tasks, one) = (LOAD.clients_count - 1, (TaskId(7), op));
            casts.push(Cast { tasks, stream: op, one, behind: 0, differs });
        }
    }
    for tasks in [1, LOAD.clients_count - 1] {
        for stream in [Op::Read, Op::Write] {
            for one in [Op::Read, Op::Write] {
                // One of the stream's own tasks, and another.
                for (task, behind) in [(0, 0), (7, 0), (0, 1), (7, 1)] {
                    let one = (TaskId(task), one);
                    casts.push(Cast { tasks, stream, one, behind, differs: Differs::Not });
                }
            }
        }
    }
    casts
}

/// The stream: where it goes on, and the draw of tasks and service times.
struct Stream {
    random: Random,
    position: u64,
    cast: Cast,
}

impl Stream {
    /// Fills the queue up to so many requests.
    fn fill(&mut self, bare: &mut Bare, count: u64) {
        while (bare.table.queued_count() as u64) < count {
            let Cast { tasks, stream, differs, .. } = self.cast;
            let task = TaskId(self.random.below(tasks));
            let [_, group] = differs.groups();
            let submit = waited_for(task, group, stream, (self.position, PIECE));
            bare.submit(Submit { sync: differs.sync()[1], ..submit });
            self.position += PIECE;
        }
    }
}

/// How long the one waits in a scheduler with parameters `before`, and `after` from the twentieth
/// request on; more than [`PATIENCE`] if it starves.
///
/// # Errors
/// The scheduler broke its contract; a sentence says how.
pub fn wait(
    algorithm: &Algorithm,
    [before, after]: [&Params; 2],
    cast: Cast,
    seed: u64,
) -> Result<Nanos, String> {
    fenced(algorithm, before, |bare| {
        for group in cast.differs.groups().into_iter().filter(|group| *group != GroupId::ROOT) {
            bare.set_group(group, &Settings::default());
        }
        let mut stream = Stream { random: Random(seed), position: 1 << 40, cast };
        let mut one = None;
        for served in 0_u64.. {
            if served == 10 {
                stream.fill(bare, LOAD.requests - 1 - cast.behind);
                // Mostly below the head, where C-LOOK does not come as long as there is something
                // ahead.
                let (task, op) = cast.one;
                let [group, _] = cast.differs.groups();
                let submit = waited_for(task, group, op, cast.differs.place());
                let sync = cast.differs.sync()[0];
                one = Some((bare.submit(Submit { sync, ..submit }), bare.now));
            }
            stream.fill(bare, LOAD.requests - u64::from(one.is_none()));
            if served == 20 {
                bare.configure(after);
            }
            let (id, request) = bare.pop()?;
            let waited = one.map(|(one, since)| (id == one, bare.now.since(since)));
            let service = Nanos(1_000_000 + stream.random.below(LOAD.service.0 - 1_000_000));
            bare.done(id, &request, service);
            match waited {
                Some((_, waited)) if waited > PATIENCE => return Ok(waited),
                Some((true, waited)) => return bare.empty().map(|()| waited),
                _ => {}
            }
        }
        unreachable!("the one waits at most for PATIENCE")
    })
}

/// Holds the scheduler to its bound; where it states none, looks for a request that starves.
pub fn run(algorithm: &'static Algorithm, progress: Progress<'_>) -> Outcome {
    match bound(algorithm, &algorithm.defaults()) {
        Some(_) => bounded(algorithm, progress),
        None => without_bound(algorithm, progress),
    }
}

fn bound(algorithm: &Algorithm, params: &Params) -> Option<Nanos> {
    promise(algorithm.profile.stream_wait, params, &LOAD)
}

/// The bound holds in every cast, with its defaults and with parameters by chance.
fn bounded(algorithm: &'static Algorithm, progress: Progress<'_>) -> Outcome {
    let (mut outcome, casts) = (Outcome::default(), casts());
    let all = (SEEDS.end - SEEDS.start) * 2 * casts.len() as u64;
    // The wait that comes nearest to its bound, with that bound.
    let mut nearest = (Nanos::ZERO, Nanos(1));
    for seed in SEEDS {
        let mut random = Random(seed);
        let mut draw = || chaos::params(algorithm, &mut random, 4);
        let sets = [[algorithm.defaults(), algorithm.defaults()], [draw(), draw()]];
        for [before, after] in &sets {
            let bounds = [before, after].map(|params| bound(algorithm, params));
            let bound = bounds.into_iter().flatten().max();
            for cast in &casts {
                progress(outcome.runs, all);
                outcome.runs += 1;
                let waited = wait(algorithm, [before, after], *cast, seed);
                let by = || format!("seed {seed}, {cast:?}, {before:?} then {after:?}");
                match (waited, bound) {
                    (Err(what), _) => outcome.failures.push(format!("{}: {what}", by())),
                    (Ok(waited), Some(bound)) if waited > bound => outcome
                        .failures
                        .push(format!("{}: the one waits {waited}, {bound} is promised", by())),
                    (Ok(waited), Some(bound)) if is_nearer((waited, bound), nearest) => {
                        nearest = (waited, bound);
                    }
                    _ => {}
                }
                if outcome.is_enough() {
                    return outcome;
                }
            }
        }
    }
    let (waited, bound) = nearest;
    outcome.notes.push(format!("longest wait {waited} beside a stream, of {bound}"));
    outcome
}

/// Whether the first wait takes more of its bound than the second.
fn is_nearer(one: (Nanos, Nanos), other: (Nanos, Nanos)) -> bool {
    let product = |wait: Nanos, bound: Nanos| u128::from(wait.0) * u128::from(bound.0);
    product(one.0, other.1) > product(other.0, one.1)
}

/// It starves in some cast, as it says; if in none, it would keep a bound.
fn without_bound(algorithm: &'static Algorithm, progress: Progress<'_>) -> Outcome {
    let (mut outcome, casts) = (Outcome::default(), casts());
    let params = algorithm.defaults();
    let mut longest = Nanos::ZERO;
    for cast in &casts {
        progress(outcome.runs, casts.len() as u64);
        outcome.runs += 1;
        match wait(algorithm, [&params, &params], *cast, 1) {
            Err(what) => outcome.failures.push(format!("{cast:?}: {what}")),
            Ok(waited) if waited > PATIENCE => {
                outcome.notes.push(format!("starves by design: {cast:?} waits over {PATIENCE}"));
                return outcome;
            }
            Ok(waited) => longest = longest.max(waited),
        }
        if outcome.is_enough() {
            return outcome;
        }
    }
    if outcome.holds() {
        outcome.unstated.push(format!(
            "no request waits longer than {longest} beside a stream: state a bound of the wait"
        ));
    }
    outcome
}
