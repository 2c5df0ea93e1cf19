//! Lines of a text of any length, in memory of bounded size.

use super::{Mistake, Place};
use std::io::BufRead;

/// Longest line: a path of 4096 bytes and some numbers.
pub(super) const LINE_BYTES_MAX: usize = 8 * 1024;

/// The lines of a text, counted.
pub(super) struct Lines<R> {
    reader: R,
    line: Vec<u8>,
    number: u64,
}

impl<R: BufRead> Lines<R> {
    pub(super) fn new(reader: R) -> Lines<R> {
        Lines { reader, line: Vec::new(), number: 0 }
    }

    /// The number of the line read last, from 1.
    pub(super) fn number(&self) -> u64 {
        self.number
    }

    /// A mistake in the line read last.
    pub(super) fn mistake(&self, message: impl Into<String>) -> Mistake {
        (Place::Line(self.number), message.into())
    }

    /// The next line without its end; `None` at the end of the text.
    pub(super) fn next(&mut self) -> Result<Option<&str>, Mistake> {
        self.line.clear();
        self.number += 1;
        let failed = |error| (Place::Line(self.number), format!("cannot be read: {error}"));
        loop {
            let buffer = match self.reader.fill_buf() {
                Ok(buffer) => buffer,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(failed(error)),
            };
            if buffer.is_empty() {
                break;
            }
            let end = buffer.iter().position(|byte| *byte == b'\n');
            let piece = &buffer[..end.unwrap_or(buffer.len())];
            let used = piece.len() + usize::from(end.is_some());
            if self.line.len() + piece.len() > LINE_BYTES_MAX {
                let message = format!(
                    "a line of more than {LINE_BYTES_MAX} bytes: this is no trace in that format; \
                     name its format with --input-format"
                );
                return Err((Place::Line(self.number), message));
            }
            self.line.extend_from_slice(piece);
            self.reader.consume(used);
            if end.is_some() {
                return self.text().map(Some);
            }
        }
        if self.line.is_empty() { Ok(None) } else { self.text().map(Some) }
    }

    fn text(&self) -> Result<&str, Mistake> {
        match std::str::from_utf8(&self.line) {
            Ok(text) => Ok(text.trim_end_matches('\r')),
            Err(_) => Err((
                Place::Line(self.number),
                "not text (UTF-8): is the file whole, and of that format?".into(),
            )),
        }
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
        let mut lines = Lines::new(BufReader::with_capacity(3, &b"one\r\n\ntwo three"[..]));
        assert_eq!(lines.next(), Ok(Some("one")));
        assert_eq!(lines.next(), Ok(Some("")));
        assert_eq!(lines.next(), Ok(Some("two three")));
        assert_eq!(lines.number(), 3);
        assert_eq!(lines.next(), Ok(None));
    }

    #[test]
    fn an_endless_line_is_refused_early() {
        let endless = std::io::Read::take(std::io::repeat(b'a'), 1 << 40);
        let mut lines = Lines::new(BufReader::new(endless));
        let (place, message) = lines.next().expect_err("too long");
        assert_eq!(place, Place::Line(1));
        assert!(message.contains("8192"), "{message}");
        assert!(lines.line.capacity() <= 4 * LINE_BYTES_MAX);
    }
}
