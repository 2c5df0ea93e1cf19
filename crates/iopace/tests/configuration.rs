//! A configuration file and what holds: reloads, `--save`, `iopace config`.

mod common;

use common::{Place, Serving, until};
use rustix::process::Signal;
use std::fs;
use std::process::Stdio;

const FILE: &str = r#"# Disks of the test.
[[device]]
file = "disk.img"   # the only one

[group."/vms/web"]
"io.weight" = 200   # twice
"#;

/// A daemon with that file, and its log.
fn serve(place: &Place) -> Serving {
    place.write("iopace.toml", FILE);
    let log = fs::File::create(place.path("log")).expect("made");
    place.serving(&["serve", "--config", "iopace.toml"], Stdio::from(log))
}

fn log_has(place: &Place, text: &str, times: usize) -> bool {
    let log = fs::read_to_string(place.path("log")).expect("read");
    log.matches(text).count() >= times
}

fn weight(place: &Place, group: &str) -> String {
    place.run(&["group", "get", group, "io.weight"]).out
}

/// The device as it stands.
fn device(place: &Place) -> serde_json::Value {
    place.run(&["sched", "status", "--format", "json"]).json()[0].take()
}

/// The scheduler, and a parameter of it.
fn scheduler(place: &Place, name: &str) -> (String, Option<u64>) {
    let scheduler = &device(place)["scheduler"];
    let algorithm = scheduler["algorithm"].as_str().expect("a name").to_owned();
    (algorithm, scheduler["params"][name].as_u64())
}

/// The groups that there are.
fn groups(place: &Place) -> String {
    place.run(&["group", "list"]).out
}

const REFUSED: &str = "is not applied, and nothing is changed";

#[test]
fn a_changed_file_is_applied() {
    let place = Place::new();
    let serving = serve(&place);
    assert_eq!(weight(&place, "/vms/web"), "default 200\n");
    // By hand, and in no file: it stays.
    assert_eq!(place.run(&["group", "set", "/hand", "io.weight", "7", "-p"]).status, Some(0));
    let more = "sched = \"rr\"\nset = { wait_ms = 5 }\nwindow = 4\n";
    let changed = FILE.replace("   # the only one\n", &format!("\n{more}")).replace("200", "300");
    let new = "[group.\"/new\"]\n\"io.max\" = \"disk rbps=1M\"\n";
    place.write("iopace.toml", &format!("{changed}{new}"));
    serving.signal(Signal::HUP);
    until("it is applied", || log_has(&place, "is applied: ", 1));
    assert_eq!(weight(&place, "/vms/web"), "default 300\n");
    assert_eq!(weight(&place, "/hand"), "default 7\n");
    assert_eq!(scheduler(&place, "wait_ms"), ("rr".into(), Some(5)));
    assert_eq!(device(&place)["queue"]["window_depth"], 4);
    assert!(groups(&place).contains("/new"));
    // A setting that is in the file no more is gone.
    place.write("iopace.toml", FILE);
    serving.signal(Signal::HUP);
    // (`window` had no value before, so that this takes a restart.)
    until("it is refused", || log_has(&place, REFUSED, 1));
    place.write("iopace.toml", &FILE.replace("   # the only one", "\nwindow = 8"));
    serving.signal(Signal::HUP);
    until("it is applied", || log_has(&place, "is applied: ", 2));
    assert!(!groups(&place).contains("/new"));
    assert_eq!(device(&place)["scheduler"]["inserted"], false);
    assert_eq!(weight(&place, "/vms/web"), "default 200\n");
    serving.end_by(Signal::TERM);
}

