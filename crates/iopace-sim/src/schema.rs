//! The schema of scenario files for editors: JSON Schema, draft 2020-12, made from the table of
//! keys ([`crate::scenario::keys`]) and from the registries.

use crate::figure::Figure;
use crate::scenario::keys::{self, Key, Registry, Type};
use crate::task::TaskKind;
use crate::units::{RATES, SIZES, TIMES};
use iopace_core::{pace, sched, window};
use iopace_disk::model::{self, Spec};
use iopace_disk::presets::PRESETS;
use serde_json::{Map, Value, json};

pub mod page;

/// The schema, as text that ends with a line.
pub fn schema() -> String {
    let mut root = table(keys::FILE);
    let head = root.as_object_mut().expect("a table");
    head.insert("$schema".into(), "https://json-schema.org/draft/2020-12/schema".into());
    head.insert("title".into(), "iopace scenario".into());
    let mut text = serde_json::to_string_pretty(&root).expect("no map with other keys than text");
    text.push('\n');
    text
}

/// A table: its keys, those that cannot be left out, and nothing else.
fn table(all: &[Key]) -> Value {
    let properties: Map<String, Value> =
        all.iter().map(|key| (key.name.into(), property(key))).collect();
    let required = all.iter().filter(|key| key.default == "required").map(|key| key.name);
    let mut table = json!({
        "type": "object",
        "properties": properties,
        "required": required.collect::<Vec<_>>(),
        "additionalProperties": false,
    });
    let rules = rules(all);
    if !rules.is_empty() {
        table["allOf"] = rules.into();
    }
    table
}

/// What holds for the keys of a table together.
fn rules(all: &[Key]) -> Vec<Value> {
    let when = |key: &str, word: &str, then: Value| {
        let properties = json!({ key: { "const": word } });
        json!({ "if": { "properties": properties, "required": [key] }, "then": then })
    };
    if std::ptr::eq(all, keys::DISK) {
        let one = ["preset", "kind", "model"].map(|key| json!({ "required": [key] }));
        let complete = model::KINDS.iter().map(|kind| {
            let names: Vec<&str> = kind.specs.iter().map(|spec| spec.name).collect();
            let needed = kind.specs.iter().filter(|spec| spec.default.is_none());
            let needed: Vec<&str> = needed.map(|spec| spec.name).collect();
            let set = json!({ "required": needed, "propertyNames": { "enum": names } });
            when("kind", kind.name, json!({ "properties": { "set": set }, "required": ["set"] }))
        });
        return [json!({ "oneOf": one })].into_iter().chain(complete).collect();
    }
    if std::ptr::eq(all, keys::TASK) {
        let special =
            |name: &&str| !TaskKind::ALL.iter().any(|(kind, ..)| kind.settings().contains(name));
        let common: Vec<&str> = all.iter().map(|key| key.name).filter(special).collect();
        let kinds = TaskKind::ALL.iter().map(|(kind, name, _)| {
            let names: Vec<&str> = common.iter().chain(kind.settings()).copied().collect();
            when("kind", name, json!({ "propertyNames": { "enum": names } }))
        });
        return kinds.collect();
    }
    // The parameters of a scheduler that is built in are known; a file brings its own.
    let with_own = |key: &str| -> Vec<Value> {
        let rules = sched::REGISTRY.iter().map(|algorithm| {
            let own: Map<String, Value> =
                algorithm.params.iter().map(|spec| (spec.name.into(), json!({}))).collect();
            let set = json!({ "properties": own, "additionalProperties": false });
            when(key, algorithm.name, json!({ "properties": { "set": set } }))
        });
        rules.collect()
    };
    if std::ptr::eq(all, keys::SCHEDULER) {
        return with_own("name");
    }
    if std::ptr::eq(all, keys::STEP) {
        return [with_own("insert"), with_own("configure")].concat();
    }
    if std::ptr::eq(all, keys::CHECK) {
        return vec![
            json!({ "anyOf": [{ "required": ["at_least"] }, { "required": ["at_most"] }] }),
        ];
    }
    Vec::new()
}

fn property(key: &Key) -> Value {
    let mut value = value(key.holds);
    let default = match key.default {
        "required" | "-" => String::new(),
        default => format!("; default: {default}"),
    };
    value["description"] = format!("{}{default}", key.doc).into();
    value
}

