//! Where the time of requests goes: a test per reason, in which it dominates the times of a group.

use super::*;
use crate::group::Settings;
use crate::group::accounts::Account;
use crate::pace::{self, PacePolicy};
use crate::request::{Stage, StageTimes};
use core::num::NonZeroU64;
use std::collections::BTreeMap;

const MS: u64 = 1_000_000;

/// The group that the tests look at, and its limited or busy neighbour.
const GROUP: GroupId = GroupId(1);
const OTHER: GroupId = GroupId(2);

/// A task that keeps so many requests there, each so long after the answer of one before it.
#[derive(Clone, Copy)]
struct Client {
    task: u64,
    group: GroupId,
    depth: u64,
    think: u64,
    buffered: bool,
}

impl Client {
    fn new(task: u64, group: GroupId, depth: u64) -> Client {
        Client { task, group, depth, think: 0, buffered: false }
    }
}

/// Clients around an engine, with a disk that takes 1 ms for each request, one at a time.
struct Loop {
    engine: Engine,
    now: u64,
    /// When who submits.
    due: BTreeMap<(u64, u64), usize>,
    disk: BTreeMap<u64, RequestId>,
    clients: Vec<Client>,
    tag: u64,
}

impl Loop {
    fn new(config: Config, clients: &[Client]) -> Loop {
        let mut engine = Engine::new(config);
        for group in [GROUP, OTHER] {
            let control = Control::SetGroup(group, GroupId::ROOT, Settings::default());
            engine.control(Instant(0), control).expect("a group");
        }
        drain(&mut engine, Instant(0));
        let (due, disk) = (BTreeMap::new(), BTreeMap::new());
        let mut all = Loop { engine, now: 0, due, disk, clients: clients.to_vec(), tag: 0 };
        for (place, client) in clients.iter().enumerate() {
            (0..client.depth).for_each(|_| all.submit_at(1, place));
        }
        all
    }

    fn submit_at(&mut self, at: u64, client: usize) {
        self.due.insert((at, self.tag), client);
        self.tag += 1;
    }

    fn control(mut self, control: Control) -> Loop {
        self.engine.control(Instant(0), control).expect("a legal change");
        drain(&mut self.engine, Instant(0));
        self
    }

    /// Submits what is due: each client goes in sequence.
    fn submit_due(&mut self) {
        while let Some((&(at, tag), &place)) = self.due.first_key_value() {
            if at > self.now {
                return;
            }
            self.due.pop_first();
            let Client { task, group, buffered, .. } = self.clients[place];
            let offset = (task << 40) + (tag << 12);
            let extent = Extent::new(Bytes(offset), Bytes(4096)).expect("small");
            let (tag, task) = (Tag(place as u64), TaskId(task));
            let input = match buffered {
                true => Input::Dirtied { tag, task, group, area: extent.into() },
                false => {
                    Input::Submit(Submit { task, group, extent, ..submit(tag.0, Op::Read, 0) })
                }
            };
            self.engine.handle(Instant(self.now), input);
        }
    }

    fn answered(&mut self, tag: Tag) {
        let place = tag.0 as usize;
        self.submit_at(self.now + self.clients[place].think + 1, place);
    }

    fn drain(&mut self) -> u64 {
        loop {
            match self.engine.poll(Instant(self.now)) {
                Output::Start(start) => {
                    let free = self.disk.last_key_value().map_or(self.now, |(at, _)| *at);
                    self.disk.insert(free + MS, start.id);
                }
                Output::Finish(finish) => self.answered(finish.tag),
                Output::Resume(resume) => {
                    assert_eq!(resume.paused, resume.waited.total());
                    let id = resume.id;
                    self.engine.handle(Instant(self.now), Input::Wrote { id, ok: true });
                    self.answered(resume.tag);
                }
                Output::Cleaned(_) | Output::Event(_) => {}
                Output::Wait(at, _) => return at.0,
            }
        }
    }

