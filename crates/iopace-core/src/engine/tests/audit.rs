//! A lost request is found also while there are always others to serve, and one that only waits is
//! not taken for lost.

use super::*;
use crate::group::{Class, Settings};
use crate::limits::{POLICY_FORGETS, SCHEDULER_FORGETS};
use crate::table::Request;
use std::collections::{BTreeMap, VecDeque};

/// A scheduler with two queues, and one at the disk at a time.
#[derive(Debug)]
struct TwoQueues {
    served: VecDeque<RequestId>,
    /// Requests of task 0 wait until there are no others.
    starved: VecDeque<RequestId>,
    /// These are never given back.
    lost: VecDeque<RequestId>,
    wrong: Wrong,
    is_busy: bool,
}

/// The one way in which it is wrong, if it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wrong {
    /// Nothing: task 0 is starved, and that is lawful.
    Starves,
    /// The fourth request is lost.
    Loses,
    /// The same, and it never says that it has nothing.
    LosesAndWaits,
    /// The same, and it says so for a millisecond at a time.
    LosesAndPolls,
}

impl Scheduler for TwoQueues {
    fn push(&mut self, _now: Instant, id: RequestId, table: &Table) {
        match self.wrong {
            Wrong::Starves if table[id].task() == TaskId(0) => self.starved.push_back(id),
            Wrong::Starves => self.served.push_back(id),
            _ if id.sequence() == 3 => self.lost.push_back(id),
            _ => self.served.push_back(id),
        }
    }

    fn pop(&mut self, now: Instant, _table: &Table) -> Pop {
        if self.is_busy {
            return Pop::At(Instant::NEVER, Reason::Turn);
        }
        match self.served.pop_front().or_else(|| self.starved.pop_front()) {
            Some(id) => {
                self.is_busy = true;
                Pop::Ready(id)
            }
            None => match self.wrong {
                Wrong::LosesAndWaits => Pop::At(Instant::NEVER, Reason::Turn),
                Wrong::LosesAndPolls => Pop::At(now + Nanos::from_millis(1), Reason::Turn),
                Wrong::Starves | Wrong::Loses => Pop::Empty,
            },
        }
    }

    fn on_done(&mut self, _now: Instant, _id: RequestId, _request: &Request, _ok: bool) {
        self.is_busy = false;
    }
}

fn two_queues(wrong: Wrong) -> Box<dyn Scheduler> {
    let (served, starved, lost) = Default::default();
    Box::new(TwoQueues { served, starved, lost, wrong, is_busy: false })
}

const TWO_QUEUES: Algorithm = Algorithm {
    name: "two-queues",
    summary: "has two queues",
    params: &[],
    counters: &[],
    profile: Profile::PLAIN,
    build: &|_| two_queues(Wrong::Starves),
};
static STARVES: Algorithm = TWO_QUEUES;
static LOSES: Algorithm = Algorithm { build: &|_| two_queues(Wrong::Loses), ..TWO_QUEUES };
static WAITS: Algorithm = Algorithm { build: &|_| two_queues(Wrong::LosesAndWaits), ..TWO_QUEUES };
static POLLS: Algorithm = Algorithm { build: &|_| two_queues(Wrong::LosesAndPolls), ..TWO_QUEUES };

/// A disk that takes a second for each request.
struct Slow {
    engine: Engine,
    flying: VecDeque<Start>,
    second: u64,
    /// When each request ended, in seconds.
    ended: BTreeMap<u64, u64>,
    failures: Vec<(u64, Fault)>,
}

impl Slow {
    fn new(algorithm: &'static Algorithm) -> Slow {
        let mut engine = Engine::new(config(&fifo::ALGORITHM, 2_048, 1));
        let insert = Control::Insert(algorithm, algorithm.defaults());
        engine.control(Instant(0), insert).expect("none is inserted");
        drain(&mut engine, Instant(0));
        let (flying, ended, failures) = Default::default();
        Slow { engine, flying, second: 0, ended, failures }
    }

    fn take(&mut self, said: Said) {
        self.flying.extend(said.starts);
        self.ended.extend(said.finishes.iter().map(|finish| (finish.tag.0, self.second)));
        self.failures.extend(said.events.into_iter().filter_map(|event| match event {
            Event::SchedulerFailed { fault, .. } => Some((self.second, fault)),
            _ => None,
        }));
    }

    fn send(&mut self, tag: u64) {
        let now = self.second * 1_000_000_000;
        let said = send(&mut self.engine, now, submit(tag, Op::Read, tag << 12));
        self.take(said);
    }

