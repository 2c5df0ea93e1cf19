//! Requests of no bytes: they meet limits and nothing else.

use super::*;
use crate::group::{Limits, Rates, Settings};
use core::num::NonZeroU64;

const SEC: u64 = 1_000_000_000;
const GROUP: GroupId = GroupId(1);

fn operation(tag: u64, op: Op) -> Submit {
    Submit { group: GROUP, op, extent: Extent::EMPTY, ..submit(tag, op, 0) }
}

fn limited(engine: &mut Engine, now: u64, sustained: Rates) -> Said {
    let max = Limits { sustained, ..Limits::default() };
    let settings = Settings { max, ..Settings::default() };
    let control = Control::SetGroup(GROUP, GroupId::ROOT, settings);
    engine.control(Instant(now), control).expect("a group may always be set");
    drain(engine, Instant(now))
}

fn per_second(rate: u64) -> Option<NonZeroU64> {
    NonZeroU64::new(rate)
}

fn finished(said: &Said) -> Vec<u64> {
    assert!(said.starts.is_empty(), "nothing of it is for the disk");
    said.finishes.iter().map(|finish| finish.tag.0).collect()
}

#[test]
fn p7_they_end_when_limits_let_them_in_order_and_exactly_as_many() {
    for (op, rates) in [
        (Op::Read, Rates { riops: per_second(10), ..Rates::default() }),
        (Op::Write, Rates { wiops: per_second(10), ..Rates::default() }),
        (Op::Write, Rates { iops: per_second(10), ..Rates::default() }),
    ] {
        let mut engine = Engine::new(Config::default());
        limited(&mut engine, 0, rates);
        let mut all = Vec::new();
        for tag in 0..50 {
            all.extend(finished(&send(&mut engine, 0, operation(tag, op))));
        }
        assert_eq!(all, [0], "the first meets an open meter");
        for tenth in 1..=20 {
            all.extend(finished(&drain(&mut engine, Instant(tenth * SEC / 10))));
        }
        assert_eq!(all, (0..21).collect::<Vec<_>>(), "{op:?}: two seconds at 10 per second");
        let counts = &engine.group(GROUP).expect("it is known").0.counts;
        assert_eq!(counts.reads_count + counts.writes_count, 21);
        assert_eq!((counts.read, counts.written), (Bytes(0), Bytes(0)));
        assert_eq!(engine.live_count(), 29);
    }
}

#[test]
fn p7_neither_window_nor_scheduler_holds_them() {
    let mut engine = Engine::new(config(&fifo::ALGORITHM, 64, 1));
    let insert = Control::Insert(&STALLS, STALLS.defaults());
    engine.control(Instant(0), insert).expect("insert");
    drain(&mut engine, Instant(0));
    assert_eq!(send(&mut engine, 1, submit(0, Op::Write, 0)).starts.len(), 1);
    for tag in 1..6 {
        send(&mut engine, 1, submit(tag, Op::Write, tag << 12));
    }
    let said = send(&mut engine, 2, operation(7, Op::Write));
    assert_eq!(finished(&said), [7], "the window is full and the scheduler stands still");
    assert_eq!(said.finishes[0].times.total().0, 0);
    assert_eq!(engine.status().in_flight_count, 1);
}

#[test]
fn where_only_bytes_are_limited_they_wait_and_cost_nothing() {
    let mut engine = Engine::new(Config::default());
    limited(&mut engine, 0, Rates { rbps: per_second(4096), ..Rates::default() });
    let read = Submit { group: GROUP, ..submit(0, Op::Read, 0) };
    assert_eq!(send(&mut engine, 0, read).starts.len(), 1);
    for tag in 1..100 {
        assert!(finished(&send(&mut engine, 10, operation(tag, Op::Read))).is_empty());
    }
    assert_eq!(finished(&send(&mut engine, 10, operation(200, Op::Write))), [200]);
    assert!(finished(&drain(&mut engine, Instant(SEC - 1))).is_empty());
    let said = drain(&mut engine, Instant(SEC));
    assert_eq!(finished(&said), (1..100).collect::<Vec<_>>());
    assert!(said.finishes.iter().all(|finish| finish.times.admit().0 == SEC - 10));
    assert!(said.finishes.iter().all(|finish| finish.times.total().0 == SEC - 10));
    let read = Submit { group: GROUP, ..submit(300, Op::Read, 0) };
    assert_eq!(send(&mut engine, SEC + 1, read).starts.len(), 1, "the meter is still open");
}

#[test]
fn a_limit_that_is_lifted_or_a_group_that_goes_lets_them_go_at_once() {
    for is_removed in [false, true] {
        let mut engine = Engine::new(Config::default());
        limited(&mut engine, 0, Rates { iops: per_second(1), ..Rates::default() });
        for tag in 0..5 {
            send(&mut engine, 0, operation(tag, Op::Read));
        }
        let said = if is_removed {
            engine.control(Instant(1), Control::RemoveGroup(GROUP)).expect("it may always go");
            drain(&mut engine, Instant(1))
        } else {
            limited(&mut engine, 1, Rates::default())
        };
        assert_eq!(finished(&said), [1, 2, 3, 4]);
        assert_eq!(engine.live_count(), 0);
        assert_eq!(engine.is_group_forgotten(GROUP), is_removed);
    }
}
