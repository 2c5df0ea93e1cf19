//! The list of schedulers: those that are compiled in, one line each, and those that were loaded.

use super::Algorithm;
use core::fmt;
use std::sync::{PoisonError, RwLock, RwLockReadGuard};

/// All schedulers that are compiled in, the simplest first.
pub static REGISTRY: &[&Algorithm] = &[
    &super::fifo::ALGORITHM,
    &super::elevator::ALGORITHM,
    &super::deadline::ALGORITHM,
    &super::rr::ALGORITHM,
    &super::anticipatory::ALGORITHM,
    &super::fair::ALGORITHM,
];

/// Those that were added, in this order. Few, and looked at by commands only: no request asks.
static ADDED: RwLock<Vec<&'static Algorithm>> = RwLock::new(Vec::new());

/// The word for the recommended scheduler where a user names one: it is what a device has for which
/// none is named.
pub const AUTO: &str = "auto";

/// Words that stand where the name of a scheduler may stand, and mean something else.
const WORDS: [&str; 3] = [AUTO, "none", "all"];

/// The name is that of another scheduler, or a word that means something else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Taken(pub &'static str);

impl fmt::Display for Taken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the name '{}' is taken", self.0)
    }
}

impl std::error::Error for Taken {}

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

/// Whether the scheduler is compiled in; one that is not comes from a stranger.
pub fn is_built_in(algorithm: &'static Algorithm) -> bool {
    REGISTRY.iter().any(|known| std::ptr::eq(*known, algorithm))
}

/// All schedulers that there are now: those compiled in, then those added.
pub fn all() -> Vec<&'static Algorithm> {
    REGISTRY.iter().copied().chain(added().iter().copied()).collect()
}

/// The algorithm of that name.
pub fn find(name: &str) -> Option<&'static Algorithm> {
    let is_it = |algorithm: &&&'static Algorithm| algorithm.name == name;
    let compiled_in = REGISTRY.iter().find(is_it).copied();
    compiled_in.or_else(|| added().iter().find(is_it).copied())
}

/// Adds a scheduler, which is found by its name from now on.
///
/// # Errors
/// The name is taken; nothing is changed then.
pub fn add(algorithm: &'static Algorithm) -> Result<(), Taken> {
    let mut added = ADDED.write().unwrap_or_else(PoisonError::into_inner);
    let mut all = REGISTRY.iter().chain(added.iter());
    if WORDS.contains(&algorithm.name) || all.any(|known| known.name == algorithm.name) {
        return Err(Taken(algorithm.name));
    }
    added.push(algorithm);
    Ok(())
}

/// Adds a scheduler in the place of the one of its name that was added before, which it returns.
///
/// # Errors
/// The name is that of one that is compiled in, or a word; nothing is changed then.
pub fn replace(algorithm: &'static Algorithm) -> Result<Option<&'static Algorithm>, Taken> {
    let is_same = |known: &&'static Algorithm| known.name == algorithm.name;
    if WORDS.contains(&algorithm.name) || REGISTRY.iter().any(is_same) {
        return Err(Taken(algorithm.name));
    }
    let mut added = ADDED.write().unwrap_or_else(PoisonError::into_inner);
    match added.iter_mut().find(|known| is_same(known)) {
        Some(place) => Ok(Some(std::mem::replace(place, algorithm))),
        None => {
            added.push(algorithm);
            Ok(None)
        }
    }
}

/// Takes one that was added out again: it is not found any more. Devices that have it keep it.
pub fn remove(name: &str) -> Option<&'static Algorithm> {
    let mut added = ADDED.write().unwrap_or_else(PoisonError::into_inner);
    let place = added.iter().position(|algorithm| algorithm.name == name)?;
    Some(added.remove(place))
}

fn added() -> RwLockReadGuard<'static, Vec<&'static Algorithm>> {
    ADDED.read().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sched::fifo;

    #[test]
    fn one_that_is_added_is_found_until_it_is_removed() {
        static ADDED_HERE: Algorithm = Algorithm { name: "added-here", ..fifo::ALGORITHM };
        assert!(is_built_in(&fifo::ALGORITHM) && !is_built_in(&ADDED_HERE));
        assert!(find("added-here").is_none());
        add(&ADDED_HERE).expect("the name is free");
        assert!(std::ptr::eq(find("added-here").expect("there"), &ADDED_HERE));
        assert_eq!(add(&ADDED_HERE), Err(Taken("added-here")));
        assert_eq!(all().len(), REGISTRY.len() + 1);
        remove("added-here").expect("there");
        assert!(find("added-here").is_none());
        assert!(remove("fifo").is_none(), "what is compiled in stays");
    }

    #[test]
    fn one_takes_the_place_of_another_of_its_name() {
        static FIRST: Algorithm = Algorithm { name: "replaced-here", ..fifo::ALGORITHM };
        static SECOND: Algorithm = Algorithm { name: "replaced-here", ..fifo::ALGORITHM };
        assert!(replace(&FIRST).expect("the name is free").is_none());
        let former = replace(&SECOND).expect("it was added").expect("there was one");
        assert!(std::ptr::eq(former, &FIRST));
        assert!(std::ptr::eq(find("replaced-here").expect("there"), &SECOND));
        remove("replaced-here").expect("there");
        assert_eq!(replace(&fifo::ALGORITHM).err(), Some(Taken("fifo")));
    }

    #[test]
    fn a_word_with_a_meaning_is_no_name() {
        static NONE: Algorithm = Algorithm { name: "none", ..fifo::ALGORITHM };
        assert_eq!(add(&NONE), Err(Taken("none")));
        assert_eq!(add(&fifo::ALGORITHM), Err(Taken("fifo")));
    }
}
