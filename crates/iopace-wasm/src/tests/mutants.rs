//! Bytes of good modules are changed by chance. Most are refused; whatever one does that is not,
//! no request is lost and no call takes long. `HOSTILE_MODULES` says how many are tried.

use super::modules::module;
use super::{compiled, processor_time, run_module};
use iopace_suites::random::Random;
use iopace_suites::world::Setup;
use std::collections::BTreeMap;
use std::time::Duration;

/// Modules that are tried where nobody says how many. In a build for tests the compiler takes some
/// 50 ms for one that is not refused.
const MODULES: u64 = if cfg!(debug_assertions) { 300 } else { 1_000 };

/// Requests of each world.
const REQUESTS: u64 = 60;

/// No world of so few requests takes longer, in a build for tests: some hundred calls, each within
/// its fuel, and the world itself.
const BOUND: Duration = Duration::from_secs(2);

/// Changes some bytes, of which most are in code.
fn mutate(bytes: &mut [u8], random: &mut Random) {
    for _ in 0..=random.below(3) {
        let at = random.below(bytes.len() as u64) as usize;
        match random.below(4) {
            0 => bytes[at] ^= 1 << random.below(8),
            1 => bytes[at] = random.below(256) as u8,
            2 => bytes[at] = bytes[random.below(bytes.len() as u64) as usize],
            // The place of the code: its last third.
            _ => {
                let from = bytes.len() * 2 / 3;
                let at = from + random.below((bytes.len() - from) as u64) as usize;
                bytes[at] = random.below(256) as u8;
            }
        }
    }
}

#[test]
fn changed_modules_lose_nothing() {
    let count = std::env::var("HOSTILE_MODULES")
        .map_or(MODULES, |count| count.parse().expect("HOSTILE_MODULES is a number"));
    let good = [
        module(&[]),
        module(&[("\"run_ahead\": false", "\"run_ahead\": true")]),
        module(&[("\"learns\": false", "\"learns\": true")]),
    ];
    let mut ends: BTreeMap<String, u64> = BTreeMap::new();
    let mut longest = Duration::ZERO;
    for number in 0..count {
        let mut random = Random(number);
        let mut bytes = good[(number % 3) as usize].clone();
        mutate(&mut bytes, &mut random);
        let Ok(module) = compiled(&bytes) else {
            *ends.entry("refused".into()).or_default() += 1;
            continue;
        };
        let begin = processor_time();
        let setup = Setup { requests: REQUESTS, ..Setup::merging(number) };
        let world = run_module(module, setup);
        let took = processor_time() - begin;
        assert!(took < BOUND, "module {number}: {took:?}");
        longest = longest.max(took);
        let end = match world.report.faults.as_slice() {
            [] => "served".into(),
            [fault] => format!("{fault:?}"),
            faults => panic!("module {number}: {faults:?}, and fifo does not fail"),
        };
        *ends.entry(end).or_default() += 1;
    }
    println!("{ends:?}, longest {longest:?}");
    let count_of = |end: &str| ends.get(end).copied().unwrap_or_default();
    assert!(count_of("refused") > 0 && count_of("served") > 0, "{ends:?}: neither may be empty");
    assert!(count < 1_000 || count_of("Trapped") > 0, "{ends:?}: some have to trap");
}
