//! What requests take at the disk with nothing of iopace beside them.

use iopace_core::request::Op;
use iopace_core::shadow::{Recorded, RecordedKind};
use iopace_core::time::Nanos;
use std::collections::{BTreeMap, BTreeSet};

/// Requests that were alone at the disk from which on their median is what such a request takes.
const ALONE_ENOUGH: usize = 3;

/// Requests that take about the same alone: of a kind, and of a size to a power of two.
pub(super) type Like = (u8, u32);

pub(super) fn like(one: &Recorded) -> Like {
    let size = one.submit.extent.len().get();
    match (one.kind, one.submit.op) {
        (RecordedKind::Flush, _) => (2, 0),
        (_, Op::Read) => (0, 64 - size.leading_zeros()),
        _ => (1, 64 - size.leading_zeros()),
    }
}

/// Tasks that are told apart at the disk: those that were there longest; the rest are `others`.
pub(super) const APART_MAX: usize = 16;

/// A request at the disk.
pub(super) struct Stay {
    pub(super) took: Nanos,
    /// The time of others that were there meanwhile, added up: by the place of their task, the last
    /// for all the rest.
    pub(super) beside: [u64; APART_MAX + 1],
}

/// What requests take with nothing of iopace beside them, and whether that was seen.
/// Without `is_known` nothing was alone there.
pub(super) fn alone(
    ended: &[Recorded],
    stays: &[Option<Stay>],
    is_known: bool,
) -> BTreeMap<Like, (Nanos, bool)> {
    let mut all: BTreeMap<Like, (BTreeSet<(Nanos, usize)>, Nanos)> = BTreeMap::new();
    for (place, (one, stay)) in ended.iter().zip(stays).enumerate() {
        let Some(stay) = stay else { continue };
        let (alone, least) = all.entry(like(one)).or_insert((BTreeSet::new(), Nanos(u64::MAX)));
        *least = stay.took.min(*least);
        if is_known && stay.beside.iter().all(|time| *time == 0) {
            alone.insert((stay.took, place));
        }
    }
    let median = |alone: &BTreeSet<(Nanos, usize)>| {
        let median = alone.iter().nth(alone.len() / 2).filter(|_| alone.len() >= ALONE_ENOUGH);
        median.map(|(time, _)| *time)
    };
    let all = all.into_iter().map(|(like, (alone, least))| {
        (like, median(&alone).map_or((least, false), |median| (median, true)))
    });
    all.collect()
}
