//! Random load by NBD, through mounts and by images, with settings that change, cut at each moment.

use iopace_powercut::bench::Bench;
use iopace_powercut::load::{Way, run};
use iopace_powercut::report::Report;
use iopace_powercut::tree::Broken;

fn is_possible() -> bool {
    let missing = Bench::missing();
    missing.inspect(|why| println!("skipped: {why}")).is_none()
}

#[test]
fn no_flushed_write_is_lost_at_any_of_two_thousand_moments() {
    if !is_possible() {
        return;
    }
    let mut sum = Report::default();
    for (seed, way) in (1..).zip(Way::ALL) {
        let report = run(way, 280, Broken::Nothing, seed).expect("it runs");
        assert!(report.violations == 0, "{way:?}: {report}");
        sum += report;
    }
    assert!(sum.cuts >= 2000, "{sum}");
}

/// A disk that answers flushes, or durable writes, and does nothing is found out.
#[test]
fn a_flush_that_does_not_arrive_is_found() {
    if !is_possible() {
        return;
    }
    for broken in [Broken::Fdatasync, Broken::DurableWrites] {
        // A buffered durable write through a mount is followed by a sync of the whole file.
        for way in [Way::ALL[0], Way::ALL[5]] {
            let report = run(way, 200, broken, 1).expect("it runs");
            assert!(report.violations > 0, "{way:?}: {broken:?} is not found: {report}");
        }
    }
}
