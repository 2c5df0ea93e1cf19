//! `iopace serve` and `iopace sched` as processes.

mod common;

use common::Place;
use rustix::process::Signal;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::process::Stdio;

/// What an NBD server says first.
fn greeting(mut stream: impl Read) -> [u8; 16] {
    let mut greeting = [0; 16];
    stream.read_exact(&mut greeting).expect("a greeting");
    greeting
}

#[test]
fn one_word_serves_and_a_signal_leaves_nothing() {
    for signal in [Signal::TERM, Signal::INT] {
        let place = Place::new();
        let serving = place.serve(&["disk.img"]);
        let socket = place.sockets().join("disk.sock");
        assert_eq!(serving.uri(), format!("nbd+unix:///disk?socket={}", socket.display()));
        assert!(serving.welcome.contains(", scheduler fair (auto)\n"), "{}", serving.welcome);
        assert!(serving.welcome.contains("next: iopace sched status disk\n"));
        for path in [&socket, &place.sockets().join("iopace.ctl")] {
            let mode = fs::metadata(path).expect("there").permissions().mode();
            assert_eq!(mode & 0o777, 0o600, "{}", path.display());
        }
        let stream = UnixStream::connect(&socket).expect("connected");
        assert_eq!(&greeting(stream), b"NBDMAGICIHAVEOPT");
        let ran = serving.end_by(signal);
        assert_eq!(ran.status, Some(0), "{ran:?}");
        assert!(!place.sockets().exists(), "left behind");
    }
}

/// Takes the first export and asks for `count` blocks from both ends of the disk in turn.
fn keep_busy(mut stream: UnixStream, size_bytes: u64, count: u64) -> UnixStream {
    greeting(&stream);
    let mut flags = [0; 2];
    stream.read_exact(&mut flags).expect("flags");
    // Fixed newstyle without padding; then NBD_OPT_EXPORT_NAME with the empty name.
    let mut message = 3u32.to_be_bytes().to_vec();
    message.extend(b"IHAVEOPT");
    message.extend(1u32.to_be_bytes());
    message.extend(0u32.to_be_bytes());
    for cookie in 0..count {
        let offset = (cookie % 2) * (size_bytes - 8192) + cookie * 512 % 4096;
        message.extend(0x2560_9513_u32.to_be_bytes());
        message.extend([0, 0, 0, 0]);
        message.extend(cookie.to_be_bytes());
        message.extend(offset.to_be_bytes());
        message.extend(512u32.to_be_bytes());
    }
    stream.write_all(&message).expect("sent");
    let mut export = [0; 10];
    stream.read_exact(&mut export).expect("an export");
    stream
}

#[test]
fn a_second_signal_ends_at_once() {
    let place = Place::new();
    // Some 25 ms for each full stroke: 400 of them last 10 s.
    let words = ["--emulate", "hdd-sata-250g", "--direct", "--sched", "fifo"];
    let mut serving = place.serve(&words);
    let size_bytes = 250_000_000_000;
    let client = UnixStream::connect(serving.socket()).expect("connected");
    let mut client = keep_busy(client, size_bytes, 400);
    // The first reply is there: the others are on their way.
    client.read_exact(&mut [0; 16]).expect("a reply");
    serving.signal(Signal::TERM);
    serving.wait_for_log("SIGTERM: finishing what was begun");
    let ran = serving.end_by(Signal::INT);
    assert_eq!(ran.status, Some(130), "{ran:?}");
    assert!(ran.error.contains("SIGINT: ended at once"), "{}", ran.error);
    assert!(!place.sockets().exists(), "left behind");
}

