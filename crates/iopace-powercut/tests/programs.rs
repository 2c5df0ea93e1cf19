//! Programs that can tell whether their data is sound, after cuts.

use iopace_powercut::bench::{Bench, WAYS};
use iopace_powercut::programs::{Program, records, run};
use iopace_powercut::tree::Broken;

fn is_possible() -> bool {
    let missing = Bench::missing();
    missing.inspect(|why| println!("skipped: {why}")).is_none()
}

#[test]
fn a_log_of_records_loses_none_that_was_synced() {
    if !is_possible() {
        return;
    }
    for over in WAYS {
        let report = records(over, 30, 1).expect("it runs");
        assert!(report.violations == 0 && report.states > 200, "{over:?}: {report}");
    }
}

#[test]
fn sqlite_and_git_are_sound_after_a_cut() {
    if !is_possible() {
        return;
    }
    for (over, program) in WAYS.into_iter().cycle().zip(Program::ALL) {
        if !program.is_there() {
            println!("skipped: {program:?}: python3 with sqlite3, or git, is not installed");
            continue;
        }
        let size = if program == Program::Git { (4, 8) } else { (12, 25) };
        let report = run(program, over, size, Broken::Nothing, 1).expect("it runs");
        assert!(report.violations == 0 && report.states > 5, "{over:?}: {report}");
    }
}

/// SQLite on a disk that answers `fdatasync` and does nothing is broken, or lacks transactions.
#[test]
fn a_program_on_a_disk_that_lies_is_found() {
    if !is_possible() || !Program::SqliteWal.is_there() {
        return;
    }
    let broken = Broken::Fdatasync;
    let report = run(Program::SqliteWal, WAYS[0], (12, 25), broken, 1).expect("it runs");
    assert!(report.violations > 0, "{report}");
}