#[test]
fn of_a_refused_file_nothing_holds() {
    let place = Place::new();
    let serving = serve(&place);
    let by_hand: [&[&str]; 3] = [
        &["sched", "insert", "-a", "rr", "--set", "wait_ms=7", "disk"],
        &["window", "configure", "--depth", "7", "disk"],
        // A limit above one of the file, which would be more.
        &["group", "set", "/vms", "io.max", "disk rbps=1M"],
    ];
    for words in by_hand {
        assert_eq!(place.run(words).status, Some(0), "{words:?}");
    }
    let more = "\nsched = \"fifo\"\npace = \"threshold\"\nwindow = 4\n";
    let changed = FILE.replace("   # the only one\n", more).replace("200", "300");
    let new = "[group.\"/new\"]\n\"io.weight\" = 5\n";
    let wrong = [
        format!("{changed}\"io.max\" = \"disk rbps=2M\"\n{new}"),
        changed.replace("io.weight", "io.wait"),
        changed.replace("window = 4", "nr-requests = 500\nwindow = 4"),
    ];
    let pace = device(&place)["pace"]["policy"].take();
    for (at, text) in wrong.iter().enumerate() {
        place.write("iopace.toml", text);
        serving.signal(Signal::HUP);
        until("it is refused", || log_has(&place, REFUSED, at + 1));
        assert_eq!(weight(&place, "/vms/web"), "default 200\n");
        assert_eq!(scheduler(&place, "wait_ms"), ("rr".into(), Some(7)));
        assert_eq!(device(&place)["window"]["depth_set"], 7);
        assert_eq!(device(&place)["pace"]["policy"], pace);
        assert!(!groups(&place).contains("/new"));
    }
    assert!(log_has(&place, "a restart is needed for: what device 'disk' is", 1));
    serving.end_by(Signal::TERM);
}

#[test]
fn an_export_is_moved_by_a_file_and_its_former_group_goes() {
    let place = Place::new();
    let serving = serve(&place);
    let words = ["group", "move", "--export", "disk", "/vms/web", "--save"];
    assert_eq!(place.run(&words).status, Some(0));
    serving.signal(Signal::HUP);
    until("the saved file is right", || log_has(&place, "group of export 'disk'", 1));
    let (devices, _) = FILE.split_once("[group").expect("it has one");
    let export = "[[export]]\nname = \"disk\"\ndevice = \"disk\"\ngroup = \"/fresh\"\n";
    place.write("iopace.toml", &format!("{devices}{export}[group.\"/fresh\"]\n"));
    serving.signal(Signal::HUP);
    until("it is applied", || log_has(&place, "group of export 'disk'", 2));
    let list = place.run(&["group", "list", "--format", "json"]).json();
    let all = list.as_array().expect("a list");
    let fresh = all.iter().find(|one| one["group"] == "/fresh").expect("it is made");
    assert_eq!(fresh["exports"][0], "disk");
    assert!(!groups(&place).contains("/vms/web"), "{}", groups(&place));
    serving.end_by(Signal::TERM);
}

#[test]
fn only_what_a_command_changes_is_saved() {
    let place = Place::new();
    let serving = serve(&place);
    assert_eq!(place.run(&["sched", "insert", "-a", "rr", "disk"]).status, Some(0));
    let words = ["window", "configure", "--depth", "8", "disk"];
    assert_eq!(place.run(&words).status, Some(0));
    let words = ["pace", "configure", "-a", "threshold", "disk", "--save"];
    assert_eq!(place.run(&words).status, Some(0));
    let text = fs::read_to_string(place.path("iopace.toml")).expect("read");
    assert!(text.contains("pace = \"threshold\""), "{text}");
    assert!(!text.contains("sched") && !text.contains("window"), "{text}");
    serving.end_by(Signal::TERM);
}

#[test]
fn a_hang_up_without_a_file_ends_nothing() {
    let place = Place::new();
    let mut serving = place.serve(&["disk.img"]);
    serving.signal(Signal::HUP);
    serving.wait_for_log("there is no configuration file to read again");
    assert_eq!(place.run(&["sched", "status"]).status, Some(0));
    let ran = place.run(&["group", "create", "/vms", "--save"]);
    assert!(ran.status == Some(1) && ran.error.contains("without a configuration file"), "{ran:?}");
    assert!(!place.run(&["group", "list"]).out.contains("/vms"), "nothing is changed");
    // A file to start it with.
    let file = place.run(&["config", "show"]).out;
    assert!(file.contains("[[device]]") && file.contains("disk.img"), "{file}");
    place.write("shown.toml", &file);
    let ran = place.run(&["config", "check", "shown.toml"]);
    assert_eq!(ran.out, "shown.toml: right (1 device)\n", "{ran:?}");
    serving.end_by(Signal::TERM);
}

