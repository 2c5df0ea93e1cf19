//! `iopace explain` and `iopace events` in front of a daemon with load.

mod common;

use common::Place;
use common::load::Reader;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::thread;
use std::time::Duration;

/// Asks until the reason is named first.
fn explained(place: &Place, words: &[&str], reason: &str) -> serde_json::Value {
    let mut last = serde_json::Value::Null;
    for _ in 0..40 {
        let words =
            [&["explain", "--over", "2s", "--look", "0", "--format", "json"], words].concat();
        last = place.run(&words).json();
        let device = &last["devices"][0];
        if device["explained"]["causes"][0]["reason"] == reason {
            return device.clone();
        }
        // SLEEP: the pause between two looks at the condition.
        thread::sleep(Duration::from_millis(250));
    }
    panic!("'{reason}' is not named first: {last:#}");
}

fn group(place: &Place, words: &[&str]) {
    let ran = place.run(&[&["group"], words].concat());
    assert_eq!(ran.status, Some(0), "{ran:?}");
}

/// Sends a change to the control socket.
fn post(place: &Place, path: &str, body: &serde_json::Value) -> String {
    let body = body.to_string();
    let mut socket = UnixStream::connect(place.sockets().join("iopace.ctl")).expect("connected");
    let head = format!("POST {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n");
    let length = body.len();
    write!(socket, "{head}content-length: {length}\r\n\r\n{body}").expect("sent");
    let mut answer = String::new();
    socket.read_to_string(&mut answer).expect("an answer");
    answer
}

#[test]
fn a_limit_is_named_with_the_command_that_lifts_it() {
    let place = Place::new();
    let serving = place.serve(&["disk.img"]);
    group(&place, &["create", "-p", "/vms/web"]);
    group(&place, &["set", "/vms/web", "io.max", "disk riops=20"]);
    group(&place, &["move", "--export", "disk", "/vms/web"]);
    let reader = Reader::new(&serving, "disk", 4096);
    let told = explained(&place, &["/vms/web"], "budget");
    let remedy = &told["explained"]["causes"][0]["remedies"][0]["command"];
    assert_eq!(remedy, "iopace group set /vms/web io.max 'disk riops=40'");
    let ran = place.run(&["explain"]);
    assert_eq!(ran.status, Some(0), "{ran:?}");
    assert!(ran.out.starts_with("Worst off is /vms/web on disk."), "{}", ran.out);
    assert!(ran.out.contains("limit: the limit of /vms/web"), "{}", ran.out);
    let ran = place.run(&["explain", "/vms/web"]);
    assert!(ran.out.contains("the limit of /vms/web, 20 requests/s (io.max riops)"), "{}", ran.out);
    // What is said to lift it does, sent as the dashboard sends it.
    let lifts = &told["explained"]["causes"][0]["remedies"][1];
    assert_eq!(lifts["command"], "iopace group set /vms/web io.max 'disk riops=max'");
    assert_eq!(lifts["change"]["kind"], "group_file");
    let answer = post(&place, "/v1/groups/files", &lifts["change"]["body"]);
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    let is_free = || {
        // SLEEP: the pause between two looks at the condition.
        thread::sleep(Duration::from_millis(250));
        let words = ["explain", "/vms/web", "--over", "2s", "--look", "0", "--format", "json"];
        let told = place.run(&words).json();
        told["devices"][0]["explained"]["held_up"] == false
    };
    assert!((0..40).any(|_| is_free()), "it is still held up");
    drop(reader);
}

