//! What every window policy keeps: a random load against each of the registry.

use super::{REGISTRY, WriteBack, find};
use crate::time::{Instant, Nanos};
use crate::units::Bytes;
use crate::verdict::Verdict;
use requests::{Numbers, done, started};

pub(super) mod requests;

const SIZE: Bytes = Bytes::from_kib(128);

fn in_line(requests_count: u32) -> WriteBack {
    let size = Bytes(SIZE.get() * u64::from(requests_count));
    WriteBack { requests_count, size, is_awaited: false }
}

#[test]
fn an_idle_device_has_room_and_depth_is_kept_under_any_load() {
    for policy in REGISTRY {
        for depth in [0, 1, 2, 31, 5_000] {
            let mut window = (policy.build)(depth);
            let bound = depth.clamp(1, crate::limits::WINDOW_DEPTH_MAX);
            let mut numbers = Numbers(u64::from(depth));
            let mut now = Instant::ZERO;
            for _ in 0..5_000 {
                now = now + Nanos(numbers.below(20_000_000));
                let sync = numbers.below(2) == 0;
                match numbers.below(4) {
                    0 => window.on_start(now, &started(sync)),
                    1 => drop(window.write_back(now, &in_line(numbers.below(9) as u32), SIZE)),
                    _ => {
                        let from = now - Nanos(numbers.below(1_000_000_000));
                        let ok = numbers.below(9) > 0;
                        let done = crate::request::Done { ok, ..done(sync, from.0) };
                        window.on_done(now, &done);
                    }
                }
                assert!(window.has_room(0), "{}: an idle device has room", policy.name);
                assert!(!window.has_room(bound), "{}: beyond {bound}", policy.name);
                assert!(window.depth() >= 1 && window.depth() <= bound, "{}", policy.name);
            }
        }
    }
}

#[test]
fn a_wait_is_never_in_the_past_and_write_back_passes_in_the_end() {
    for policy in REGISTRY {
        let mut window = (policy.build)(8);
        let mut numbers = Numbers(7);
        let (mut now, mut passed) = (Instant::ZERO, 0);
        let mut asked_since = now;
        for _ in 0..200 {
            // A reader that never pauses; write-back is done at once.
            for _ in 0..numbers.below(5) {
                window.on_start(now, &started(true));
                let from = now.0;
                now = now + Nanos(1 + numbers.below(30_000_000));
                window.on_done(now, &done(true, from));
            }
            match window.write_back(now, &in_line(0), SIZE) {
                Verdict::Pass => {
                    (passed, asked_since) = (passed + 1, now);
                    window.on_start(now, &started(false));
                    window.on_done(now + Nanos(1), &done(false, now.0));
                    now = now + Nanos(1);
                }
                Verdict::Wait(at, _) => {
                    assert!(at > now, "{}: {at:?} at {now:?}", policy.name);
                    assert!(!at.is_never(), "{}: with nothing in line", policy.name);
                    assert!(now.since(asked_since) < Nanos::from_secs(6), "{}", policy.name);
                    now = at;
                }
            }
        }
        assert!(passed > 20, "{}: {passed}", policy.name);
    }
}

#[test]
fn what_is_in_line_is_bounded() {
    for policy in REGISTRY {
        let mut window = (policy.build)(8);
        let passed = (0..10_000).take_while(|count| {
            window.write_back(Instant(1), &in_line(*count), SIZE) == Verdict::Pass
        });
        assert!(passed.count() <= 128, "{}", policy.name);
    }
}

#[test]
fn names_are_unique_and_found() {
    for policy in REGISTRY {
        assert!(std::ptr::eq(find(policy.name).expect("by its name"), *policy));
    }
    assert!(find("none").is_none());
}
