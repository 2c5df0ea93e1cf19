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

#[cfg(test)]
mod tests {
    use super::*;

    const NONE: [u64; 3] = [0; 3];

    /// So many reads of that size in sequence, at so many MB/s.
    fn reads(quick: &mut Quick, count: u64, bytes: u64, rate: u64) -> bool {
        quick.look(&[[count, 0, count * bytes], NONE], count * bytes * 1_000 / rate)
    }

    #[test]
    fn what_was_believed_lasts_until_as_much_was_slow() {
        let mut quick = Quick::default();
        let changes: Vec<bool> = (0..33).map(|_| reads(&mut quick, 1, 512 << 10, 1_000)).collect();
        assert_eq!(changes.iter().position(|changed| *changed), Some(31));
        assert!(changes[32..].iter().all(|changed| !changed) && quick.is_quick());
        assert!(!(0..31).any(|_| reads(&mut quick, 1, 512 << 10, 200)));
        assert!(quick.is_quick(), "half a MiB of it is left");
        assert!(reads(&mut quick, 1, 512 << 10, 200) && !quick.is_quick());
        assert!(!(0..31).any(|_| reads(&mut quick, 1, 512 << 10, 1_000)), "from the beginning");
    }

    #[test]
    fn only_large_reads_say_how_quick_it_is() {
        let at_once = |quick: &mut Quick| reads(quick, 1, 512 << 10, 40_000);
        let small = |quick: &mut Quick| reads(quick, 32, 64 << 10, 1_000);
        let middle = |quick: &mut Quick| reads(quick, 32, 100 << 10, 1_000);
        for look in [at_once, small, middle] {
            let mut quick = Quick::default();
            assert!(!(0..200).any(|_| look(&mut quick)));
            assert_eq!(quick.bytes, 0);
        }
        let mut quick = Quick::default();
        assert!(reads(&mut quick, 32, 512 << 10, 1_000));
        // The device was busy with writes as well: how slow the reads were is not known.
        let with_writes = [[1, 0, 512 << 10], [9, 0, 9 << 20]];
        assert!(!(0..200).any(|_| quick.look(&with_writes, 50_000_000)));
        assert!(quick.is_quick());
    }

    #[test]
    fn small_reads_at_random_have_the_last_word_while_there_were_some_of_late() {
        let mut quick = Quick::default();
        reads(&mut quick, 32, 512 << 10, 1_000);
        let random = |quick: &mut Quick, count| quick.look(&[[0, count, count * 4_096], NONE], 1);
        assert!(!random(&mut quick, 15) && !quick.has_seeks());
        assert!(!random(&mut quick, 1) && quick.has_seeks());
        quick.age(2);
        assert!(quick.has_seeks(), "a quarter is left");
        quick.age(1);
        assert!(!quick.has_seeks());
    }
}
