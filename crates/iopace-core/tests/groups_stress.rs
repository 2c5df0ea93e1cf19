//! The engine with groups, told thousands of random but legal things: nothing is lost or finished
//! twice, no slot leaks, no limit or cap is exceeded, nothing waits for nothing, removed groups are
//! forgotten in time, and once nothing more comes everything ends.

#[path = "support/stress/mod.rs"]
mod stress;

use iopace_core::engine::{Config, Control, Engine, Input, Output};
use iopace_core::group::Settings;
use iopace_core::group::table::Groups;
use iopace_core::request::{Extent, GroupId, Op, RequestId, Submit, Tag, TaskId};
use iopace_core::sched::{Algorithm, Pop, Profile, REGISTRY, Scheduler};
use iopace_core::table::Table;
use iopace_core::time::Instant;
use iopace_core::units::Bytes;
use stress::{Did, Stress};

/// Runs and their length: some twenty seconds without optimisation.
const SEEDS: std::ops::Range<u64> = 1..801;
const STEPS: usize = 2_000;

fn run(seed: u64) -> Did {
    let mut stress = Stress::new(seed);
    (0..STEPS).for_each(|_| stress.step());
    stress.end();
    stress.did
}

#[test]
fn whatever_happens_to_groups_nothing_is_lost_and_no_limit_broken() {
    let mut all = Did::default();
    for seed in SEEDS {
        let did = run(seed);
        all.finished += did.finished;
        all.failed += did.failed;
        all.removed += did.removed;
        all.removed_busy += did.removed_busy;
        all.reused += did.reused;
        all.exchanged += did.exchanged;
        all.limited += did.limited;
        all.capped += did.capped;
        all.deepest = all.deepest.max(did.deepest);
    }
    // What the runs are for did happen, and often.
    assert!(all.removed_busy > 1_000 && all.reused > 1_000, "{all:?}");
    assert!(all.finished > 1_000 * (SEEDS.end - SEEDS.start), "{all:?}");
    assert!(all.limited > 1_000 && all.capped > 1_000, "{all:?}");
    assert!(all.exchanged > 1_000 && all.deepest == 16, "{all:?}");
}

/// Fifo that cannot bear groups.
#[derive(Debug)]
struct Alone(Box<dyn Scheduler>);

impl Scheduler for Alone {
    fn push(&mut self, now: Instant, id: RequestId, table: &Table) {
        self.0.push(now, id, table);
    }

    fn pop(&mut self, now: Instant, table: &Table) -> Pop {
        self.0.pop(now, table)
    }

    fn set_group(&mut self, _now: Instant, id: GroupId, _groups: &Groups) {
        panic!("it knows nothing of {id:?}");
    }
}

static ALONE: Algorithm = Algorithm {
    name: "alone",
    summary: "panics when it is told of a group",
    params: &[],
    counters: &[],
    profile: Profile::PLAIN,
    build: &|params| Box::new(Alone((REGISTRY[0].build)(params))),
};

fn drain(engine: &mut Engine) -> usize {
    std::iter::repeat_with(|| engine.poll(Instant(0)))
        .take_while(|output| !matches!(output, Output::Wait(..)))
        .filter(|output| matches!(output, Output::Start(_)))
        .count()
}

#[test]
fn a_scheduler_that_fails_when_it_is_told_of_groups_is_replaced_with_nothing_lost() {
    let mut engine = Engine::new(Config { window_depth: 1, ..Config::default() });
    let group = Control::SetGroup(GroupId(1), GroupId::ROOT, Settings::default());
    engine.control(Instant(0), group).expect("a group may always be set");
    for tag in 0..5 {
        let extent = Extent::new(Bytes(tag * 4096), Bytes(4096)).expect("small");
        let (tag, task, group) = (Tag(tag), TaskId(1), GroupId(1));
        let submit = Submit { tag, task, group, op: Op::Read, extent, fua: false, sync: true };
        engine.handle(Instant(0), Input::Submit(submit));
    }
    assert_eq!(drain(&mut engine), 1);
    let insert = Control::Insert(&ALONE, ALONE.defaults());
    engine.control(Instant(0), insert).expect("it can be built");
    engine.control(Instant(0), Control::Window(16)).expect("a legal depth");
    assert_eq!(drain(&mut engine), 4, "each of those that were queued, once");
    assert_eq!(engine.status().algorithm.name, "fifo");
    assert_eq!(engine.stats().failed_over_count, 1);
}