#[test]
fn what_is_saved_is_there_after_a_crash() {
    let place = Place::new();
    let serving = serve(&place);
    let says = |words: &[&str]| place.run(&[&["config"], words].concat()).out;
    assert!(says(&["diff"]).ends_with("iopace.toml: says what holds\n"), "{}", says(&["diff"]));
    assert_eq!(place.run(&["group", "set", "/vms/web", "io.weight", "300"]).status, Some(0));
    let diff = says(&["diff"]);
    assert!(
        diff.contains("-\"io.weight\" = 200   # twice\n+\"io.weight\" = 300   # twice\n"),
        "{diff}"
    );
    assert_eq!(fs::read_to_string(place.path("iopace.toml")).expect("read"), FILE);
    let changes: [&[&str]; 7] = [
        &["group", "set", "/vms/web", "io.weight", "300", "--save"],
        &["group", "set", "/vms/web", "io.max", "disk rbps=10M", "--save"],
        &["group", "create", "/kept", "--save"],
        &["sched", "configure", "-a", "fair", "disk", "--save"],
        &["window", "configure", "--depth", "8", "disk", "--save"],
        &["pace", "configure", "-a", "threshold", "disk", "--save"],
        &["group", "move", "--export", "disk", "/kept", "--save"],
    ];
    for words in changes {
        let ran = place.run(words);
        let words = if ran.error.contains("insert") && words[0] == "sched" {
            ["sched", "insert", "-a", "fair", "disk", "--save"].map(str::to_owned).to_vec()
        } else {
            assert_eq!(ran.status, Some(0), "{words:?}: {ran:?}");
            assert!(ran.error.contains("saved: "), "{words:?}: {ran:?}");
            continue;
        };
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        assert_eq!(place.run(&words).status, Some(0));
    }
    let text = fs::read_to_string(place.path("iopace.toml")).expect("read");
    assert!(text.starts_with("# Disks of the test.") && text.contains("# the only one"), "{text}");
    assert!(says(&["diff"]).ends_with("says what holds\n"), "{}", says(&["diff"]));
    drop(serving);
    let log = fs::File::create(place.path("log")).expect("made");
    let again = place.serving(&["serve", "--config", "iopace.toml"], Stdio::from(log));
    assert_eq!(weight(&place, "/vms/web"), "default 300\n");
    let list = place.run(&["group", "list", "--format", "json"]).json();
    let kept = list.as_array().expect("a list").iter().find(|one| one["group"] == "/kept");
    assert_eq!(kept.expect("there")["exports"][0], "disk");
    let status = place.run(&["sched", "status", "--format", "json"]).json();
    assert_eq!(status[0]["queue"]["window_depth"], 8);
    assert_eq!(status[0]["pace"]["policy"], "threshold");
    assert_eq!(place.run(&["group", "move", "--export", "disk", "/", "--save"]).status, Some(0));
    assert_eq!(place.run(&["group", "remove", "/kept", "--save"]).status, Some(0));
    assert!(
        !fs::read_to_string(place.path("iopace.toml")).expect("read").contains("[group.\"/kept\"]")
    );
    again.end_by(Signal::TERM);
}

#[test]
fn a_file_is_checked_without_serving_it() {
    let place = Place::new();
    place.write("iopace.toml", FILE);
    for words in
        [&["config", "check", "iopace.toml"][..], &["serve", "--config", "iopace.toml", "--check"]]
    {
        let ran = place.run(words);
        assert_eq!(ran.out, "iopace.toml: right (1 device, 1 group)\n", "{words:?}: {ran:?}");
    }
    place.write("iopace.toml", &FILE.replace("io.weight", "io.wait"));
    for words in
        [&["config", "check", "iopace.toml"][..], &["serve", "--config", "iopace.toml", "--check"]]
    {
        let ran = place.run(words);
        assert!(
            ran.status == Some(2) && ran.error.contains("iopace.toml:6:1"),
            "{words:?}: {ran:?}"
        );
    }
}
