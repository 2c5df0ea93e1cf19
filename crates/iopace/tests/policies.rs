//! Loadable policies in the daemon and on the command line: modules that are loaded, put in and
//! taken out beside running requests, and those that fail.

mod common;
#[path = "../../iopace-wasm/tests/support/modules.rs"]
mod modules;

use common::load::Reader;
use common::{Place, Ran, Serving, until};
use rustix::fs::{CWD, FileType, Mode, mknodat};
use rustix::process::Signal;
use serde_json::Value;
use std::fs;
use std::process::Stdio;

/// A disk whose requests all go through its scheduler.
const DISK: [&str; 5] = ["--emulate", "ssd-nvme", "--size", "1MiB", "--direct"];

const FILE: &str = r#"policies = ["oldest.wasm"]

[[device]]
emulate = "ssd-nvme"
size = "1MiB"
direct = true
name = "disk"
sched = "oldest"
set = { limit = 5 }
"#;

/// Writes a module, and names its file as a command line does.
fn module(place: &Place, name: &str, bytes: &[u8]) -> String {
    fs::write(place.path(&format!("{name}.wasm")), bytes).expect("written");
    format!("./{name}.wasm")
}

/// The policy `oldest`, and others that are like it.
fn oldest(place: &Place) -> String {
    module(place, "oldest", &modules::module(&[]))
}

fn named(name: &str) -> Vec<u8> {
    modules::module(&[("oldest", name)])
}

fn done(ran: Ran) -> Ran {
    assert_eq!(ran.status, Some(0), "{ran:?}");
    ran
}

/// A refusal: its status, and what it says.
fn refused(place: &Place, words: &[&str]) -> (Option<i32>, String) {
    let ran = place.run(words);
    assert_ne!(ran.status, Some(0), "{words:?}: {ran:?}");
    (ran.status, ran.error)
}

/// The device as it stands.
fn device(place: &Place) -> Value {
    place.run(&["sched", "status", "--format", "json"]).json()[0].take()
}

fn finished_count(place: &Place) -> u64 {
    device(place)["queue"]["finished_count"].as_u64().expect("a number")
}

/// Requests go on: more of them finish from now on.
fn goes_on(place: &Place) {
    let before = finished_count(place);
    until("more requests finish", || finished_count(place) > before + 20);
}

fn policies(place: &Place) -> Vec<String> {
    let list = place.run(&["sched", "list", "--format", "json"]).json();
    let all = list.as_array().expect("a list").iter();
    let loaded = all.filter(|spec| !spec["loaded"].is_null());
    loaded.map(|spec| spec["name"].as_str().expect("a name").to_owned()).collect()
}

fn serve_file(place: &Place, text: &str) -> Serving {
    place.write("iopace.toml", text);
    let log = fs::File::create(place.path("log")).expect("made");
    place.serving(&["serve", "--config", "iopace.toml"], Stdio::from(log))
}

fn log_has(place: &Place, text: &str) -> bool {
    fs::read_to_string(place.path("log")).expect("read").contains(text)
}

