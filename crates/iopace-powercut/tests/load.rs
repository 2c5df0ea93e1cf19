//! Random load by NBD, through mounts, by images and loop devices, with settings that change, cut
//! at each moment.

use iopace_powercut::bench::Bench;
use iopace_powercut::load::{DiskAccess, Disorder, run, run_crossed, run_told};
use iopace_powercut::report::Report;
use iopace_powercut::tree::Broken;

const QUIET: Disorder = Disorder::Quiet(Broken::Nothing);

/// The ways that there are here.
fn ways() -> Vec<DiskAccess> {
    if let Some(why) = Bench::missing() {
        println!("skipped: {why}");
        return Vec::new();
    }
    let is_there = |way: &DiskAccess| {
        let missing = way.missing();
        missing.inspect(|why| println!("skipped in part: {way}: {why}")).is_none()
    };
    DiskAccess::ALL.into_iter().filter(is_there).collect()
}

#[test]
fn no_flushed_write_is_lost_at_any_of_two_thousand_moments() {
    let (ways, mut sum) = (ways(), Report::default());
    for (seed, way) in (1..).zip(&ways) {
        let report = run(*way, 280, QUIET, seed).expect("it runs");
        assert!(report.violations == 0, "{way}: {report}");
        sum += report;
    }
    assert!(ways.is_empty() || sum.cuts >= 2000, "{sum}");
}

/// A disk that answers flushes, or durable writes, and does nothing is found out.
#[test]
fn a_flush_that_does_not_arrive_is_found() {
    if ways().is_empty() {
        return;
    }
    for broken in [Broken::Fdatasync, Broken::DurableWrites] {
        // A buffered durable write through a mount is followed by a sync of the whole file.
        for way in [DiskAccess::ALL[0], DiskAccess::ALL[5]] {
            let report = run(way, 200, Disorder::Quiet(broken), 1).expect("it runs");
            assert!(report.violations > 0, "{way}: {broken:?} is not found: {report}");
        }
    }
}

/// A disk of which one write or sync in 25 fails, and says so.
#[test]
fn errors_at_random_lose_nothing_that_was_promised() {
    let mut sum = Report::default();
    let ways = ways();
    for (seed, way) in (1..).zip(&ways) {
        let report = run(*way, 160, Disorder::Errors, seed).expect("it runs");
        assert!(report.violations == 0, "{way}: {report}");
        sum += report;
    }
    assert!(ways.is_empty() || sum.errors >= 20, "{sum}");
}

/// The errors that are told do not excuse those that are not.
#[test]
fn an_error_that_is_hidden_among_others_is_found() {
    let ways = ways();
    // One of each kind: NBD, a mount, a loop device through the page cache and past it.
    for way in ways.into_iter().enumerate().filter(|(at, _)| [3, 4, 10, 11].contains(at)) {
        let mut runs = (1..=40).map(|seed| run(way.1, 160, Disorder::Hidden, seed));
        let is_found = runs.any(|report| report.expect("it runs").violations > 0);
        assert!(is_found, "{}: no hidden error is found in forty runs", way.1);
    }
}

/// The flush of one client fails, which another one hears of at his next. A kernel that tells of it
/// only once has him believe his flush, and is found.
#[test]
fn an_error_at_a_flush_is_told_to_every_client() {
    if ways().is_empty() {
        return;
    }
    // A mapping is written by its sync, and of a loop device the kernel tells one client only.
    let is_told =
        |way: &DiskAccess| !matches!(way, DiskAccess::Loop { .. } | DiskAccess::Mapped(_));
    for way in DiskAccess::ALL.into_iter().filter(is_told) {
        let [told, forgotten] = [false, true].map(|forgets| run_told(way, 8, forgets, 1));
        let (told, forgotten) = (told.expect("it runs"), forgotten.expect("it runs"));
        assert!(told.violations == 0 && told.errors >= 16, "{way}: {told}");
        assert!(forgotten.violations > 0, "{way} is not found: {forgotten}");
    }
}

#[test]
fn a_flush_covers_the_writes_of_other_clients() {
    for (seed, way) in (1..).zip(ways()) {
        let report = run_crossed(way, 20, Broken::Nothing, seed).expect("it runs");
        assert!(report.violations == 0 && report.cuts > 20, "{way}: {report}");
        let broken = run_crossed(way, 3, Broken::Fdatasync, seed).expect("it runs");
        let is_fsync = matches!(way, DiskAccess::Mapped(_));
        assert!(is_fsync || broken.violations > 0, "{way}: a flush of nothing is not found");
    }
}
