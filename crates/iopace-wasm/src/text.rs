//! Texts that come from a module: nothing in them may move a cursor, forge a line or be long.

use core::fmt::Write;

/// The text with `?` for each control character, cut at so many characters.
pub(crate) fn printable(text: &str, chars_max: usize) -> String {
    let plain = text.chars().map(|char| if is_plain(char) { char } else { '?' });
    plain.take(chars_max).collect()
}

/// Whether it is neither a control character nor one that changes the direction of a line.
pub(crate) fn is_plain(char: char) -> bool {
    let turns = ['\u{200e}'..='\u{200f}', '\u{2028}'..='\u{202e}', '\u{2066}'..='\u{2069}'];
    !char.is_control() && !turns.iter().any(|of| of.contains(&char))
}

/// Bytes as text.
pub(crate) fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        _ = write!(text, "{byte:02x}");
        text
    })
}
