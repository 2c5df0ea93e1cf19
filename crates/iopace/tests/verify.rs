//! `iopace verify` where nothing is timed: what it refuses, and what it leaves behind. Whether it
//! tells a good limiter from a broken one is held by `scripts/verify.sh`.

mod common;

use common::{Place, Ran};
use iopace_nbd::client::{Client, Wanted};
use rustix::process::{Pid, Signal, kill_process};
use std::io::{BufRead, BufReader, Read};
use std::os::unix::net::UnixStream;
use std::process::Stdio;

fn group(place: &Place, words: &[&str]) {
    let ran = place.run(&[&["group"], words].concat());
    assert_eq!(ran.status, Some(0), "{ran:?}");
}

fn refused(ran: &Ran, text: &str) {
    assert_eq!(ran.status, Some(2), "{ran:?}");
    assert!(ran.error.contains(text), "'{text}' in {ran:?}");
}

/// The groups that there are.
fn groups(place: &Place) -> Vec<String> {
    let all = place.run(&["group", "list", "--format", "json"]).json();
    let all = all.as_array().expect("a list");
    all.iter().map(|one| one["group"].as_str().expect("a path").to_owned()).collect()
}

#[test]
fn what_cannot_be_tested_is_said_with_a_status_of_its_own() {
    let place = Place::new();
    refused(&place.run(&["verify", "/a"]), "start one with 'iopace serve FILE'");
    refused(&place.run(&["verify", "--control", "x"]), "name one of its groups too");
    refused(&place.run(&["verify", "--block-size", "1000"]), "a power of two from 512 to 1M");
    refused(&place.run(&["verify", "--time", "1ms"]), "from 1s to 60min");
    refused(&place.run(&["verify", "--mount", "."]), "is in no mount of a running daemon");
    let serving = place.serve(&["disk.img"]);
    refused(&place.run(&["verify", "/a"]), "/a");
    group(&place, &["create", "/a"]);
    refused(&place.run(&["verify", "/a"]), "nothing is set for /a that could be verified");
    group(&place, &["set", "/a", "io.max", "disk wbps=1M"]);
    refused(&place.run(&["verify", "/a", "--scratch", "dosk"]), "did you mean 'disk'?");
    // Reads only: nothing is written that nobody allowed.
    let ran = place.run(&["verify", "/a", "--format", "json"]);
    refused(&ran, "1 of 1 promises could not be tested: why is said with each");
    let report: serde_json::Value = serde_json::from_str(&ran.out).expect("JSON");
    let promise = &report["promises"][0];
    assert_eq!(promise["promise"], "wbps");
    assert_eq!(promise["verdict"], "not-tested");
    let why = promise["reason"].as_str().expect("a text");
    assert!(why.contains("with '--scratch disk' it is tested, and what is in disk is"), "{why}");
    assert_eq!(promise["asked"], 1_048_576.0);
    drop(serving);
}

#[test]
fn nobody_is_held_up_without_consent() {
    let place = Place::new();
    let serving = place.serve(&["disk.img"]);
    group(&place, &["create", "/a"]);
    group(&place, &["set", "/a", "io.max", "disk rbps=1M"]);
    let stream = UnixStream::connect(serving.socket()).expect("connected");
    let client = Client::connect(stream, "disk", Wanted::default()).expect("opened");
    refused(
        &place.run(&["verify", "/a"]),
        "the device 'disk' is in use: connections 1 (disk, as /)",
    );
    client.disconnect().expect("said good-bye");
}

/// Runs it until it says what it does, and then interrupts it.
fn interrupted(place: &Place, words: &[&str], says: &str) {
    let mut command = place.command(words);
    command.env("TMPDIR", place.path("")).stdin(Stdio::null());
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("started");
    let mut error = BufReader::new(child.stderr.take().expect("piped"));
    let mut line = String::new();
    error.read_line(&mut line).expect("read");
    assert!(line.starts_with(says), "{line}");
    kill_process(Pid::from_child(&child), Signal::INT).expect("signalled");
    error.read_to_string(&mut line).expect("read");
    assert_eq!(child.wait().expect("waited").code(), Some(130), "{line}");
}

#[test]
fn an_interrupted_test_of_itself_leaves_nothing() {
    let place = Place::new();
    interrupted(&place, &["verify", "--time", "60s"], "rbps of /limits/512");
    let left = std::fs::read_dir(place.path("")).expect("read");
    let left: Vec<_> = left.flatten().map(|entry| entry.file_name()).collect();
    assert_eq!(left, ["disk.img"]);
}

#[test]
fn an_interrupted_test_of_a_group_leaves_no_group() {
    let place = Place::new();
    let serving = place.serve(&["--emulate", "null", "--size", "64MiB", "--direct"]);
    group(&place, &["create", "/vms/a", "-p"]);
    group(&place, &["set", "/vms/a", "io.weight", "null 300"]);
    interrupted(&place, &["verify", "/vms/a", "--time", "60s"], "weight of /vms/a");
    assert_eq!(groups(&place), ["/", "/vms", "/vms/a"]);
    drop(serving);
}
