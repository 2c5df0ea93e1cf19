//! No circle of imports, and the layers of the daemon.
//!
//! Of the modules beside each other in a folder, none needs another that needs it in turn.
//! What a module takes from the one that holds it is left out, and so is what that one takes from
//! its parts. A name that a module shows on behalf of one of its parts (`pub use`) counts as that
//! part's.

use super::{Check, Context};
use crate::modules::{Modules, Path};
use std::collections::{BTreeMap, BTreeSet};

/// The check of circles.
pub static CHECK: Check = Check {
    name: "circles",
    rule: "modules beside each other import each other one way only",
    run,
    bad: || {
        vec![
            ("crates/iopace-disk/src/a.rs", "use crate::b::B;".into()),
            ("crates/iopace-disk/src/b.rs", "fn f() { crate::a::g(); }".into()),
        ]
    },
    good: || {
        let test = "#[cfg(test)] mod tests { use crate::a::A; }";
        vec![
            ("crates/iopace-disk/src/a.rs", "use crate::b::B;\nmod c;".into()),
            ("crates/iopace-disk/src/a/c.rs", "use super::A;".into()),
            ("crates/iopace-disk/src/b.rs", test.into()),
        ]
    },
};

/// Circles that stay, by folder: a shadow is an engine within an engine, and a file of a mount has
/// its locks, each of which has its file.
const KNOWN: &[(&str, &[&str])] = &[
    ("iopace-core", &["engine", "shadow"]),
    (
        "iopace-daemon/fuse/tree",
        &[
            "attr",
            "credentials",
            "data",
            "inode",
            "known",
            "locks",
            "names",
            "open",
            "open_file",
            "open_shares",
        ],
    ),
];

/// The check of the daemon's layers.
pub static DAEMON: Check = Check {
    name: "daemon-layers",
    rule: "a module of the daemon knows those of its layer and below, a frontend no other",
    run: layers,
    bad: || {
        vec![
            ("crates/iopace-daemon/src/device/mod.rs", "use crate::nbd::reply::Ticket;".into()),
            ("crates/iopace-daemon/src/nbd/mod.rs", "mod reply;".into()),
        ]
    },
    good: || {
        vec![
            ("crates/iopace-daemon/src/device/mod.rs", "use crate::{answer::Answer, io};".into()),
            ("crates/iopace-daemon/src/answer.rs", "".into()),
            ("crates/iopace-daemon/src/io/mod.rs", "use crate::limits;".into()),
            ("crates/iopace-daemon/src/limits.rs", "".into()),
        ]
    },
};

/// The layers of the daemon, the lowest first (ARCHITECTURE.md); its root shows what is public.
const LAYERS: [&[&str]; 7] = [
    &[
        "api",
        "attached",
        "below",
        "buffer",
        "clock",
        "config",
        "device_mapper",
        "figures",
        "given",
        "held",
        "hostile",
        "insertion",
        "ioprio",
        "kernel",
        "limits",
        "listener",
        "loadable",
        "memory",
        "mount_error",
        "mount_table",
        "nbd_uri",
        "percent",
        "printable",
        "process",
        "resident",
        "rules",
        "runtime_files",
        "spin",
        "start_error",
        "timer",
        "tls",
    ],
    &["io"],
    &["answer", "change", "device", "device_table", "dirty", "job"],
    &["caps", "exports", "groups", "report"],
    FRONTENDS,
    &["cluster", "daemon", "exporting", "live", "measured", "opening", "reload"],
    &["control", "fuzzing"],
];

/// They stand beside each other and do not know each other.
const FRONTENDS: &[&str] = &["fuse", "nbd", "ublk", "vhost_user"];

fn run(context: &mut Context<'_>) {
    let modules = Modules::read(context.tree);
    let mut known: Vec<_> = KNOWN.iter().collect();
    for (folder, circle, file) in circles(&modules) {
        let is = |(place, names): &&(&str, &[&str])| *place == folder && *names == circle;
        if let Some(at) = known.iter().position(is) {
            known.remove(at);
            continue;
        }
        let what = format!("modules of {folder} in a circle: {}", circle.join(", "));
        let remedy = "move what they need of each other to a module below them, or hand it over";
        context.find(&file, 0, what, remedy);
    }
    let is_whole = !modules.files.is_empty() && context.tree.file("Cargo.toml").is_some();
    for (folder, circle) in known.into_iter().filter(|_| is_whole) {
        let what = format!("{folder} has no such circle any more: {}", circle.join(", "));
        context.find("xtask/src/checks/circles.rs", 0, what, "take it out of the list");
    }
}

fn layers(context: &mut Context<'_>) {
    let modules = Modules::read(context.tree);
    let layer = |name: &str| LAYERS.iter().position(|layer| layer.contains(&name));
    let of_daemon = |module: &&Path| module[0] == "iopace-daemon" && module.len() > 1;
    for module in modules.files.keys().filter(of_daemon) {
        let (file, own) = (&modules.files[module], module[1].as_str());
        let Some(place) = layer(own) else {
            let remedy = "say in LAYERS of xtask/src/checks/circles.rs where it stands";
            context.find(file, 0, format!("`{own}` has no layer"), remedy);
            continue;
        };
        let imports = modules.imports.get(module).into_iter().flatten();
        for owner in imports.map(|path| modules.owner(path)).filter(|owner| of_daemon(&owner)) {
            let other = owner[1].as_str();
            let is_beside = other != own && FRONTENDS.contains(&other) && FRONTENDS.contains(&own);
            if is_beside || layer(other).is_some_and(|above| above > place) {
                let what = format!("`{own}` imports `{other}`");
                let remedy = "a layer below knows it by a trait, or is handed what it needs";
                context.find(file, 0, what, remedy);
            }
        }
    }
}

