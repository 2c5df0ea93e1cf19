//! Replies on their way to one client, in order: small ones gathered, large data where it lies.

use crate::buffer::Buffer;
use crate::held::IN_PLACE_BYTES;
use std::collections::VecDeque;
use std::io::IoSlice;

/// Pieces given to one system call: eight replies of a header and data each.
pub(super) const PIECES_MAX: usize = 16;

/// Room kept for small replies when all are sent.
const KEPT_BYTES: usize = 32 * 1024;

#[derive(Debug)]
enum Piece {
    Gathered(Vec<u8>),
    Data(Buffer),
}

impl Piece {
    fn as_slice(&self) -> &[u8] {
        match self {
            Piece::Gathered(bytes) => bytes,
            Piece::Data(buffer) => buffer.as_slice(),
        }
    }
}

/// What is to be sent.
#[derive(Debug, Default)]
pub(super) struct Outbox {
    pieces: VecDeque<Piece>,
    /// Bytes of the first piece that are sent.
    sent: usize,
    /// Bytes not sent yet.
    len: usize,
    /// An empty piece for the next small replies, so that its memory is kept.
    spare: Vec<u8>,
}

impl Outbox {
    /// Bytes not sent yet.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Whether all is sent.
    pub(super) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Lets `write` add bytes.
    pub(super) fn gather<T>(&mut self, write: impl FnOnce(&mut Vec<u8>) -> T) -> T {
        // A piece that grew on would have to be shrunk again: that takes system calls.
        let has_room =
            |piece: &Piece| matches!(piece, Piece::Gathered(own) if own.len() < KEPT_BYTES);
        if !self.pieces.back().is_some_and(has_room) {
            self.pieces.push_back(Piece::Gathered(std::mem::take(&mut self.spare)));
        }
        let Some(Piece::Gathered(bytes)) = self.pieces.back_mut() else {
            unreachable!("just put there")
        };
        let before = bytes.len();
        let result = write(bytes);
        self.len += bytes.len() - before;
        result
    }

    /// Adds data: large buffers as they are.
    pub(super) fn push(&mut self, data: Buffer) {
        if data.len() < IN_PLACE_BYTES {
            return self.gather(|bytes| bytes.extend_from_slice(data.as_slice()));
        }
        self.len += data.len();
        self.pieces.push_back(Piece::Data(data));
    }

    /// The next bytes to send, for one system call.
    pub(super) fn slices<'a>(&'a self, into: &mut [IoSlice<'a>; PIECES_MAX]) -> usize {
        let mut count = 0;
        for (place, piece) in into.iter_mut().zip(&self.pieces) {
            let begin = if count == 0 { self.sent } else { 0 };
            *place = IoSlice::new(&piece.as_slice()[begin..]);
            count += 1;
        }
        count
    }

    /// So many bytes are sent.
    pub(super) fn advance(&mut self, mut count: usize) {
        self.len -= count;
        while count > 0 {
            let piece = self.pieces.front().expect("no more is sent than was there");
            let left = piece.as_slice().len() - self.sent;
            if count < left {
                self.sent += count;
                return;
            }
            count -= left;
            self.drop_front();
        }
    }

    /// Adds what is to be sent after this.
    pub(super) fn append(&mut self, mut after: Outbox) {
        self.len += after.len;
        self.pieces.append(&mut after.pieces);
    }

    /// Throws away what is left.
    pub(super) fn clear(&mut self) {
        while !self.pieces.is_empty() {
            self.drop_front();
        }
        self.len = 0;
    }

    fn drop_front(&mut self) {
        self.sent = 0;
        if let Some(Piece::Gathered(mut bytes)) = self.pieces.pop_front() {
            bytes.clear();
            bytes.shrink_to(KEPT_BYTES);
            self.spare = bytes;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Whatever the sizes and however the socket takes them: the same bytes in the same order.
        #[test]
        fn bytes_come_out_as_they_went_in(
            sizes in prop::collection::vec((0usize..70_000, any::<bool>()), 1..24),
            takes in prop::collection::vec(1usize..90_000, 1..400),
        ) {
            let (mut outbox, mut expected, mut sent) = (Outbox::default(), Vec::new(), Vec::new());
            let (mut takes, mut sizes) = (takes.iter().cycle(), sizes.iter());
            let mut number = 0u8;
            loop {
                let next = sizes.next();
                if let Some(&(size, as_data)) = next {
                    number = number.wrapping_add(1);
                    expected.extend(std::iter::repeat_n(number, size));
                    if as_data {
                        let mut buffer = Buffer::new(size);
                        buffer.as_mut_slice().fill(number);
                        outbox.push(buffer);
                    } else {
                        outbox.gather(|bytes| bytes.extend(std::iter::repeat_n(number, size)));
                    }
                }
                let mut slices = [IoSlice::new(&[]); PIECES_MAX];
                let count = outbox.slices(&mut slices);
                let all: Vec<u8> =
                    slices[..count].iter().flat_map(|slice| slice.iter().copied()).collect();
                let take = (*takes.next().expect("a cycle")).min(all.len());
                sent.extend_from_slice(&all[..take]);
                outbox.advance(take);
                prop_assert_eq!(outbox.len(), expected.len() - sent.len());
                if next.is_none() && outbox.is_empty() {
                    break;
                }
            }
            prop_assert!(sent == expected);
        }
    }
}
