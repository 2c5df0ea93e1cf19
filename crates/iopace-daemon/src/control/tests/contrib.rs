//! What is handed out beside the daemon for its metrics: the dashboard for Grafana and the rules
//! for Prometheus. They name metrics and labels that there are.

use crate::control::metrics::{FAMILIES, Family, Kind};
use serde_json::Value;
use std::collections::BTreeSet;

fn file(path: &str) -> String {
    let path = format!("{}/../../contrib/{path}", env!("CARGO_MANIFEST_DIR"));
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The family of a sample's name.
fn family(sample: &str) -> Option<&'static Family> {
    FAMILIES.iter().copied().find(|family| {
        let unit = family.unit.map_or(String::new(), |unit| format!("_{unit}"));
        let suffixes: &[&str] = match family.kind {
            Kind::Counter => &["_total"],
            Kind::Gauge => &[""],
            Kind::Histogram => &["_bucket", "_sum", "_count"],
        };
        suffixes.iter().any(|suffix| format!("{}{unit}{suffix}", family.name) == sample)
    })
}

/// The names of the labels that a selector (`{a="b",c=~"d"}`) asks for.
fn labels(selector: &str) -> Vec<&str> {
    let pairs =
        selector.split("\",").map(|pair| pair.trim().split(['=', '!']).next().unwrap_or_default());
    pairs.filter(|name| !name.is_empty()).collect()
}

/// Looks at every `iopace_...` of a text. Returns what it found.
fn check(text: &str) -> BTreeSet<&'static str> {
    let mut found = BTreeSet::new();
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    for (at, _) in text.match_indices("iopace_") {
        let rest = &text[at..];
        let end = rest.find(|c| !is_word(c)).unwrap_or(rest.len());
        let (name, rest) = rest.split_at(end);
        let family = family(name).unwrap_or_else(|| panic!("there is no {name}"));
        found.insert(family.name);
        let Some(selector) = rest.strip_prefix('{').and_then(|rest| rest.split('}').next()) else {
            continue;
        };
        for label in labels(&selector.replace("\\\"", "\"")) {
            let is_known = family.labels.contains(&label) || ["instance", "le"].contains(&label);
            assert!(is_known, "{name} has no label '{label}' ({selector})");
        }
    }
    found
}

#[test]
fn the_dashboard_names_metrics_that_there_are() {
    let text = file("grafana/iopace.json");
    let found = check(&text);
    for must in ["iopace_device_wait", "iopace_group_moved", "iopace_device_dirty", "iopace_events"]
    {
        assert!(found.contains(must), "{must} is not shown");
    }
    let page: Value = serde_json::from_str(&text).expect("JSON");
    let variables = page["templating"]["list"].as_array().expect("variables");
    let names: BTreeSet<&str> = variables.iter().filter_map(|one| one["name"].as_str()).collect();
    assert_eq!(names, BTreeSet::from(["datasource", "device", "group", "instance"]));
    let mut ids = BTreeSet::new();
    let mut ends = 0;
    for panel in page["panels"].as_array().expect("panels") {
        let (id, title) = (panel["id"].as_u64().expect("an id"), panel["title"].as_str());
        assert!(ids.insert(id), "id {id} twice");
        let title = title.expect("a title");
        let place = |key: &str| panel["gridPos"][key].as_u64().expect("a place");
        assert!(place("x") + place("w") <= 24 && place("y") + place("h") >= ends, "{title}");
        ends = ends.max(place("y"));
        if panel["type"] == "row" {
            continue;
        }
        assert!(panel["fieldConfig"]["defaults"]["unit"].is_string(), "{title} has no unit");
        assert_eq!(panel["datasource"]["uid"], "${datasource}", "{title}");
        let targets = panel["targets"].as_array().expect("targets");
        assert!(!targets.is_empty(), "{title} shows nothing");
        let mut refs = BTreeSet::new();
        for target in targets {
            assert!(refs.insert(target["refId"].as_str()), "{title}: a name twice");
            let expr = target["expr"].as_str().expect("an expression");
            let count = |c: char| expr.matches(c).count();
            assert!(count('(') == count(')') && count('{') == count('}'), "{title}: {expr}");
            assert_eq!(target["datasource"]["uid"], "${datasource}", "{title}");
        }
    }
}

#[test]
fn the_alerts_name_metrics_that_there_are() {
    let found = check(&file("prometheus/iopace.rules.yml"));
    assert!(found.contains("iopace_device_failures") && found.len() >= 6, "{found:?}");
    check(&file("prometheus/iopace.rules.test.yml"));
}

#[test]
#[should_panic(expected = "has no label 'task'")]
fn a_label_that_there_is_not_is_found() {
    check("rate(iopace_device_moved_bytes_total{device=~\"$device\",task=\"1\"}[1m])");
}