#[test]
fn a_log_that_cannot_be_written_ends_nothing() {
    for format in ["human", "json"] {
        let place = Place::new();
        let full = File::options().write(true).open("/dev/full").expect("opened");
        let words = ["serve", "disk.img", "--sched", "fifo", "--log-format", format];
        let serving = place.serving(&words, full.into());
        // Each of these is a line of the log.
        for name in ["rr", "deadline"] {
            let ran = place.run(&["sched", "configure", "-a", name]);
            assert_eq!(ran.status, Some(0), "{ran:?}");
        }
        greeting(UnixStream::connect(serving.socket()).expect("connected"));
        let ran = serving.end_by(Signal::TERM);
        assert_eq!(ran.status, Some(0), "{ran:?}");
        assert!(!place.sockets().exists(), "left behind");
    }
    // A failure has its exit status, though nobody can read why.
    let place = Place::new();
    let full = File::options().write(true).open("/dev/full").expect("opened");
    let mut command = place.command(&["serve", "none.img"]);
    let status = command.stderr(full).stdout(Stdio::null()).status().expect("started");
    assert_eq!(status.code(), Some(1));
}

#[test]
fn what_a_killed_daemon_left_is_replaced() {
    let place = Place::new();
    let serving = place.serve(&["disk.img"]);
    let socket = serving.socket().to_owned();
    serving.end_by(Signal::KILL);
    assert!(socket.exists(), "left behind by SIGKILL");
    let ran = place.run(&["sched", "status"]);
    assert_eq!(ran.status, Some(1), "{ran:?}");

    let again = place.serve(&["disk.img"]);
    greeting(UnixStream::connect(again.socket()).expect("connected"));
    assert_eq!(place.run(&["sched", "status"]).status, Some(0));
    again.end_by(Signal::TERM);
    assert!(!place.sockets().exists(), "left behind");
}

#[test]
fn what_is_in_use_is_refused_and_not_disturbed() {
    let place = Place::new();
    place.image("other.img");
    let serving = place.serve(&["disk.img", "--socket", "x.sock", "--control", "x.ctl"]);
    let cases: [(&[&str], &str); 3] = [
        (&["other.img", "--socket", "x.sock"], "x.sock: a server is listening there already (pid "),
        (&["other.img", "--control", "x.ctl"], "x.ctl: a daemon is controlled there already (pid "),
        (&["disk.img"], "disk.img: another process serves it already"),
    ];
    for (words, text) in cases {
        let ran = place.run(&[&["serve"], words].concat());
        assert_eq!(ran.status, Some(1), "{ran:?}");
        assert!(ran.error.contains(text), "{}", ran.error);
    }
    greeting(UnixStream::connect(place.path("x.sock")).expect("still there"));
    let ran = place.run(&["sched", "status", "--control", "x.ctl"]);
    assert_eq!(ran.status, Some(0), "{ran:?}");
    serving.end_by(Signal::TERM);
    assert!(!place.path("x.sock").exists() && !place.path("x.ctl").exists());
    assert!(!place.sockets().exists());
}

#[test]
fn schedulers_are_exchanged_from_the_command_line() {
    let place = Place::new();
    let serving = place.serve(&["disk.img", "--sched", "rr", "--set", "wait_ms=7"]);
    let status = place.run(&["sched", "status", "--format", "json"]).json();
    assert_eq!(status[0]["scheduler"]["algorithm"], "rr");
    assert_eq!(status[0]["scheduler"]["params"]["wait_ms"], 7);

    let set = ["sched", "configure", "--set", "wait_ms=8", "disk", "--format", "json"];
    assert_eq!(place.run(&set).json()["scheduler"]["params"]["wait_ms"], 8);
    let ran = place.run(&["sched", "configure", "-a", "deadline"]);
    assert!(ran.out.starts_with("disk: scheduler deadline (inserted): "), "{ran:?}");
    let ran = place.run(&["sched", "list", "disk"]);
    assert!(ran.out.contains("at work on disk"), "{ran:?}");
    let ran = place.run(&["sched", "destroy"]);
    assert!(ran.out.starts_with("disk: scheduler fair (auto: "), "{ran:?}");
    let ran = place.run(&["sched", "destroy"]);
    assert_eq!(ran.status, Some(1));
    assert_eq!(
        ran.error,
        "error: device 'disk' has no scheduler inserted; use 'insert -a' to put one in\n"
    );
    let ran = place.run(&["sched", "insert", "-a", "rr", "--set", "wait_ms=31"]);
    assert!(ran.error.contains("wait_ms=31 is out of bounds: 1 to 30 ms"), "{ran:?}");
    let ran = place.run(&["sched", "insert", "-a", "rr", "dsik"]);
    assert_eq!(ran.error, "error: there is no device 'dsik'; did you mean 'disk'?\n");
    let ran = place.run(&["sched", "status"]);
    assert!(ran.out.contains("scheduler rr exchanged for deadline"), "{}", ran.out);
    serving.end_by(Signal::TERM);
}

