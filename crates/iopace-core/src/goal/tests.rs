//! The properties, on a disk that gives what the test says.

use super::gear::heaviest;
use super::*;

const MB: u64 = 1_000_000;

/// A program on a disk, a tick a second.
struct World {
    controller: Controller,
    course: Option<Course>,
    expected: Option<u64>,
    now: u64,
    moved: u64,
    /// Requests of others in a second, and those of them that are late.
    others: u64,
    late: u64,
    is_blind: bool,
}

impl World {
    fn new(goals: Goals, expected: Option<u64>) -> World {
        World {
            controller: Controller::new(goals),
            course: None,
            expected,
            now: 1,
            moved: 0,
            others: 100,
            late: 0,
            is_blind: false,
        }
    }

    /// Of those who are late as many as are told take ten times as long.
    fn times(&self) -> [OthersTimes; 1] {
        let long = |is_long| Nanos::from_millis(if is_long { 100 } else { 10 });
        let p99 = long(self.late * 100 > self.others);
        [OthersTimes { count: self.others, p50: long(false), p99, max: long(self.late > 0) }]
    }

    fn look(&mut self) -> Course {
        let seen = Seen {
            moved: Bytes(self.moved),
            expected: self.expected.map(Bytes),
            others_count: self.others,
            late_count: self.late,
            times: &self.times(),
            is_blind: self.is_blind,
        };
        let course = self.controller.tick(Instant(self.now * 1_000_000_000), &seen);
        *self.course.insert(course)
    }

    /// So many seconds on a disk that gives class idle and best effort so much; the last answer.
    fn run(&mut self, seconds: u64, idle: u64, best_effort: u64) -> Course {
        let mut course = self.course.unwrap_or_else(|| self.look());
        for _ in 0..seconds {
            let gives = if course.push.class == Class::Idle { idle } else { best_effort };
            self.moved += course.push.rate.map_or(gives, |rate| rate.0.min(gives));
            self.now += 1;
            course = self.look();
        }
        course
    }
}

fn by(seconds: u64) -> Goals {
    Goals { by: Some(Instant(seconds * 1_000_000_000)), ..Goals::default() }
}

#[test]
fn p1_without_a_deadline_it_is_idle_and_has_no_rate() {
    for expected in [None, Some(1_000 * MB)] {
        let mut world = World::new(Goals::default(), expected);
        for idle in [0, 100 * MB, 1] {
            let course = world.run(100, idle, 200 * MB);
            let idle = Push { class: Class::Idle, weight: Weight::DEFAULT, rate: None };
            assert_eq!((course.push, course.needed, course.is_late), (idle, None, false));
        }
    }
}

#[test]
fn p2_no_rate_is_above_the_limit() {
    let limit = Some(BytesPerSec(50 * MB));
    for by in [None, Some(Instant(600_000_000_000))] {
        let mut world = World::new(Goals { by, limit, ..Goals::default() }, Some(60_000 * MB));
        for second in 0..700 {
            world.late = second / 100;
            let course = world.run(1, 100 * MB, 100 * MB);
            assert!(course.push.rate.expect("limited") <= BytesPerSec(50 * MB));
        }
    }
}

#[test]
fn p3_while_there_is_slack_it_is_idle() {
    // A third of the disk is needed; class idle gives it nothing for long after it was quiet.
    let mut world = World::new(by(1_000), Some(33_000 * MB));
    world.run(30, 100 * MB, 100 * MB);
    for _ in 0..200 {
        assert_eq!(world.run(1, 0, 100 * MB).push.class, Class::Idle, "{}", world.now);
    }
    // Class idle gives enough, whatever is needed.
    let mut world = World::new(by(1_000), Some(70_000 * MB));
    for _ in 0..700 {
        assert_eq!(world.run(1, 100 * MB, 100 * MB).push.class, Class::Idle, "{}", world.now);
    }
}

