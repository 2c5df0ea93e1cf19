//! `iopace record` in front of a daemon with load, and the replay of what it wrote.

mod common;

use common::load::Reader;
use common::{Place, Serving, until};
use rustix::fs::{CWD, FileType, Mode, mknodat};
use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::process::Stdio;

const DISK: &str = "hdd-sata-250g";

fn serve(place: &Place) -> Serving {
    place.serve(&["--emulate", DISK, "--size", "1MiB", "--direct", "--sched", "rr"])
}

#[test]
fn a_recording_is_replayed_under_its_settings() {
    let place = Place::new();
    let serving = serve(&place);
    for words in [
        &["create", "-p", "/vms/a b"][..],
        &["set", "/vms/a b", "io.weight", "300"],
        &["move", "--export", DISK, "/vms/a b"],
    ] {
        assert_eq!(place.run(&[&["group"], words].concat()).status, Some(0), "{words:?}");
    }
    let readers = [Reader::new(&serving, DISK, 4096), Reader::new(&serving, DISK, 65536)];
    let ran = place.run(&["record", "--for", "1500ms", "-o", "x.rec"]);
    drop(readers);
    assert_eq!(ran.status, Some(0), "{ran:?}");
    assert!(ran.out.contains("iopace sim replay x.rec"), "{ran:?}");
    let text = fs::read_to_string(place.path("x.rec")).expect("written");
    assert!(text.starts_with("# iopace-record: 1\n"), "{text}");
    let group = r#""path":"/vms/a b","files":{"io.weight":"default 300\n"}"#;
    for part in [group, r#""model":"hdd-sata-250g""#, r#""name":"rr""#, r#"{"length_ns":15"#] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let count = text.lines().filter(|line| !line.starts_with('#')).count();
    assert!(count > 10, "{count}");
    assert!(ran.out.contains(&format!("{count} requests")), "{ran:?}");
    let replayed = place.run(&["sim", "replay", "x.rec", "--format", "json"]).json();
    let report = &replayed[0];
    assert_eq!((&report["scheduler"], &report["disk"]), (&"rr".into(), &DISK.into()));
    let kinds = report["rows"].as_array().expect("rows").iter().map(|row| &row["kind"]);
    assert_eq!(kinds.collect::<Vec<_>>(), ["all", "group", "task", "task"]);
    assert_eq!(report["rows"][1]["name"], "/vms/a b");
    let requests = |row: &serde_json::Value, side: &str| row[side]["requests"].as_u64();
    let all = &report["rows"][0];
    assert!(requests(all, "recorded") > Some(0) && requests(all, "replayed") > Some(0), "{all}");
    // The same file is replayed to the same bytes, and under another scheduler.
    let again = place.run(&["sim", "replay", "x.rec"]);
    assert_eq!(again.out, place.run(&["sim", "replay", "x.rec"]).out);
    let on_time = place.run(&["sim", "replay", "x.rec", "--on-time", "--format", "json"]).json();
    assert!(report["late_ns"].is_u64() && on_time[0]["late_ns"].is_null(), "{on_time}");
    let other = place.run(&["sim", "replay", "x.rec", "--sched", "fair,none", "--format", "json"]);
    assert_eq!(other.status, Some(2), "{other:?}");
    let other = place.run(&["sim", "replay", "x.rec", "--sched", "fair", "--format", "json"]);
    assert_eq!(other.json()[0]["scheduler"], "fair");
}

#[test]
fn a_file_that_is_there_stays_and_wrong_questions_are_told() {
    let place = Place::new();
    let _serving = serve(&place);
    place.write("x.rec", "mine");
    let ran = place.run(&["record", "--for", "200ms", "-o", "x.rec"]);
    assert_eq!(ran.status, Some(2), "{ran:?}");
    assert!(
        ran.error.contains("x.rec is there already") && ran.error.contains("--force"),
        "{ran:?}"
    );
    assert_eq!(fs::read_to_string(place.path("x.rec")).expect("there"), "mine");
    let ran = place.run(&["record", "--for", "200ms", "-o", "x.rec", "--force"]);
    assert_eq!(ran.status, Some(0), "{ran:?}");
    assert!(ran.out.contains("nothing ended on hdd-sata-250g"), "{ran:?}");
    let ran = place.run(&["sim", "replay", "x.rec"]);
    assert_eq!(ran.status, Some(2), "{ran:?}");
    assert!(ran.error.contains("there is no request in it"), "{ran:?}");
    let ran = place.run(&["record", "--for", "200ms", "-o", "no/x.rec"]);
    assert_eq!(ran.status, Some(1), "{ran:?}");
    assert!(ran.error.contains("no/x.rec cannot be written"), "{ran:?}");
    // A link that others may have put there is not followed, and a pipe not waited for.
    place.write("mine", "mine");
    std::os::unix::fs::symlink(place.path("mine"), place.path("link.rec")).expect("linked");
    let ran = place.run(&["record", "--for", "200ms", "-o", "link.rec", "--force"]);
    assert_eq!(ran.status, Some(1), "{ran:?}");
    assert_eq!(fs::read_to_string(place.path("mine")).expect("there"), "mine");
    mknodat(CWD, place.path("pipe.rec"), FileType::Fifo, Mode::RWXU, 0).expect("made");
    let ran = place.run(&["record", "--for", "200ms", "-o", "pipe.rec", "--force"]);
    assert_eq!(ran.status, Some(1), "{ran:?}");
    let ran = place.run(&["record", "nothing", "--for", "200ms"]);
    assert!(ran.status != Some(0) && ran.error.contains("nothing"), "{ran:?}");
    for words in ["--closed", "--speed=2", "--fit=scale", "--svg=x.svg", "--format=csv"] {
        let ran = place.run(&["sim", "replay", "x.rec", words]);
        assert_eq!(ran.status, Some(2), "{ran:?}");
    }
}

#[test]
fn what_was_recorded_is_kept_when_it_is_interrupted() {
    let place = Place::new();
    let serving = serve(&place);
    let reader = Reader::new(&serving, DISK, 4096);
    let mut command = place.command(&["record", "--for", "10min"]);
    let recording = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("started");
    let path = place.path("hdd-sata-250g.rec");
    until("something is recorded", || fs::metadata(&path).is_ok_and(|file| file.len() > 1_000));
    kill_process(Pid::from_child(&recording), Signal::INT).expect("signalled");
    let ended = recording.wait_with_output().expect("ended");
    drop(reader);
    assert!(ended.status.success(), "{ended:?}");
    let text = fs::read_to_string(&path).expect("written");
    assert!(text.lines().last().is_some_and(|last| last.starts_with("# end: ")), "{text}");
    // Another one may record now.
    let ran = place.run(&["record", "--for", "200ms", "-o", "next.rec"]);
    assert_eq!(ran.status, Some(0), "{ran:?}");
}
