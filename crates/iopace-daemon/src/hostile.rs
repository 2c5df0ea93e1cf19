//! What a hostile system tells, piece by piece. For tests and for fuzzing.

/// An input that is read from its beginning; behind its end there are zeroes.
pub(crate) struct Bytes<'a>(pub(crate) &'a [u8]);

impl<'a> Bytes<'a> {
    /// The next byte, if there is one.
    pub(crate) fn next(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    /// The next byte.
    pub(crate) fn byte(&mut self) -> u8 {
        self.next().unwrap_or(0)
    }

    /// A number of so many bytes as the first one says, with all bits behind them set or clear.
    pub(crate) fn number(&mut self) -> u64 {
        let kind = self.byte();
        let start = if kind & 8 == 0 { 0 } else { u64::MAX };
        (0..kind & 7).fold(start, |number, _| number << 8 | u64::from(self.byte()))
    }

    /// All that is left.
    pub(crate) fn rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.0)
    }
}