#[test]
fn turns_are_named_with_who_has_them() {
    let place = Place::new();
    let words = ["--emulate", "hdd-sata-250g", "--size", "1MiB", "--sched", "fair"];
    let serving = place.serve(&[&words[..], &["--window", "1", "--direct"]].concat());
    let all = place.run(&["sched", "status", "--format", "json"]).json();
    let device = all[0]["name"].as_str().expect("a name").to_owned();
    group(&place, &["create", "-p", "/vms/web"]);
    group(&place, &["create", "-p", "/vms/db"]);
    group(&place, &["set", "/vms/db", "io.weight", "1000"]);
    let mut readers = Vec::new();
    let connections = |path: &str, count: usize, readers: &mut Vec<Reader>| {
        group(&place, &["move", "--export", &device, path]);
        readers.extend((0..count).map(|_| Reader::new(&serving, &device, 4096)));
        // The next move is of the export: these are to stay.
        let all = place.run(&["group", "list", "--connections", "--format", "json"]).json();
        for one in all.as_array().expect("a list") {
            if one["moved"] == false {
                let number = one["connection"].to_string();
                group(&place, &["move", "--connection", &number, path]);
            }
        }
    };
    connections("/vms/db", 8, &mut readers);
    connections("/vms/web", 1, &mut readers);
    let told = explained(&place, &["/vms/web"], "turn");
    let cause = &told["explained"]["causes"][0];
    assert!(cause["text"].as_str().is_some_and(|text| text.contains("/vms/db has")), "{cause:#}");
    let command = cause["remedies"][0]["command"].as_str().expect("a command");
    assert!(command.contains("io.weight"), "{command}");
    drop(readers);
}

/// A disk that takes one request after the other, in order of arrival: small reads wait for the
/// large ones of eight others. A look finds that, and a scheduler that divides the disk's time.
#[test]
fn a_look_finds_what_is_waited_for_and_what_would_help() {
    let place = Place::new();
    let words = ["--emulate", "hdd-sata-250g", "--size", "16MiB", "--sched", "fifo", "--direct"];
    let serving = place.serve(&words);
    let sizes = [4096].into_iter().chain([1 << 20; 8]);
    let readers: Vec<Reader> =
        sizes.map(|bytes| Reader::new(&serving, "hdd-sata-250g", bytes)).collect();
    let is_told = || {
        let told = place.run(&["explain", "--format", "json"]).json();
        let below = &told["devices"][0]["below"];
        let first = &below["tasks"][0];
        if below["loses_to_others"] != true {
            return false;
        }
        assert_eq!(first["parts"][0]["part"], "held", "{first:#}");
        let tried = below["tried"].as_array().expect("a list");
        let default = tried.iter().find(|one| one["default"] == true);
        let default = default.unwrap_or_else(|| panic!("{below:#}"));
        assert_eq!(default["setting"], "scheduler auto, the default (fair)");
        let text = below["text"].as_str().expect("a text");
        let says_so = text.contains("A setting of iopace would help");
        assert!(says_so || default["helps"] != true, "{below:#}");
        default["helps"] == true && says_so
    };
    // At first the device has not been busy for long. And a look has fourteen requests of each:
    // what the default makes of them is a quarter less in most looks, which is what counts as help,
    // and a fifth less in some.
    assert!((0..20).any(|_| is_told()), "{}", place.run(&["explain"]).out);
    drop(readers);
}

#[test]
fn events_are_listed_and_bad_questions_refused() {
    let place = Place::new();
    let _serving = place.serve(&["disk.img"]);
    assert_eq!(place.run(&["events"]).out, "nothing has happened\n");
    assert_eq!(place.run(&["sched", "insert", "-a", "rr"]).status, Some(0));
    let all = place.run(&["events", "--format", "json"]).json();
    assert_eq!((&all[0]["kind"], &all[0]["device"]), (&"exchanged".into(), &"disk".into()));
    let ran = place.run(&["events", "--device", "disk"]);
    assert!(ran.out.contains("scheduler fair exchanged for rr"), "{}", ran.out);
    assert_eq!(place.run(&["events", "--device", "other"]).out, "nothing has happened\n");
    let ran = place.run(&["explain", "/nobody"]);
    assert!(ran.status == Some(1) && ran.error.contains("/nobody"), "{ran:?}");
    let ran = place.run(&["explain", "dusk"]);
    assert!(ran.status == Some(1) && ran.error.contains("there are: disk"), "{ran:?}");
    let ran = place.run(&["explain"]);
    assert!(ran.out.contains("iopace is not what slows it"), "{ran:?}");
}
