//! The numbers of files in a mount: one file has one number, and no other file has it.
//!
//! | file | number |
//! | --- | --- |
//! | of the directory's device, below 2^62 | its own |
//! | of one of the first 16,383 other devices, below 2^48 | 2^62, the device's place, its own |
//! | any other | 2^63 and a hash of device and number |
//!
//! The last may collide: then the later one is hashed again, and keeps that number as long as the
//! kernel knows it.
//!
//! By the same number the kernel asks for the file, unless it still knows one by it that was
//! removed below: then it asks for the new file by a number that no file had.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};

/// The kernel's number of the root of a mount.
pub(super) const ROOT: u64 = 1;

/// Set in the numbers of files of other devices than that of the root.
pub(super) const FOREIGN: u64 = 1 << 62;

/// Bits of such a number that are the file's own number.
const FOREIGN_BITS: u32 = 48;

/// Most other devices with a place.
const FOREIGN_DEVICES: usize = (1 << (62 - FOREIGN_BITS)) - 1;

/// Set in numbers that are hashed.
const HASHED: u64 = 1 << 63;

/// A device and the number of a file there.
pub(super) type Key = (u64, u64);

/// How files get numbers.
#[derive(Debug, Default)]
pub(super) struct Numbers {
    /// The device of the root.
    own: u64,
    devices: Vec<u64>,
    /// Files that had to be hashed again.
    moved: HashMap<Key, u64>,
    /// Files whose numbers were those of others which the kernel knows still, and by which
    /// numbers it asks for them.
    replaced: HashMap<Key, u64>,
    counted: u64,
    generation: u64,
}

impl Numbers {
    /// For a directory on that device.
    pub(super) fn new(own: u64) -> Numbers {
        Numbers { own, ..Numbers::default() }
    }

    /// The number that a file shows; `is_other` says whether the kernel knows another file by
    /// a number.
    pub(super) fn id_of(&mut self, key: Key, is_other: impl Fn(u64) -> bool) -> u64 {
        if let Some(id) = self.fitting(key) {
            return id;
        }
        if let Some(id) = self.moved.get(&key) {
            return *id;
        }
        (0u64..).map(|attempt| hashed(key, attempt)).find(|id| !is_other(*id)).unwrap_or(HASHED)
    }

    /// A file shows this number.
    pub(super) fn told(&mut self, key: Key, id: u64) {
        if id & HASHED != 0 && id != hashed(key, 0) {
            self.moved.insert(key, id);
        }
    }

    /// The number by which the kernel asks for a file, if that is not the one that it shows.
    pub(super) fn asked_by(&self, key: Key) -> Option<u64> {
        self.replaced.get(&key).copied()
    }

    /// The kernel knows a file of this key still, which is gone: a number for the new one.
    pub(super) fn replaced(&mut self, key: Key) -> u64 {
        let id = self.count();
        self.replaced.insert(key, id);
        id
    }

    /// The kernel knows a file no more that it has asked for by this number.
    pub(super) fn forgotten(&mut self, key: Key, id: u64) {
        for ids in [&mut self.moved, &mut self.replaced] {
            if ids.get(&key) == Some(&id) {
                ids.remove(&key);
            }
        }
    }

    fn fitting(&mut self, (device, number): Key) -> Option<u64> {
        if device == self.own && number > ROOT && number < FOREIGN {
            return Some(number);
        }
        if number >> FOREIGN_BITS != 0 {
            return None;
        }
        let place = self.devices.iter().position(|&known| known == device).or_else(|| {
            (self.devices.len() < FOREIGN_DEVICES).then(|| {
                self.devices.push(device);
                self.devices.len() - 1
            })
        })?;
        Some(FOREIGN | (place as u64) << FOREIGN_BITS | number)
    }

    /// A number that no file had or will have.
    pub(super) fn count(&mut self) -> u64 {
        self.counted += 1;
        FOREIGN | (FOREIGN_DEVICES as u64) << FOREIGN_BITS | self.counted
    }

    /// Tells a file apart from all that had its number before.
    pub(super) fn generation(&mut self) -> u64 {
        self.generation += 1;
        self.generation
    }
}

fn hashed(key: Key, attempt: u64) -> u64 {
    // The same after each start: programs that compare numbers do not take all files for new.
    let mut hasher = DefaultHasher::new();
    (key, attempt).hash(&mut hasher);
    HASHED | hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn numbers_of_other_devices_are_stable_and_their_own() {
        let mut numbers = Numbers::new(7);
        assert_eq!(numbers.id_of((7, 12), |_| false), 12);
        let mut all = HashSet::from([12]);
        let hostile = [0, 1, 12, 1 << 48, FOREIGN, FOREIGN | 12, HASHED, HASHED | 12, u64::MAX];
        for device in [7, 8, 9, u64::MAX] {
            for number in hostile.into_iter().filter(|number| (device, *number) != (7, 12)) {
                let id = numbers.id_of((device, number), |_| false);
                assert!(id > ROOT && all.insert(id), "{device} {number:x}: {id:x}");
                assert_eq!(numbers.id_of((device, number), |_| false), id);
            }
        }
        for device in 100..20_000 {
            assert!(all.insert(numbers.id_of((device, 3), |_| false)), "{device}");
        }
        assert!(all.insert(numbers.count()));
    }

    #[test]
    fn a_number_that_another_file_has_is_not_given_twice() {
        let mut numbers = Numbers::new(7);
        let key = (7, u64::MAX);
        let first = numbers.id_of(key, |_| false);
        let second = numbers.id_of(key, |id| id == first);
        assert_ne!(first, second);
        numbers.told(key, second);
        // The other one is gone, and this one is known by its number still.
        assert_eq!(numbers.id_of(key, |_| false), second);
        numbers.forgotten(key, second);
        assert_eq!(numbers.id_of(key, |_| false), first);
    }
}