/// A disk without a head, so that what is known of it is the same on every machine.
#[test]
fn a_device_has_the_default_unless_another_is_named() {
    for words in [&[][..], &["--sched", "auto"]] {
        let place = Place::new();
        let serving = place.serve(&[&["--emulate", "ssd-sata", "--direct"], words].concat());
        let scheduler = |words: &[&str]| {
            let told = place.run(&[words, &["--format", "json"]].concat()).json();
            let device = if told.is_array() { &told[0] } else { &told };
            device["scheduler"].clone()
        };
        let is_auto = |at: &serde_json::Value| {
            let is_base = at["algorithm"] == "fair" && at["base"] == "fair";
            is_base && at["auto"] == true && at["inserted"] == false
        };
        let told = scheduler(&["sched", "status"]);
        assert!(is_auto(&told), "{told}");
        assert_eq!(told["disk"]["has_head"], false, "{told}");
        let ran = place.run(&["sched", "status"]);
        assert!(ran.out.contains("  scheduler   fair (auto: no head)\n"), "{}", ran.out);
        let ran = place.run(&["sched", "list", "ssd-sata"]);
        assert!(ran.out.contains("  at work on ssd-sata (auto: no head)\n"), "{}", ran.out);
        assert_eq!(ran.out.matches("the default (auto)").count(), 1, "{}", ran.out);
        let ran = place.run(&["explain"]);
        assert!(ran.out.ends_with("Scheduler of ssd-sata: fair (auto: no head)\n"), "{}", ran.out);
        let told = place.run(&["explain", "--format", "json"]).json();
        let device = &told["devices"][0];
        assert!(device["auto"] == true && device["disk"]["learned"] == false, "{device}");

        // Settings of its own make it one that is inserted; without them it is the default again.
        let told = scheduler(&["sched", "configure", "--set", "wait_ms=3"]);
        assert!(told["inserted"] == true && told["params"]["wait_ms"] == 3, "{told}");
        assert!(told["algorithm"] == "fair" && told["auto"] == false, "{told}");
        assert!(is_auto(&scheduler(&["sched", "destroy"])));
        assert!(is_auto(&scheduler(&["sched", "insert", "-a", "auto"])), "nothing changes");
        assert_eq!(scheduler(&["sched", "insert", "-a", "elevator"])["auto"], false);
        let ran = place.run(&["sched", "insert", "-a", "auto"]);
        assert!(ran.error.contains("'elevator' inserted already"), "{ran:?}");
        assert!(is_auto(&scheduler(&["sched", "configure", "-a", "auto"])));
        let ran = place.run(&["sched", "insert", "-a", "auto", "--set", "wait_ms=3"]);
        assert!(ran.status == Some(1) && ran.error.contains("has no settings"), "{ran:?}");
        serving.end_by(Signal::TERM);
    }
}

#[test]
fn odd_names_are_served_and_quoted() {
    let place = Place::new();
    place.image("my disk's.img");
    let serving = place.serve(&["my disk's.img"]);
    assert!(serving.uri().starts_with("nbd+unix:///my%20disk%27s?socket="), "{}", serving.uri());
    let next = r"next: iopace sched status 'my disk'\''s'";
    assert!(serving.welcome.contains(next), "{}", serving.welcome);
    let ran = place.run(&["sched", "insert", "-a", "rr", "my disk's", "--format", "json"]);
    assert_eq!(ran.json()["scheduler"]["algorithm"], "rr");
    serving.end_by(Signal::TERM);
}

