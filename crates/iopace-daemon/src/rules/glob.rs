//! Patterns in which `*` stands for any characters, also none.

/// Whether a text is as the pattern says. Takes at most the product of both lengths.
pub(super) fn matches(pattern: &str, text: &str) -> bool {
    let (pattern, text) = (pattern.as_bytes(), text.as_bytes());
    let (mut at, mut read) = (0, 0);
    // Where to go on if the rest does not match: behind the last star, one further in the text.
    let mut again = None;
    while read < text.len() {
        if pattern.get(at) == Some(&b'*') {
            at += 1;
            again = Some((at, read));
        } else if pattern.get(at) == Some(&text[read]) {
            (at, read) = (at + 1, read + 1);
        } else if let Some((star, from)) = again {
            (at, read) = (star, from + 1);
            again = Some((star, from + 1));
        } else {
            return false;
        }
    }
    pattern[at..].iter().all(|byte| *byte == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn stars_stand_for_anything() {
        for (pattern, text) in
            [("rsync", "rsync"), ("*", ""), ("*", "a"), ("r*c", "rsync"), ("a**b", "ab"), ("", "")]
        {
            assert!(matches(pattern, text), "{pattern} {text}");
        }
        for (pattern, text) in
            [("rsync", "rsyncd"), ("", "a"), ("a*b", "abc"), ("*a*a*", "a"), ("?", "a")]
        {
            assert!(!matches(pattern, text), "{pattern} {text}");
        }
    }

    /// The definition.
    fn slowly(pattern: &[u8], text: &[u8]) -> bool {
        match pattern.split_first() {
            None => text.is_empty(),
            Some((b'*', rest)) => (0..=text.len()).any(|from| slowly(rest, &text[from..])),
            Some((byte, rest)) => text.first() == Some(byte) && slowly(rest, &text[1..]),
        }
    }

    proptest! {
        #[test]
        fn as_defined(pattern in "[ab*]{0,8}", text in "[ab]{0,12}") {
            prop_assert_eq!(
                matches(&pattern, &text),
                slowly(pattern.as_bytes(), text.as_bytes()),
            );
        }
    }
}
