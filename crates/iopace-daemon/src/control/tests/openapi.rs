//! The description of the API: that it is complete, and that the manual has it.

use super::Bench;
use crate::control::routes::TEXT;
use crate::control::shared::ROUTES;
use serde_json::Value;
use std::collections::BTreeSet;

fn description() -> Value {
    serde_json::from_str(&TEXT).expect("JSON")
}

/// Every route with its method, as `GET /v1/status`.
fn described() -> BTreeSet<String> {
    let description = description();
    let paths = description["paths"].as_object().expect("paths");
    let methods = paths.iter().flat_map(|(path, item)| {
        let methods = item.as_object().expect("methods");
        methods.keys().map(move |method| format!("{} {path}", method.to_uppercase()))
    });
    methods.map(|route| route.replace("{name}", "NAME")).collect()
}

#[test]
fn what_messages_call_the_routes_is_what_is_described() {
    let mut told = BTreeSet::new();
    for part in ROUTES.split("; ") {
        let (method, paths) = part.split_once(' ').expect("a method");
        told.extend(paths.split(", ").map(|path| format!("{method} {path}")));
    }
    assert_eq!(told, described());
}

/// Routes come into the router with their descriptions only; so it is enough that each is there.
#[test]
fn every_route_that_is_described_is_served() {
    let bench = Bench::new(&["disk"]);
    for route in described() {
        let (method, path) = route.split_once(' ').expect("a method");
        if path == "/v1/live/stream" {
            continue;
        }
        let path = path.replace("NAME", "disk");
        let asked = format!("{method} {path} HTTP/1.1\r\nhost: x\r\ncontent-length: 0\r\n\r\n");
        let answer = bench.raw(asked.as_bytes());
        let wrong = [" 404 ", " 405 "].iter().any(|status| answer[..16].contains(status));
        // One that asks for something by its name may not find that.
        let wrong = wrong && answer.contains("there are GET /v1/status");
        assert!(!wrong, "{route}: {answer}");
        // What may be changed is not changed by nothing, and says so.
        let is_harmless = method == "GET" && !route.ends_with("files")
            || route == "DELETE /v1/devices/NAME/recommend";
        assert_eq!(is_harmless, answer[..16].contains(" 200 "));
    }
}

/// All references lead somewhere, every operation has its own name, and everything says what it is.
#[test]
fn the_description_is_sound() {
    let description = description();
    assert!(description["openapi"].as_str().is_some_and(|version| version.starts_with("3.1")));
    let mut names = BTreeSet::new();
    for (path, item) in description["paths"].as_object().expect("paths") {
        for (method, operation) in item.as_object().expect("methods") {
            let name = operation["operationId"].as_str().expect("a name").to_owned();
            assert!(names.insert(name), "{method} {path}: the name is taken");
            assert!(operation["summary"].as_str().is_some_and(|summary| !summary.is_empty()));
        }
    }
    let mut references = Vec::new();
    gather(&description, &mut references);
    assert!(references.len() > 50);
    for reference in references {
        let found = description.pointer(reference.strip_prefix('#').expect("in this document"));
        assert!(found.is_some(), "{reference}");
    }
    let schemas = description["components"]["schemas"].as_object().expect("schemas");
    for name in ["LiveReport", "DeviceReport", "GroupReport", "EventReport", "Problem"] {
        assert!(schemas[name]["description"].is_string(), "{name}");
    }
}

fn gather(value: &Value, into: &mut Vec<String>) {
    match value {
        Value::Object(all) => {
            into.extend(all.get("$ref").and_then(Value::as_str).map(Into::into));
            all.values().for_each(|value| gather(value, into));
        }
        Value::Array(all) => all.iter().for_each(|value| gather(value, into)),
        _ => {}
    }
}

#[test]
fn the_manual_has_the_description() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/openapi.json");
    if std::env::var_os("IOPACE_UPDATE_DOCS").is_some() {
        std::fs::write(path, &*TEXT).expect("written");
    }
    let page = std::fs::read_to_string(path).unwrap_or_default();
    assert!(
        page == *TEXT,
        "docs/openapi.json: IOPACE_UPDATE_DOCS=1 cargo test -p iopace-daemon openapi"
    );
}