#[test]
fn two_daemons_are_told_apart_by_their_devices() {
    let place = Place::new();
    place.image("data.img");
    let first = place.serve(&["disk.img"]);
    let second = place.serve(&["data.img", "--read-only"]);
    let ran = place.run(&["sched", "insert", "-a", "rr", "data", "--format", "json"]);
    assert_eq!(ran.json()["name"], "data");
    let ran = place.run(&["sched", "insert", "-a", "rr"]);
    assert_eq!(ran.status, Some(2));
    assert!(ran.error.contains("name one of them: disk, data"), "{}", ran.error);
    first.end_by(Signal::TERM);
    let status = place.run(&["sched", "status", "--format", "json"]).json();
    assert_eq!(status.as_array().map(Vec::len), Some(1));
    assert_eq!(status[0]["read_only"], true);
    second.end_by(Signal::TERM);
    assert!(!place.sockets().exists(), "left behind");
}

#[test]
fn a_configuration_file_serves_several_devices() {
    let place = Place::new();
    place.write(
        "iopace.toml",
        "listen = [\"127.0.0.1:0\"]\nsocket = \"both.sock\"\ncontrol = \"both.ctl\"\n\
         log-format = \"json\"\n\
         [[device]]\nfile = \"disk.img\"\nsched = \"rr\"\nset = { quantum_ms = 50 }\n\
         [[device]]\nname = \"slow\"\nemulate = \"hdd-sata-250g\"\nsize = \"16MiB\"\n\
         [[export]]\nname = \"public\"\ndevice = \"disk\"\nread-only = true\n\
         [[export]]\nname = \"slow\"\ndevice = \"slow\"\n",
    );
    let serving = place.serve(&["--config", "iopace.toml"]);
    let uris: Vec<&str> = serving.welcome.lines().filter(|line| line.starts_with("nbd")).collect();
    assert_eq!(uris.len(), 4, "{uris:?}");
    assert!(uris[0].starts_with("nbd+unix:///public?socket="), "{uris:?}");
    let tcp = uris.iter().find_map(|uri| uri.strip_prefix("nbd://")).expect("TCP");
    let (address, _) = tcp.split_once('/').expect("an export");
    greeting(TcpStream::connect(address).expect("connected"));
    let status =
        place.run(&["sched", "status", "--control", "both.ctl", "--format", "json"]).json();
    assert_eq!(status[0]["scheduler"]["params"]["quantum_ms"], 50);
    assert_eq!(status[1]["model"], "hdd-sata-250g");
    assert_eq!(status[1]["size_bytes"], 16 << 20);
    let ran = serving.end_by(Signal::TERM);
    assert_eq!(ran.status, Some(0), "{ran:?}");
    for line in ran.error.lines() {
        serde_json::from_str::<serde_json::Value>(line).expect("the log is JSON");
    }
    assert!(!place.path("both.sock").exists() && !place.path("both.ctl").exists());
}

