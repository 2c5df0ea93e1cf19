//! Modules for tests: a good one, and changes of it.
#![allow(dead_code)]

/// A policy in text.
pub const FIFO: &str = include_str!("../modules/fifo.wat");

/// Its description.
pub const DESCRIPTION: &str = r#"{"name": "oldest", "version": "0.1.0",
 "summary": "the oldest request first",
 "parameters": [{"name": "limit", "unit": "requests", "min": 1, "default": 8, "max": 64,
                 "doc": "kept, and nothing else"}],
 "counters": [{"name": "served", "doc": "requests given to the disk"}],
 "learns": false, "run_ahead": false, "divides": false}"#;

/// The module with each word of the first kind replaced by the second; each has to be there.
pub fn module(changes: &[(&str, &str)]) -> Vec<u8> {
    let mut text = FIFO.to_owned();
    let mut description = DESCRIPTION.to_owned();
    for (from, to) in changes {
        assert!(text.contains(from) || description.contains(from), "there is no {from}");
        text = text.replace(from, to);
        description = description.replace(from, to);
    }
    let length = description.len().to_string();
    let escaped = description.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
    let text = text.replace("DESCRIPTION", &escaped).replace("LENGTH", &length);
    wat::parse_str(&text).expect("it is WebAssembly")
}

/// The same under another name, with this at the beginning of `iopace_pop`.
pub fn popping(name: &str, code: &str) -> Vec<u8> {
    module(&[("oldest", name), (";; POP", code)])
}
