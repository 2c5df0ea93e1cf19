//! Any text as a scenario file.
#![no_main]

use iopace_sim::scenario::Scenario;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    // The name of a model file would be opened.
    if text.contains(".toml") {
        return;
    }
    match Scenario::parse("a", text) {
        Ok(scenario) => {
            let again = Scenario::parse("a", text).map(|again| format!("{again:?}"));
            assert_eq!(again.ok(), Some(format!("{scenario:?}")));
        }
        Err(error) => assert!(error.to_string().starts_with("a")),
    }
});