#[test]
fn a_policy_is_loaded_put_in_and_taken_out_beside_requests() {
    let place = Place::new();
    let serving = place.serve(&DISK);
    let reader = Reader::new(&serving, "ssd-nvme", 4096);
    let file = oldest(&place);
    let ran = done(place.run(&["sched", "load", &file]));
    assert!(ran.out.starts_with("oldest: the oldest request first\n  loaded: version 0.1.0, "));
    assert!(ran.out.ends_with("next: iopace sched insert -a oldest\n"), "{}", ran.out);
    // The same again is no mistake.
    done(place.run(&["sched", "load", &file]));
    let list = place.run(&["sched", "list", "-a", "oldest"]).out;
    assert!(list.contains("sha256") && list.contains("limit") && list.contains("served"), "{list}");

    let words = ["sched", "insert", "-a", "oldest", "--set", "limit=5"];
    assert!(done(place.run(&words)).out.ends_with("scheduler oldest (inserted): limit=5\n"));
    goes_on(&place);
    done(place.run(&["sched", "configure", "--set", "limit=7"]));
    until("it serves", || {
        let scheduler = &device(&place)["scheduler"];
        scheduler["counters"]["served"].as_u64() > Some(20)
    });
    let (_, error) = refused(&place, &["sched", "unload", "oldest"]);
    assert!(error.contains("'oldest' is at work on ssd-nvme; take it out first"), "{error}");
    let (_, error) = refused(&place, &["sched", "configure", "--set", "limit=65"]);
    assert!(error.contains("limit"), "{error}");
    let newer = module(&place, "newer", &modules::module(&[("0.1.0", "0.2.0")]));
    let ran = done(place.run(&["sched", "load", "--replace", &newer]));
    assert!(ran.out.contains("loaded: version 0.2.0, "), "{}", ran.out);
    assert!(ran.out.ends_with("scheduler oldest (inserted): limit=7\n"), "{}", ran.out);
    goes_on(&place);

    done(place.run(&["sched", "destroy"]));
    goes_on(&place);
    // It is tried beside the device: a user as well.
    done(place.run(&["recommend", "set", "--sched", "oldest"]));
    let (_, error) = refused(&place, &["sched", "unload", "oldest"]);
    assert!(error.contains("'oldest' is tried beside ssd-nvme"), "{error}");
    done(place.run(&["recommend", "off"]));
    assert_eq!(done(place.run(&["sched", "unload", "oldest"])).out, "oldest: unloaded\n");
    assert_eq!(policies(&place), [""; 0]);
    let (_, error) = refused(&place, &["sched", "insert", "-a", "oldest"]);
    assert!(error.contains("there is no scheduler 'oldest'"), "{error}");

    // In one step, from the file.
    done(place.run(&["sched", "insert", "-a", &file]));
    assert_eq!(device(&place)["scheduler"]["algorithm"], "oldest");
    goes_on(&place);
    drop(reader);
    assert_eq!(serving.end_by(Signal::TERM).status, Some(0));
}

#[test]
fn a_policy_that_loops_or_breaks_off_is_replaced_and_told() {
    let place = Place::new();
    let serving = place.serve(&DISK);
    let _reader = Reader::new(&serving, "ssd-nvme", 4096);
    let bad = [
        ("endless", "(loop $forever (br $forever))", "did not come to an end"),
        ("broken", "unreachable", "broke off"),
    ];
    for (name, code, fault) in bad {
        let file = module(&place, name, &modules::popping(name, code));
        done(place.run(&["sched", "insert", "-a", &file, "--set", "limit=5"]));
        until("fifo takes over", || device(&place)["scheduler"]["algorithm"] == "fifo");
        goes_on(&place);
        let told = format!("scheduler {name} {fault}: replaced by fifo");
        let events = place.run(&["events", "--format", "json"]).out;
        assert!(events.contains(&told), "{events}");
        let why = place.run(&["explain", "ssd-nvme"]).out.replace("\n  ", " ");
        assert!(why.contains(&told), "{why}");
        let status = place.run(&["sched", "status"]).out;
        let state = format!("fifo (in the place of {name}, which failed)\n");
        assert!(status.contains(&state) && status.contains(&told), "{status}");
        assert_eq!(device(&place)["scheduler"]["failed"]["name"], name);
        // The same once more fails once more.
        let (status, error) = refused(&place, &["sched", "load", "--replace", &file]);
        assert_eq!(status, Some(1));
        let why = format!("policy '{name}' is loaded and failed on device 'ssd-nvme'");
        assert!(error.contains(&why) && error.contains(fault), "{error}");
        assert_eq!(device(&place)["scheduler"]["failed"]["name"], name);
        // It is mended, and comes back with its parameters, be it unloaded meanwhile.
        done(place.run(&["sched", "unload", name]));
        let good = module(&place, "good", &named(name));
        let ran = done(place.run(&["sched", "load", "--replace", &good]));
        assert!(ran.out.contains(&format!("scheduler {name} (inserted): limit=5")), "{}", ran.out);
        assert!(device(&place)["scheduler"]["failed"].is_null());
        goes_on(&place);
        done(place.run(&["sched", "destroy"]));
        done(place.run(&["sched", "unload", name]));
        assert!(!place.run(&["explain", "ssd-nvme"]).out.contains("failed"));
    }
    assert_eq!(device(&place)["failed_over_count"], 4);
    assert_eq!(serving.end_by(Signal::TERM).status, Some(0));
}

