//! Whether the device reads faster than any head does.
//!
//! Linux says of every virtual disk that it has a head, and what a large read costs may be taken
//! for a seek (see `cost`): one that does 512 KiB in 0.7 ms would have seeks of 0.6 ms. But reads
//! that come at more than 600 MB/s do not come from under a head. Arrays of disks with heads are as
//! quick in sequence, and what a cache has is too: so small reads at random have the last word, if
//! there were some of late.

/// The quickest disks with a head read 300 MB/s (two arms: 550), and their caches give no more than
/// SATA carries, 550.
const RATE_MB_S: u64 = 600;

/// An interval that would be faster than any device is the rest of a batch that ended at once.
const RATE_MAX_MB_S: u64 = 30_000;

/// So much has to be read at that rate until it is believed, and as much more slowly until it no
/// longer is: 32 requests of 512 KiB.
const BYTES: u64 = 16 << 20;

/// The least mean size of reads that say something about the rate, and the largest of those that
/// say something about seeks.
const LARGE_MIN: u64 = 128 << 10;
const SMALL_MAX: u64 = 64 << 10;

/// So many small reads at random show what a seek costs (two sweeps of the model), and as long as
/// there are so many left of late.
const SMALL_COUNT: u32 = 16;
const SMALL_LEAST: u32 = 4;

/// The speed and the small reads that the last intervals of the cost model have shown.
#[derive(Debug, Default)]
pub(super) struct Quick {
    /// Bytes read at that rate, less those that were not.
    bytes: u64,
    is_quick: bool,
    /// Small reads at random, and whether they are enough.
    small: u32,
    has_small: bool,
}

impl Quick {
    /// Takes in an interval: for each direction the requests in sequence, those at random and
    /// their bytes; and for how many ns the device was busy. All of that is held against the reads;
    /// that they were slow is known only where there was nothing else. Whether that changes what is
    /// believed.
    pub(super) fn look(&mut self, [reads, writes]: &[[u64; 3]; 2], busy: u64) -> bool {
        let [sequential, random, bytes] = *reads;
        let count = sequential + random;
        if bytes <= count * SMALL_MAX {
            self.small = self.small.saturating_add(random as u32);
            self.has_small |= self.small >= SMALL_COUNT;
        } else if bytes < count * LARGE_MIN || bytes * 1_000 > busy * RATE_MAX_MB_S {
            return false;
        } else if bytes * 1_000 > busy * RATE_MB_S {
            self.bytes = (self.bytes + bytes).min(BYTES);
        } else if *writes == [0; 3] {
            self.bytes = self.bytes.saturating_sub(bytes);
        }
        let is_quick = self.bytes >= if self.is_quick { 1 } else { BYTES };
        std::mem::replace(&mut self.is_quick, is_quick) != is_quick
    }

    /// The count of small reads is halved so many times, as all that the cost model knows.
    pub(super) fn age(&mut self, bits: u32) {
        self.small = self.small.unbounded_shr(bits);
        self.has_small &= self.small >= SMALL_LEAST;
    }

    /// Whether the device is so quick.
    pub(super) fn is_quick(&self) -> bool {
        self.is_quick
    }

    /// Whether what a seek is found to cost may be taken for one.
    pub(super) fn has_seeks(&self) -> bool {
        !self.is_quick || self.has_small
    }
}
