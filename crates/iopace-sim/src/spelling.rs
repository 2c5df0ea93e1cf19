//! The word that was probably meant, for messages about a word that is not known.

/// Edits that are taken for a slip in a short word; in a longer one, a third of its letters.
const EDITS_MIN: usize = 2;

/// The one of `known` that `asked` was probably meant to be: by the fewest letters to insert,
/// delete, replace or exchange with their neighbour. `None` if all differ by more than a slip.
pub fn nearest<'a>(asked: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let most = (asked.chars().count() / 3).max(EDITS_MIN);
    let distances = known.into_iter().map(|name| (strsim::osa_distance(asked, name), name));
    // A name that shares no letter with it is no slip, however short both are.
    let likely = distances.filter(|(distance, name)| {
        *distance <= most && *distance < asked.chars().count().max(name.chars().count())
    });
    likely.min().map(|(_, name)| name)
}

/// `no disk 'sd'; there are: hdd, ssd; did you mean 'ssd'?`
pub fn unknown(what: &str, asked: &str, known: &[&str]) -> String {
    let list = known.join(", ");
    let meant = nearest(asked, known.iter().copied());
    let meant = meant.map_or(String::new(), |meant| format!("; did you mean '{meant}'?"));
    format!("no {what} '{asked}'; there are: {list}{meant}")
}

/// A message of the TOML reader about a key or word that is not known, with the one that was
/// probably meant in place of all that there are. Any other message stays as it is.
pub fn explain(message: &str) -> String {
    let beginnings = ["unknown field `", "unknown variant `"];
    let Some(rest) = beginnings.iter().find_map(|beginning| message.strip_prefix(beginning)) else {
        return message.to_owned();
    };
    // As serde writes it: unknown field `x`, expected one of `a`, `b`
    let mut words = rest.split('`').step_by(2);
    let asked = words.next().unwrap_or_default();
    let known: Vec<&str> = words.filter(|word| !word.is_empty()).collect();
    match nearest(asked, known.iter().copied()) {
        Some(meant) => format!("there is no `{asked}`: did you mean `{meant}`?"),
        None => format!("there is no `{asked}`; there are: {}", known.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_of_the_pen_is_recognised() {
        let known = ["read-only", "direct", "sched"];
        assert_eq!(nearest("read_only", known), Some("read-only"));
        assert_eq!(nearest("shced", known), Some("sched"));
        assert_eq!(nearest("completely else", known), None);
        assert_eq!(nearest("ab", ["cd", "xy"]), None);
        let message = "no word 'shced'; there are: direct, sched; did you mean 'sched'?";
        assert_eq!(unknown("word", "shced", &known[1..]), message);
        assert_eq!(unknown("word", "other", &known[2..]), "no word 'other'; there are: sched");
    }

    #[test]
    fn a_key_that_is_not_known_is_answered_with_the_one_that_was_meant() {
        let message = "unknown field `thnk`, expected one of `think`, `depth`";
        assert_eq!(explain(message), "there is no `thnk`: did you mean `think`?");
        let message = "unknown field `colour`, expected `think` or `depth`";
        assert_eq!(explain(message), "there is no `colour`; there are: think, depth");
        assert_eq!(explain("invalid type: string"), "invalid type: string");
    }
}
