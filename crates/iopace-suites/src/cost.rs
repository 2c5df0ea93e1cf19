//! The cost of a request in the core: a loop that puts requests through an engine, accounting
//! included, and a disk that takes no time.

use iopace_core::engine::{Config, Control, Engine, Input, Output};
use iopace_core::group::Settings;
use iopace_core::request::{Extent, GroupId, Op, Outcome, RequestId, Submit, Tag, TaskId};
use iopace_core::sched::Algorithm;
use iopace_core::shadow::Plan;
use iopace_core::time::Instant;
use iopace_core::trace::{Event, Fault};
use iopace_core::units::Bytes;

/// Requests in the engine at any time.
const OUTSTANDING: u64 = 32;

/// Bytes of each.
const PIECE: u64 = 65_536;

/// Most requests at the disk: a power of two.
const DEPTH: usize = 4;

/// Slots for requests without groups, and with one task for each of many groups.
const SLOTS: u32 = 128;
const SLOTS_OF_GROUPS: u32 = 32_768;

/// A loop that is measured.
#[derive(Clone, Copy, Debug)]
pub struct CostLoop {
    /// The scheduler.
    pub algorithm: &'static Algorithm,
    /// Tasks that submit in turn.
    pub tasks: u64,
    /// Groups: none, or one for each task, each of which always has a request there then.
    pub groups: u64,
    /// Requests that are put through.
    pub requests: u64,
    /// Whether the engine keeps accounts of tasks and groups.
    pub accounting: bool,
    /// Whether other settings are tried beside.
    pub recommend: bool,
}

impl CostLoop {
    /// The plain loop.
    pub fn new(algorithm: &'static Algorithm, tasks: u64, requests: u64) -> CostLoop {
        CostLoop { algorithm, tasks, groups: 0, requests, accounting: true, recommend: false }
    }

    /// Carries the loop out and gives the nanoseconds per request, by the clock.
    ///
    /// # Errors
    /// The scheduler failed, and the rest was the work of fifo.
    ///
    /// # Panics
    /// There are groups, but not as many as tasks, or there are no tasks or no requests.
    pub fn nanos(&self) -> Result<u64, Fault> {
        let mut engine = self.engine();
        let mut source = Source::new(self.tasks, self.groups);
        let outstanding = if self.groups > 0 { OUTSTANDING.max(self.tasks) } else { OUTSTANDING };
        let now = Instant(0);
        if let Some(fault) = told(&mut engine, now) {
            return Err(fault);
        }
        let begin = std::time::Instant::now();
        let fault = turn(&mut engine, now, &mut source, (self.requests, outstanding));
        let nanos = begin.elapsed().as_nanos() / u128::from(self.requests);
        match fault {
            Some(fault) => Err(fault),
            None => Ok(u64::try_from(nanos).unwrap_or(u64::MAX)),
        }
    }

    fn engine(&self) -> Engine {
        let nr_requests = if self.groups > 0 { SLOTS_OF_GROUPS } else { SLOTS };
        let mut engine = Engine::new(Config {
            base: self.algorithm,
            nr_requests,
            window_depth: DEPTH as u32,
            accounting: self.accounting,
            ..Config::default()
        });
        for group in 1..=self.groups {
            let settings = Settings::default();
            let control = Control::SetGroup(GroupId(group as u32), GroupId::ROOT, settings);
            engine.control(Instant(0), control).expect("a group of the root");
        }
        if self.recommend {
            let plan = Plan { nr_requests: Some(64), ..Plan::default() };
            engine.control(Instant(0), Control::Recommend(Some(plan))).expect("a legal plan");
        }
        engine
    }
}

/// Drains an engine without requests: it tells the scheduler of its groups, and what that did if
/// it failed over them.
fn told(engine: &mut Engine, now: Instant) -> Option<Fault> {
    let mut failed = None;
    loop {
        match engine.poll(now) {
            Output::Wait(..) => return failed,
            Output::Event(event) => failed = failed.or(fault(&event)),
            _ => {}
        }
    }
}

