//! What a pace decision costs: `pace_loop TASKS WRITES [POLICY]` lets so many tasks write 4 KiB in
//! turn at a device that cleans as fast, near the set point, and prints the nanoseconds per write
//! (ask and dirtied, one cleaned for each 32 writes, and the questions that were answered with a
//! wait): the best of five rounds.

use iopace_core::group::table::Groups;
use iopace_core::pace::{self, Budget, Dirty, Grant, Thresholds, Write};
use iopace_core::request::{GroupId, TaskId};
use iopace_core::time::Instant;
use iopace_core::units::Bytes;

const PAGE: u64 = 4096;

/// Bytes per second of the device.
const BANDWIDTH: u64 = 4 << 30;

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let (tasks, writes, name) = match words.as_slice() {
        [tasks, writes] => (tasks, writes, "rate"),
        [tasks, writes, name] => (tasks, writes, name.as_str()),
        _ => {
            eprintln!("usage: pace_loop TASKS WRITES [POLICY]");
            std::process::exit(2);
        }
    };
    let policy = pace::find(name).expect("a policy of the registry");
    let tasks: u64 = tasks.parse().expect("a number of tasks");
    let writes: u64 = writes.parse().expect("a number of writes");
    let best = (0..5).map(|_| round(policy, tasks, writes)).min_by_key(|result| result.0);
    let (nanos, waits) = best.expect("five rounds");
    println!("{nanos} ns per write, {waits} waits for {writes} writes");
}

/// Nanoseconds per write, and how many questions were answered with a wait.
fn round(policy: &pace::PacePolicy, tasks: u64, writes: u64) -> (u128, u64) {
    let (mut pace, groups) = ((policy.build)(), Groups::default());
    let limit = Bytes(64 << 30);
    let device = Thresholds { background: Bytes(limit.0 / 2), limit };
    let budget = Budget::alone(device);
    pace.set_budget(Instant::ZERO, &budget);
    // At the set point, and each write comes when its page has been cleaned.
    let (mut now, mut dirty, mut waits) = (1_000_000_000, limit.0 / 8 * 7, 0);
    let step = PAGE * 1_000_000_000 / BANDWIDTH;
    let warm_up = tasks.max(writes / 10);
    let (mut number, mut passed) = (0, 0);
    #[expect(clippy::disallowed_methods, reason = "this program measures; it is not the core")]
    let mut begin = std::time::Instant::now();
    while passed < writes {
        if number == warm_up && passed == warm_up {
            (passed, waits) = (0, 0);
            #[expect(clippy::disallowed_methods, reason = "this program measures")]
            let now = std::time::Instant::now();
            begin = now;
        }
        now += step;
        let size = Bytes(PAGE);
        let state = Dirty { device: Bytes(dirty), group: Bytes(dirty), write_back: size };
        let task = TaskId(number % tasks);
        number += 1;
        let (group, done) = (GroupId::ROOT, Bytes(0));
        let write = Write { task, group, done, size, fresh: size };
        match pace.ask(Instant(now), &write, &state, &groups) {
            Grant::Pass(granted) => {
                passed += 1;
                dirty += granted.0;
                pace.dirtied(Instant(now), GroupId::ROOT, granted);
            }
            Grant::Wait(at, _) => {
                // Time goes on to its instant, and it asks again.
                waits += 1;
                number -= 1;
                now = at.0 - step;
                continue;
            }
        }
        if passed % 32 == 0 {
            let cleaned = Bytes(32 * PAGE);
            dirty -= cleaned.0;
            let state = Dirty { device: Bytes(dirty), group: Bytes(dirty), write_back: size };
            pace.cleaned(Instant(now), GroupId::ROOT, cleaned, &state, &groups);
        }
    }
    (begin.elapsed().as_nanos() / u128::from(writes), waits)
}
