//! Every story in `scenarios/`: it is carried out twice with the same bytes, and its checks hold.

use iopace_sim::judge::judge;
use iopace_sim::scenario::Scenario;
use iopace_sim::stories::STORIES;
use std::path::Path;

#[test]
fn every_scenario_repeats_byte_for_byte_and_holds() {
    let mut broken = Vec::new();
    for story in STORIES {
        let name = story.name;
        let scenario = match Scenario::parse(&format!("{name}.toml"), story.text) {
            Ok(scenario) => scenario,
            Err(error) => panic!("{error}"),
        };
        assert!(!scenario.checks.is_empty(), "{name} checks nothing");
        let report = judge(&scenario);
        assert_eq!(report.to_json(), judge(&scenario).to_json(), "{name} differs from itself");
        assert_eq!(report.unfinished, 0, "{name}: requests that never finished");
        for check in report.checks.iter().filter(|check| !check.holds) {
            broken.push(format!("{name}: {check:?}"));
        }
    }
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

#[test]
fn every_file_is_in_the_list() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios");
    let entries = std::fs::read_dir(&folder).expect("the folder scenarios/ of the project");
    let mut files: Vec<String> = entries
        .map(|entry| entry.expect("a readable folder").file_name().to_string_lossy().into_owned())
        .filter(|name| name.ends_with(".toml"))
        .collect();
    files.sort();
    let listed: Vec<String> = STORIES.iter().map(|story| format!("{}.toml", story.name)).collect();
    assert_eq!(files, listed);
}
