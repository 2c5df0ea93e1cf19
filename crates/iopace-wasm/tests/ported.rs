//! iopace's own schedulers as modules (contrib/policy/ported) decide as the built-in ones do: the
//! same scenarios give the same reports, byte for byte.
//!
//! `IOPACE_POLICIES` names the folder that `scripts/policies.sh build` has filled. With
//! `IOPACE_STORIES=all` it is every story, in full length: for a release build.

use iopace_core::sched::find;
use iopace_core::time::Nanos;
use iopace_core::units::Bytes;
use iopace_sim::run::run;
use iopace_sim::scenario::{Chosen, Scenario};
use iopace_sim::stories::STORIES;
use std::collections::BTreeSet;
use std::path::PathBuf;

/// The folder of modules; says so if there is none.
fn modules() -> Option<PathBuf> {
    let folder = std::env::var_os("IOPACE_POLICIES").map(PathBuf::from);
    if folder.is_none() {
        println!("skipped: IOPACE_POLICIES names no folder (scripts/policies.sh build DIR)");
    }
    folder
}

/// Whether all is compared that there is.
fn is_whole() -> bool {
    std::env::var("IOPACE_STORIES").is_ok_and(|which| which == "all")
}

/// The story with this scheduler from the beginning, and merging up to a size.
fn report(story: &str, scheduler: &str, merge: u64) -> String {
    let (story, edit) = story.split_once(' ').unwrap_or((story, ""));
    let text = STORIES.iter().find(|known| known.name == story).expect("a story").text;
    let text = match edit.split_once(" -> ") {
        Some((from, to)) if text.contains(from) => text.replace(from, to),
        None => text.to_owned(),
        Some((from, _)) => panic!("{story} has no {from}"),
    };
    let mut scenario = Scenario::parse(story, &text).expect("a story can be read");
    scenario.scheduler = Some(Chosen::defaults(find(scheduler).expect("it is loaded")));
    if !is_whole() {
        scenario.duration = scenario.duration.min(Nanos::from_secs(8));
        scenario.warmup = scenario.warmup.min(Nanos::from_secs(1));
    }
    scenario.merge_max = Bytes(merge);
    run(&scenario).to_json()
}

/// Streams, depth and flushes, faults, groups with all settings, groups that change, merging.
#[test]
fn a_ported_scheduler_decides_as_the_built_in_one() {
    let Some(folder) = modules() else { return };
    let some = [
        ("deadline-reads-beside-writes", 0),
        ("database-group-commit", 0),
        ("faults-lose-nothing", 0),
        ("geom-dd-read-cvs-rr", 512 << 10),
        ("groups-classes", 0),
        ("groups-guarantee", 0),
        ("groups-guarantee riops=80 -> iops=60 bps=300k", 0),
        ("groups-weights-nested", 256 << 10),
        ("steps-groups", 0),
        ("steps-tasks", 0),
    ];
    let mut cases = some.to_vec();
    if is_whole() {
        cases.extend(STORIES.iter().map(|story| (story.name, 0)));
    }
    let mut firsts = BTreeSet::new();
    for name in ["fifo", "deadline", "fair"] {
        let path = folder.join(name).with_extension("wasm");
        let loaded = iopace_wasm::load(&path).unwrap_or_else(|error| panic!("{error}"));
        for &(story, merge) in &cases {
            let module = report(story, loaded.algorithm.name, merge);
            assert!(module.contains("\"failed_over\": 0"), "{name}, {story}: {module}");
            let module = module.replace(loaded.algorithm.name, name);
            assert_eq!(report(story, name, merge), module, "{name}, {story}");
        }
        let (story, merge) = cases[0];
        let module = report(story, loaded.algorithm.name, merge);
        firsts.insert(module.replace(loaded.algorithm.name, ""));
    }
    println!("{} stories under three schedulers, each twice", cases.len());
    assert_eq!(firsts.len(), 3, "the three differ, so that a report shows who decided");
}