#[test]
fn p4_when_the_deadline_needs_it_it_pushes() {
    let mut world = World::new(by(1_000), Some(40_000 * MB));
    world.run(30, 100 * MB, 100 * MB);
    let mut heaviest_seen = false;
    while world.moved < 40_000 * MB {
        let course = world.run(1, MB, 100 * MB);
        let needed = course.needed.expect("a deadline").0;
        let pushes = course.push.class == Class::BestEffort;
        assert!(pushes || needed < 65 * MB, "at {} needs {needed}", world.now);
        assert!(!course.is_late || world.moved >= 40_000 * MB);
        heaviest_seen |= course.push.weight == heaviest() && world.now < 980;
    }
    assert!(world.now < 1_000, "done at {}", world.now);
    assert!(!heaviest_seen, "the default weight gave it all that it needed");
    // A disk of which the default weight gives a fifth of what is needed.
    let mut world = World::new(by(1_000), Some(40_000 * MB));
    world.run(30, 100 * MB, 100 * MB);
    let mut course = world.run(0, 0, 0);
    while world.moved < 40_000 * MB {
        let gives = if course.push.weight == heaviest() { 100 * MB } else { 10 * MB };
        course = world.run(1, MB, gives);
    }
    assert!(world.now < 1_000, "done at {}", world.now);
}

#[test]
fn p5_when_the_disk_becomes_quiet_it_is_idle_again() {
    let mut world = World::new(by(1_000), Some(60_000 * MB));
    world.run(20, 100 * MB, 100 * MB);
    assert_eq!(world.run(100, MB, 70 * MB).push.class, Class::BestEffort);
    let classes: Vec<Class> =
        (0..600).map(|_| world.run(1, 100 * MB, 100 * MB).push.class).collect();
    assert!(classes.contains(&Class::Idle));
}

#[test]
fn p6_late_others_cut_the_rate_and_it_comes_back() {
    let mut world = World::new(Goals::default(), Some(1_000_000 * MB));
    world.run(20, 100 * MB, 100 * MB);
    world.late = 2;
    let rates: Vec<u64> =
        (0..60).map(|_| world.run(1, 100 * MB, 0).push.rate.map_or(u64::MAX, |r| r.0)).collect();
    assert!(rates.is_sorted_by(|a, b| a >= b), "{rates:?}");
    let floor = *rates.last().expect("some");
    assert!((MB / 4..MB).contains(&floor), "a 256th: {floor}");
    world.late = 1;
    assert_eq!(world.run(200, 100 * MB, 0).push.rate, None);
    // Nobody else is there: it does not hold. The first who comes finds the rate as it was.
    world.late = 2;
    world.run(60, 100 * MB, 0);
    let held = world.run(1, 100 * MB, 0).push.rate;
    (world.others, world.late) = (0, 0);
    assert_eq!(world.run(20, 100 * MB, 0).push.rate, None);
    world.others = 1;
    assert_eq!(world.run(1, 100 * MB, 0).push.rate, held);
    // Two of them late are enough: the rest of a hundred cannot make up for that.
    world.others = 100;
    world.run(300, 100 * MB, 0);
    (world.others, world.late) = (3, 2);
    assert!(world.run(1, 100 * MB, 0).push.rate.is_some());
    // Not below what a deadline needs.
    let mut world = World::new(by(1_000), Some(70_000 * MB));
    world.run(20, 100 * MB, 100 * MB);
    world.run(20, MB, 90 * MB);
    world.late = 50;
    while world.moved < 70_000 * MB {
        let course = world.run(1, MB, 90 * MB);
        let (rate, needed) = (course.push.rate, course.needed.expect("a deadline"));
        let is_idle = course.push.class == Class::Idle;
        assert!(is_idle || rate.is_none_or(|rate| rate >= needed), "{rate:?} of {needed:?}");
    }
    assert!(world.now < 1_000, "done at {}", world.now);
}

#[test]
fn p7_the_forecast_is_right_at_an_even_rate() {
    for goals in [Goals::default(), by(2_000)] {
        let mut world = World::new(goals, Some(50_000 * MB));
        world.others = 0;
        while world.now < 490 {
            let course = world.run(1, 100 * MB, 100 * MB);
            if world.now > 20 {
                let left = course.left.expect("known").0 / 1_000_000_000;
                let real = 501 - world.now;
                assert!(left.abs_diff(real) <= 1 + real / 50, "{left} of {real} s");
            }
        }
        let course = world.run(10, 0, 0);
        assert!(course.left.expect("known") >= Nanos::from_secs(8), "not earlier than ever");
    }
}