#[test]
fn pacing_and_window_are_seen_and_exchanged_from_the_command_line() {
    let place = Place::new();
    let words = ["disk.img", "--pace", "none", "--dirty-limit", "2MiB", "--window", "8"];
    let serving = place.serve(&words);
    let status = place.run(&["pace", "status", "--format", "json"]).json();
    let pace = &status[0]["pace"];
    assert_eq!(pace["policy"], "none");
    assert_eq!(
        (&pace["limit_bytes"], &pace["background_bytes"]),
        (&(2 << 20).into(), &(1 << 20).into())
    );
    let ran = place.run(&["pace", "configure", "-a", "rate", "disk"]);
    assert_eq!(ran.out, "disk: pace rate, pauses of 8.0 ms\n", "{ran:?}");
    let ran = place.run(&["pace", "configure", "--pause-target", "5ms", "disk"]);
    assert_eq!(ran.out, "disk: pace rate, pauses of 5.0 ms\n", "{ran:?}");
    let ran = place.run(&["pace", "status"]);
    assert!(ran.out.starts_with("disk: pace rate\n  dirty       ...."), "{}", ran.out);
    let pauses = "  pauses      none yet; aims at 5.0 ms\n";
    for text in ["write-back from 1 MiB, free run to ", "limit 2 MiB", pauses] {
        assert!(ran.out.contains(text), "{text}: {}", ran.out);
    }
    assert!(ran.out.lines().all(|line| line.chars().count() <= 120), "{}", ran.out);
    let ran = place.run(&["pace", "list", "disk"]);
    let line = ran.out.lines().find(|line| line.starts_with("rate (default)")).expect("rate");
    assert!(line.ends_with(" disk"), "{}", ran.out);

    let ran = place.run(&["window", "configure", "-a", "fixed", "--depth", "5"]);
    assert_eq!(ran.out, "disk: window fixed, depth 5\n", "{ran:?}");
    let status = place.run(&["window", "status", "--format", "json"]).json();
    assert_eq!(
        (&status[0]["window"]["policy"], &status[0]["window"]["depth"]),
        (&"fixed".into(), &5.into())
    );
    let ran = place.run(&["window", "status"]);
    let words: Vec<&str> = ran.out.lines().nth(1).expect("a row").split_whitespace().collect();
    assert_eq!(words[..4], ["disk", "fixed", "5", "0"], "{}", ran.out);
    let ran = place.run(&["sched", "status"]);
    assert!(
        ran.out.contains("  pace        rate; 0 B of 2 MiB dirty, 0 writes wait\n"),
        "{}",
        ran.out
    );
    assert!(ran.out.contains("  window      fixed; 5 requests, "), "{}", ran.out);
    let ran = place.run(&["window", "configure", "--depth", "5", "dsik"]);
    assert_eq!(ran.error, "error: there is no device 'dsik'; did you mean 'disk'?\n");
    serving.end_by(Signal::TERM);

    let serving = place.serve(&["disk.img", "--direct"]);
    let ran = place.run(&["pace", "status"]);
    assert_eq!(ran.out, "disk: bypasses the page cache: there is nothing to pace\n");
    let ran = place.run(&["pace", "configure", "-a", "none"]);
    assert_eq!(
        ran.error,
        "error: device 'disk' bypasses the page cache (direct); no write of it is buffered, so \
         there is nothing to pace\n"
    );
    serving.end_by(Signal::TERM);
}

#[test]
fn the_unit_for_systemd_serves_its_file_and_says_when() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../contrib/systemd/iopace.service");
    let unit = fs::read_to_string(path).expect("there");
    let of = |key: &str| {
        let value = unit.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix('='));
        value.unwrap_or_else(|| panic!("no {key}")).to_owned()
    };
    assert_eq!(of("Type"), "notify");
    let start = of("ExecStart");
    let words: Vec<&str> = start.split(' ').collect();
    assert_eq!(words, ["/usr/bin/iopace", "serve", "--config", "/etc/iopace/iopace.toml"]);

    let place = Place::new();
    place.write("iopace.toml", "[[device]]\nname = \"disk\"\nfile = \"disk.img\"\n");
    let told = std::os::unix::net::UnixDatagram::bind(place.path("notify")).expect("bound");
    let mut command = place.command(&["serve", "--config", "iopace.toml"]);
    let command = command.env("NOTIFY_SOCKET", place.path("notify"));
    let mut child = command.stdout(std::process::Stdio::null()).spawn().expect("started");
    told.set_read_timeout(Some(std::time::Duration::from_secs(30))).expect("set");
    let mut message = [0; 256];
    let count = told.recv(&mut message).expect("told");
    assert!(message[..count].starts_with(b"READY=1"), "{:?}", &message[..count]);
    let stream = UnixStream::connect(place.sockets().join("disk.sock"));
    let listed = fs::read_dir(place.sockets()).expect("there").flatten().count();
    assert!(stream.is_ok() || listed > 0, "it is served by then");
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, Signal::TERM).expect("signalled");
    assert!(child.wait().expect("waited").success());
}
