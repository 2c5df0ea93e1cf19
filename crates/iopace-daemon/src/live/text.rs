//! JSON that takes milliseconds to make: others on the same processor go on meanwhile.

use serde::Serialize;
use std::io;
use std::thread;

/// Bytes after which they do: some 50 µs.
const PORTION_BYTES: usize = 16 * 1024;

struct GivingWay {
    text: Vec<u8>,
    /// When they do next.
    next: usize,
}

impl io::Write for GivingWay {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        self.text.extend_from_slice(data);
        if self.text.len() >= self.next {
            self.next = self.text.len() + PORTION_BYTES;
            thread::yield_now();
        }
        Ok(data.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The value as JSON, on one line, in the memory that `room` has, which grows if it has to. The
/// value has nothing that JSON cannot say.
pub(crate) fn json(value: &impl Serialize, room: Vec<u8>) -> Vec<u8> {
    let mut to = GivingWay { text: room, next: PORTION_BYTES };
    to.text.clear();
    serde_json::to_writer(&mut to, value).expect("strings, numbers and lists");
    to.text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_what_serde_says() {
        let value: Vec<String> = (0..10_000).map(|number| format!("group {number}")).collect();
        let room = Vec::with_capacity(1 << 20);
        let place = room.as_ptr();
        let text = json(&value, room);
        assert_eq!(text, serde_json::to_vec(&value).expect("text"));
        assert_eq!(text.as_ptr(), place, "in the memory that was there");
        assert_eq!(json(&value, Vec::new()), text);
    }
}
