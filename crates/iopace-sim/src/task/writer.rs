//! Small buffered writes: a log that grows, or one block that is rewritten over and over.
//!
//! # Model
//! - *append*: every write begins where the one before it ended, with sizes far below a page, down
//!   to one byte. The same page is dirtied many times before it is written back.
//! - *rewrite*: every write goes to the same place. Almost nothing has to be written back for it,
//!   however much the program writes.
//!
//! Both measure how dirty memory is counted: by page, once, or by write.

use super::{Action, Walk, Workload, write_gap};
use iopace_core::request::{Extent, Op};
use iopace_core::units::Bytes;

/// Size of a write: below a page, and what the source of the test with double counting used.
pub const BLOCK: Bytes = Bytes::from_kib(1);

/// A program that writes small pieces through the page cache.
#[derive(Debug)]
pub struct Writer(Walk);

impl Writer {
    /// Fills `region` piece by piece, then begins again.
    pub fn append(region: Extent, block: Bytes) -> Writer {
        Writer(Walk::new(region, block))
    }

    /// Writes the beginning of `region` again and again.
    pub fn rewrite(region: Extent, block: Bytes) -> Writer {
        let first = Extent::new(region.offset(), block).filter(|first| first.end() <= region.end());
        Writer(Walk::new(first.expect("a region of one block"), block))
    }
}

impl Workload for Writer {
    fn next(&mut self) -> Action {
        let extent = self.0.next();
        Action {
            think: write_gap(extent.len()),
            op: Op::Write,
            extent,
            fua: false,
            buffered: true,
            payload: true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::region;
    use super::*;

    #[test]
    fn an_append_leaves_no_gap_and_begins_again_at_the_end() {
        let mut writer = Writer::append(region(8_192, 10_000), Bytes(1));
        let offsets: Vec<u64> = (0..10_001).map(|_| writer.next().extent.offset().0).collect();
        assert!(offsets[..10_000].windows(2).all(|two| two[1] == two[0] + 1));
        assert_eq!((offsets[0], offsets[10_000]), (8_192, 8_192));
    }

    #[test]
    fn a_rewrite_stays_where_it_is() {
        let mut writer = Writer::rewrite(region(8_192, 1 << 20), BLOCK);
        assert!((0..100).all(|_| writer.next().extent == region(8_192, 1_024)));
        let action = writer.next();
        assert!(action.buffered && action.op == Op::Write && action.think.0 > 0);
    }
}
