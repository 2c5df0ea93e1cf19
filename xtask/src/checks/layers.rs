//! Who may know whom, and who may read a clock.

use super::policies::policies;
use super::{Check, Context};
use crate::source::Source;
use crate::tree::File;

/// Each crate, and what of the project it may depend on.
const MAY_KNOW: [(&str, &[&str]); 12] = [
    ("iopace-core", &[]),
    ("iopace-disk", &["iopace-core"]),
    ("iopace-fuse", &[]),
    ("iopace-groups", &["iopace-core"]),
    ("iopace-nbd", &[]),
    ("iopace-sim", &["iopace-core", "iopace-disk", "iopace-groups"]),
    ("iopace-suites", &["iopace-core"]),
    ("iopace-wasm", &["iopace-core"]),
    (
        "iopace-daemon",
        &[
            "iopace-core",
            "iopace-disk",
            "iopace-fuse",
            "iopace-groups",
            "iopace-nbd",
            "iopace-wasm",
        ],
    ),
    (
        "iopace",
        &[
            "iopace-core",
            "iopace-daemon",
            "iopace-disk",
            "iopace-groups",
            "iopace-nbd",
            "iopace-sim",
            "iopace-suites",
            "iopace-wasm",
        ],
    ),
    ("iopace-powercut", &["iopace-core", "iopace-daemon", "iopace-fuse", "iopace-nbd"]),
    ("xtask", &[]),
];

/// Crates that depend on nothing at all.
const ALONE: [&str; 2] = ["iopace-core", "xtask"];

/// Crates without a clock but for the file named.
const WITHOUT_CLOCK: [(&str, &str); 6] = [
    ("crates/iopace-core/src/", ""),
    ("crates/iopace-disk/src/", ""),
    ("crates/iopace-groups/src/", ""),
    ("crates/iopace-sim/src/", ""),
    ("crates/iopace-nbd/src/", ""),
    ("crates/iopace-daemon/src/", "crates/iopace-daemon/src/clock.rs"),
];

/// Crates with the same clippy bans.
const BANS: [&str; 3] = ["core", "disk", "sim"];

/// The check of manifests.
pub static MANIFESTS: Check = Check {
    name: "layers",
    rule: "a crate depends on the layers below it only, the core on nothing",
    run: manifests,
    bad: || vec![("crates/iopace-core/Cargo.toml", "[dependencies]\nserde = \"1\"\n".into())],
    good: || {
        let disk = "[dependencies]\niopace-core.workspace = true\n\
                    [dev-dependencies]\niopace-sim = \"1\"\n";
        let core = "[package]\nname = \"x\"\n[dev-dependencies]\nrand_pcg = \"1\"\n";
        vec![
            ("crates/iopace-core/Cargo.toml", core.into()),
            ("crates/iopace-disk/Cargo.toml", disk.into()),
        ]
    },
};

/// The check of versions.
pub static VERSIONS: Check = Check {
    name: "one-version",
    rule: "the version of a dependency stands in the root manifest only",
    run: versions,
    bad: || vec![("crates/a/Cargo.toml", "[dev-dependencies]\nserde = \"1\"\n".into())],
    good: || {
        let text = "[package]\nname = \"a\"\n[dependencies]\nserde.workspace = true\n\
                    toml = { workspace = true, features = [\"serde\"] }\n";
        vec![("crates/a/Cargo.toml", text.into()), ("fuzz/Cargo.toml", "serde = \"1\"\n".into())]
    },
};

/// The check of policies.
pub static POLICIES: Check = Check {
    name: "policy-layers",
    rule: "a policy uses neither another policy nor the engine",
    run: uses,
    bad: || vec![(RR, format!("use super::{{Scheduler, fifo}};\n{IMPL}")), (FIFO, IMPL.into())],
    good: || {
        let text = format!("use super::{{Scheduler, sorted}};\nfn f(fifo: u8) {{}}\n{IMPL}");
        vec![(RR, text), (FIFO, IMPL.into())]
    },
};

