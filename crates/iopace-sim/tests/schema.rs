//! The schema for editors: it is the one that is checked in, and every scenario is legal under it.

use iopace_sim::scenario::Scenario;
use iopace_sim::schema::page::page;
use iopace_sim::schema::schema;
use iopace_sim::starters::STARTERS;
use iopace_sim::stories::STORIES;
use serde_json::Value;

const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/scenario.schema.json");

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/scenario-keys.md");

/// The file is what is made; IOPACE_UPDATE_DOCS=1 writes it.
fn assert_is(file: &str, made: &str) {
    if std::env::var_os("IOPACE_UPDATE_DOCS").is_some() {
        std::fs::write(file, made).expect("written");
    }
    let shown = std::fs::read_to_string(file).expect("it is there");
    assert!(
        shown == made,
        "{file} is out of date: IOPACE_UPDATE_DOCS=1 cargo test -p iopace-sim --test schema"
    );
}

#[test]
fn the_file_is_the_schema() {
    assert_is(FILE, &schema());
}

#[test]
fn the_page_of_the_manual_has_every_key() {
    assert_is(PAGE, &page());
}

fn is_of_type(value: &Value, name: &Value) -> bool {
    match name.as_str().expect("one type") {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        other => panic!("type {other}"),
    }
}

/// Whether a value is the word of a constant, or legal under a pattern; of these only that of files
/// of policies is looked at, which stands beside names of schedulers.
fn is_word(rule: &Value, value: &Value) -> bool {
    let is_file = |word: &str| word.contains('/') || word.ends_with(".wasm");
    match rule.as_str() {
        Some(r"/|\.wasm$") => value.as_str().is_some_and(is_file),
        Some(pattern) if pattern.starts_with('^') => true,
        _ => rule == value,
    }
}

/// Whether a value is legal under the part of JSON Schema that the schema uses, but for patterns.
fn check(schema: &Value, value: &Value, path: &str) -> Result<(), String> {
    let fail = |what: &str| Err(format!("{path}: {what}"));
    for (word, rule) in schema.as_object().expect("a schema") {
        let all = || rule.as_array().into_iter().flatten();
        let legal = || all().filter(|one| check(one, value, path).is_ok()).count();
        match word.as_str() {
            "type" => {
                if !is_of_type(value, rule) {
                    return fail(&format!("{value} is no {rule}"));
                }
            }
            "properties" => {
                for (name, rule) in rule.as_object().expect("by name") {
                    if let Some(value) = value.get(name) {
                        check(rule, value, &format!("{path}.{name}"))?;
                    }
                }
            }
            "additionalProperties" => {
                let known = schema["properties"].as_object();
                for (name, value) in value.as_object().into_iter().flatten() {
                    match rule {
                        _ if known.is_some_and(|known| known.contains_key(name)) => {}
                        Value::Bool(false) => return fail(&format!("no key '{name}'")),
                        rule => check(rule, value, &format!("{path}.{name}"))?,
                    }
                }
            }
            "propertyNames" => {
                let mut names = value.as_object().into_iter().flatten().map(|(name, _)| name);
                names.try_for_each(|name| check(rule, &name.as_str().into(), path))?;
            }
            "required"
                if !all().all(|name| value.get(name.as_str().unwrap_or_default()).is_some()) =>
            {
                return fail(&format!("not all of {rule}"));
            }
            "items" => {
                for (place, value) in value.as_array().into_iter().flatten().enumerate() {
                    check(rule, value, &format!("{path}[{place}]"))?;
                }
            }
            "minimum" if value.as_i64() < rule.as_i64() => return fail("too small"),
            "maximum" if value.as_i64() > rule.as_i64() => return fail("too large"),
            "minLength" if value.as_str() == Some("") => return fail("empty"),
            "enum" if !all().any(|one| one == value) => {
                return fail(&format!("{value}: not in {rule}"));
            }
            "const" | "pattern" if !is_word(rule, value) => return fail("another word"),
            "oneOf" if legal() != 1 => return fail(&format!("{value}: {} of {rule}", legal())),
            "anyOf" if legal() == 0 => return fail(&format!("{value}: none of {rule}")),
            "allOf" => all().try_for_each(|one| check(one, value, path))?,
            "if" if check(rule, value, path).is_ok() => check(&schema["then"], value, path)?,
            "required" | "minimum" | "maximum" | "minLength" | "enum" | "const" | "oneOf"
            | "anyOf" | "if" | "then" | "pattern" | "description" | "title" | "$schema" => {}
            other => panic!("the test does not know '{other}'"),
        }
    }
    Ok(())
}

fn legal(text: &str) -> Result<(), String> {
    let schema: Value = serde_json::from_str(&schema()).expect("JSON");
    let value: Value = toml::from_str(text).expect("TOML");
    check(&schema, &value, "")
}

#[test]
fn every_scenario_is_legal_under_the_schema() {
    let stories = STORIES.iter().map(|story| (story.name, story.text));
    for (name, text) in stories.chain(STARTERS.iter().map(|starter| (starter.name, starter.text))) {
        assert_eq!(legal(text), Ok(()), "{name}");
    }
}

#[test]
fn a_scheduler_may_be_a_file_with_parameters_of_its_own() {
    let good =
        STORIES.iter().find(|story| story.name == "exchange-under-load").expect("there").text;
    for file in ["./mine.wasm", "mine.wasm", "../policies/mine"] {
        let own = good.replacen("configure = \"rr\"", &format!("configure = \"{file}\""), 1);
        let own = own.replacen("wait_ms = 3", "reads_max = 3", 1);
        assert_eq!(legal(&own), Ok(()), "{file}");
        let wrong = own.replacen("reads_max = 3", "reads_max = \"3\"", 1);
        assert!(legal(&wrong).is_err(), "{file}");
    }
}

#[test]
fn what_the_parser_refuses_the_schema_refuses() {
    let good =
        STORIES.iter().find(|story| story.name == "exchange-under-load").expect("there").text;
    let cases = [
        ("seed = 3", "sed = 3"),
        ("seed = 3", "seed = \"3\""),
        ("duration = \"20s\"\n", ""),
        ("preset = \"hdd-sata-250g-ncq\"", "preset = \"hdd\""),
        ("preset = \"hdd-sata-250g-ncq\"", "kind = \"null\"\nset = { depth = 1 }"),
        ("preset = \"hdd-sata-250g-ncq\"", "depth = 4"),
        ("kind = \"cvs\"", "kind = \"cvs\"\ndepth = 2"),
        ("depth = 16", "depth = 5000"),
        ("write_percent = 30", "write_percent = 101"),
        ("insert = \"rr\"", "insert = \"cfq\""),
        ("wait_ms = 3", "wait_ms = 3000"),
        ("wait_ms = 3", "wait_m = 3"),
        ("wait_ms = 3", "read_expire_ms = 3"),
        ("figure = \"unfinished\"", "figure = \"lost\""),
        ("figure = \"unfinished\"\nat_most = 0", "figure = \"unfinished\""),
    ];
    for (from, to) in cases {
        let wrong = good.replacen(from, to, 1);
        assert_ne!(wrong, good, "{from}");
        assert!(Scenario::parse("x", &wrong).is_err(), "{to}");
        assert!(legal(&wrong).is_err(), "{to}");
    }
}