/// Puts so many requests through the engine, so many of them at a time. What the scheduler did if
/// it failed.
#[inline(never)]
fn turn(
    engine: &mut Engine,
    mut now: Instant,
    source: &mut Source,
    (requests, outstanding): (u64, u64),
) -> Option<Fault> {
    let mut at_disk = AtDisk::default();
    let mut failed = None;
    let mut finished_count = 0;
    while finished_count < requests {
        now = Instant(now.0 + 1_000);
        let submitted_count = requests.min(finished_count + outstanding);
        while source.number < submitted_count {
            engine.handle(now, Input::Submit(source.next()));
        }
        // A drain after the requests that came, and one after the one that is done.
        let mut is_done = false;
        loop {
            match engine.poll(now) {
                Output::Start(start) => at_disk.push(start.id),
                Output::Finish(_) => finished_count += 1,
                // A scheduler that waits is given its time if nothing is at the disk.
                Output::Wait(at, _) if at_disk.is_empty() && !at.is_never() => now = at,
                Output::Wait(..) if is_done => break,
                Output::Wait(..) => {
                    is_done = true;
                    if let Some(id) = at_disk.pop() {
                        engine.handle(now, Input::Done { id, outcome: Outcome::Ok });
                    }
                }
                Output::Event(event) => failed = failed.or(fault(&event)),
                Output::Resume(_) | Output::Cleaned(_) => {}
            }
        }
    }
    failed
}

#[cold]
fn fault(event: &Event) -> Option<Fault> {
    match event {
        Event::SchedulerFailed { fault, .. } => Some(*fault),
        _ => None,
    }
}

/// Where the requests come from. They are made beforehand: all that is counted of one is its copy.
struct Source {
    /// After so many requests everything but the number and the offset comes again.
    period: Vec<Submit>,
    /// The next one of the period.
    at: usize,
    /// How far each task goes on in a period.
    step: u64,
    /// By how much the offset in this period is larger.
    passed: u64,
    /// The number of the next request.
    number: u64,
}

impl Source {
    fn new(tasks: u64, groups: u64) -> Source {
        let is_period = |rounds: &u64| (rounds * tasks).is_multiple_of(4 * 7);
        let rounds = (1..).find(is_period).expect("28 at most");
        let submit = |number: u64| {
            let (task, round) = (number % tasks, number / tasks);
            // Each task goes on in sequence most of the time.
            let jump = if number % 7 == 6 { 1_000_003 } else { 0 };
            let offset = Bytes((task << 32) + round * PIECE + jump);
            Submit {
                tag: Tag(0),
                task: TaskId(task),
                group: GroupId(number.checked_rem(groups).map_or(0, |group| group as u32 + 1)),
                op: if number.is_multiple_of(4) { Op::Write } else { Op::Read },
                extent: Extent::new(offset, Bytes(PIECE)).expect("small"),
                fua: false,
                sync: true,
            }
        };
        assert!(groups == 0 || groups == tasks, "a task for each group");
        let period = (0..rounds * tasks).map(submit).collect();
        Source { period, at: 0, step: rounds * PIECE, passed: 0, number: 0 }
    }

    #[inline(always)]
    fn next(&mut self) -> Submit {
        let submit = self.period[self.at];
        let offset = submit.extent.offset().get() + self.passed;
        let extent = Extent::new(Bytes(offset), Bytes(PIECE)).expect("small");
        let submit = Submit { tag: Tag(self.number), extent, ..submit };
        self.number += 1;
        self.at += 1;
        if self.at == self.period.len() {
            (self.at, self.passed) = (0, self.passed + self.step);
        }
        submit
    }
}

/// The requests at the disk, which does one after the other.
struct AtDisk {
    ids: [RequestId; DEPTH],
    first: usize,
    end: usize,
}

impl Default for AtDisk {
    fn default() -> AtDisk {
        AtDisk { ids: [RequestId::forge(0); DEPTH], first: 0, end: 0 }
    }
}

impl AtDisk {
    fn is_empty(&self) -> bool {
        self.first == self.end
    }

    #[inline(always)]
    fn push(&mut self, id: RequestId) {
        self.ids[self.end % self.ids.len()] = id;
        self.end += 1;
    }

    #[inline(always)]
    fn pop(&mut self) -> Option<RequestId> {
        if self.is_empty() {
            return None;
        }
        self.first += 1;
        Some(self.ids[(self.first - 1) % self.ids.len()])
    }
}
