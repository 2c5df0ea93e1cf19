//! The fio job over `nr_group_requests`, which is the same for both groups.

use super::{NR_REQUESTS, SlotOutcome, SlotVariant, outcome, scenario};
use crate::milli::Milli;
use crate::parallel;
use crate::run::run;

/// The caps, each on both groups.
pub const CAPS: [u32; 9] = [4, 8, 16, 25, 32, 64, 100, 250, 500];

/// One cap under one variant and what came out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CapPoint {
    /// Its name.
    pub variant: &'static str,
    /// `nr_group_requests` of both groups.
    pub cap: u32,
    /// The figures.
    pub outcome: SlotOutcome,
    /// Throughput of both over that of fifo without caps.
    pub total_vs_fifo: Milli,
}

/// The points of some variants.
pub fn of_variants(seed: u64, variants: &[SlotVariant]) -> Vec<CapPoint> {
    let mut jobs = Vec::new();
    for variant in variants {
        jobs.extend(CAPS.map(|cap| scenario((cap, cap), "BE", variant, "fair", seed)));
        jobs.push(scenario((NR_REQUESTS, NR_REQUESTS), "BE", variant, "fifo", seed));
    }
    let outcomes = parallel::map(&jobs, |scenario| outcome(&run(scenario)));
    let mut points = Vec::new();
    for (variant, outcomes) in variants.iter().zip(outcomes.chunks(CAPS.len() + 1)) {
        let variant = variant.name;
        let total = |outcome: &SlotOutcome| u128::from(outcome.total_kib_s.0.unsigned_abs());
        let (fifo, outcomes) = outcomes.split_last().expect("fifo is the last of each variant");
        for (cap, outcome) in CAPS.into_iter().zip(outcomes) {
            let ratio = Milli::ratio(total(outcome), total(fifo)).unwrap_or_default();
            points.push(CapPoint { variant, cap, outcome: *outcome, total_vs_fifo: ratio });
        }
    }
    points
}
