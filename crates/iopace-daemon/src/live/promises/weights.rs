//! Parts of siblings by weight, beside what they had.

use super::super::span::parent;
use super::case::{Case, Judged};
use crate::api::WeightShare;
use crate::figures::permille;
use iopace_core::group::{Class, Settings};
use iopace_core::sched;
use std::collections::BTreeMap;

/// Weights are off when a part is ten points away from what is due.
const WEIGHT_PERMILLE: u32 = 100;

/// The groups right below one, together.
#[derive(Default)]
pub(super) struct Siblings {
    /// Those for which something else than a weight is set.
    special_count: usize,
    /// Those that always waited, and are set as they are for the whole time.
    rivals_count: usize,
    /// What these have together.
    rivals: Parts,
}

/// A weight, and what it brought.
#[derive(Clone, Copy, Default)]
struct Parts {
    weight: u128,
    disk_ns: u128,
    bytes: u128,
}

fn parts(case: &Case<'_>) -> Parts {
    Parts {
        weight: case.settings.weight.get().into(),
        disk_ns: case.sums.disk_ns(),
        bytes: u128::from(case.sums.read_bytes) + u128::from(case.sums.write_bytes),
    }
}

fn is_rival(case: &Case<'_>) -> bool {
    case.waits && case.is_settled
}

/// By the group above.
pub(super) fn siblings<'a>(cases: &[Case<'a>]) -> BTreeMap<&'a str, Siblings> {
    let mut all: BTreeMap<&str, Siblings> = BTreeMap::new();
    for case in cases {
        let Some(above) = parent(case.path) else { continue };
        let beside = all.entry(above).or_default();
        let plain = Settings { weight: case.settings.weight, ..Settings::default() };
        let is_plain = case.settings == plain && case.settings.class == Class::BestEffort;
        beside.special_count += usize::from(!is_plain);
        if is_rival(case) {
            let Parts { weight, disk_ns, bytes } = parts(case);
            beside.rivals_count += 1;
            beside.rivals.weight += weight;
            beside.rivals.disk_ns += disk_ns;
            beside.rivals.bytes += bytes;
        }
    }
    all
}

/// Whether the scheduler has shared by weight all the time: one that was put in meanwhile answers
/// only for what came after it.
pub(super) fn is_fair(judged: &Judged<'_>) -> bool {
    let name = &judged.span.last.device;
    let devices = judged
        .reports
        .iter()
        .filter_map(|report| report.devices.iter().find(|device| device.device == *name));
    devices.into_iter().all(|device| sched::divides(&device.scheduler))
}

/// The part of a group against the siblings that always wait too, and whether that is off. Only
/// among groups for which nothing else is set.
pub(super) fn share(
    case: &Case<'_>,
    siblings: &BTreeMap<&str, Siblings>,
) -> Option<(WeightShare, bool)> {
    let beside = siblings.get(parent(case.path)?)?;
    if beside.special_count > 0 || beside.rivals_count < 2 || !is_rival(case) {
        return None;
    }
    let (own, all) = (parts(case), beside.rivals);
    let due_permille = permille(own.weight, all.weight);
    let got_permille = permille(own.disk_ns, all.disk_ns);
    let bytes_permille = permille(own.bytes, all.bytes);
    // Time at a disk with a queue is not time of the disk: bytes must say the same.
    let off = |got: u32| i64::from(got) - i64::from(due_permille);
    let (by_time, by_bytes) = (off(got_permille), off(bytes_permille));
    let limit = i64::from(WEIGHT_PERMILLE);
    let is_off = by_time.min(by_bytes) > limit || by_time.max(by_bytes) < -limit;
    Some((WeightShare { due_permille, got_permille }, is_off))
}
