//! The query of a request, `group=/vms/web&file=io.max`: percent-encoded, each word once.

use crate::percent::decoded;

/// The values of these words, in their order; `None` for a word that is not there.
///
/// # Errors
/// A word that is not known, comes twice, or is not text.
pub(super) fn parse<const N: usize>(
    query: &str,
    words: [&str; N],
) -> Result<[Option<String>; N], String> {
    let mut values = [const { None }; N];
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (word, value) = pair.split_once('=').unwrap_or((pair, ""));
        let Some(place) = words.iter().position(|known| *known == word) else {
            return Err(format!("the query knows no '{word}'; it knows: {}", words.join(", ")));
        };
        let value = decoded(value).ok_or_else(|| format!("'{word}' in the query is not text"))?;
        if values[place].replace(value).is_some() {
            return Err(format!("'{word}' is there twice in the query"));
        }
    }
    Ok(values)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_found_and_decoded() {
        let words = ["group", "file"];
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(parse("", words), Ok([None, None]));
        let text = "file=io.max&group=/my%20vms/%C3%A4";
        assert_eq!(parse(text, words), Ok([some("/my vms/ä"), some("io.max")]));
        assert_eq!(parse("group=%2Fa&", words), Ok([some("/a"), None]));
        for wrong in ["grup=/", "group=%", "group=%2", "group=%+2", "group=%ff", "file=a&file=b"] {
            assert!(parse(wrong, words).is_err(), "{wrong}");
        }
    }
}