    /// Runs for so long.
    fn run(&mut self, ms: u64) -> Account {
        while self.now < ms * MS {
            self.submit_due();
            if let Some((&at, &id)) = self.disk.first_key_value()
                && at <= self.now
            {
                self.disk.pop_first();
                self.engine.handle(Instant(self.now), Input::Done { id, outcome: Outcome::Ok });
            }
            let wake = self.drain();
            let due = self.due.first_key_value().map_or(u64::MAX, |((at, _), _)| *at);
            let done = self.disk.first_key_value().map_or(u64::MAX, |(at, _)| *at);
            self.now = wake.min(due).min(done);
        }
        self.engine.group(GROUP).expect("the group is known").0
    }

    /// Where everything stands after the last drain.
    fn now(&self) -> WaitingNow {
        let mut now = WaitingNow::default();
        self.engine.waiting_now(self.engine.cx.now, &mut now);
        now
    }
}

/// The reason has more than so many of 1000 parts of the time.
fn dominates(times: &StageTimes, reason: Reason, permille: u64) {
    let (part, all) = (times.by_reason(reason), times.total());
    assert!(part.0 * 1000 > all.0 * permille, "{reason:?}: {times:?}");
    let sum: Nanos =
        Reason::ALL.into_iter().fold(Nanos::ZERO, |sum, one| sum + times.by_reason(one));
    assert_eq!(sum, all);
}

fn limited(iops: u64) -> Control {
    let mut settings = Settings::default();
    settings.max.sustained.iops = NonZeroU64::new(iops);
    Control::SetGroup(GROUP, GroupId::ROOT, settings)
}

#[test]
fn slot_dominates_where_many_share_few_slots() {
    let clients = [Client::new(1, GROUP, 32), Client::new(2, OTHER, 32)];
    let mut all = Loop::new(config(&fifo::ALGORITHM, 4, 128), &clients);
    let times = all.run(1_000).counts.stages;
    dominates(&times, Reason::Slot, 800);
    assert_eq!(times.budget, Nanos::ZERO);
    let now = all.now().of(GROUP);
    assert_eq!((now.count(Reason::Slot), now.count(Reason::Disk)), (30, 2));
}

#[test]
fn budget_dominates_below_a_limit_also_if_slots_are_scarce() {
    for (neighbour, nr_requests) in [(0, 128), (64, 4)] {
        let clients = [Client::new(1, GROUP, 8), Client::new(2, OTHER, neighbour)];
        let config = config(&fifo::ALGORITHM, nr_requests, 128);
        let mut all = Loop::new(config, &clients).control(limited(50));
        dominates(&all.run(2_000).counts.stages, Reason::Budget, 850);
        assert!(all.now().of(GROUP).count(Reason::Budget) >= 7);
        let other = all.engine.group(OTHER).expect("known").0.counts.stages;
        assert_eq!(other.budget, Nanos::ZERO, "it has no limit");
    }
}

/// A limit above the group is a limit of the group; what its siblings used of it as well.
#[test]
fn budget_is_that_of_the_groups_above_too() {
    let child = GroupId(7);
    let clients = [Client::new(1, child, 4), Client::new(2, GROUP, 4)];
    let mut all = Loop::new(config(&fifo::ALGORITHM, 128, 128), &clients)
        .control(limited(100))
        .control(Control::SetGroup(child, GROUP, Settings::default()));
    all.run(1_000);
    let times = all.engine.group(child).expect("known").0.counts.stages;
    dominates(&times, Reason::Budget, 900);
    assert!(all.now().of(child).count(Reason::Budget) >= 3);
}

#[test]
fn turn_dominates_where_tasks_take_turns() {
    let tasks = [1, 2, 3, 4, 5, 6].map(|task| Client::new(task, GROUP, 4));
    for name in ["rr", "fifo", "fair"] {
        let base = sched::find(name).expect("in the registry");
        let mut all = Loop::new(config(base, 128, 1), &tasks);
        let times = all.run(3_000).counts.stages;
        dominates(&times, Reason::Turn, 600);
        assert!(times.window > Nanos::ZERO, "{name}: its own turn has its own queue: {times:?}");
    }
}