/// All circles: the folder, the modules in it, and the file of the first of them.
fn circles(modules: &Modules) -> Vec<(String, Vec<String>, String)> {
    // By folder, from one of its modules to others.
    let mut edges: BTreeMap<Path, BTreeMap<String, BTreeSet<String>>> = BTreeMap::new();
    for (module, imports) in &modules.imports {
        for owner in imports.iter().map(|path| modules.owner(path)) {
            let same = module.iter().zip(&owner).take_while(|(one, other)| one == other).count();
            if let (Some(from), Some(to)) = (module.get(same), owner.get(same)) {
                let folder = edges.entry(module[..same].to_vec()).or_default();
                folder.entry(from.clone()).or_default().insert(to.clone());
            }
        }
    }
    let mut circles = Vec::new();
    for (folder, edges) in edges.iter().filter(|(folder, _)| !folder.is_empty()) {
        let mut seen = BTreeSet::new();
        for name in edges.keys() {
            let reached = reached_from(edges, name);
            let back = |other: &&String| reached_from(edges, other).contains(name);
            let circle: Vec<String> = reached.iter().filter(back).cloned().collect();
            if circle.len() > 1 && seen.insert(circle.clone()) {
                let first = [folder.clone(), vec![circle[0].clone()]].concat();
                let file = modules.files.get(&first).cloned().unwrap_or_default();
                circles.push((folder.join("/"), circle, file));
            }
        }
    }
    circles
}

/// The modules that one needs, directly or not.
fn reached_from(edges: &BTreeMap<String, BTreeSet<String>>, from: &str) -> BTreeSet<String> {
    let mut reached = BTreeSet::new();
    let mut left = vec![from];
    while let Some(name) = left.pop() {
        for next in edges.get(name).into_iter().flatten() {
            if reached.insert(next.clone()) {
                left.push(next);
            }
        }
    }
    reached
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checks::findings;

    fn found(files: &[(&'static str, &str)]) -> Vec<String> {
        let samples = files.iter().map(|(path, text)| (*path, (*text).to_owned())).collect();
        findings(&CHECK, &samples).into_iter().map(|found| found.what).collect()
    }

    const ENGINE: &str = "crates/iopace-core/src/engine.rs";

    #[test]
    fn a_long_way_round_is_a_circle_in_whatever_form_it_is_written() {
        let all = found(&[
            (ENGINE, "use crate::{pace::{self, Pace}, units};"),
            ("crates/iopace-core/src/pace/mod.rs", "mod rate;\npub use rate::Rate;"),
            ("crates/iopace-core/src/pace/rate.rs", "fn f() { let a = crate::time::now(); }"),
            ("crates/iopace-core/src/time.rs", "use super::engine as e;"),
            ("crates/iopace-core/src/units.rs", ""),
        ]);
        assert_eq!(all, ["modules of iopace-core in a circle: engine, pace, time"]);
    }

    #[test]
    fn a_name_that_is_shown_for_a_part_is_that_parts() {
        let shown = [
            ("crates/iopace-core/src/pace/mod.rs", "mod a;\nmod b;\npub use a::{A, C as D};"),
            ("crates/iopace-core/src/pace/a.rs", "use super::b::B;"),
            ("crates/iopace-core/src/pace/b.rs", "use super::A;"),
        ];
        assert_eq!(found(&shown), ["modules of iopace-core/pace in a circle: a, b"]);
    }

    #[test]
    fn a_part_may_know_its_whole_and_a_test_whatever_it_likes() {
        let fine = [
            (ENGINE, "mod queue;\nuse queue::Queue;\nuse std::fmt;"),
            ("crates/iopace-core/src/engine/queue.rs", "use super::Engine;\nuse crate::time;"),
            ("crates/iopace-core/src/engine/tests.rs", "use crate::time;"),
            ("crates/iopace-core/src/time.rs", "#[cfg(test)]\nmod tests { use crate::engine::X; }"),
        ];
        assert_eq!(found(&fine), [""; 0]);
    }

    #[test]
    fn a_frontend_knows_no_other_and_nobody_below_knows_it() {
        let daemon = [
            (
                "crates/iopace-daemon/src/nbd/mod.rs",
                "use crate::{device::Device, fuse::tree::Tree};",
            ),
            ("crates/iopace-daemon/src/fuse/mod.rs", "use crate::groups;"),
            ("crates/iopace-daemon/src/groups/mod.rs", "fn f() { crate::nbd::g(); }"),
            ("crates/iopace-daemon/src/device/mod.rs", "use super::groups::Groups;"),
            ("crates/iopace-daemon/src/new.rs", ""),
        ];
        let samples = daemon.map(|(path, text)| (path, text.to_owned())).to_vec();
        let all: Vec<_> = findings(&DAEMON, &samples).into_iter().map(|found| found.what).collect();
        let wanted = [
            "`device` imports `groups`",
            "`groups` imports `nbd`",
            "`nbd` imports `fuse`",
            "`new` has no layer",
        ];
        assert_eq!(all, wanted);
    }
}
