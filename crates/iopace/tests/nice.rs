//! `iopace nice`: a program ends as it would, has its class and its group, and leaves nothing.

mod common;
mod mounted;

use common::{Place, Ran, until};
use iopace_core::group::Class;
use iopace_daemon::ioprio;
use mounted::Bench;
use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// `iopace nice` with its state in the place of the test.
fn nice(place: &Place, words: &[&str]) -> Command {
    let mut command = place.command(&[&["nice"], words].concat());
    command.env("XDG_STATE_HOME", place.path("state")).stdin(Stdio::null());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn ran(place: &Place, words: &[&str]) -> Ran {
    Ran::from(nice(place, words).output().expect("started"))
}

fn ended(child: Child) -> Ran {
    Ran::from(child.wait_with_output().expect("ended"))
}

/// The process number that a program of the test wrote into a file.
fn written_pid(path: &Path) -> u32 {
    let read = || fs::read_to_string(path).ok().and_then(|text| text.trim().parse().ok());
    until("the program has said its number", || read().is_some());
    read().expect("a number")
}

#[test]
fn a_program_ends_as_it_would() {
    let place = Place::new();
    for (script, status) in [("exit 0", 0), ("exit 7", 7), ("kill -KILL $$", 137)] {
        let ran = ran(&place, &["sh", "-c", script]);
        assert_eq!(ran.status, Some(status), "{script}: {ran:?}");
        assert!(ran.error.starts_with("iopace nice: by ionice"), "{ran:?}");
    }
    let ran = ran(&place, &["-q", "sh", "-c", "echo out; echo err >&2; exit 3", "--limit", "1"]);
    assert_eq!((ran.status, &*ran.out, &*ran.error), (Some(3), "out\n", "err\n"));
    assert_eq!(self::ran(&place, &["no-such-program"]).status, Some(127));
    assert_eq!(self::ran(&place, &["./disk.img"]).status, Some(126));
}

#[test]
fn a_goal_that_nothing_could_hold_is_refused_with_the_ways() {
    let place = Place::new();
    let cases: [(&[&str], i32, &str); 6] = [
        (&["--keep-p99", "20ms", "touch", "made"], 125, "'iopace mount DIR'"),
        (&["--by", "6", "touch", "made"], 2, "06:00"),
        (&["--by", "06:00"], 2, "PROGRAM"),
        (&["--attach", "1", "touch", "made"], 2, "cannot be used with"),
        (&["--program", "no-such-program"], 125, "'no-such-program'"),
        (&["--limit", "0", "touch", "made"], 2, "64k"),
    ];
    for (words, status, text) in cases {
        let ran = ran(&place, words);
        assert_eq!(ran.status, Some(status), "{words:?}: {ran:?}");
        assert!(ran.error.contains(text), "{words:?}: {ran:?}");
    }
    assert!(!place.path("made").exists(), "nothing was started");
}

#[test]
fn signals_go_to_the_program() {
    let place = Place::new();
    let script = "trap 'exit 9' TERM; echo $$ > pid; while :; do sleep 0.05; done";
    let child = nice(&place, &["sh", "-c", script]).spawn().expect("started");
    written_pid(&place.path("pid"));
    kill_process(Pid::from_child(&child), Signal::TERM).expect("signalled");
    assert_eq!(ended(child).status, Some(9), "it has said how it ends");
}

#[test]
fn signals_that_were_ignored_stay_ignored() {
    let place = Place::new();
    let ours = nice(&place, &["-q", "grep", "SigIgn", "/proc/self/status"]);
    // As nohup(1) does.
    let mut command = Command::new("sh");
    command.args(["-c", "trap '' HUP; exec \"$@\"", "sh"]).arg(ours.get_program());
    command.args(ours.get_args()).current_dir(place.path(""));
    command.env("XDG_STATE_HOME", place.path("state"));
    command.env("IOPACE_RUNTIME_DIR", place.sockets());
    let ran = Ran::from(command.output().expect("started"));
    let set = ran.out.trim().rsplit('\t').next().map(|set| u64::from_str_radix(set, 16));
    let set = set.and_then(Result::ok).unwrap_or_else(|| panic!("{ran:?}"));
    assert_eq!(set & 0b11, 1, "SIGHUP, and not SIGINT: {ran:?}");
}

#[test]
fn a_program_is_idle_and_how_much_it_moves_is_learnt() {
    let place = Place::new();
    let script = "echo $$ > pid; head -c 5000000 /dev/zero > data; read line < fifo";
    let made = Command::new("mkfifo").arg(place.path("fifo")).status().expect("started");
    assert!(made.success());
    let words = ["--by", "1h", "--size", "1G", "sh", "-c", script];
    let child = nice(&place, &words).spawn().expect("started");
    let pid = written_pid(&place.path("pid"));
    assert_eq!(ioprio::get(pid).expect("there"), Class::Idle.into());
    fs::write(place.path("fifo"), "on\n").expect("written");
    let ran = ended(child);
    assert_eq!(ran.status, Some(0), "{ran:?}");
    assert!(!ran.error.contains("nobody knows"), "{ran:?}");
    let text = fs::read_to_string(place.path("state/iopace/nice.json")).expect("kept");
    let known: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    let (name, runs) = known.as_object().expect("programs").iter().next().expect("one");
    assert!(name.starts_with("sh ") && !text.contains("fifo"), "{text}");
    let bytes = runs["runs"][0]["bytes"].as_u64().expect("a number");
    assert!((5_000_000..6_000_000).contains(&bytes), "{text}");
    // The next time that is known; another program is not.
    let other = self::ran(&place, &["--by", "1h", "true"]);
    assert!(other.error.contains("nobody knows yet"), "{other:?}");
}

#[test]
fn in_a_mount_it_has_a_group_which_goes_with_it() {
    let Some(bench) = Bench::new() else { return };
    bench.mount(&["data", "--rule", "program=cat:/backup"]);
    let made = Command::new("mkfifo").arg(bench.path("fifo")).status().expect("started");
    assert!(made.success());
    // The rule is for its child: the group of the program is below that of the rule.
    let script = "cat data/file fifo; cat data/file";
    let words = ["--limit", "10M", "sh", "-c", script];
    let child = nice(&bench.place, &words).spawn().expect("started");
    let groups = || {
        let all = bench.run(&["group", "list", "--format", "json"]).json();
        let all = all.as_array().expect("a list").clone();
        let is_ours = |group: &serde_json::Value| {
            group["group"]
                .as_str()
                .is_some_and(|path| path.contains("/nice-sh-") && !path.ends_with("/idle"))
        };
        all.into_iter().filter(is_ours).collect::<Vec<_>>()
    };
    let is_whole =
        |group: &serde_json::Value| group["files"]["io.max"].is_string() && group["group"] != "";
    until("it has a group with its limit", || groups().first().is_some_and(is_whole));
    let group = groups().remove(0);
    let path = group["group"].as_str().expect("a path");
    assert!(path.starts_with("/backup/nice-sh-"), "{path}");
    assert_eq!(group["files"]["io.ioprio_class"], "default IDLE\n", "{group}");
    assert!(group["files"]["io.max"].as_str().is_some_and(|text| text.contains("10485760")));
    fs::write(bench.path("fifo"), "on\n").expect("written");
    let ran = ended(child);
    assert_eq!((ran.status, &*ran.out), (Some(0), "contenton\ncontent"), "{ran:?}");
    assert!(ran.error.contains("groups in the mounts ") && ran.error.contains("/data"), "{ran:?}");
    until("its group is gone", || groups().is_empty());
    assert_eq!(bench.run(&["unmount", "data"]).status, Some(0));
}

#[test]
fn a_process_that_runs_is_as_before_when_it_is_let_go() {
    let place = Place::new();
    let mut running = Command::new("sleep").arg("600").spawn().expect("started");
    let before = ioprio::get(running.id()).expect("there");
    let pid = running.id().to_string();
    let child = nice(&place, &["--attach", &pid]).spawn().expect("started");
    let is = |class: ioprio::IoPriority| move |pid| ioprio::get(pid).is_ok_and(|now| now == class);
    until("it is idle", || is(Class::Idle.into())(running.id()));
    kill_process(Pid::from_child(&child), Signal::INT).expect("signalled");
    assert_eq!(ended(child).status, Some(0));
    assert_eq!(ioprio::get(running.id()).expect("there"), before);
    // When it ends, so do we.
    let child = nice(&place, &["--attach", &pid]).spawn().expect("started");
    until("it is idle", || is(Class::Idle.into())(running.id()));
    running.kill().and_then(|()| running.wait()).expect("ended");
    assert_eq!(ended(child).status, Some(0));
}
