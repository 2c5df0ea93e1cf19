//! All workloads of one operation, and some of two, through a mount.

use iopace_powercut::ace;
use iopace_powercut::bench::{Bench, Over, WAYS};
use iopace_powercut::node::Random;
use iopace_powercut::tree::Broken;

fn is_possible() -> bool {
    let missing = Bench::missing();
    missing.inspect(|why| println!("skipped: {why}")).is_none()
}

/// Some of them, the same ones each time.
fn some(mut all: Vec<Vec<ace::Step>>, count: usize) -> Vec<Vec<ace::Step>> {
    let mut random = Random(7);
    (0..count).map(|_| all.swap_remove(random.below(all.len() as u64) as usize)).collect()
}

#[test]
fn no_workload_loses_what_was_synced() {
    if !is_possible() {
        return;
    }
    for over in WAYS {
        let bench = Bench::mounted(over).expect("it mounts");
        let all = [ace::workloads(1), some(ace::workloads(2), 300)].concat();
        let report = ace::run(&bench, &all, 1);
        assert!(report.violations == 0, "{over:?}: {report}");
        assert!(report.workloads > 200, "{over:?}: {report}");
    }
}

/// A disk that answers syncs and does nothing is found out, whichever it is.
#[test]
fn a_sync_that_does_not_arrive_is_found() {
    if !is_possible() {
        return;
    }
    let kinds = [
        Broken::Fsync,
        Broken::Fdatasync,
        Broken::Directories,
        Broken::DurableWrites,
        Broken::Attributes,
    ];
    let all = ace::workloads(1);
    for broken in kinds {
        // Of its own: the workloads have the same names each time, which the kernel remembers.
        let bench = Bench::mounted(Over::Elsewhere).expect("it mounts");
        bench.tree.lock().broken = broken;
        let report = ace::run(&bench, &all, 1);
        assert!(report.violations > 0, "{broken:?} is not found: {report}");
    }
}
