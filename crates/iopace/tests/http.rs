//! The loopback port and the log of `iopace serve`, as processes.

mod common;

use common::Place;
use rustix::process::Signal;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::process::Stdio;

/// The address in `http://ADDRESS/...`, and what stands behind `#token=`.
fn parts(url: &str) -> (String, Option<String>) {
    let rest = url.trim().strip_prefix("http://").expect("a URL");
    let (address, rest) = rest.split_once('/').expect("a path");
    (address.into(), rest.strip_prefix("#token=").map(Into::into))
}

fn get(address: &str, path: &str, token: &str) -> String {
    let mut stream = TcpStream::connect(address).expect("connected");
    let asked =
        format!("GET {path} HTTP/1.1\r\nhost: {address}\r\nauthorization: Bearer {token}\r\n\r\n");
    stream.write_all(asked.as_bytes()).expect("sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    answer
}

fn dashboard(welcome: &str) -> &str {
    let line = welcome.lines().find_map(|line| line.strip_prefix("dashboard: "));
    line.expect("the welcome tells it")
}

#[test]
fn the_port_is_told_and_its_token_only_to_who_may_control() {
    let place = Place::new();
    let serving = place.serve(&["disk.img", "--http", "0"]);
    // Nobody at a terminal: the token is not in what may be kept as a log.
    let (address, token) = parts(dashboard(&serving.welcome));
    assert_eq!(token, None);
    let ran = place.run(&["dashboard"]);
    assert_eq!(ran.status, Some(0), "{ran:?}");
    let (told, token) = parts(&ran.out);
    let token = token.expect("with its token");
    assert_eq!(told, address);
    assert!(get(&address, "/v1/devices", &token).contains(" 200 OK"));
    assert!(get(&address, "/v1/devices", &token.to_uppercase()).contains(" 401 "));
    let file = place.sockets().join("iopace.ctl.token");
    assert_eq!(fs::metadata(&file).expect("there").permissions().mode() & 0o777, 0o600);
    let json = place.run(&["dashboard", "--format", "json"]).json();
    assert_eq!(json["token_file"], file.to_str().expect("text"));
    let ran = serving.end_by(Signal::TERM);
    assert_eq!(ran.status, Some(0), "{ran:?}");
    assert!(!ran.error.contains(&token), "in the log: {}", ran.error);
    assert!(!place.sockets().exists(), "left behind");
}

#[test]
fn a_named_token_outlives_the_daemon_and_no_control_socket_is_needed() {
    let place = Place::new();
    place.write(
        "iopace.toml",
        "no-control = true\nhttp = \"127.0.0.1:0\"\nhttp-token-file = \"own.token\"\n\
         [[device]]\nfile = \"disk.img\"\n",
    );
    let mut secrets = Vec::new();
    for _ in 0..2 {
        let serving = place.serve(&["--config", "iopace.toml"]);
        let (address, _) = parts(dashboard(&serving.welcome));
        let secret = fs::read_to_string(place.path("own.token")).expect("made");
        assert!(get(&address, "/v1/status", secret.trim()).contains("own.token"));
        secrets.push(secret);
        assert_eq!(serving.end_by(Signal::TERM).status, Some(0));
    }
    assert_eq!(secrets[0], secrets[1]);
}

#[test]
fn the_metrics_have_a_port_and_a_token_of_their_own() {
    let place = Place::new();
    place.write(
        "iopace.toml",
        "metrics = \"127.0.0.1:0\"\nmetrics-token-file = \"metrics.token\"\nhttp = 0\n\
         [[device]]\nfile = \"disk.img\"\n",
    );
    let serving = place.serve(&["--config", "iopace.toml"]);
    let line = |text: &str, name: &str| {
        text.lines().find_map(|line| line.strip_prefix(name)).map(str::to_owned)
    };
    let (address, _) = parts(&line(&serving.welcome, "metrics: ").expect("the welcome tells it"));
    let secret = fs::read_to_string(place.path("metrics.token")).expect("made");
    assert!(get(&address, "/metrics", secret.trim()).contains("iopace_"));
    assert!(get(&address, "/v1/status", secret.trim()).contains(" 404 "));
    let (dashboard, _) = parts(dashboard(&serving.welcome));
    assert!(get(&dashboard, "/v1/status", secret.trim()).contains(" 401 "), "not the API's token");
    let (_, token) = parts(&place.run(&["dashboard"]).out);
    let status = get(&dashboard, "/v1/status", &token.expect("with its token"));
    assert!(status.contains("metrics.token"), "{status}");
    assert_eq!(serving.end_by(Signal::TERM).status, Some(0));
    assert!(place.path("metrics.token").exists(), "kept for the next time");
}

#[test]
fn mistakes_say_what_would_be_right() {
    let place = Place::new();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let taken = taken.local_addr().expect("bound").to_string();
    place.write("open.token", "0123456789abcdef\n");
    let open = place.path("open.token");
    fs::set_permissions(&open, fs::Permissions::from_mode(0o644)).expect("set");
    let cases: [(&[&str], &str); 9] = [
        (&["--http", "0.0.0.0:8080"], "ssh -L"),
        (&["--http", "localhost"], "127.0.0.1:8080"),
        (&["--http", &taken], "choose another port"),
        (&["--http", "0", "--http-token-file", "open.token"], "chmod 600"),
        (&["--http-token-file", "x"], "add --http 8080"),
        (&["--metrics", "0.0.0.0:0"], "add --metrics-token-file"),
        (&["--metrics-token-file", "x"], "add --metrics 0.0.0.0:9100"),
        (&["--metrics", &taken, "--metrics-token-file", "x"], "choose another port"),
        (
            &["--http=0", "--http-token-file=x", "--metrics=[::]:0", "--metrics-token-file=x"],
            "must not be that of --http",
        ),
    ];
    for (words, right) in cases {
        let words: Vec<&str> = ["serve", "disk.img"].iter().chain(words).copied().collect();
        let ran = place.run(&words);
        assert!(ran.status != Some(0) && ran.error.contains(right), "{right}: {ran:?}");
        assert!(!place.sockets().exists(), "left behind by {words:?}");
    }
    for (line, right) in [
        ("http = 80800", "iopace.toml:1:8: a port is needed"),
        ("http = true", "iopace.toml:1:8: it is a port or an address"),
        ("http = \"[::]:80\"", "ssh -L"),
        ("http-token-file = \"x\"", "add `http = 8080`"),
        ("metrics-token-file = \"x\"", "add `metrics = "),
        ("metrics = \"0.0.0.0:1\"", "add `metrics-token-file`"),
        ("metrics = \"9100\"\nmetrics-token-file = \"x\"", "numeric address and a port"),
    ] {
        place.write("iopace.toml", &format!("{line}\n[[device]]\nfile = \"disk.img\"\n"));
        let ran = place.run(&["serve", "--config", "iopace.toml"]);
        assert!(ran.error.contains(right), "{right}: {ran:?}");
    }
    let serving = place.serve(&["disk.img"]);
    let ran = place.run(&["dashboard"]);
    assert!(ran.status == Some(1) && ran.error.contains("--http 8080"), "{ran:?}");
    drop(serving);
}

#[test]
fn the_journal_gets_priorities_and_no_time_stamps() {
    let place = Place::new();
    let own = |name: &str, is_journal: bool| {
        let log = File::create(place.path(name)).expect("a file");
        let found = log.metadata().expect("there");
        let inode = if is_journal { found.ino() } else { found.ino() + 1 };
        let mut command = place.command(&["serve", "disk.img", "--no-control"]);
        command.env("JOURNAL_STREAM", format!("{}:{inode}", found.dev()));
        let mut child = command.stdout(Stdio::piped()).stderr(log).spawn().expect("started");
        let mut out = child.stdout.take().expect("piped");
        let mut welcome = Vec::new();
        while !welcome.ends_with(b"Ctrl-C\n") {
            let mut byte = [0];
            out.read_exact(&mut byte).expect("a welcome");
            welcome.push(byte[0]);
        }
        let pid = rustix::process::Pid::from_child(&child);
        rustix::process::kill_process(pid, Signal::TERM).expect("signalled");
        assert!(child.wait().expect("ended").success());
        fs::read_to_string(place.path(name)).expect("a log")
    };
    let journal = own("journal", true);
    assert!(
        !journal.is_empty() && journal.lines().all(|line| line.starts_with("<6>")),
        "{journal}"
    );
    let line = journal.lines().last().expect("a line");
    assert!(line.starts_with("<6>SIGTERM: finishing"), "{line}");
    let file = own("file", false);
    assert!(!file.contains('<') && file.contains(" INFO SIGTERM: finishing"), "{file}");
}
