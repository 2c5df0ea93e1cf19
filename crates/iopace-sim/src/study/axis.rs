//! The values of a key to sweep over, as they are written: `disk.depth=1..64*2`.

/// Most values of one key.
const VALUES_MAX: usize = 1_000;

/// A key and its values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Axis {
    /// The key, as `disk.depth`.
    pub path: String,
    /// Its values, as written in a scenario, without quotes.
    pub values: Vec<String>,
}

impl Axis {
    /// Reads a key with its values: a list (`1,2,4`), a range of all whole numbers (`1..8`), one in
    /// steps (`0..100+25`), one that multiplies (`1ms..100ms*2`), or a mixture.
    ///
    /// # Errors
    /// What is wrong and what would be right.
    pub fn parse(text: &str) -> Result<Axis, String> {
        let split = text.split_once('=').map(|(path, values)| (path.trim(), values.trim()));
        let Some((path, values)) =
            split.filter(|(path, values)| !path.is_empty() && !values.is_empty())
        else {
            return Err(format!(
                "'{text}' is no sweep: write a key of the scenario, '=' and its values, as \
                 disk.depth=1..64*2, disk.window=fixed,latency or task.dd.block=4KiB..1MiB*4"
            ));
        };
        let mut axis = Axis { path: path.into(), values: Vec::new() };
        for part in values.split(',').map(str::trim) {
            match part.split_once("..") {
                Some((first, rest)) => {
                    let values = range(first, rest);
                    axis.values.extend(values.map_err(|error| format!("{path}={part}: {error}"))?);
                }
                None => axis.values.push(part.into()),
            }
        }
        if axis.values.len() > VALUES_MAX {
            let count = axis.values.len();
            return Err(format!("{text} has {count} values, at most {VALUES_MAX} are run"));
        }
        let mut seen = std::collections::BTreeSet::new();
        axis.values.retain(|value| seen.insert(value.clone()));
        Ok(axis)
    }
}

/// A whole number and its unit.
fn number(text: &str) -> Option<(u64, &str)> {
    let split = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    Some((text[..split].parse().ok()?, &text[split..]))
}

fn range(first: &str, rest: &str) -> Result<Vec<String>, String> {
    let (last, step) = match rest.find(['*', '+']) {
        Some(at) => (&rest[..at], Some((rest.as_bytes()[at], &rest[at + 1..]))),
        None => (rest, None),
    };
    let wrong = "a range goes from one whole number to a larger one of the same unit, as 1..8, \
                 1ms..100ms*2 (doubling) or 0..100+25 (in steps)";
    let (Some((first, unit)), Some((last, last_unit))) = (number(first), number(last)) else {
        return Err(wrong.into());
    };
    if unit != last_unit || first > last {
        return Err(wrong.into());
    }
    let (is_factor, amount) = match step {
        None => (false, 1),
        Some((sign, amount)) => (sign == b'*', amount.parse::<u64>().map_err(|_| wrong)?),
    };
    if amount == 0 || (is_factor && (amount == 1 || first == 0)) {
        return Err("the range never ends: begin above 0, multiply by 2 or more".into());
    }
    let next = |value: &u64| match is_factor {
        true => value.checked_mul(amount),
        false => value.checked_add(amount),
    };
    let values = std::iter::successors(Some(first), next).take_while(|value| *value <= last);
    Ok(values.take(VALUES_MAX + 1).map(|value| format!("{value}{unit}")).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(text: &str) -> Vec<String> {
        Axis::parse(text).expect("sound").values
    }

    #[test]
    fn values_are_read_as_they_are_written() {
        assert_eq!(values("a=1,2, 4"), ["1", "2", "4"]);
        assert_eq!(values("a=1..4"), ["1", "2", "3", "4"]);
        assert_eq!(values("a=1..100*4"), ["1", "4", "16", "64"]);
        assert_eq!(values("a=0..100+50,7"), ["0", "50", "100", "7"]);
        assert_eq!(values("a=1ms..5ms*2"), ["1ms", "2ms", "4ms"]);
        assert_eq!(values("a=fixed,latency,fixed"), ["fixed", "latency"]);
        assert_eq!(Axis::parse("group./a.io.weight=1").expect("sound").path, "group./a.io.weight");
    }

    #[test]
    fn what_is_no_sweep_is_refused() {
        let wrong = ["a", "a=", "=1", "a=1..", "a=4..1", "a=1ms..5s", "a=1..5*1", "a=0..5*2"];
        for text in wrong.into_iter().chain(["a=1..5*x", "a=1..100000000", "a=x..y"]) {
            assert!(Axis::parse(text).is_err(), "{text}");
        }
    }
}