/// The check of clocks.
pub static CLOCKS: Check = Check {
    name: "clocks",
    rule: "only the daemon's clock.rs reads a clock",
    run: clocks,
    bad: || vec![("crates/iopace-daemon/src/a.rs", "fn f() { std::time::Instant::now(); }".into())],
    good: || {
        let test = "#[cfg(test)] mod tests { fn f() { std::time::Instant::now(); } }";
        vec![
            ("crates/iopace-daemon/src/clock.rs", "fn f() { std::time::Instant::now(); }".into()),
            ("crates/iopace-daemon/src/a.rs", test.into()),
        ]
    },
};

/// The check of the clippy bans.
pub static LINTS: Check = Check {
    name: "clippy-bans",
    rule: "core, disk and sim have the same clippy.toml",
    run: lints,
    bad: || vec![("crates/iopace-core/clippy.toml", "a".into())],
    good: || {
        let paths = ["crates/iopace-core/clippy.toml", "crates/iopace-disk/clippy.toml"];
        paths
            .into_iter()
            .chain(["crates/iopace-sim/clippy.toml"])
            .map(|path| (path, "a".into()))
            .collect()
    },
};

const FIFO: &str = "crates/iopace-core/src/sched/fifo.rs";
const RR: &str = "crates/iopace-core/src/sched/rr.rs";
const IMPL: &str = "impl Scheduler for X {}\n";

fn manifests(context: &mut Context<'_>) {
    let tree = context.tree;
    for file in tree.files.iter().filter(|file| file.path.ends_with("/Cargo.toml")) {
        let name = file.folder().rsplit('/').next().unwrap_or_default();
        if is_excluded(file) {
            continue;
        }
        let Some((_, may_know)) = MAY_KNOW.iter().find(|(known, _)| *known == name) else {
            let remedy = "say in xtask/src/checks/layers.rs what it may depend on";
            context.find(
                &file.path,
                0,
                format!("the crate `{name}` has no place in the layers"),
                remedy,
            );
            continue;
        };
        for (line, dependency) in dependencies(&file.text) {
            let is_ours = dependency.starts_with("iopace");
            if ALONE.contains(&name) || is_ours && !may_know.contains(&dependency) {
                let what = format!("`{name}` depends on `{dependency}`");
                let remedy = "move what needs it to a crate above; ARCHITECTURE.md has the layers";
                context.find(&file.path, line, what, remedy);
            }
        }
    }
}

/// Whether the crate is not a member of the workspace.
fn is_excluded(file: &File) -> bool {
    file.folder() == "fuzz" || file.folder().starts_with("contrib/policy/")
}

/// The dependencies of a manifest for its library or binary, with their lines.
fn dependencies(text: &str) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    let mut is_in = false;
    for (i, line) in text.lines().enumerate() {
        if let Some(section) = line.strip_prefix('[') {
            let section = section.trim_end_matches(']');
            let (head, name) = section.rsplit_once("dependencies").unwrap_or(("dev-", ""));
            is_in = !head.ends_with("dev-") && name.is_empty();
            if !head.ends_with("dev-")
                && let Some(name) = name.strip_prefix('.')
            {
                found.push((i + 1, name));
            }
        } else if is_in && let Some((name, _)) = line.split_once('=') {
            found.push((i + 1, name.trim().split('.').next().unwrap_or_default()));
        }
    }
    found
}

fn versions(context: &mut Context<'_>) {
    let tree = context.tree;
    for file in tree.files.iter().filter(|file| file.path.ends_with("/Cargo.toml")) {
        let mut is_in = false;
        for (i, line) in file.text.lines().enumerate() {
            if line.starts_with('[') {
                is_in = line.ends_with("dependencies]") && !is_excluded(file);
            } else if is_in && line.contains('=') && !line.contains("workspace = true") {
                let what = format!("`{}` is not inherited", line.trim());
                let remedy = "put the version under [workspace.dependencies] in the root manifest, \
                              here only `name.workspace = true` and the features";
                context.find(&file.path, i + 1, what, remedy);
            }
        }
    }
}