#[test]
fn anticipation_dominates_behind_a_task_that_thinks() {
    let reader = Client { think: 2 * MS, ..Client::new(1, OTHER, 1) };
    let clients = [reader, Client::new(2, GROUP, 1)];
    let base = sched::find("as").expect("in the registry");
    let mut all = Loop::new(config(base, 128, 1), &clients);
    // Of the waiting: half of the time it is served at once, request after request.
    let waited = StageTimes { disk: Nanos::ZERO, ..all.run(5_000).counts.stages };
    dominates(&waited, Reason::Anticipation, 600);
}

#[test]
fn window_dominates_for_one_task_with_a_long_queue() {
    let mut all = Loop::new(config(&fifo::ALGORITHM, 128, 4), &[Client::new(1, GROUP, 64)]);
    dominates(&all.run(1_000).counts.stages, Reason::Window, 900);
    let now = all.now().of(GROUP);
    assert_eq!((now.count(Reason::Window), now.count(Reason::Disk)), (60, 4));
}

fn with_pace(pace: &'static PacePolicy, limit: u64) -> Config {
    let memory = Thresholds { background: Bytes(limit / 2), limit: Bytes(limit) };
    Config { pace, memory, window_depth: 4, ..Config::default() }
}

fn writer(task: u64) -> Client {
    Client { buffered: true, ..Client::new(task, GROUP, 4) }
}

#[test]
fn dirty_dominates_where_writers_have_their_rate() {
    let policy = pace::find("counting").expect("in the registry");
    let mut all = Loop::new(with_pace(policy, 1 << 30), &[writer(1), writer(2)]);
    let account = all.run(1_000);
    dominates(&account.counts.stages, Reason::Dirty, 900);
    // A write before the first sleep costs no time; those in line wait as long as the first.
    let times = account.by_stage.get(Stage::Pace).expect("writes waited");
    let (paced, waited) = (account.counts.paced_count, times.count());
    assert!(paced > waited && waited * 3 > paced, "{waited} of {paced} waited");
    assert_eq!(times.sum(), account.counts.stages.pace());
    assert_eq!(all.now().of(GROUP).count(Reason::Dirty), 8);
}

#[test]
fn memory_dominates_where_the_hard_limit_holds() {
    let mut all = Loop::new(with_pace(&pace::none::POLICY, 64 * 4096), &[writer(1), writer(2)]);
    let account = all.run(1_000);
    let mut paced = account.counts.stages;
    // Write-back is of the group too: 1 ms of the disk and its queue for each page.
    (paced.disk, paced.window, paced.turn) = Default::default();
    dominates(&paced, Reason::Memory, 990);
    assert!(all.now().of(GROUP).count(Reason::Memory) >= 7);
}

/// A limit of buffered writes is one at the door, and still a limit.
#[test]
fn budget_dominates_for_buffered_writes_below_a_limit() {
    let policy = pace::find("rate").expect("in the registry");
    let mut all = Loop::new(with_pace(policy, 1 << 30), &[writer(1)]).control(limited(20));
    let times = all.run(3_000).counts.stages;
    dominates(&times, Reason::Budget, 900);
    assert!(times.pace_budget > times.budget, "{times:?}");
}

#[test]
fn disk_dominates_where_nothing_is_in_the_way() {
    let mut all = Loop::new(Config::default(), &[Client::new(1, GROUP, 4)]);
    dominates(&all.run(1_000).counts.stages, Reason::Disk, 999);
    assert_eq!(all.now().of(GROUP).count(Reason::Disk), 4);
}

