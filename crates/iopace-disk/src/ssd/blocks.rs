//! Which blocks of a stick are open for writing.

use iopace_core::units::Bytes;
use std::collections::VecDeque;

/// The open blocks, the one written longest ago first.
#[derive(Debug)]
pub(super) struct OpenBlocks {
    /// Size of a block; zero: there are none.
    block: u64,
    /// Most of them.
    most: usize,
    open: VecDeque<u64>,
}

impl OpenBlocks {
    /// None is open.
    pub(super) fn new(block: Bytes, most: usize) -> OpenBlocks {
        OpenBlocks { block: block.get(), most: most.max(1), open: VecDeque::new() }
    }

    /// Writes `bytes` at `offset`, and says how many blocks had to be closed for it.
    pub(super) fn write(&mut self, offset: u64, bytes: u64) -> u64 {
        if self.block == 0 || bytes == 0 {
            return 0;
        }
        let (first, last) = (offset / self.block, (offset + bytes - 1) / self.block);
        (first..=last).map(|block| u64::from(self.use_block(block))).sum()
    }

    /// Makes a block the one written last; true if another had to be closed.
    fn use_block(&mut self, block: u64) -> bool {
        let place = self.open.iter().position(|&open| open == block);
        if let Some(place) = place {
            self.open.remove(place);
        }
        let closes = place.is_none() && self.open.len() == self.most;
        if closes {
            self.open.pop_front();
        }
        self.open.push_back(block);
        closes
    }
}