    /// Serves one request.
    fn step(&mut self) {
        self.second += 1;
        let start = self.flying.pop_front().expect("one is at the disk");
        let said = done(&mut self.engine, self.second * 1_000_000_000, &start);
        self.take(said);
    }

    /// Serves so many requests, and for each another one comes, of task 1.
    fn serve_beside_others(&mut self, count: u64) {
        for _ in 0..count {
            self.step();
            self.send(3 * (self.second + 1_000) + 1);
        }
    }
}

#[test]
fn p4_what_a_policy_has_lost_is_found_while_there_is_always_more() {
    let wrong = [(&LOSES, Fault::Forgot), (&WAITS, Fault::Stalled), (&POLLS, Fault::Stalled)];
    for (algorithm, fault) in wrong {
        let mut disk = Slow::new(algorithm);
        (0..9).for_each(|tag| disk.send(tag));
        disk.serve_beside_others(60);
        let [(second, found)] = disk.failures[..] else { panic!("{:?}", disk.failures) };
        // Others wait for 9 s: a request is passed over when one that came later is at the disk.
        let latest = (POLICY_FORGETS.0 + POLICY_FORGETS.0 / 10) / 1_000_000_000 + 9;
        assert_eq!((found, second <= latest), (fault, true), "after {second} s");
        assert_eq!(disk.engine.status().algorithm.name, "fifo");
        assert_eq!(disk.ended.get(&3), Some(&(second + 2)), "it goes next");
    }
}

#[test]
fn p4_what_is_starved_lawfully_is_not_taken_for_lost() {
    let mut disk = Slow::new(&STARVES);
    (0..9).for_each(|tag| disk.send(tag));
    let forgets = SCHEDULER_FORGETS.0 / 1_000_000_000;
    disk.serve_beside_others(forgets);
    assert_eq!((disk.failures.len(), disk.engine.status().algorithm.name), (0, "two-queues"));
    assert_eq!(disk.engine.stats().exchanged_count, 2, "inserted, and made anew once");
    disk.serve_beside_others(forgets);
    assert_eq!(disk.engine.stats().exchanged_count, 3, "seldom");
    assert!(!disk.ended.contains_key(&3) && !disk.ended.contains_key(&6), "it is starved");
    while disk.engine.live_count() > 0 {
        disk.step();
    }
    assert!(disk.ended.contains_key(&3) && disk.ended.contains_key(&6));
    assert_eq!(disk.failures, []);
}

#[test]
fn p4_a_slow_disk_raises_no_suspicion() {
    let mut disk = Slow::new(&STARVES);
    (0..200).for_each(|tag| disk.send(3 * tag + 1));
    for _ in 0..30 {
        // A flush goes past all that is queued.
        let flush = submit(3_000_000 + disk.second, Op::Flush, 0);
        let said = send(&mut disk.engine, disk.second * 1_000_000_000, flush);
        disk.take(said);
        disk.serve_beside_others(10);
    }
    assert_eq!((disk.failures.len(), disk.engine.stats().exchanged_count), (0, 1));
}

/// The queue of a scheduler with requests of three tasks in runs that can be merged, one task in a
/// group of its own and one in an idle group, some of them and a flush at the disk.
fn mixed(algorithm: &'static Algorithm, merge_max: Bytes) -> (Engine, usize) {
    let base = Config { merge_max, ..config(algorithm, 2_048, 4) };
    let mut engine = Engine::new(base);
    let idle = Settings { class: Class::Idle, ..Settings::default() };
    for (group, settings) in [(1, Settings::default()), (2, idle)] {
        let control = Control::SetGroup(GroupId(group), GroupId::ROOT, settings);
        engine.control(Instant(0), control).expect("a group may always be set");
        drain(&mut engine, Instant(0));
    }
    for tag in 0..180 {
        let op = if tag < 90 { Op::Read } else { Op::Write };
        let request = submit(tag, op, ((tag % 3) << 30) | ((tag / 3) << 12));
        send(&mut engine, tag, Submit { group: GroupId(tag as u32 % 3), ..request });
    }
    send(&mut engine, 200, submit(200, Op::Flush, 0));
    let queued = engine.status().queued_count;
    (engine, queued)
}

#[test]
fn p4_no_scheduler_of_the_registry_is_taken_for_one_that_loses() {
    for algorithm in sched::REGISTRY {
        for merge_max in [Bytes::ZERO, Bytes::from_kib(64)] {
            let (mut engine, queued) = mixed(algorithm, merge_max);
            assert!(queued >= 5, "{}: {queued}", algorithm.name);
            assert_eq!(engine.queue.ask_for_all(Instant(300)), Ok(true), "{}", algorithm.name);
        }
    }
}