fn value(holds: Type) -> Value {
    match holds {
        Type::Text => json!({ "type": "string", "minLength": 1 }),
        Type::Flag => json!({ "type": "boolean" }),
        Type::Size => quantity(SIZES),
        Type::Time => quantity(TIMES),
        Type::Rate => quantity(RATES),
        Type::PerSecond => {
            let requests = json!({ "type": "string", "pattern": "^[0-9]+ *(/s|/min|/h)$" });
            json!({ "anyOf": [requests, quantity(RATES)] })
        }
        Type::Whole(min, max) => json!({ "type": "integer", "minimum": min, "maximum": max }),
        Type::Decimal => json!({ "type": "number" }),
        Type::Words(words) => json!({ "enum": words }),
        Type::Of(registry) => words(registry),
        Type::Parameters => parameters(),
        Type::Model => specs(),
        Type::Files => files(),
        Type::Groups => json!({ "type": "object", "additionalProperties": files() }),
        Type::Table(keys) => table(keys),
        Type::Tables(keys) => json!({ "type": "array", "items": table(keys) }),
    }
}

/// A whole number with one of the units.
fn quantity(units: &[(&str, u64)]) -> Value {
    let names: Vec<&str> = units.iter().map(|(name, _)| *name).collect();
    json!({ "type": "string", "pattern": format!("^[0-9]+ *({})$", names.join("|")) })
}

/// The file of a policy where a scheduler is named: see [`crate::scenario::policies`].
const POLICY_FILE: &str = r"/|\.wasm$";

/// The words of a registry, each with what it is.
fn entries(registry: Registry) -> Vec<(&'static str, String)> {
    let sched = || sched::REGISTRY.iter().map(|all| (all.name, all.summary.to_string()));
    match registry {
        Registry::Presets => PRESETS.iter().map(|all| (all.name, all.summary.into())).collect(),
        Registry::Models => model::KINDS.iter().map(|all| (all.name, all.summary.into())).collect(),
        Registry::Schedulers => sched().collect(),
        Registry::SchedulersOrNone => {
            [("none", "only the base".into())].into_iter().chain(sched()).collect()
        }
        Registry::Windows => {
            window::REGISTRY.iter().map(|all| (all.name, all.summary.into())).collect()
        }
        Registry::Paces => {
            pace::REGISTRY.iter().map(|all| (all.name, all.summary.into())).collect()
        }
        Registry::Kinds => {
            TaskKind::ALL.iter().map(|(_, name, doc)| (*name, (*doc).into())).collect()
        }
        Registry::Figures => {
            Figure::ALL.iter().map(|(_, name, unit)| (*name, format!("in {unit}"))).collect()
        }
    }
}

fn words(registry: Registry) -> Value {
    let word = |(name, doc): (&str, String)| json!({ "const": name, "description": doc });
    let file = registry.has_files().then(|| {
        let doc = "the file of a policy, from the scenario's folder: ./mine.wasm";
        json!({ "type": "string", "pattern": POLICY_FILE, "description": doc })
    });
    json!({ "oneOf": entries(registry).into_iter().map(word).chain(file).collect::<Vec<_>>() })
}

/// Lines of the files of a group.
fn files() -> Value {
    let line = json!({ "type": "string" });
    let lines = json!({ "anyOf": [line.clone(), { "type": "array", "items": line }] });
    json!({ "type": "object", "additionalProperties": lines })
}

/// Parameters of schedulers; one that several have takes the bounds of all.
fn parameters() -> Value {
    let mut all: Map<String, Value> = Map::new();
    for algorithm in sched::REGISTRY {
        for spec in algorithm.params {
            let doc = format!("{}: {}", algorithm.name, spec.doc);
            widen(&mut all, spec.name, spec.min, spec.max, &doc);
        }
    }
    let doc = "of a policy that is named by its file";
    let own = json!({ "type": "integer", "minimum": 0, "description": doc });
    json!({ "type": "object", "properties": all, "additionalProperties": own })
}

fn widen(all: &mut Map<String, Value>, name: &str, min: u64, max: u64, doc: &str) {
    let Some(known) = all.get_mut(name) else {
        let value =
            json!({ "type": "integer", "minimum": min, "maximum": max, "description": doc });
        all.insert(name.into(), value);
        return;
    };
    let bound = |key: &str| known[key].as_u64().unwrap_or(0);
    let (min, max) = (min.min(bound("minimum")), max.max(bound("maximum")));
    let before = known["description"].as_str().unwrap_or_default();
    let doc = format!("{before}; {doc}");
    *known = json!({ "type": "integer", "minimum": min, "maximum": max, "description": doc });
}

/// Parameters of disks.
fn specs() -> Value {
    let mut all: Map<String, Value> = Map::new();
    for kind in model::KINDS {
        for spec in kind.specs {
            let Spec { name, unit, min, max, summary, .. } = *spec;
            let doc = format!("{}: {summary}, {}", kind.name, spec.bounds());
            if unit.words().is_empty() {
                widen(&mut all, name, min, max, &doc);
                continue;
            }
            let known = all.entry(name).or_insert_with(|| quantity(unit.words()));
            let before = known["description"].as_str().map(|text| format!("{text}; "));
            known["description"] = format!("{}{doc}", before.unwrap_or_default()).into();
        }
    }
    json!({ "type": "object", "properties": all, "additionalProperties": false })
}
