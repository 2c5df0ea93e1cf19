//! A recording agrees with the report of the same run, and recording changes nothing.

use iopace_sim::run::{run, run_recorded};
use iopace_sim::scenario::Scenario;
use iopace_sim::stories;

fn story(name: &str) -> Scenario {
    let story = stories::find(name).expect("it comes with iopace");
    Scenario::parse(name, story.text).expect("a sound story")
}

#[test]
fn recording_changes_nothing() {
    let scenario = story("geom-dd-write-cvs-rr");
    let (report, recording) = run_recorded(&scenario);
    assert_eq!(report.to_json(), run(&scenario).to_json());
    let (_, again) = run_recorded(&scenario);
    assert_eq!(format!("{recording:?}"), format!("{again:?}"));
}

#[test]
fn the_steps_add_up_to_the_figures_of_the_report() {
    let mut scenario = story("geom-dd-write-cvs-rr");
    scenario.warmup = iopace_core::time::Nanos::ZERO;
    let (report, recording) = run_recorded(&scenario);
    for task in &recording.tasks {
        let of = &report.tasks[&task.name];
        assert_eq!(task.bytes().sum::<u64>(), of.bytes, "{}", task.name);
        let ops: u64 = task.reads.iter().chain(&task.writes).map(|moved| moved.ops).sum();
        assert_eq!(ops, of.ops);
        let max_ms = of.latency.max_ms.0 as u64;
        assert_eq!((task.latency.max().0 + 500) / 1_000, max_ms);
        let disk_ms = of.stages.disk_ms.0 as u64;
        assert_eq!((task.stages.disk.0 + 500) / 1_000, disk_ms);
    }
    let busy = recording.busy_permille();
    let mean = busy.iter().sum::<u64>() / busy.len() as u64;
    let reported = report.disk_use.busy.0 as u64;
    assert!(mean.abs_diff(reported) < 20, "{mean} beside {reported}");
    assert!(busy.iter().all(|permille| *permille <= 1_000));
    assert_eq!(recording.looks.len(), recording.tasks[0].reads.len());
}

#[test]
fn groups_have_their_tasks() {
    let scenario = story("groups-weights-nested");
    let (_, recording) = run_recorded(&scenario);
    let groups = recording.groups();
    let paths: Vec<&str> = groups.iter().map(|(path, _)| *path).collect();
    assert_eq!(paths, ["/a", "/b/c", "/b/d"]);
    assert!(groups.iter().all(|(_, tasks)| tasks.len() == 1));
}
