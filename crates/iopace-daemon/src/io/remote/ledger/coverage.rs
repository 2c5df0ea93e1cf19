//! The parts of a read that have come. A buffer has held other data before, so a part that was not
//! sent must not pass for one that was.

use crate::limits::READ_FRAGMENTS_MAX;

/// Ranges of bytes in order, without common bytes, none adjoining another.
#[derive(Debug, Default)]
pub(super) struct Coverage(Vec<(u64, u64)>);

impl Coverage {
    /// One more has come. False if a byte of it has come before, or it is one too many.
    pub(super) fn add(&mut self, start: u64, end: u64) -> bool {
        let ranges = &mut self.0;
        let at = ranges.partition_point(|&(first, _)| first < start);
        let before = at.checked_sub(1).map(|before| ranges[before].1);
        let behind = ranges.get(at).map(|&(first, _)| first);
        if before.is_some_and(|before| before > start) || behind.is_some_and(|first| first < end) {
            return false;
        }
        match (before == Some(start), behind == Some(end)) {
            (true, true) => ranges[at - 1].1 = ranges.remove(at).1,
            (true, false) => ranges[at - 1].1 = end,
            (false, true) => ranges[at].0 = start,
            (false, false) => ranges.insert(at, (start, end)),
        }
        ranges.len() <= READ_FRAGMENTS_MAX
    }

    /// Whether exactly this has come.
    pub(super) fn is(&self, start: u64, end: u64) -> bool {
        self.0 == [(start, end)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_in_any_order_are_one_read() {
        for order in [[0, 1, 2, 3], [3, 2, 1, 0], [0, 2, 1, 3], [3, 0, 2, 1]] {
            let mut coverage = Coverage::default();
            for at in order {
                assert!(!coverage.is(100, 140));
                assert!(coverage.add(100 + at * 10, 110 + at * 10));
            }
            assert!(coverage.is(100, 140));
        }
    }

    #[test]
    fn what_comes_twice_or_in_crumbs_is_refused() {
        let mut coverage = Coverage::default();
        assert!(coverage.add(10, 20));
        for (start, end) in [(10, 20), (5, 11), (19, 25), (12, 13), (5, 25)] {
            assert!(!coverage.add(start, end), "{start} to {end}");
        }
        assert!(coverage.is(10, 20));
        let crumbs = (1..READ_FRAGMENTS_MAX as u64).all(|at| coverage.add(at * 100, at * 100 + 1));
        assert!(crumbs && !coverage.add(1 << 40, (1 << 40) + 1));
    }
}