#[test]
fn a_stalled_disk_has_everything_at_disk_and_window() {
    let clients = [Client::new(1, GROUP, 32), Client::new(2, OTHER, 32)];
    let mut all = Loop::new(config(&fifo::ALGORITHM, 128, 4), &clients);
    all.run(100);
    // It answers nothing for ten seconds.
    all.submit_due();
    all.drain();
    let mut now = WaitingNow::default();
    all.engine.waiting_now(Instant(all.now + 10_000 * MS), &mut now);
    let (one, both) = (now.of(GROUP), now.all());
    assert_eq!(both.total(), 64);
    assert_eq!(both.count(Reason::Disk) + both.count(Reason::Window), 64);
    assert!(both.count(Reason::Disk) == 4 && one.total() == 32);
    assert!(both.at_disk >= Nanos::from_secs(10) && now.groups().len() == 2);
    assert!(both.oldest > both.at_disk && both.oldest <= Nanos::from_millis(10_200));
}

/// The first half second is one task's; then another one comes. Its requests do not pay for what
/// was before them.
#[test]
fn a_request_has_no_more_than_its_own_time() {
    let mut all = Loop::new(config(&fifo::ALGORITHM, 128, 1), &[Client::new(1, OTHER, 64)]);
    all.run(500);
    all.clients.push(Client::new(2, GROUP, 1));
    all.submit_at(all.now, 1);
    let times = all.run(600).counts.stages;
    assert!(times.total() <= Nanos::from_millis(100), "{times:?}");
    dominates(&times, Reason::Turn, 900);
    assert!(
        times.window <= Nanos::from_millis(2),
        "one at a time, each ahead of its own: {times:?}"
    );
}

#[test]
fn tasks_have_accounts_of_their_own() {
    let clients = [Client::new(7, GROUP, 4), Client::new(8, OTHER, 4), writer(9)];
    let mut all = Loop::new(with_pace(&pace::none::POLICY, 1 << 20), &clients);
    all.run(2_000);
    let mut tasks = Vec::new();
    all.engine.tasks(Instant(0), &mut tasks);
    let all_tasks: Vec<(Option<u64>, GroupId)> =
        tasks.iter().map(|task| (task.task.map(|id| id.0), task.group)).collect();
    assert_eq!(all_tasks.len(), 3, "{all_tasks:?}");
    let of = |id| tasks.iter().find(|task| task.task == Some(TaskId(id))).expect("it is there");
    assert_eq!((of(7).group, of(8).group, of(9).group), (GROUP, OTHER, GROUP));
    assert!(of(7).counts.reads_count > 100 && of(8).counts.reads_count > 100);
    let writer = &of(9).counts;
    assert!(writer.paced_count > 100 && writer.writes_count > 10, "with its write-back");
    assert!(writer.written > Bytes::ZERO && of(7).counts.written == Bytes::ZERO);
    all.engine.tasks(Instant(all.now + 1), &mut tasks);
    assert_eq!(tasks.len(), 3, "they have something here");
}

/// What is only measured decides nothing.
#[test]
fn without_accounting_everything_happens_at_the_same_time() {
    let clients = [Client::new(1, GROUP, 16), Client::new(2, OTHER, 3), writer(3)];
    let run = |accounting| {
        let fair = sched::find("fair").expect("in the registry");
        let memory = Thresholds { background: Bytes(0), limit: Bytes(1 << 20) };
        let config = Config { accounting, memory, ..config(fair, 8, 2) };
        let mut all = Loop::new(config, &clients).control(limited(100));
        let counts = all.run(2_000).counts;
        let moved =
            (counts.read, counts.written, counts.paced_count, all.engine.status().totals_count);
        (moved, counts.stages.total(), all.engine.tasks_count())
    };
    let (with, without) = (run(true), run(false));
    assert_eq!((with.0, with.1), (without.0, without.1));
    assert_eq!((with.2, without.2), (3, 0));
}

impl Engine {
    fn tasks_count(&self) -> usize {
        let mut tasks = Vec::new();
        self.tasks(Instant(0), &mut tasks);
        tasks.iter().filter(|task| task.task.is_some()).count()
    }
}
