//! The kit, held to the contract; and the scheduler of this module in the kit's world.

use super::*;
use crate::kit::{Instance, MILLISECOND, Op, Random, Requests, World, describe};
use alloc::collections::VecDeque;
use std::format;

/// One in order of arrival that notes all that it is told, and answers what a test wants.
#[derive(Debug, Default)]
struct Noting {
    queued: VecDeque<Id>,
    told: Vec<String>,
    values: Vec<u64>,
    /// Requests after which nothing goes until one is done.
    last_at: Option<u64>,
    /// Nothing goes before this instant.
    not_before: u64,
}

impl Policy for Noting {
    const NAME: &'static str = "noting";
    const SUMMARY: &'static str = "says \"yes\" \\ no";
    const PARAMETERS: &'static [Parameter] = &[
        Parameter { name: "a", unit: "ms", min: 1, default: 2, max: 3, doc: "first" },
        Parameter { name: "b", unit: "0/1", min: 0, default: 1, max: 1, doc: "second" },
    ];
    const COUNTERS: &'static [Counter] = &[Counter { name: "told", doc: "events" }];
    const LEARNS: bool = true;
    const RUN_AHEAD: bool = true;

    fn new(_start: Start) -> Noting {
        Noting::default()
    }

    fn push(&mut self, now: u64, request: Request) {
        self.told.push(format!("{now} push {request:?}"));
        self.queued.push_back(request.id);
    }

    fn pop(&mut self, now: u64) -> Pop {
        if now < self.not_before {
            return Pop::At(self.not_before, kit::Reason::Anticipation);
        }
        match self.queued.pop_front() {
            None => Pop::Empty,
            Some(id) if Some(id.sequence) == self.last_at => Pop::Last(id, kit::Reason::Turn),
            Some(id) => Pop::Next(id),
        }
    }

    fn configure(&mut self, values: &[u64]) {
        self.values = values.to_vec();
    }

    fn counters(&self, into: &mut [u64]) {
        into[0] = self.told.len() as u64;
    }

    fn done(&mut self, now: u64, id: Id, ok: bool) {
        self.told.push(format!("{now} done {} {ok}", id.sequence));
    }

    fn group(&mut self, now: u64, id: u32, group: &Group) {
        self.told.push(format!("{now} group {id} {group:?}"));
    }
}

#[test]
fn a_description_is_json_with_all_there_is() {
    let expected = concat!(
        r#"{"name": "noting", "version": "0.2.0", "summary": "says \"yes\" \\ no", "#,
        r#""parameters": [{"name": "a", "unit": "ms", "min": 1, "default": 2, "max": 3, "#,
        r#""doc": "first"}, {"name": "b", "unit": "0/1", "min": 0, "default": 1, "max": 1, "#,
        r#""doc": "second"}], "counters": [{"name": "told", "doc": "events"}], "#,
        r#""learns": true, "run_ahead": true, "divides": false}"#
    );
    assert_eq!(describe::<Noting>(), expected);
}

#[test]
fn a_request_arrives_as_it_was_sent() {
    let mut world = World::<Noting>::new(&[]);
    world.now = 5;
    let sent = Request {
        id: Id::default(),
        task: u64::MAX,
        group: 7,
        op: Op::WriteZeroes,
        space: u32::MAX,
        offset: 1 << 40,
        length: 4096,
        sync: false,
        reserved: true,
        arrived: 3,
    };
    let id = world.push_request(sent);
    world.pop();
    world.now = 9;
    world.done(id);
    assert_eq!(world.counter("told"), 2);
    let sent = Request { id, ..sent };
    assert_eq!(world.instance.policy.told, [format!("5 push {sent:?}"), "9 done 0 true".into()]);
}

#[test]
fn a_group_arrives_as_it_was_sent() {
    let mut world = World::<Noting>::new(&[]);
    let (class, guarantees) = (kit::Class::Idle, [1, 2, 3, 4, 5, 6]);
    let group = Group { parent: 3, weight: 10_000, class, guarantees, latency: 9 };
    world.group(u32::MAX, &group);
    world.counter("told");
    assert_eq!(world.instance.policy.told, [format!("0 group {} {group:?}", u32::MAX)]);
}

