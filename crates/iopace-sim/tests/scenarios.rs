//! Every story in `scenarios/`: it is carried out twice with the same bytes, and its checks hold.

use iopace_sim::judge::judge;
use iopace_sim::scenario::Scenario;
use std::path::{Path, PathBuf};

fn files() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios");
    let entries = std::fs::read_dir(&folder).expect("the folder scenarios/ of the project");
    let mut files: Vec<PathBuf> = entries
        .map(|entry| entry.expect("a readable folder").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "toml"))
        .collect();
    files.sort();
    assert!(!files.is_empty(), "no scenario in {}", folder.display());
    files
}

#[test]
fn every_scenario_repeats_byte_for_byte_and_holds() {
    let mut broken = Vec::new();
    for file in files() {
        let name = file.file_name().expect("a file").to_string_lossy().into_owned();
        let text = std::fs::read_to_string(&file).expect("a readable file");
        let scenario = match Scenario::parse(&name, &text) {
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
