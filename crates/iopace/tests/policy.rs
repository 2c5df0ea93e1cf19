//! `iopace policy` from a new crate to a verdict.

mod common;

use common::{Place, Ran};
use std::path::Path;
use std::process::{Command, Stdio};

const TARGET: &str = "wasm32-unknown-unknown";

/// Whether a crate can be built for the target, which not every machine has.
fn has_target() -> bool {
    let told =
        Command::new("rustc").args(["--print", "target-libdir", "--target", TARGET]).output();
    let has =
        told.is_ok_and(|told| Path::new(String::from_utf8_lossy(&told.stdout).trim()).is_dir());
    if !has {
        println!("skipped: rustc has no target {TARGET}");
    }
    has
}

/// Builds below the place, and keeps compiled code there.
fn policy(place: &Place, words: &[&str]) -> Ran {
    let mut command = place.command(&[&["policy"], words].concat());
    command.env("CARGO_TARGET_DIR", place.path("target")).stdin(Stdio::null());
    command.env("XDG_CACHE_HOME", place.path("cache"));
    Ran::from(command.output().expect("started"))
}

#[test]
fn a_new_policy_passes_and_one_that_loses_requests_does_not() {
    if !has_target() {
        return;
    }
    let place = Place::new();
    let made = policy(&place, &["new", "my-own"]);
    assert_eq!(made.status, Some(0), "{made:?}");
    assert!(made.out.contains("iopace policy test"), "{made:?}");

    let passed = policy(&place, &["test", "my-own", "--format", "json"]);
    let report = passed.json();
    assert_eq!((&report["policy"], &report["holds"]), (&"my-own".into(), &true.into()));
    let variants = report["load"]["variants"].as_array().expect("a list");
    let names: Vec<_> = variants.iter().map(|one| one["variant"].as_str()).collect();
    assert_eq!(names, [Some("fifo"), Some("fair"), Some("my-own")]);
    let picture = report["load"]["picture"].as_str().expect("of a crate");
    let picture = std::fs::read_to_string(place.path(picture)).expect("drawn");
    assert!(picture.contains("<svg") && picture.contains("my-own"));

    let source = std::fs::read_to_string(place.path("my-own/src/lib.rs")).expect("written");
    let queued = "self.writes.push_back(request.id)";
    assert!(source.contains(queued), "the template has other words now");
    place.write("my-own/src/lib.rs", &source.replace(queued, "drop(request.id)"));
    let failed = policy(&place, &["test", "my-own", "--svg", "my.svg"]);
    assert_eq!(failed.status, Some(1), "{failed:?}");
    assert!(failed.out.contains("conformance is broken: every request ends once"), "{failed:?}");
    assert!(failed.out.contains("lost a request that it was given"), "{failed:?}");
    assert!(failed.error.contains("error: my-own: fails conformance, starvation"), "{failed:?}");
    assert!(place.path("my.svg").exists());
}

#[test]
fn each_obstacle_has_its_remedy() {
    let place = Place::new();
    let told = |words: &[&str], status, text: &str| {
        let ran = policy(&place, words);
        assert_eq!(ran.status, Some(status), "{words:?}: {ran:?}");
        assert!(ran.error.contains(text), "{words:?}: {ran:?}");
    };
    told(&["new", "fair"], 2, "there is a scheduler 'fair'; try 'my-fair'");
    told(&["new", "mine", "disk.img"], 1, "disk.img exists: name another directory");
    told(&["test"], 2, "'iopace policy new NAME' writes one");
    told(&["test", "disk.img"], 1, "disk.img");
    told(&["bench", "none.wasm"], 1, "none.wasm");
    std::fs::create_dir(place.path("crate")).expect("made");
    place.write("crate/Cargo.toml", "");
    let mut command = place.command(&["policy", "test", "crate"]);
    let ran = Ran::from(command.env("CARGO", "/no/cargo").output().expect("started"));
    assert!(ran.error.contains("get it from https://rustup.rs"), "{ran:?}");
}
