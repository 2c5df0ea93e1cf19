//! Holds the pages of the schedulers, `docs/policies/*.md`, to the registry: summary, parameters
//! and counters are made here. `IOPACE_UPDATE_DOCS=1 cargo test -p iopace-core --test policy_pages`
//! writes them.

use iopace_core::sched::{Algorithm, REGISTRY};
use std::fmt::Write as _;
use std::path::Path;

const BEGIN: &str = "<!-- made from the registry: begin -->\n";
const END: &str = "<!-- made from the registry: end -->";

fn tables(algorithm: &Algorithm) -> String {
    let mut text = format!("In one sentence: {}.\n", algorithm.summary);
    if !algorithm.params.is_empty() {
        text += "\n| parameter | unit | default | from | to | what it does |\n";
        text += "|---|---|---:|---:|---:|---|\n";
    }
    for spec in algorithm.params {
        let (name, unit, default) = (spec.name, spec.unit, spec.default);
        let (min, max, doc) = (spec.min, spec.max, spec.doc);
        writeln!(text, "| `{name}` | {unit} | {default} | {min} | {max} | {doc} |")
            .expect("to a string");
    }
    if !algorithm.counters.is_empty() {
        text += "\n| counter | counts |\n|---|---|\n";
    }
    for spec in algorithm.counters {
        writeln!(text, "| `{}` | {} |", spec.name, spec.doc).expect("to a string");
    }
    if algorithm.params.is_empty() && algorithm.counters.is_empty() {
        text += "\nIt has no parameters and no counters.\n";
    }
    text
}

#[test]
fn every_scheduler_has_a_page_and_it_is_true() {
    for algorithm in REGISTRY {
        let name = algorithm.name;
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/policies");
        let path = path.join(name).with_extension("md");
        let page = std::fs::read_to_string(&path).expect("each scheduler has its page");
        assert!(page.starts_with(&format!("# {name}\n")), "{name}: its page begins with its name");
        let (before, rest) = page.split_once(BEGIN).expect("a place for the tables");
        let (present, after) = rest.split_once(END).expect("an end of that place");
        let made = tables(algorithm);
        if std::env::var_os("IOPACE_UPDATE_DOCS").is_some() {
            let page = format!("{before}{BEGIN}{made}{END}{after}");
            std::fs::write(&path, page).expect("the page can be written");
            continue;
        }
        assert_eq!(present, made, "{name}: IOPACE_UPDATE_DOCS=1 writes the page anew");
    }
}
