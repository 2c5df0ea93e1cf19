//! Settings of groups: who is told of a change.

use super::*;
use crate::group::table::Groups;
use crate::group::{Class, Limits, Rates, Settings, Weight};
use crate::sched::CounterSpec;
use crate::time::Nanos;
use core::num::NonZeroU64;

const GROUP: GroupId = GroupId(1);

/// A fifo that counts what it is told of groups.
#[derive(Debug, Default)]
struct Told(fifo::Fifo, u64);

impl Scheduler for Told {
    fn push(&mut self, now: Instant, id: RequestId, table: &Table) {
        self.0.push(now, id, table);
    }

    fn pop(&mut self, now: Instant, table: &Table) -> Pop {
        self.0.pop(now, table)
    }

    fn counters(&self, into: &mut Vec<u64>) {
        into.push(self.1);
    }

    fn set_group(&mut self, _: Instant, _: GroupId, _: &Groups) {
        self.1 += 1;
    }
}

static TOLD: Algorithm = Algorithm {
    name: "told",
    summary: "counts what it is told of groups",
    params: &[],
    counters: &[CounterSpec { name: "told", doc: "times that it was told of a group" }],
    profile: Profile::PLAIN,
    build: &|_| Box::new(Told::default()),
};

#[test]
fn who_does_not_depend_on_what_has_changed_is_not_told() {
    let mut engine = Engine::new(config(&TOLD, 64, 4));
    let mut set = |settings| {
        let control = Control::SetGroup(GROUP, GroupId::ROOT, settings);
        engine.control(Instant(0), control).expect("a group may always be set");
        drain(&mut engine, Instant(0));
        engine.status().counters[0]
    };
    let mut now = Settings::default();
    assert_eq!(set(now), 1, "a new group is told of, whatever its settings");
    assert_eq!(set(now), 1);
    now.latency = Some(Nanos::from_millis(5));
    now.slots.max = Some(4);
    let wbps = NonZeroU64::new(1);
    now.max = Limits { sustained: Rates { wbps, ..Rates::default() }, ..Limits::default() };
    assert_eq!(set(now), 1, "targets, slots and limits are not the scheduler's");
    now.weight = Weight::new(300).expect("legal");
    assert_eq!(set(now), 2);
    now.class = Class::Idle;
    assert_eq!(set(now), 3);
    now.min.rbps = NonZeroU64::new(1);
    assert_eq!(set(now), 4);
    engine.control(Instant(0), Control::RemoveGroup(GROUP)).expect("removed");
    drain(&mut engine, Instant(0));
    let control = Control::SetGroup(GROUP, GroupId::ROOT, Settings::default());
    engine.control(Instant(0), control).expect("a group may always be set");
    assert_eq!(engine.status().counters[0], 6, "with the number of a removed one it is new");
}

#[test]
fn a_start_names_the_class_of_the_group_with_those_above_it() {
    let mut engine = Engine::new(config(&fifo::ALGORITHM, 64, 4));
    let mut number = 0;
    let mut started = |steps: &[(u32, u32, Class)]| {
        for (id, parent, class) in steps.iter().copied() {
            let settings = Settings { class, ..Settings::default() };
            let control = Control::SetGroup(GroupId(id), GroupId(parent), settings);
            engine.control(Instant(0), control).expect("a group may always be set");
        }
        // /1/2 and /3.
        [2, 3].map(|group| {
            number += 1;
            let asks = Submit { group: GroupId(group), ..submit(number, Op::Read, 0) };
            engine.handle(Instant(0), Input::Submit(asks));
            let Output::Start(start) = engine.poll(Instant(0)) else { panic!("it is idle") };
            let done = Input::Done { id: start.id, outcome: Outcome::Ok };
            engine.handle(Instant(0), done);
            drain(&mut engine, Instant(0));
            start.class
        })
    };
    use Class::{BestEffort, Idle, RealTime};
    let made = [(1, 0, BestEffort), (2, 1, BestEffort), (3, 0, RealTime)];
    assert_eq!(started(&made), [BestEffort, RealTime]);
    assert_eq!(started(&[(1, 0, RealTime)]), [RealTime; 2], "that of the group above");
    assert_eq!(started(&[(1, 0, Idle)]), [Idle, RealTime]);
    assert_eq!(started(&[(3, 1, RealTime)]), [Idle; 2], "it has moved");
    assert_eq!(started(&[(1, 0, BestEffort), (2, 1, Idle)]), [Idle, RealTime]);
    assert_eq!(started(&[(0, 0, Idle), (2, 1, BestEffort)]), [Idle; 2], "all is below the root");
}

#[test]
#[should_panic(expected = "is moved with requests of its own or below")]
fn a_group_with_requests_below_it_is_not_moved() {
    let mut engine = Engine::new(config(&fifo::ALGORITHM, 64, 4));
    let set = |engine: &mut Engine, id: u32, parent: u32| {
        let control = Control::SetGroup(GroupId(id), GroupId(parent), Settings::default());
        engine.control(Instant(0), control).expect("a group may always be set");
    };
    for (id, parent) in [(1, 0), (2, 1), (3, 0), (1, 3), (1, 0)] {
        set(&mut engine, id, parent);
    }
    engine
        .handle(Instant(0), Input::Submit(Submit { group: GroupId(2), ..submit(1, Op::Read, 0) }));
    // Nothing moves here: it is set anew where it is.
    set(&mut engine, 1, 0);
    set(&mut engine, 1, 3);
}
