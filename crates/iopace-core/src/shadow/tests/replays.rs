//! What was recorded is met again.

use super::*;
use crate::request::{Op, Tag};
use crate::shadow::{Recorded, RecordedKind, ReplayDisk};
use crate::time::Nanos;

fn recorded(world: &World) -> Vec<Recorded> {
    world.engine.recording().expect("it records").ended.clone()
}

fn replayed(world: &World, plan: Plan, disk: ReplayDisk) -> Vec<Option<StageTimes>> {
    let began = world.engine.recording().expect("it records").began;
    let groups = [GroupId::ROOT, LIMITED];
    let replay = world.engine.replay(began, (plan, BTreeMap::new()), &groups).expect("it starts");
    replay.run(&recorded(world), disk).expect("no policy fails")
}

#[test]
fn p2_a_replay_under_the_live_settings_says_what_was() {
    for servers in [1, 4] {
        let load = Load::open(3, 2_000, servers);
        let mut world = World::new(servers);
        world.control(Control::Record(Some(4_000)));
        world.run(&load);
        let (plan, disk) = (Plan::default(), ReplayDisk::AsSeen);
        let (was, is) = (recorded(&world), replayed(&world, plan, disk));
        assert_eq!(was.len(), 2_000);
        for (was, is) in was.iter().zip(&is) {
            assert_eq!(is.as_ref().map(StageTimes::total), Some(was.times.total()), "{was:?}");
        }
    }
}

/// A flush ends behind the disk's other requests, and is in the replay with its own time.
#[test]
fn flushes_are_recorded_and_compared() {
    let mut world = World::new(1);
    world.control(Control::Record(Some(4_000)));
    (0..8).for_each(|number| world.ask(number, GroupId::ROOT));
    let submit = Submit {
        tag: Tag(900),
        task: group_task(LIMITED),
        group: LIMITED,
        op: Op::Flush,
        extent: crate::request::Extent::EMPTY,
        fua: false,
        sync: true,
    };
    world.submit_one(submit);
    (0..9).for_each(|_| world.answer());
    let was = recorded(&world);
    let place = was.iter().position(|one| one.kind == RecordedKind::Flush).expect("recorded");
    assert!(was[place].took() > Nanos::ZERO && was[place].was_at_disk());
    let is = replayed(&world, Plan::default(), ReplayDisk::AsSeen);
    assert_eq!(is[place].map(|is| is.total()), Some(was[place].times.total()));
}

#[test]
fn a_recording_is_bounded_and_ends() {
    let mut world = World::new(1);
    assert!(world.engine.recording().is_none());
    world.control(Control::Record(Some(10)));
    world.run(&Load::closed(1, 50, 1));
    let recording = world.engine.recording().expect("it records");
    assert_eq!((recording.ended.len(), recording.left_out_count), (10, 40));
    world.control(Control::Record(None));
    assert!(world.engine.recording().is_none());
    // A policy that fails is told, and the live engine goes on.
    world.control(Control::Record(Some(10)));
    let broken = Plan { scheduler: Some((&BROKEN, BROKEN.defaults())), ..Plan::default() };
    world.run(&Load::closed(1, 50, 1));
    let replay = world.engine.replay(Instant::ZERO, (broken, BTreeMap::new()), &[]);
    assert!(replay.expect("it starts").run(&recorded(&world), ReplayDisk::AsSeen).is_err());
    let unborn = Plan { scheduler: Some((&UNBORN, UNBORN.defaults())), ..Plan::default() };
    assert!(world.engine.replay(Instant::ZERO, (unborn, BTreeMap::new()), &[]).is_err());
}