#[test]
fn p8_a_deadline_that_cannot_be_met_is_told() {
    let mut world = World::new(by(100), Some(50_000 * MB));
    let course = world.run(30, 100 * MB, 100 * MB);
    assert!(course.is_late);
    assert_eq!((course.push.weight, course.push.rate), (heaviest(), None));
    let past = World::new(by(1), Some(50_000 * MB)).run(30, 100 * MB, 100 * MB);
    assert!(past.is_late && past.push.class == Class::BestEffort);
}

/// A deadline that needs a tenth of the best rate, which is known.
fn with_slack() -> World {
    World::new(Goals { best: BytesPerSec(100 * MB), ..by(10_000) }, Some(100_000 * MB))
}

#[test]
fn p9_others_keep_what_they_have_alone_while_there_is_slack() {
    // Two in a hundred are late while the program moves more than a fifth of its best rate.
    let mut world = with_slack();
    let (mut late, mut pauses, mut above) = (0, 0, 0);
    for _ in 0..4_000 {
        let course = world.run(1, 100 * MB, 100 * MB);
        assert_eq!(course.push.class, Class::Idle);
        let rate = course.push.rate.map_or(100 * MB, |rate| rate.0);
        world.late = if rate > 20 * MB { 2 } else { 0 };
        late += world.late;
        pauses += u64::from(rate <= 100 * MB / 256);
        above += u64::from(rate > 10 * MB);
    }
    assert!(late * 100 <= 4_000 * world.others, "{late} late");
    assert!((1..=4_000 / 9).contains(&pauses), "{pauses} ticks of pauses");
    assert!(above > 2_000, "it is no slower than it has to be: {above}");
    // They are late by themselves: it holds nothing back.
    let mut world = with_slack();
    world.late = 5;
    world.run(100, 100 * MB, 100 * MB);
    let rates: Vec<_> = (0..100).map(|_| world.run(1, 100 * MB, 100 * MB).push.rate).collect();
    assert!(rates.iter().filter(|rate| rate.is_none()).count() > 80, "{rates:?}");
}

#[test]
fn p9_nothing_is_held_back_without_others_or_slack() {
    let all_of_it = |world: &mut World| {
        world.run(40, 100 * MB, 100 * MB);
        for _ in 0..300 {
            let push = world.run(1, 100 * MB, 100 * MB).push;
            assert_eq!((push.class, push.rate), (Class::Idle, None), "{}", world.now);
        }
    };
    let mut nobody = with_slack();
    nobody.others = 0;
    all_of_it(&mut nobody);
    let mut blind = with_slack();
    blind.is_blind = true;
    assert_eq!(blind.look().push.rate, None, "from the start");
    all_of_it(&mut blind);
    // Three fifths are needed.
    let goals = Goals { best: BytesPerSec(100 * MB), ..by(1_000) };
    let mut hurried = World::new(goals, Some(56_000 * MB));
    assert_eq!(hurried.look().push.rate, None, "from the start");
    (hurried.late, hurried.expected) = (50, Some(70_000 * MB));
    for _ in 0..300 {
        let push = hurried.run(1, 60 * MB, 60 * MB).push;
        assert!(push.rate.is_none_or(|rate| rate.0 > 60 * MB), "{push:?}");
    }
}

#[test]
fn not_knowing_how_much_it_pushes_for_a_deadline() {
    let mut world = World::new(by(100), None);
    let course = world.run(30, 100 * MB, 100 * MB);
    let push = Push { class: Class::BestEffort, weight: Weight::DEFAULT, rate: None };
    assert_eq!((course.push, course.left, course.needed), (push, None, None));
    // A bit more than expected: a forecast all the same. Much more: the size is not known.
    let mut world = World::new(by(1_000), Some(5_000 * MB));
    let course = world.run(52, 100 * MB, 100 * MB);
    assert!(course.left.is_some_and(|left| left < Nanos::from_secs(10)), "{course:?}");
    let course = world.run(10, 100 * MB, 100 * MB);
    assert_eq!((course.push, course.left, course.needed), (push, None, None));
    // Others are guarded all the same, if that is asked for.
    let goals = Goals { guarded: true, ..by(1_000) };
    let mut world = World::new(goals, None);
    world.late = 50;
    assert!(world.run(30, MB, 100 * MB).push.rate.is_some_and(|rate| rate.0 < 50 * MB));
}

