//! Lines of a text of any length, in memory of bounded size.

use super::{InputPlace, Mistake};
use std::io::BufRead;

/// Longest line: a path of 4096 bytes and some numbers.
pub(super) const LINE_BYTES_MAX: usize = 8 * 1024;

/// The lines of a text, counted.
pub(super) struct TextLines<R> {
    reader: R,
    /// A line that does not lie in the reader's buffer as a whole.
    line: Vec<u8>,
    /// Bytes of the buffer that are the line read last, with its end.
    used: usize,
    number: u64,
}

impl<R: BufRead> TextLines<R> {
    pub(super) fn new(reader: R) -> TextLines<R> {
        TextLines { reader, line: Vec::new(), used: 0, number: 0 }
    }

    /// The number of the line read last, from 1.
    pub(super) fn number(&self) -> u64 {
        self.number
    }

    /// A mistake in the line read last.
    pub(super) fn mistake(&self, message: impl Into<String>) -> Mistake {
        (InputPlace::Line(self.number), message.into())
    }

    /// The next line without its end; `None` at the end of the text.
    pub(super) fn next(&mut self) -> Result<Option<&str>, Mistake> {
        self.reader.consume(std::mem::take(&mut self.used));
        self.line.clear();
        self.number += 1;
        loop {
            let (end, len) = {
                let buffer = self.fill()?;
                (find_end(buffer), buffer.len())
            };
            let piece = end.unwrap_or(len);
            if self.line.len() + piece > LINE_BYTES_MAX {
                let message = format!(
                    "a line of more than {LINE_BYTES_MAX} bytes: this is no trace in that format; \
                     name its format with --input-format"
                );
                return Err((InputPlace::Line(self.number), message));
            }
            match end {
                // Most lines lie in the buffer, and are not copied: it is the same buffer again.
                Some(end) if self.line.is_empty() => {
                    self.used = end + 1;
                    let number = self.number;
                    return text(&self.fill()?[..end], number).map(Some);
                }
                _ if len == 0 => break,
                _ => {}
            }
            let buffer = self.reader.fill_buf().unwrap_or_default();
            self.line.extend_from_slice(&buffer[..piece]);
            self.reader.consume(piece + usize::from(end.is_some()));
            if end.is_some() {
                break;
            }
        }
        // An empty line was returned above: here it is the end of the text.
        if self.line.is_empty() { Ok(None) } else { text(&self.line, self.number).map(Some) }
    }

    /// The bytes that the reader has at hand.
    fn fill(&mut self) -> Result<&[u8], Mistake> {
        let number = self.number;
        loop {
            match self.reader.fill_buf() {
                Ok(_) => break,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => {
                    return Err((InputPlace::Line(number), format!("cannot be read: {error}")));
                }
            }
        }
        // It is not read anew as long as something is in it; at the end of the text it is empty.
        self.reader
            .fill_buf()
            .map_err(|error| (InputPlace::Line(number), format!("cannot be read: {error}")))
    }
}

/// The place of the first line end: eight bytes at a time.
fn find_end(buffer: &[u8]) -> Option<usize> {
    const ONES: u64 = u64::from_le_bytes([1; 8]);
    let ends = ONES * u64::from(b'\n');
    let mut words = buffer.chunks_exact(8);
    for (place, word) in words.by_ref().enumerate() {
        // A byte that is zero is the only one to borrow from the bit above it (Mycroft, 1987).
        let zeros = u64::from_le_bytes(word.try_into().expect("eight bytes")) ^ ends;
        let found = zeros.wrapping_sub(ONES) & !zeros & (ONES << 7);
        if found != 0 {
            return Some(8 * place + found.trailing_zeros() as usize / 8);
        }
    }
    let rest = words.remainder();
    let place = rest.iter().position(|byte| *byte == b'\n')?;
    Some(buffer.len() - rest.len() + place)
}

fn text(line: &[u8], number: u64) -> Result<&str, Mistake> {
    match std::str::from_utf8(line) {
        Ok(text) => Ok(text.trim_end_matches('\r')),
        Err(_) => Err((
            InputPlace::Line(number),
            "not text (UTF-8): is the file whole, and of that format?".into(),
        )),
    }
}

/// A number without sign, or what is wrong with it.
pub(super) fn number(text: &str, what: &str) -> Result<u64, String> {
    text.parse().map_err(|_| {
        let text: String = text.chars().take(40).collect();
        format!("the {what} '{text}' is no whole number below 2^64")
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::BufReader;

    #[test]
    fn lines_end_as_they_do_in_files() {
        // With a buffer that a line does not fit into, one that ends with it, and a larger one.
        for capacity in [1, 2, 3, 4, 5, 6, 64] {
            let text = &b"one\r\n\ntwo three"[..];
            let mut lines = TextLines::new(BufReader::with_capacity(capacity, text));
            assert_eq!(lines.next(), Ok(Some("one")), "{capacity}");
            assert_eq!(lines.next(), Ok(Some("")), "{capacity}");
            assert_eq!(lines.next(), Ok(Some("two three")), "{capacity}");
            assert_eq!(lines.number(), 3);
            assert_eq!(lines.next(), Ok(None), "{capacity}");
        }
    }

    #[test]
    fn the_first_end_is_found_wherever_it_is() {
        for len in 0..40 {
            let mut bytes: Vec<u8> = (0..len).map(|n| [0x0b, 0x8a, 0, 0xff][n % 4]).collect();
            assert_eq!(find_end(&bytes), None);
            for place in (0..len).rev() {
                bytes[place] = b'\n';
                assert_eq!(find_end(&bytes), Some(place), "{len}");
            }
        }
    }

    #[test]
    fn an_endless_line_is_refused_early() {
        let endless = std::io::Read::take(std::io::repeat(b'a'), 1 << 40);
        let mut lines = TextLines::new(BufReader::new(endless));
        let (place, message) = lines.next().expect_err("too long");
        assert_eq!(place, InputPlace::Line(1));
        assert!(message.contains("8192"), "{message}");
        assert!(lines.line.capacity() <= 4 * LINE_BYTES_MAX);
    }
}