fn uses(context: &mut Context<'_>) {
    let tree = context.tree;
    for (file, source) in policies(tree) {
        let others: Vec<&str> = policies(tree).map(|(other, _)| other.stem()).collect();
        let forbidden =
            |word: &str| word == "engine" || (word != file.stem() && others.contains(&word));
        for at in (0..source.tokens.len()).filter(|&at| !source.is_test(at)) {
            let is_path = source.matches(at + 1, &[":", ":"])
                || (at > 1 && source.matches(at - 2, &[":", ":"]));
            if forbidden(source.text(at)) && (is_path || is_in_use(source, at)) {
                let what = format!("a policy that uses `{}`", source.text(at));
                let remedy = "move what both need to a helper file beside them (as sorted.rs)";
                context.find(&file.path, source.tokens[at].line, what, remedy);
            }
        }
    }
}

/// Whether the token at `at` stands in a `use`.
fn is_in_use(source: &Source, at: usize) -> bool {
    let before = (0..at).rev().map(|at| source.text(at));
    before.take_while(|&text| text != ";").any(|text| text == "use")
}

fn clocks(context: &mut Context<'_>) {
    let tree = context.tree;
    for (file, source) in tree.rust().filter(|(file, _)| !file.is_test()) {
        let is_bound = WITHOUT_CLOCK
            .iter()
            .any(|(folder, but)| file.path.starts_with(folder) && file.path != *but);
        let readings = [&["Instant", ":", ":", "now"][..], &["SystemTime"], &["UNIX_EPOCH"]];
        for texts in readings.into_iter().filter(|_| is_bound) {
            for token in source.find(texts) {
                let what = format!("`{}` reads a clock", texts.concat());
                let remedy = "take `now` as an argument; in the daemon call clock.rs";
                context.find(&file.path, token.line, what, remedy);
            }
        }
    }
}

fn lints(context: &mut Context<'_>) {
    let path = |name: &str| format!("crates/iopace-{name}/clippy.toml");
    let tree = context.tree;
    let model = tree.file(&path(BANS[0])).map(|file| &file.text);
    for name in BANS {
        if model.is_none() || tree.file(&path(name)).map(|file| &file.text) != model {
            let remedy = format!("copy {}", path(BANS[0]));
            context.find(&path(name), 0, "not the bans of the core", remedy);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checks::findings;

    #[test]
    fn dependencies_are_read_in_all_forms() {
        let text = "[dependencies]\na = \"1\"\nb.workspace = true\n[dev-dependencies]\nc = \"1\"\n\
                    [build-dependencies]\nd = \"1\"\n[target.'cfg(unix)'.dependencies]\ne = \"1\"\n\
                    [dependencies.f]\nversion = \"1\"\n[lints]\nworkspace = true\n";
        let names: Vec<_> = dependencies(text).into_iter().map(|(_, name)| name).collect();
        assert_eq!(names, ["a", "b", "d", "e", "f"]);
    }

    #[test]
    fn a_layer_does_not_know_the_one_above() {
        let sample = "[dependencies]\niopace-daemon = { path = \"../iopace-daemon\" }\n";
        let found = findings(&MANIFESTS, &vec![("crates/iopace-sim/Cargo.toml", sample.into())]);
        assert_eq!(found[0].what, "`iopace-sim` depends on `iopace-daemon`");
    }

    #[test]
    fn a_path_to_another_policy_is_seen() {
        let text = format!("fn f() {{ super::fifo::g(); }}\n{IMPL}");
        assert_eq!(findings(&POLICIES, &vec![(RR, text), (FIFO, IMPL.into())])[0].line, 1);
        let engine = format!("use crate::engine::Engine;\n{IMPL}");
        assert_eq!(findings(&POLICIES, &vec![(RR, engine)]).len(), 1);
    }
}