#[test]
fn what_is_no_policy_is_refused_with_the_remedy() {
    let place = Place::new();
    let serving = place.serve(&DISK);
    place.write("text.wasm", "no module at all");
    module(&place, "own", &named("fifo"));
    module(&place, "oldest", &modules::module(&[]));
    module(&place, "other", &modules::module(&[("0.1.0", "0.2.0")]));
    mknodat(CWD, place.path("pipe.wasm"), FileType::Fifo, Mode::RWXU, 0).expect("a pipe");
    done(place.run(&["sched", "load", "./oldest.wasm"]));
    let cases = [
        ("text.wasm", "it is no WebAssembly module"),
        ("own.wasm", "its name 'fifo' is taken"),
        ("other.wasm", "with other contents: unload it first"),
        ("pipe.wasm", "not a regular file"),
        ("none.wasm", "No such file"),
    ];
    for (file, text) in cases {
        let (status, error) = refused(&place, &["sched", "load", file]);
        assert!(status == Some(1) && error.contains(text), "{file}: {error}");
        assert!(error.contains(file), "{error}");
    }
    for (name, text) in [("fair", "'fair' is built in"), ("nobody", "no policy 'nobody' is loaded")]
    {
        let (status, error) = refused(&place, &["sched", "unload", name]);
        assert!(status == Some(1) && error.contains(text), "{error}");
    }
    let (status, error) = refused(&place, &["serve", "disk.img", "--sched", "./text.wasm"]);
    assert_eq!(status, Some(2));
    assert!(error.contains("'./text.wasm' for '--sched <NAME>'") && error.contains("WebAssembly"));
    let (_, error) = refused(&place, &["sim", "compare", "alone", "--sched", "mine"]);
    assert!(error.contains("is named by its file: './mine.wasm'"), "{error}");
    assert_eq!(policies(&place), ["oldest"]);
    assert_eq!(device(&place)["scheduler"]["auto"], true, "nothing was changed");
    serving.end_by(Signal::TERM);
}

#[test]
fn a_configuration_names_policies() {
    let place = Place::new();
    oldest(&place);
    place.write("iopace.toml", FILE);
    let right = done(place.run(&["config", "check", "iopace.toml"]));
    assert!(right.out.contains("1 policy, 1 device"), "{right:?}");
    let wrong = FILE.replace("oldest.wasm", "missing.wasm");
    place.write("wrong.toml", &wrong);
    let (_, error) = refused(&place, &["config", "check", "wrong.toml"]);
    assert!(error.contains("wrong.toml:1:13") && error.contains("missing.wasm"), "{error}");
    place.write("wrong.toml", &FILE.replace("policies", "# policies"));
    let (_, error) = refused(&place, &["config", "check", "wrong.toml"]);
    assert!(error.contains("there is no scheduler 'oldest'"), "{error}");

    let serving = serve_file(&place, FILE);
    let scheduler = device(&place)["scheduler"].take();
    assert_eq!(
        (&scheduler["algorithm"], &scheduler["params"]["limit"]),
        (&"oldest".into(), &5.into())
    );
    // A new one comes; the former one stays as long as somebody has it.
    module(&place, "second", &named("second"));
    let second = FILE.replace("oldest.wasm", "./second.wasm").replace("oldest", "second");
    place.write("iopace.toml", &second);
    serving.signal(Signal::HUP);
    until("it is applied", || log_has(&place, "policy 'oldest' (unloaded)"));
    assert_eq!(policies(&place), ["second"]);
    assert_eq!(device(&place)["scheduler"]["algorithm"], "second");
    done(place.run(&["sched", "configure", "-a", "rr"]));
    done(place.run(&["sched", "load", "oldest.wasm"]));
    done(place.run(&["sched", "configure", "-a", "oldest"]));
    let without = second.replace("policies", "# policies").replace("sched = \"second\"", "");
    place.write("iopace.toml", &without.replace("set = { limit = 5 }", ""));
    serving.signal(Signal::HUP);
    until("it is applied", || log_has(&place, "policy 'second' (unloaded)"));
    serving.end_by(Signal::TERM);
}

