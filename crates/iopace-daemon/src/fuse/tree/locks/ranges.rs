//! The ranges of a file that one owner has locked, as the kernel below has them.

/// A locked range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Range {
    /// The first byte.
    pub(super) start: u64,
    /// The last byte.
    pub(super) end: u64,
    /// Exclusive (`F_WRLCK`); else shared.
    pub(super) is_write: bool,
    /// The open file through which it was taken.
    pub(super) handle: u64,
}

impl Range {
    fn joins(&self, next: &Range) -> bool {
        self.end.checked_add(1) == Some(next.start)
            && (self.is_write, self.handle) == (next.is_write, next.handle)
    }
}

/// The ranges of one owner: in order, none over another, none that could be one with the next.
#[derive(Debug, Default)]
pub(super) struct Ranges(Vec<Range>);

impl Ranges {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Range> {
        self.0.iter()
    }

    /// The indices of those that have a byte in common with `start..=end`.
    fn met(&self, start: u64, end: u64) -> std::ops::Range<usize> {
        let first = self.0.partition_point(|range| range.end < start);
        let behind = self.0.partition_point(|range| range.start <= end);
        first..behind.max(first)
    }

    /// The first range that keeps another owner from locking `start..=end`.
    pub(super) fn conflict(&self, start: u64, end: u64, is_write: bool) -> Option<Range> {
        let met = &self.0[self.met(start, end)];
        met.iter().find(|range| range.is_write || is_write).copied()
    }

    /// Locks a range, whatever was there before.
    pub(super) fn lock(&mut self, new: Range) -> bool {
        self.replace(new.start, new.end, Some(new))
    }

    /// Unlocks a range.
    pub(super) fn unlock(&mut self, start: u64, end: u64) -> bool {
        self.replace(start, end, None)
    }

    /// Whether others can lock something that they could not lock before.
    fn replace(&mut self, start: u64, end: u64, new: Option<Range>) -> bool {
        let mut met = self.met(start, end);
        let keeps_write = new.is_some_and(|new| new.is_write);
        let is_weaker = self.0[met.clone()].iter().any(|old| match new {
            Some(_) => old.is_write && !keeps_write,
            None => true,
        });
        let mut pieces = Vec::with_capacity(3);
        if let Some(first) = self.0[met.clone()].first().filter(|range| range.start < start) {
            pieces.push(Range { end: start - 1, ..*first });
        }
        pieces.extend(new);
        if let Some(last) = self.0[met.clone()].last().filter(|range| range.end > end) {
            pieces.push(Range { start: end + 1, ..*last });
        }
        if met.start > 0 && !pieces.is_empty() {
            met.start -= 1;
            pieces.insert(0, self.0[met.start]);
        }
        if met.end < self.0.len() && !pieces.is_empty() {
            pieces.push(self.0[met.end]);
            met.end += 1;
        }
        pieces.dedup_by(|next, before| {
            let is_one = before.joins(next);
            if is_one {
                before.end = next.end;
            }
            is_one
        });
        self.0.splice(met, pieces);
        is_weaker
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// As if each byte had its own lock.
        #[test]
        fn ranges_are_those_of_each_byte(
            steps in prop::collection::vec((0..32_u64, 0..12_u64, 0..3_u8, 0..2_u64), 1..40)
        ) {
            let mut ranges = Ranges::default();
            let mut bytes: Vec<Option<(bool, u64)>> = vec![None; 48];
            for (start, len, kind, handle) in steps {
                let (end, is_write) = (start + len, kind == 1);
                let touched = start as usize..=end as usize;
                let was: Vec<_> = bytes[touched.clone()].to_vec();
                let is_weaker = if kind == 0 {
                    bytes[touched].fill(None);
                    ranges.unlock(start, end)
                } else {
                    bytes[touched].fill(Some((is_write, handle)));
                    ranges.lock(Range { start, end, is_write, handle })
                };
                let weaker = |old: &Option<(bool, u64)>| match old {
                    None => false,
                    Some(_) if kind == 0 => true,
                    Some((was_write, _)) => *was_write && !is_write,
                };
                prop_assert_eq!(is_weaker, was.iter().any(weaker));
                let mut seen = vec![None; 48];
                for range in ranges.iter() {
                    let kind = Some((range.is_write, range.handle));
                    seen[range.start as usize..=range.end as usize].fill(kind);
                }
                prop_assert_eq!(&seen, &bytes);
                let pairs = ranges.0.windows(2);
                for pair in pairs {
                    prop_assert!(pair[0].end < pair[1].start && !pair[0].joins(&pair[1]));
                }
                for is_write in [false, true] {
                    let conflict = ranges.conflict(start, end, is_write).map(|range| range.start);
                    let meets = |byte: &Option<(bool, u64)>| byte.is_some_and(|b| b.0 || is_write);
                    let expected = bytes[start as usize..=end as usize].iter().any(meets);
                    prop_assert_eq!(conflict.is_some(), expected);
                }
            }
        }
    }

    #[test]
    fn the_end_of_the_file_is_no_border() {
        let mut ranges = Ranges::default();
        let all = Range { start: 0, end: u64::MAX, is_write: true, handle: 1 };
        assert!(!ranges.lock(all));
        assert!(ranges.unlock(10, 20));
        assert_eq!(ranges.len(), 2);
        assert!(ranges.unlock(0, u64::MAX));
        assert!(ranges.is_empty());
    }
}
