//! The list of schedulers: one line each.

use super::Algorithm;

/// All schedulers, the simplest first.
pub static REGISTRY: &[&Algorithm] = &[
    &super::fifo::ALGORITHM,
    &super::elevator::ALGORITHM,
    &super::deadline::ALGORITHM,
    &super::rr::ALGORITHM,
    &super::anticipatory::ALGORITHM,
    &super::fair::ALGORITHM,
];

/// The word for the recommended scheduler where a user names one: it is what a device has for which
/// none is named.
pub const AUTO: &str = "auto";

/// The scheduler of a device for which none is named, on every kind of disk: it finds out by itself
/// what the disk is, and it starves nobody.
pub fn recommended() -> &'static Algorithm {
    &super::fair::ALGORITHM
}

/// The scheduler that is named where groups need one that divides the disk's time: the first.
///
/// # Panics
/// If the registry has none.
pub fn dividing() -> &'static Algorithm {
    let mut all = REGISTRY.iter().filter(|algorithm| algorithm.profile.divides);
    all.next().expect("the registry has one that divides")
}

/// Whether the scheduler of that name divides the disk's time between groups; one that is not known
/// here does not.
pub fn divides(name: &str) -> bool {
    find(name).is_some_and(|algorithm| algorithm.profile.divides)
}

/// The algorithm of that name.
pub fn find(name: &str) -> Option<&'static Algorithm> {
    REGISTRY.iter().find(|algorithm| algorithm.name == name).copied()
}
