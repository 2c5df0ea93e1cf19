//! One line of a file: for whom it is.

use super::FileProblem;
use super::value::Value;
use crate::own::Table;
use crate::tree::error::{Nearby, quoted};

/// What is wrong with a line.
type Bad = (FileProblem, String);

/// The word for devices without a line of their own.
const DEFAULT: &str = "default";

/// Applies one line and says for whom it was: a device, or the default (`Some(None)`). A line
/// without words does nothing. `before` says what holds for a device: keys that the line does not
/// name keep that value.
pub(super) fn apply<'a, T: Value>(
    table: &mut Table<T>,
    line: &'a str,
    devices: &[&str],
    before: impl Fn(&Table<T>, Option<&str>) -> T,
) -> Result<Option<Option<&'a str>>, Bad> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let Some(&first) = words.first() else {
        return Ok(None);
    };
    let is_device = devices.contains(&first) || table.has_line(first);
    let is_bare = T::IS_PLAIN
        && match (is_device, words.len()) {
            (true, 1) => table.effective(None).parse(&words).is_ok(),
            (true, _) => false,
            (false, 1) => true,
            (false, _) => is_value(first),
        };
    let (target, value) = if first == DEFAULT {
        (None, &words[1..])
    } else if is_bare {
        (None, &words[..])
    } else if is_device {
        (Some(first), &words[1..])
    } else {
        return Err(no_device(first, devices));
    };
    if target.is_none() && !T::HAS_DEFAULT {
        let text = format!("{} has no default: name a device", T::FILE);
        return Err((FileProblem::Malformed, text));
    }
    let old = before(table, target);
    let value = match value {
        [] => return Err((FileProblem::Malformed, format!("no value after {}", quoted(first)))),
        [DEFAULT] => None,
        words => Some(old.parse(words).map_err(|text| (FileProblem::Malformed, text))?),
    };
    table.set(target, value);
    Ok(Some(target))
}

/// Whether a word at the place of a device must be a value.
fn is_value(word: &str) -> bool {
    word == "max" || word.contains('=') || word.bytes().all(|byte| byte.is_ascii_digit())
}

/// The word at the place of a device is none.
fn no_device(word: &str, devices: &[&str]) -> Bad {
    if word.contains('=') {
        let text = format!("a device or '{DEFAULT}' is missing before {}", quoted(word));
        return (FileProblem::Malformed, text);
    }
    let hint = if word
        .split_once(':')
        .is_some_and(|(major, minor)| major.parse::<u32>().is_ok() && minor.parse::<u32>().is_ok())
    {
        " (no device is on that disk of the kernel, or only its name is known here)"
    } else {
        ""
    };
    let nearby = Nearby::new(devices.iter().copied());
    (FileProblem::UnknownDevice, format!("no device {}{hint}; devices: {nearby}", quoted(word)))
}