#[test]
fn a_best_rate_from_memory_misses_no_deadline() {
    for (best, cached) in [(BytesPerSec(0), 16), (BytesPerSec(5_000 * MB), 0)] {
        let goals = Goals { best, ..by(2_000) };
        let mut world = World::new(goals, Some(cached * 5_000 * MB + 40_000 * MB));
        world.run(cached, 5_000 * MB, 5_000 * MB);
        while world.moved < world.expected.expect("known") && world.now < 3_000 {
            world.run(1, MB, 100 * MB);
        }
        assert!(world.now < 2_000, "done at {}", world.now);
        assert!(world.now > 1_200, "and idle while there was slack: {}", world.now);
        assert!(world.controller.best() < BytesPerSec(200 * MB), "not told to the next run");
    }
}

#[test]
fn what_gets_nothing_from_the_start_pushes() {
    let mut world = World::new(by(1_000), Some(10_000 * MB));
    let course = world.run(10, 0, 100 * MB);
    assert_eq!(course.push.class, Class::BestEffort);
    let course = world.run(30, 0, 100 * MB);
    assert_eq!(course.push.class, Class::Idle, "its best rate is known then");
}

#[test]
fn a_guard_throttles_no_program_to_nothing() {
    // Late from the first tick on, and nothing is known of the program.
    let mut world = World::new(Goals { guarded: true, ..Goals::default() }, None);
    world.late = 100;
    assert_eq!(world.run(0, 0, 0).push.rate, None);
    let rate = world.run(100, 1_000, 1_000).push.rate.expect("guarded");
    assert_eq!(rate.0, guard::FLOOR_BYTES_S);
    // Blind it neither falls nor rises.
    world.is_blind = true;
    world.late = 0;
    assert_eq!(world.run(100, 1_000, 1_000).push.rate, Some(rate));
    world.is_blind = false;
    assert_eq!(world.run(10, 1_000, 1_000).push.rate, None, "its best rate is far below");
}

#[test]
fn a_deadline_that_moves_is_kept() {
    let mut world = World::new(by(10_000), Some(60_000 * MB));
    assert_eq!(world.run(100, 10 * MB, 100 * MB).push.class, Class::Idle);
    world.controller.set_deadline(Instant(800_000_000_000));
    assert_eq!(world.run(2, 10 * MB, 100 * MB).push.class, Class::BestEffort);
}

#[test]
fn odd_ticks_do_no_harm() {
    let mut random = 1u64;
    let mut draw = |bits: u32| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_041);
        random >> (64 - bits)
    };
    for _ in 0..200 {
        let limit = (draw(1) > 0).then(|| BytesPerSec(draw(40)));
        let goals = Goals {
            by: (draw(1) > 0).then(|| Instant(draw(50))),
            limit,
            guarded: draw(1) > 0,
            best: BytesPerSec(draw(64)),
        };
        let mut controller = Controller::new(goals);
        for _ in 0..200 {
            let mut nanos = || Nanos(draw(50));
            let (p50, p99, max) = (nanos(), nanos(), nanos());
            let times = [OthersTimes { count: draw(64), p50, p99, max }];
            let seen = Seen {
                moved: Bytes(draw(60)),
                expected: (draw(2) > 0).then(|| Bytes(draw(60))),
                others_count: draw(64),
                late_count: draw(63),
                times: &times,
                is_blind: draw(3) == 0,
            };
            let course = controller.tick(Instant(draw(50)), &seen);
            assert_ne!(course.push.class, Class::RealTime);
            assert!(course.push.rate.is_none_or(|rate| rate.0 > 0));
            let is_kept = |rate: BytesPerSec| limit.is_none_or(|limit| rate.0 <= limit.0.max(1));
            assert!(course.push.rate.map_or(limit.is_none(), is_kept));
        }
    }
}
