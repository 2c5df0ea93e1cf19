//! Any text as a fio job file.
#![no_main]

use iopace_sim::inputs::InputPlace;
use iopace_sim::inputs::fio::Job;
use iopace_sim::scenario::Scenario;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    match Job::parse("a.fio", text, "ssd-nvme") {
        Ok(job) => {
            let scenario = Scenario::parse("a", &job.toml);
            assert!(scenario.is_ok(), "{:?}\n{}", scenario.err(), job.toml);
        }
        Err(error) => {
            assert!(!error.message.is_empty());
            let lines = text.lines().count() as u64;
            let is_in =
                |place| matches!(place, InputPlace::Line(line) if (1..=lines).contains(&line));
            assert!(error.place.is_none_or(is_in), "{error} of {lines} lines");
        }
    }
});