#[test]
fn a_policy_that_is_configured_no_more_goes_with_its_last_device() {
    let place = Place::new();
    oldest(&place);
    let plain = FILE.replace("sched = \"oldest\"\nset = { limit = 5 }\n", "");
    let serving = serve_file(&place, &plain);
    assert_eq!(policies(&place), ["oldest"]);
    done(place.run(&["sched", "insert", "-a", "oldest"]));
    place.write("iopace.toml", &plain.replace("policies", "# policies"));
    serving.signal(Signal::HUP);
    until("it is applied", || log_has(&place, "configured no more, stays while in use"));
    assert_eq!(policies(&place), ["oldest"]);
    done(place.run(&["sched", "destroy"]));
    assert_eq!(policies(&place), [""; 0]);
    serving.end_by(Signal::TERM);
}

#[test]
fn what_is_loaded_is_saved_with_its_file() {
    let place = Place::new();
    let file = oldest(&place);
    let plain = "# Mine.\n[[device]]\nfile = \"disk.img\"\n";
    let serving = serve_file(&place, plain);
    let text = || fs::read_to_string(place.path("iopace.toml")).expect("read");
    done(place.run(&["sched", "insert", "-a", &file, "--save"]));
    let named = format!("policies = [\"{}\"]", place.path("oldest.wasm").display());
    assert!(text().contains(&named) && text().contains("sched = \"oldest\""), "{}", text());
    assert!(text().contains("# Mine."), "{}", text());
    done(place.run(&["config", "check", "iopace.toml"]));
    assert!(done(place.run(&["config", "diff"])).out.ends_with("says what holds\n"));
    // A device of the file has it.
    done(place.run(&["sched", "destroy"]));
    let (_, error) = refused(&place, &["sched", "unload", "oldest", "--save"]);
    assert!(error.contains("sched") && policies(&place) == ["oldest"], "{error}");
    done(place.run(&["sched", "insert", "-a", "fifo", "--save"]));
    done(place.run(&["sched", "unload", "oldest", "--save"]));
    assert!(!text().contains("policies") && text().contains("sched = \"fifo\""), "{}", text());
    done(place.run(&["sched", "load", &file, "--save"]));
    assert!(text().contains(&named), "{}", text());
    serving.end_by(Signal::TERM);
}

#[test]
fn a_file_stands_wherever_a_scheduler_is_named() {
    let place = Place::new();
    let file = oldest(&place);
    let words = [&DISK[..], &["--sched", &file, "--set", "limit=3"]].concat();
    let serving = place.serve(&words);
    let scheduler = device(&place)["scheduler"].take();
    assert_eq!(
        (&scheduler["algorithm"], &scheduler["params"]["limit"]),
        (&"oldest".into(), &3.into())
    );
    serving.end_by(Signal::TERM);

    let scenario = "why = \"Whose turn is it?\"\nseed = 1\nduration = \"2s\"\n\n[disk]\n\
                    preset = \"ssd-sata\"\n\n[scheduler]\nname = \"SCHED\"\n\n[[task]]\n\
                    name = \"a\"\nkind = \"dd-read\"\nsize = \"4GiB\"\n\n[[task]]\n\
                    name = \"b\"\nkind = \"dd-read\"\nsize = \"4GiB\"\n";
    place.write("plain.toml", &scenario.replace("SCHED", "fifo"));
    place.write("mine.toml", &scenario.replace("SCHED", &file));
    let sched = format!("fifo,fair,{file}");
    let words = ["sim", "compare", "plain.toml", "--sched", &sched, "--format", "csv"];
    let compared = done(place.run(&words)).out;
    // A queue in the order of arrival, in another language: the very same figures.
    let row = |name: &str| {
        let lines = compared.lines().filter(|line| line.split(',').any(|word| word == name));
        lines.map(|line| line.replace(name, "")).collect::<Vec<String>>()
    };
    assert!(!row("fifo").is_empty(), "{compared}");
    assert_eq!(row("fifo"), row("oldest"), "{compared}");
    let report = |words: &[&str]| place.run(&[words, &["--format", "json"]].concat()).json();
    let of_file = report(&["sim", "run", "mine.toml"]);
    assert_eq!(of_file["scheduler"], "oldest");
    let of_word = report(&["sim", "run", "plain.toml", "--sched", &file]);
    assert_eq!(of_file["tasks"], of_word["tasks"]);
    let list = done(place.run(&["sched", "list", "-a", &file])).out;
    assert!(list.starts_with("oldest: the oldest request first\n"), "{list}");
}
