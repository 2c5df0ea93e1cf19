//! Text of others on a terminal or in a log: no character of it commands anything.
//!
//! Programs, files, cgroups and clients have names that their users choose. A control character in
//! one would move the cursor, set the title, or hide what follows; a right-to-left override would
//! show it in another order; a line separator would forge a line. They are shown as `\x1b` or
//! `\u{202e}` instead. JSON keeps them, escaped.

use std::borrow::Cow;
use std::fmt::Write as _;

/// Text of one line, as a name.
pub fn name(text: &str) -> Cow<'_, str> {
    replaced(text, is_commanding)
}

/// Text of several lines with tabs in them.
pub fn lines(text: &str) -> Cow<'_, str> {
    replaced(text, |c| is_commanding(c) && !matches!(c, '\n' | '\t'))
}

/// A word as a shell takes it.
pub fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_.+/=,:".contains(c);
    if word.chars().all(plain) && !word.starts_with('-') {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// JSON: what a serializer leaves as it is stands within strings, and is escaped there.
pub fn json(text: String) -> String {
    let is_raw = |c: char| is_commanding(c) && !matches!(c, '\n' | '\r' | '\t');
    if !text.contains(is_raw) {
        return text;
    }
    let mut escaped = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        match is_raw(c) {
            // None of them is above U+FFFF.
            true => drop(write!(escaped, "\\u{:04x}", u32::from(c))),
            false => escaped.push(c),
        }
    }
    escaped
}

/// Whether a terminal or a reader of lines does something else with it than to show it: control
/// characters (C0, DEL, C1), what changes the direction of text, and separators of lines.
pub fn is_commanding(c: char) -> bool {
    let is_direction = matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}')
        || matches!(c, '\u{2066}'..='\u{2069}');
    c.is_control() || is_direction || matches!(c, '\u{2028}' | '\u{2029}')
}

/// Shows a character as `\x1b` or `\u{202e}`.
pub fn show(c: char, to: &mut String) {
    let _ = match u32::from(c) {
        code @ 0..=0xff => write!(to, "\\x{code:02x}"),
        code => write!(to, "\\u{{{code:x}}}"),
    };
}

fn replaced(text: &str, is_bad: impl Fn(char) -> bool) -> Cow<'_, str> {
    if !text.contains(&is_bad) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        match is_bad(c) {
            true => show(c, &mut shown),
            false => shown.push(c),
        }
    }
    Cow::Owned(shown)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_commands_a_terminal_is_shown() {
        assert_eq!(name("\x1b[2J\x1b]0;pwn\x07\n"), r"\x1b[2J\x1b]0;pwn\x07\x0a");
        assert_eq!(name("\u{9b}2J\u{7f}"), r"\x9b2J\x7f");
        assert_eq!(name("a\u{202e}b\u{2028}c\u{2066}"), r"a\u{202e}b\u{2028}c\u{2066}");
        assert_eq!(lines("a\tb\nc\rd\x0b"), "a\tb\nc\\x0dd\\x0b");
        assert!(matches!(name("kworker/0:1 Jürgen \u{1f600}"), Cow::Borrowed(_)));
    }

    proptest! {
        #[test]
        fn nothing_is_left(text in "\\PC{0,9}|[\u{0}-\u{ff}\u{2020}-\u{2070}]{0,9}") {
            prop_assert!(!name(&text).chars().any(is_commanding));
            let shown = lines(&text);
            prop_assert!(!shown.chars().any(|c| is_commanding(c) && c != '\n' && c != '\t'));
        }

        #[test]
        fn json_says_the_same(text in "[\u{0}-\u{ff}\u{2020}-\u{2070}\"\\\\]{0,9}") {
            let written = json(serde_json::to_string_pretty(&[&text]).expect("text"));
            prop_assert!(!written.chars().any(|c| is_commanding(c) && c != '\n'));
            let read: Vec<String> = serde_json::from_str(&written).expect("JSON");
            prop_assert_eq!(&read[0], &text);
        }
    }
}
