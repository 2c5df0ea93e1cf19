//! Holds the pages of the schedulers, `docs/policies/*.md`, to the registry: summary, promises,
//! parameters and counters are made here, and so is the table of all in `README.md`.
//! `IOPACE_UPDATE_DOCS=1 cargo test -p iopace-core --test policy_pages` writes them.

use iopace_core::sched::{Algorithm, Load, REGISTRY};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

const BEGIN: &str = "<!-- made from the registry: begin -->\n";
const END: &str = "<!-- made from the registry: end -->";

/// What its profile says, in words.
fn promises(algorithm: &Algorithm) -> String {
    let (params, profile) = (algorithm.defaults(), algorithm.profile);
    let Load { clients_count, requests, service } = Load::CLOSED_LOOP;
    let service_ms = service.as_nanos() / 1_000_000;
    let mut text = format!("| longest wait for a start, requests of {service_ms} ms | |\n");
    text += "|---|---:|\n";
    let in_loop =
        format!("beside {clients_count} clients with {requests} requests and as many flushes");
    let in_stream =
        format!("beside a stream of {} requests that never ends", Load::STREAM.requests - 1);
    let waits = [
        (in_loop, profile.closed_loop_wait, Load::CLOSED_LOOP),
        (in_stream, profile.stream_wait, Load::STREAM),
    ];
    for (beside, wait, load) in waits {
        let wait = wait.map(|wait| wait(&params, &load).to_string());
        writeln!(text, "| {beside} | {} |", wait.as_deref().unwrap_or("no bound, it starves"))
            .expect("to a string");
    }
    text += match profile.divides {
        true => "\nIt divides the disk's time by weights, classes and guarantees of groups.",
        false => "\nIt ignores weights, classes and guarantees of groups.",
    };
    if profile.is_compared {
        text += " A long replay compares it unless schedulers are named.";
    }
    text + "\n"
}

fn tables(algorithm: &Algorithm) -> String {
    let mut text = format!("In one sentence: {}.\n\n", algorithm.summary);
    text += &promises(algorithm);
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

/// Holds the part of a page between the marks to what is made, or writes it.
fn hold(path: &Path, made: &str) {
    let name = path.display();
    let page = std::fs::read_to_string(path);
    let page = page.unwrap_or_else(|error| panic!("{name}: {error}; each scheduler has a page"));
    let parts = page.split_once(BEGIN).and_then(|(before, rest)| {
        let (present, after) = rest.split_once(END)?;
        Some((before, present, after))
    });
    let Some((before, present, after)) = parts else {
        panic!("{name}: a place for the tables is missing, which is these two lines:\n{BEGIN}{END}")
    };
    if std::env::var_os("IOPACE_UPDATE_DOCS").is_some() {
        let page = format!("{before}{BEGIN}{made}{END}{after}");
        return std::fs::write(path, page).expect("the page can be written");
    }
    assert_eq!(present, made, "{name}: IOPACE_UPDATE_DOCS=1 writes the page anew");
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

#[test]
fn every_scheduler_has_a_page_and_it_is_true() {
    for algorithm in REGISTRY {
        let name = algorithm.name;
        let path = root().join("docs/policies").join(name).with_extension("md");
        hold(&path, &tables(algorithm));
        let page = std::fs::read_to_string(&path).expect("it was held");
        assert!(page.starts_with(&format!("# {name}\n")), "{name}: its page begins with its name");
    }
}

#[test]
fn the_readme_lists_them_all() {
    let mut table = String::from("| scheduler | what it does |\n|---|---|\n");
    for Algorithm { name, summary, .. } in REGISTRY {
        writeln!(table, "| [{name}](docs/policies/{name}.md) | {summary} |").expect("to a string");
    }
    hold(&root().join("README.md"), &table);
}
