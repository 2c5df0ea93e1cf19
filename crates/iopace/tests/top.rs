//! `iopace top` in front of a daemon: as text, and in a terminal with keys.

mod common;
mod terminal;

use common::Place;
use rustix::process::Signal;
use std::os::unix::process::ExitStatusExt as _;
use terminal::Terminal;

/// A daemon's words, with groups and a device that holds to itself.
fn serve(place: &Place) -> common::Serving {
    place.write(
        "iopace.toml",
        "[[device]]\nname = \"disk\"\nfile = \"disk.img\"\nsched = \"fair\"\n\
         [[device]]\nname = \"other\"\nemulate = \"null\"\nsize = \"1MiB\"\n\
         [group.\"/a\"]\n\"io.max\" = \"disk wbps=1M\"\n[group.\"/b\"]\n",
    );
    place.serve(&["--config", "iopace.toml"])
}

#[test]
fn reports_are_printed_as_text() {
    let place = Place::new();
    let _daemon = serve(&place);
    let ran = place.run(&["top", "--batch", "--count", "2", "--sort", "name"]);
    assert_eq!((ran.status, &*ran.error), (Some(0), ""), "{ran:?}");
    assert_eq!(ran.out.matches("iopace top: report ").count(), 2, "{}", ran.out);
    for text in ["disk (file)", "other (emulated)", "scheduler fair (inserted)"] {
        assert_eq!(ran.out.matches(text).count(), 2, "{text}: {}", ran.out);
    }
    let limited = ran.out.lines().find(|line| line.starts_with("  a ")).expect("a row");
    assert!(limited.contains(" 100 L "), "{limited}");
    assert!(ran.out.lines().all(|line| line.len() <= 100 && line == line.trim_end()));

    let ran = place.run(&["top", "other", "--batch", "--tasks", "--count", "1"]);
    assert!(!ran.out.contains("disk (file)"), "{}", ran.out);
    assert!(ran.out.contains("no tasks seen yet"), "{}", ran.out);
}

#[test]
fn reports_are_printed_as_lines_of_json() {
    let place = Place::new();
    let _daemon = serve(&place);
    let ran = place.run(&["top", "--format", "json", "--count", "2"]);
    assert_eq!(ran.status, Some(0), "{ran:?}");
    let reports: Vec<serde_json::Value> =
        ran.out.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let [first, second] = &*reports else { panic!("two lines: {}", ran.out) };
    assert!(first["sequence"].as_u64() < second["sequence"].as_u64());
    assert_eq!(first["devices"][0]["device"], "disk");
}

#[test]
fn what_cannot_be_shown_is_said() {
    let place = Place::new();
    let ran = place.run(&["top"]);
    assert_eq!(ran.status, Some(2));
    assert!(ran.error.contains("is no terminal") && ran.error.contains("--batch"), "{ran:?}");
    let ran = place.run(&["top", "--batch"]);
    assert_eq!(ran.status, Some(1));
    assert!(ran.error.contains("start one with 'iopace serve FILE'"), "{ran:?}");
    let _daemon = serve(&place);
    let ran = place.run(&["top", "dsk", "--batch"]);
    assert_eq!(ran.error, "error: there is no device 'dsk'; did you mean 'disk'?\n");
}

#[test]
fn keys_set_a_weight_exchange_the_scheduler_and_end_it() {
    let place = Place::new();
    let _daemon = serve(&place);
    let mut top = Terminal::start(place.command(&["top", "--sort", "name"]), (90, 24));
    top.wait_for("groups as a tree by name: 3");
    top.wait_until_taken();
    top.keys("\x1b[B\x1b[Bw");
    top.wait_for("weight of /b on disk:");
    top.keys("0\r");
    top.wait_for("error: /b io.weight");
    top.keys("w300\r");
    top.wait_for("/b has weight 300 on disk now");
    let get = place.run(&["group", "get", "/b", "io.weight", "--format", "json"]).json();
    assert_eq!(get["effective"][0]["value"], "300", "{get}");
    top.wait_for("be      300");

    top.keys("S");
    top.wait_for("scheduler of disk");
    top.keys("\x1b[H\r");
    top.wait_for("disk has scheduler fifo now");
    top.wait_for("scheduler fifo (inserted)");
    top.keys("d");
    top.wait_for("2 of 2");
    top.keys("\t");
    top.wait_for("no tasks seen yet");
    top.keys("q");
    assert_eq!(top.end().code(), Some(0));
    top.wait_until_given_back();
}

#[test]
fn a_daemon_that_was_started_again_is_found() {
    let place = Place::new();
    let daemon = serve(&place);
    let mut top = Terminal::start(place.command(&["top"]), (80, 24));
    top.wait_for("live");
    daemon.end_by(Signal::TERM);
    top.wait_for("NO CONNECTION");
    // The lines are broken between words, where depends on the length of the path.
    top.wait_for("tried");
    let _again = serve(&place);
    top.wait_for("  live");
    top.keys("\x03");
    assert_eq!(top.end().code(), Some(0), "Ctrl-C");
    top.wait_until_given_back();
}

#[test]
fn signals_give_the_terminal_back() {
    let place = Place::new();
    let _daemon = serve(&place);
    for signal in [Signal::TERM, Signal::INT, Signal::HUP] {
        let mut top = Terminal::start(place.command(&["top"]), (80, 24));
        top.wait_for("groups as a tree");
        top.signal(signal);
        assert_eq!(top.end().signal(), Some(signal.as_raw()), "whoever waits learns it");
        top.wait_until_given_back();
    }
}

#[test]
fn it_can_be_stopped_and_goes_on_at_another_size() {
    let place = Place::new();
    let _daemon = serve(&place);
    let mut top = Terminal::start(place.command(&["top"]), (80, 24));
    top.wait_for("groups as a tree");
    // The key, a signal, and the key when it is held: once each.
    for keys in ["\x1a", "", "\x1a\x1a\x1a"] {
        if keys.is_empty() {
            top.signal(Signal::TSTP);
        }
        top.keys(keys);
        top.wait_until_stopped();
        top.wait_until_given_back();
        top.size((40, 12));
        top.signal(Signal::CONT);
        top.wait_for("are needed");
        top.wait_until_taken();
        top.size((100, 30));
        top.signal(Signal::WINCH);
        top.wait_for("groups as a tree");
    }
    top.keys("q");
    assert_eq!(top.end().code(), Some(0));
    top.wait_until_given_back();
}