#[test]
fn parameters_are_told_at_the_beginning_and_when_they_change() {
    let mut world = World::<Noting>::new(&[("b", 0)]);
    assert_eq!(world.instance.policy.values, [2, 0]);
    world.configure(&[("a", 3)]);
    assert_eq!(world.instance.policy.values, [3, 0]);
}

#[test]
fn more_events_than_the_desk_has_room_for_arrive_in_order() {
    let mut world = World::<Noting>::new(&[]);
    let pushed: Vec<Id> = (0..1_000).map(|at| world.push(at, Op::Read, 0, 4096)).collect();
    assert_eq!(world.drain(), pushed);
}

/// One that may run ahead is asked for as many as there is room for; one that goes last goes alone.
#[test]
fn requests_ahead_end_before_one_that_goes_last() {
    let mut world = World::<Noting>::new(&[]);
    world.instance.policy.last_at = Some(2);
    let ids: Vec<Id> = (0..4).map(|at| world.push(at, Op::Read, 0, 4096)).collect();
    assert_eq!(world.pop(), Pop::Next(ids[0]));
    assert_eq!(world.instance.policy.queued.len(), 1, "three were popped in one question");
    assert_eq!(world.pop(), Pop::Next(ids[1]));
    assert_eq!(world.pop(), Pop::Last(ids[2], kit::Reason::Turn));
    assert_eq!(world.pop(), Pop::Next(ids[3]));
    assert_eq!(world.pop(), Pop::Empty);
}

#[test]
fn nothing_goes_before_the_instant() {
    let mut world = World::<Noting>::new(&[]);
    world.instance.policy.not_before = 50;
    let id = world.push(1, Op::Read, 0, 4096);
    assert_eq!(world.pop(), Pop::At(50, kit::Reason::Anticipation));
    assert_eq!(world.serve().map(|request| request.id), Some(id));
    assert_eq!(world.now, 50);
}

#[test]
#[should_panic(expected = "which is not queued")]
fn the_world_sees_a_request_that_is_given_twice() {
    let mut world = World::<Noting>::new(&[]);
    let id = world.push(1, Op::Read, 0, 4096);
    world.pop();
    world.instance.policy.queued.push_back(id);
    world.pop();
}

#[test]
#[should_panic(expected = "it forgot some")]
fn the_world_sees_a_request_that_is_forgotten() {
    let mut world = World::<Noting>::new(&[]);
    world.push(1, Op::Read, 0, 4096);
    world.counter("told");
    world.instance.policy.queued.clear();
    world.pop();
}

#[test]
#[should_panic(expected = "an event of kind 9")]
fn an_event_of_a_newer_interface_is_not_guessed_at() {
    let mut instance = Instance::<Noting>::new(1, 0);
    instance.events[0] = 9;
    instance.events(24);
}

#[test]
fn a_slot_that_is_used_again_is_another_request() {
    let mut requests = Requests::default();
    let mut world = World::<Noting>::new(&[]);
    world.push(1, Op::Read, 0, 4096);
    let request = world.serve().expect("it is queued");
    requests.insert(request);
    let again = Id { sequence: 1, ..request.id };
    assert_eq!(requests.get(request.id), Some(&request));
    assert_eq!(requests.get(again), None);
    assert_eq!(requests.remove(again), None);
    assert_eq!(requests.remove(request.id), Some(request));
    assert_eq!(requests.get(request.id), None);
}

/// The first numbers of PCG-XSH-RR with this increment repeat, and differ by seed.
#[test]
fn chance_comes_from_the_seed() {
    let draw = |seed| {
        let mut random = Random::new(seed);
        [(); 8].map(|()| random.below(1_000))
    };
    assert_eq!(draw(1), draw(1));
    assert_ne!(draw(1), draw(2));
    assert!(draw(3).iter().all(|drawn| *drawn < 1_000));
}

/// The scheduler of this module serves every load, through the mirror.
#[test]
fn all_that_is_queued_is_served() {
    for seed in 0..4 {
        let mut world = World::<Ported>::new(&[]);
        let group = Group {
            parent: 0,
            weight: 50,
            class: kit::Class::default(),
            guarantees: [0; 6],
            latency: 0,
        };
        world.group(3, &group);
        let longest = world.run(seed, 16, MILLISECOND);
        assert!(longest > MILLISECOND, "they wait for each other");
        assert!(world.instance.policy.dump().len() <= DUMP_BYTES_MAX);
    }
}
