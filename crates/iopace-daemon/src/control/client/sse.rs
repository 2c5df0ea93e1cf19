//! Server-Sent Events taken apart, as the HTML standard has them (section 9.2), without carriage
//! returns: the daemon sends none.

use std::collections::VecDeque;

/// A message.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Message {
    /// Its kind, `live` or `event`.
    pub event: String,
    /// Where to go on after a break; empty if none was ever said.
    pub id: String,
    /// What it says.
    pub data: Vec<u8>,
}

/// A stream as it comes in, in pieces that end anywhere.
#[derive(Debug)]
pub(super) struct Parser {
    most_bytes: usize,
    line: Vec<u8>,
    message: Message,
    has_data: bool,
    ready: VecDeque<Message>,
}

impl Parser {
    /// A stream with messages of so many bytes at most.
    pub(super) fn new(most_bytes: usize) -> Parser {
        let (line, message, ready) = (Vec::new(), Message::default(), VecDeque::new());
        Parser { most_bytes, line, message, has_data: false, ready }
    }

    /// The next whole message.
    pub(super) fn pop(&mut self) -> Option<Message> {
        self.ready.pop_front()
    }

    /// Takes the next piece.
    ///
    /// # Errors
    /// A message is longer than may be; the stream is of no use any more.
    pub(super) fn push(&mut self, piece: &[u8]) -> Result<(), String> {
        for part in piece.split_inclusive(|byte| *byte == b'\n') {
            let (text, is_whole) = match part.strip_suffix(b"\n") {
                Some(text) => (text, true),
                None => (part, false),
            };
            self.line.extend_from_slice(text);
            if self.line.len() + self.message.data.len() > self.most_bytes {
                return Err(format!("a message has more than {} bytes", self.most_bytes));
            }
            if is_whole {
                let line = std::mem::take(&mut self.line);
                self.take(&line);
            }
        }
        Ok(())
    }

    /// Takes a line.
    fn take(&mut self, line: &[u8]) {
        if line.is_empty() {
            let next = Message { id: self.message.id.clone(), ..Message::default() };
            let message = std::mem::replace(&mut self.message, next);
            // A block without data is none: the wait before a new try, for one.
            if std::mem::take(&mut self.has_data) {
                self.ready.push_back(message);
            }
            return;
        }
        let colon = line.iter().position(|byte| *byte == b':').unwrap_or(line.len());
        let (name, value) = (&line[..colon], line.get(colon + 1..).unwrap_or_default());
        let value = value.strip_prefix(b" ").unwrap_or(value);
        let text = || String::from_utf8_lossy(value).into_owned();
        match name {
            b"event" => self.message.event = text(),
            b"id" => self.message.id = text(),
            b"data" => {
                if std::mem::replace(&mut self.has_data, true) {
                    self.message.data.push(b'\n');
                }
                self.message.data.extend_from_slice(value);
            }
            // A comment keeps the connection alive; the rest is not for us.
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STREAM: &[u8] = b"retry: 1000\n\n:\n\nevent: live\nid: 7-1\ndata: {\"a\":1}\n\n\
        event: event\nid: 7-2\ndata: x\ndata:y\n\ndata\n\n";

    fn all(parser: &mut Parser) -> Vec<(String, String, String)> {
        let text = |data| String::from_utf8(data).expect("text");
        std::iter::from_fn(|| parser.pop()).map(|m| (m.event, m.id, text(m.data))).collect()
    }

    #[test]
    fn messages_come_out_whole_wherever_the_pieces_end() {
        let line = |event: &str, id: &str, data: &str| (event.into(), id.into(), data.into());
        // The id stays until there is another; the kind does not.
        let want =
            [line("live", "7-1", "{\"a\":1}"), line("event", "7-2", "x\ny"), line("", "7-2", "")];
        for length in 1..=STREAM.len() {
            let mut parser = Parser::new(100);
            for piece in STREAM.chunks(length) {
                parser.push(piece).expect("short");
            }
            assert_eq!(all(&mut parser), want, "pieces of {length}");
        }
    }

    #[test]
    fn what_is_cut_off_or_too_long_is_no_message() {
        let mut parser = Parser::new(20);
        parser.push(b"data: 12345\n").expect("short");
        assert_eq!(parser.pop(), None, "its end is missing");
        parser.push(b"data: 12345\ndata: ").expect("short");
        assert!(parser.push(b"123456").is_err_and(|error| error.contains("20 bytes")));
        assert!(Parser::new(20).push(&[b'x'; 21]).is_err(), "a line without an end");
    }
}
