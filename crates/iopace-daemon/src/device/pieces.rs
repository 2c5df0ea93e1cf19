//! Long requests in pieces, so that a limit is charged bit by bit.

use iopace_core::request::Extent;
use iopace_core::units::Bytes;
use std::sync::{Arc, Mutex, PoisonError};

/// The longest request that goes to the device as one: that of a read or write. Longer ones
/// (zeroes, trims and prefetches of up to 4 GiB) would be charged to a limit in one go, and whoever
/// shares it would wait for minutes.
pub(crate) const PIECE_BYTES: u64 = iopace_nbd::MAX_REQUEST_LEN as u64;

/// Most pieces of one request, but for a rest: sixteen of the longest leave the connection the
/// places that it has for requests.
const PIECES_MAX: u64 = 32;

/// An extent cut at multiples of [`PIECE_BYTES`], of more than one if there were too many: what
/// zeroes at unaligned cuts would leave of a block could not be given back.
pub(crate) fn pieces(extent: Extent) -> Vec<Extent> {
    let (mut from, end) = (extent.offset().get(), extent.end().get());
    let step = PIECE_BYTES * extent.len().get().div_ceil(PIECE_BYTES * PIECES_MAX).max(1);
    let mut pieces = Vec::new();
    while from < end {
        let to = (from / step + 1).saturating_mul(step).min(end);
        pieces.push(Extent::new(Bytes(from), Bytes(to - from)).expect("within the extent"));
        from = to;
    }
    pieces
}

/// A request that is carried out in pieces and answered once, with the first error of any of them.
#[derive(Debug)]
pub(crate) struct Parts<E>(Mutex<(usize, Result<(), E>)>);

impl<E: Copy> Parts<E> {
    /// One of so many pieces.
    pub(crate) fn new(count: usize) -> Arc<Parts<E>> {
        Arc::new(Parts(Mutex::new((count, Ok(())))))
    }

    /// A piece is done. How the whole request ended, if that was the last one.
    pub(crate) fn done(&self, outcome: Result<(), E>) -> Option<Result<(), E>> {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (left, first) = &mut *state;
        *left -= 1;
        *first = first.and(outcome);
        (*left == 0).then_some(*first)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_cut_at_multiples_and_add_up() {
        let cut = |offset, len| -> Vec<(u64, u64)> {
            let extent = Extent::new(Bytes(offset), Bytes(len)).expect("small");
            let both = |piece: &Extent| (piece.offset().get(), piece.len().get());
            pieces(extent).iter().map(both).collect()
        };
        const P: u64 = PIECE_BYTES;
        assert_eq!(cut(0, 2 * P), [(0, P), (P, P)]);
        assert_eq!(cut(P - 512, P + 1024), [(P - 512, 512), (P, P), (2 * P, 512)]);
        assert_eq!(cut(u64::MAX - P, P).len(), 2);
        let longest = cut(4 * P, (4 << 30) - 512);
        assert_eq!((longest.len(), longest[0]), (32, (4 * P, 2 * P)));
    }
}
