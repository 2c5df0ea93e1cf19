//! Changes of a scenario file's text by key, before it is resolved.
//!
//! A key is a path of names with dots between them. Tasks go by their name or, as steps and checks,
//! by their place from 0: `task.dd.block`, `step.0.at`. Names with dots in them are found as they
//! stand: `group./vms/web.io.weight`.

use crate::spelling;
use toml::{Table, Value};

/// What the value at hand is, as far as new keys depend on it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ValuePlace {
    Plain,
    /// The table of all groups.
    Groups,
    /// The files of one group, which are all text.
    Group,
}

/// Sets a key to a value. The value takes the type that stands there; where nothing stands, a
/// number is a number and anything else is text.
///
/// # Errors
/// There is no such place.
pub(super) fn set(document: &mut Table, path: &str, value: &str) -> Result<(), String> {
    let parts: Vec<&str> = path.split('.').map(|part| part.trim_matches('"')).collect();
    if parts.iter().any(|part| part.is_empty()) {
        return Err(format!("'{path}' is no key: names with dots between them, as disk.depth"));
    }
    set_in_table(document, &parts, value, ValuePlace::Plain)
}

fn set_in_table(
    table: &mut Table,
    parts: &[&str],
    value: &str,
    place: ValuePlace,
) -> Result<(), String> {
    for count in (1..=parts.len()).rev() {
        let key = parts[..count].join(".");
        let Some(found) = table.get_mut(&key) else { continue };
        let rest = &parts[count..];
        let below = match (place, key.as_str()) {
            (ValuePlace::Plain, "group") => ValuePlace::Groups,
            (ValuePlace::Groups, _) => ValuePlace::Group,
            _ => ValuePlace::Plain,
        };
        match found {
            Value::Table(inner) if !rest.is_empty() => {
                return set_in_table(inner, rest, value, below);
            }
            Value::Array(all) if !rest.is_empty() => return set_in_array(all, &key, rest, value),
            _ if rest.is_empty() => {
                *found = typed(found, value);
                return Ok(());
            }
            _ => return Err(format!("`{key}` has no keys below it")),
        }
    }
    let is_last = parts.len() == 1 || place == ValuePlace::Group;
    if is_last {
        let new =
            if place == ValuePlace::Group { Value::String(value.into()) } else { guessed(value) };
        table.insert(parts.join("."), new);
        return Ok(());
    }
    let inner = table.entry(parts[0]).or_insert_with(|| Value::Table(Table::new()));
    let below = match (place, parts[0]) {
        (ValuePlace::Plain, "group") => ValuePlace::Groups,
        (ValuePlace::Groups, _) => ValuePlace::Group,
        _ => ValuePlace::Plain,
    };
    let Value::Table(inner) = inner else { return Err(format!("`{}` is no table", parts[0])) };
    set_in_table(inner, &parts[1..], value, below)
}

fn set_in_array(all: &mut [Value], key: &str, parts: &[&str], value: &str) -> Result<(), String> {
    let name_of = |element: &Value| element.get("name")?.as_str().map(str::to_owned);
    for count in (1..parts.len()).rev() {
        let name = parts[..count].join(".");
        let mut elements = all.iter();
        let found = elements.position(|element| name_of(element).as_deref() == Some(&name));
        let found = found.or_else(|| name.parse().ok().filter(|place| *place < all.len()));
        if let Some(Value::Table(table)) = found.and_then(|place| all.get_mut(place)) {
            return set_in_table(table, &parts[count..], value, ValuePlace::Plain);
        }
    }
    let names: Vec<String> = all.iter().filter_map(name_of).collect();
    Err(match names.is_empty() {
        true => format!("`{key}` goes by place: {key}.0 to {key}.{}", all.len().max(1) - 1),
        false => {
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            spelling::unknown(key, parts[0], &names)
        }
    })
}

/// The value in the type of the one that stands there.
fn typed(old: &Value, value: &str) -> Value {
    match old {
        Value::String(_) | Value::Array(_) => Value::String(value.into()),
        Value::Float(_) => value.parse().map_or_else(|_| guessed(value), Value::Float),
        _ => guessed(value),
    }
}

fn guessed(value: &str) -> Value {
    if let Ok(number) = value.parse() {
        return Value::Integer(number);
    }
    match value {
        "true" => Value::Boolean(true),
        "false" => Value::Boolean(false),
        _ => Value::String(value.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "[disk]\npreset = \"x\"\ndepth = 1\n[group.\"/vms/web\"]\n\
                        \"io.weight\" = \"100\"\n[[task]]\nname = \"dd\"\nblock = \"4KiB\"\n\
                        [[check]]\nat_least = 0.5\n";

    fn changed(path: &str, value: &str) -> Result<Table, String> {
        let mut table: Table = TEXT.parse().expect("TOML");
        set(&mut table, path, value).map(|()| table)
    }

    #[test]
    fn keys_are_found_and_keep_their_types() {
        let ok = |path, value| changed(path, value).expect("there");
        assert_eq!(ok("disk.depth", "8")["disk"]["depth"].as_integer(), Some(8));
        assert_eq!(ok("disk.preset", "8")["disk"]["preset"].as_str(), Some("8"));
        assert_eq!(ok("task.dd.block", "1MiB")["task"][0]["block"].as_str(), Some("1MiB"));
        assert_eq!(ok("check.0.at_least", "1")["check"][0]["at_least"].as_float(), Some(1.0));
        let table = ok("group./vms/web.io.weight", "300");
        assert_eq!(table["group"]["/vms/web"]["io.weight"].as_str(), Some("300"));
    }

    #[test]
    fn keys_that_are_not_there_are_made() {
        let ok = |path, value| changed(path, value).expect("made");
        let table = ok("scheduler.set.wait_ms", "5");
        assert_eq!(table["scheduler"]["set"]["wait_ms"].as_integer(), Some(5));
        assert_eq!(ok("seed", "7")["seed"].as_integer(), Some(7));
        let table = ok("group./vms/web.io.max", "disk wiops=5");
        assert_eq!(table["group"]["/vms/web"]["io.max"].as_str(), Some("disk wiops=5"));
        let table = ok("group./new.io.weight", "5");
        assert_eq!(table["group"]["/new"]["io.weight"].as_str(), Some("5"));
    }

    #[test]
    fn a_place_that_cannot_be_is_named() {
        let error = changed("task.cvs.block", "1MiB").expect_err("no such task");
        assert_eq!(error, "no task 'cvs'; there are: dd");
        assert!(changed("disk.depth.more", "1").is_err() && changed("a..b", "1").is_err());
    }
}
