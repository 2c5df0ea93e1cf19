//! Exports that come and go in a running daemon: `iopace export`, and a changed file.

mod common;

use common::{Place, Ran, Serving, until};
use iopace_nbd::client::{Client, Wanted, encode_request};
use iopace_nbd::wire;
use rustix::process::Signal;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Stdio;

type Nbd = Client<UnixStream>;

fn open(socket: &Path, export: &str) -> std::io::Result<Nbd> {
    Client::connect(UnixStream::connect(socket)?, export, Wanted::default())
}

fn size(socket: &Path, export: &str) -> u64 {
    open(socket, export).expect("opened").session().size_bytes
}

fn done(ran: &Ran, text: &str) {
    assert!(ran.status == Some(0) && ran.out.contains(text), "{text}: {ran:?}");
}

fn refused(ran: &Ran, text: &str) {
    assert!(ran.status == Some(1) && ran.error.contains(text), "{text}: {ran:?}");
}

/// Names of exports, and how many clients each has.
fn exports(place: &Place) -> Vec<(String, u64)> {
    let all = place.run(&["export", "list", "--format", "json"]).json();
    let all = all.as_array().expect("a list").iter();
    let one = |export: &serde_json::Value| {
        let name = export["name"].as_str().expect("a name").to_owned();
        (name, export["connections_count"].as_u64().expect("a count"))
    };
    all.map(one).collect()
}

#[test]
fn a_disk_is_added_written_and_removed_under_load() {
    let place = Place::new();
    let image = place.image("web.img");
    let serving = place.serve(&["disk.img"]);
    let socket = serving.socket();
    assert_eq!(place.run(&["group", "create", "/vms"]).status, Some(0));
    let _load = common::load::Reader::new(&serving, "disk", 4096);
    let ran = place.run(&["export", "add", "web", "--path", "web.img", "--group", "/vms"]);
    done(&ran, "web: device web (");
    let mut client = open(socket, "web").expect("opened");
    client.write(4096, &[7; 4096], false).expect("written");
    // It is a device as others are.
    done(&place.run(&["sched", "insert", "-a", "rr", "web"]), "rr");
    done(&place.run(&["group", "set", "/vms", "io.max", "web rbps=1G"]), "");
    done(&place.run(&["group", "list"]), "/vms");
    assert_eq!(exports(&place), [("disk".into(), 1), ("web".into(), 1)]);
    let other = place.command(&["serve", "web.img", "--no-control", "--socket", "x.sock"]);
    let other = Ran::from({ other }.stdin(Stdio::null()).output().expect("started"));
    refused(&other, &format!("another process serves it already (pid {})", serving.pid()));

    refused(&place.run(&["export", "remove", "web"]), "'web' is in use: 1 connected to it");
    client.write(8192, &[8; 4096], false).expect("it goes on");
    let ran = place.run(&["export", "remove", "web", "--disconnect"]);
    done(&ran, "web: removed, 1 client was ended; device web is closed");
    assert!(client.read(0, &mut [0; 512]).is_err(), "it is ended");
    assert!(open(socket, "web").is_err());
    let data = fs::read(&image).expect("read");
    assert!(data[4096..8192].iter().all(|byte| *byte == 7) && data[8192] == 8);
    // What was set for it is gone with it, and its file is free.
    assert!(!place.run(&["group", "get", "/vms", "io.max"]).out.contains("web"));
    assert_eq!(exports(&place), [("disk".into(), 1)]);
    let other = place.serve(&["web.img", "--no-control", "--socket", "x.sock"]);
    other.end_by(Signal::TERM);
    done(&place.run(&["export", "add", "web", "--path", "web.img"]), "web: device web (");
    assert_eq!(serving.end_by(Signal::TERM).status, Some(0));
}

#[test]
fn what_was_acknowledged_is_there_when_a_client_is_ended() {
    let place = Place::new();
    let image = place.image("web.img");
    let serving = place.serve(&["disk.img"]);
    done(&place.run(&["export", "add", "web", "--path", "web.img"]), "web");
    let mut client = open(serving.socket(), "web").expect("opened");
    let (begun, is_begun) = std::sync::mpsc::channel();
    let writer = std::thread::spawn(move || {
        // The number of the last write that was acknowledged, as the places know it.
        let mut last = [0_u64; 256];
        for number in 1_u64.. {
            let place = (number % 256) as usize;
            let block: Vec<u8> = number.to_le_bytes().repeat(512);
            if client.write(place as u64 * 4096, &block, false).is_err() {
                return last;
            }
            last[place] = number;
            let _ = begun.send(());
        }
        last
    });
    (0..300).for_each(|_| is_begun.recv().expect("it writes"));
    done(&place.run(&["export", "remove", "web", "--disconnect"]), "1 client was ended");
    let last = writer.join().expect("ended");
    let data = fs::read(&image).expect("read");
    for (place, number) in last.into_iter().enumerate() {
        let found: [u8; 8] = data[place * 4096..place * 4096 + 8].try_into().expect("eight");
        // One that was not acknowledged may be there as well.
        let found = u64::from_le_bytes(found);
        assert!(found == number || found == number + 256, "{place}: {found}, not {number}");
    }
    serving.end_by(Signal::TERM);
}

/// A limit holds writes up for longer than a client that is ended is waited for: the file is not
/// closed under them.
#[test]
fn a_file_stays_open_while_writes_to_it_wait_for_a_limit() {
    let place = Place::new();
    place.image("web.img");
    let serving = place.serve(&["disk.img"]);
    let socket = serving.socket();
    assert_eq!(place.run(&["group", "create", "/slow"]).status, Some(0));
    done(&place.run(&["export", "add", "web", "--path", "web.img", "--group", "/slow"]), "web");
    // A hundred seconds of writes, each of which waits in the daemon.
    assert_eq!(place.run(&["group", "set", "/slow", "io.max", "web wiops=1"]).status, Some(0));
    let mut client = open(socket, "web").expect("opened").into_stream();
    let mut writes = Vec::new();
    for number in 0..100 {
        let (kind, flags) = (wire::CMD_WRITE, wire::CMD_FLAG_FUA);
        encode_request(&mut writes, kind, flags, number, number * 4096, 4096);
        writes.extend([9; 4096]);
    }
    client.write_all(&writes).expect("sent");
    let stays = place.run(&["export", "remove", "web", "--disconnect"]);
    refused(&stays, "'web' stays");
    let second = place.run(&["serve", "web.img", "--socket", "t", "--no-control"]);
    refused(&second, "another process serves it already");
    assert_eq!(place.run(&["group", "set", "/slow", "io.max", "web wiops=max"]).status, Some(0));
    until("the writes are done", || exports(&place)[1].1 == 0);
    done(&place.run(&["export", "remove", "web"]), "device web is closed, and all of it durable");
    let data = fs::read(place.path("web.img")).expect("read");
    assert!((0..100).all(|block| data[block * 4096] == 9));
    serving.end_by(Signal::TERM);
}

#[test]
fn a_device_has_a_second_name_and_stays() {
    let place = Place::new();
    let serving = place.serve(&["disk.img"]);
    let socket = serving.socket();
    let add = ["export", "add", "backup", "--device", "disk", "--read-only"];
    done(&place.run(&add), "backup: device disk (");
    refused(&place.run(&add), "there is an export 'backup' already");
    open(socket, "disk").expect("opened").write(0, &[9; 4096], true).expect("written");
    let mut backup = open(socket, "backup").expect("opened");
    let mut data = [0; 4096];
    backup.read(0, &mut data).expect("read");
    assert_eq!(data, [9; 4096]);
    assert!(backup.write(0, &[1; 4096], false).is_err(), "it is read-only");
    backup.disconnect().expect("gone");
    until("nobody is connected", || exports(&place) == [("disk".into(), 0), ("backup".into(), 0)]);
    done(&place.run(&["export", "remove", "disk"]), "device disk stays open");
    // The first of those that are left answers to the empty name.
    assert!(open(socket, "").expect("opened").write(0, &[1; 4096], false).is_err());
    serving.end_by(Signal::TERM);
}

#[test]
fn what_cannot_be_exported_is_refused_with_what_would_be_right() {
    let place = Place::new();
    let serving = place.serve(&["disk.img"]);
    fs::write(place.path("image.qcow2"), b"QFI\xfb\0\0\0\x03").expect("written");
    let cases: [(&[&str], &str); 8] = [
        (&["add", "a", "--path", "missing.img"], "missing.img: there is no such file"),
        (&["add", "a", "--path", "image.qcow2"], "an image in the format qcow2"),
        (&["add", "a", "--path", "disk.img"], "disk.img: another process serves it already"),
        (&["add", "a", "--path", "/dev/null"], "neither a regular file nor a block device"),
        (&["add", "disk", "--path", "disk.img"], "there is an export 'disk' already"),
        (&["add", "a/b", "--device", "disk"], "a name has 1 to 255 bytes, no '/'"),
        (&["add", "a", "--device", "dusk"], "there is no device 'dusk'"),
        (&["remove", "dusk"], "there is no export 'dusk'; there are: disk"),
    ];
    for (words, text) in cases {
        let words: Vec<&str> = ["export"].iter().chain(words).copied().collect();
        refused(&place.run(&words), text);
        assert_eq!(exports(&place), [("disk".into(), 0)], "{words:?}");
        let devices = place.run(&["sched", "status", "--format", "json"]).json();
        assert_eq!(devices.as_array().expect("a list").len(), 1, "{words:?}");
    }
    let add = ["export", "add", "a", "--device", "disk", "--group", "/nobody"];
    refused(&place.run(&add), "no group");
    serving.end_by(Signal::TERM);
}

#[test]
fn an_export_grows_with_its_file_and_shrinks_for_nobody_who_uses_it() {
    let place = Place::new();
    let serving = place.serve(&["disk.img"]);
    let socket = serving.socket();
    let image = place.path("disk.img");
    let mut before = open(socket, "disk").expect("opened");
    let ran = place.run(&["export", "resize", "disk", "2MiB"]);
    done(&ran, "disk: 2 MiB, was 1 MiB");
    assert!(ran.error.contains("clients that are connected (1) go on"), "{}", ran.error);
    assert_eq!(fs::metadata(&image).expect("there").len(), 2 << 20);
    assert_eq!((before.session().size_bytes, size(socket, "disk")), (1 << 20, 2 << 20));
    let mut after = open(socket, "disk").expect("opened");
    // Written back as well: a flush ends.
    after.write((2 << 20) - 4096, &[5; 4096], false).expect("it reaches to the new end");
    after.flush().expect("durable");
    // One who has learned of it, as Linux can be told, need not connect again.
    before.write(1 << 20, &[6; 4096], false).expect("it goes on");
    refused(&place.run(&["export", "resize", "disk", "1MiB"]), "a file is only made longer");
    let file = File::options().write(true).open(&image).expect("opened");
    file.set_len(3 << 20).expect("longer");
    done(&place.run(&["export", "resize", "disk"]), "disk: 3 MiB, was 2 MiB");
    file.set_len(1 << 20).expect("cut off");
    refused(&place.run(&["export", "resize", "disk"]), "clients that are connected");
    assert_eq!(size(socket, "disk"), 3 << 20);
    drop((before, after));
    until("nobody is connected", || exports(&place) == [("disk".into(), 0)]);
    done(&place.run(&["export", "resize", "disk"]), "disk: 1 MiB, was 3 MiB");
    assert_eq!(size(socket, "disk"), 1 << 20);
    serving.end_by(Signal::TERM);
}

const FILE: &str = "[[device]]\nfile = \"disk.img\"   # the first\n";

/// A daemon with a configuration file, and its log.
fn serve(place: &Place, text: &str) -> Serving {
    place.write("iopace.toml", text);
    let log = File::create(place.path("log")).expect("made");
    place.serving(&["serve", "--config", "iopace.toml", "--socket", "s"], Stdio::from(log))
}

/// Applies another file; the log says so.
fn reload(place: &Place, serving: &Serving, text: &str, said: &str) {
    place.write("iopace.toml", text);
    let log = || fs::read_to_string(place.path("log")).expect("read");
    let before = log().len();
    serving.signal(Signal::HUP);
    until(said, || log()[before..].contains(said));
}

#[test]
fn a_changed_file_adds_and_removes_exports_as_a_whole() {
    let place = Place::new();
    place.image("web.img");
    let serving = serve(&place, FILE);
    let socket = place.path("s");
    let web = "[[device]]\nname = \"web\"\nfile = \"web.img\"\n";
    let both = format!("{FILE}{web}\n[group.\"/vms\"]\n\"io.max\" = \"web rbps=1G\"\n");
    // A file that is missing: nothing of it holds.
    let wrong = format!("{both}[[device]]\nfile = \"missing.img\"\n");
    reload(&place, &serving, &wrong, "missing.img: there is no such file");
    assert_eq!(exports(&place), [("disk".into(), 0)]);
    assert!(!place.run(&["group", "list"]).out.contains("/vms"));
    reload(&place, &serving, &both, "is applied: device 'web' (new), export 'web' (new)");
    let mut client = open(&socket, "web").expect("opened");
    client.write(0, &[3; 4096], false).expect("written");
    assert!(place.run(&["group", "get", "/vms", "io.max"]).out.contains("web rbps"));
    // Somebody is connected: it stays.
    reload(&place, &serving, FILE, "'web' is in use: 1 connected to it");
    client.write(4096, &[4; 4096], false).expect("it goes on");
    client.disconnect().expect("gone");
    until("nobody is connected", || exports(&place)[1].1 == 0);
    reload(&place, &serving, FILE, "export 'web' (removed), device 'web' (closed)");
    assert!(open(&socket, "web").is_err());
    let data = fs::read(place.path("web.img")).expect("read");
    assert_eq!((data[0], data[4096]), (3, 4));
    // The same disk under other names.
    let named = format!("{FILE}[[export]]\nname = \"one\"\ndevice = \"disk\"\n");
    reload(&place, &serving, &named, "export 'one' (new), export 'disk' (removed)");
    assert_eq!(exports(&place), [("one".into(), 0)]);
    let read_only = named.replace("device = \"disk\"", "device = \"disk\"\nread-only = true");
    reload(&place, &serving, &read_only, "is applied: export 'one' (new)");
    assert!(open(&socket, "one").expect("opened").write(0, &[1; 512], false).is_err());
    serving.end_by(Signal::TERM);
}

#[test]
fn the_first_export_of_the_file_stays_the_one_without_a_name() {
    let place = Place::new();
    place.image("web.img");
    let web = "[[device]]\nname = \"web\"\nfile = \"web.img\"\n";
    let exports_of = |first: &str| {
        format!(
            "{FILE}{web}[[export]]\nname = \"one\"\ndevice = \"disk\"\n{first}\
             [[export]]\nname = \"two\"\ndevice = \"web\"\n"
        )
    };
    let serving = serve(&place, &exports_of(""));
    let names = || exports(&place).into_iter().map(|(name, _)| name).collect::<Vec<_>>();
    reload(&place, &serving, &exports_of("read-only = true\n"), "export 'one' (new)");
    assert_eq!(names(), ["one", "two"]);
    let mut client = open(&place.path("s"), "").expect("opened");
    assert!(client.write(0, &[1; 512], false).is_err(), "it is the read-only one");
    // Closed by command, then needed by the file again.
    done(&place.run(&["export", "remove", "two"]), "stays open");
    let again = exports_of("read-only = true\n").replace("\"two\"", "\"three\"");
    reload(&place, &serving, &again, "export 'three' (new)");
    let twice = again.replace("\"three\"", "\"one\"");
    reload(&place, &serving, &twice, "two exports are named 'one'");
    assert_eq!(names(), ["one", "three"]);
    serving.end_by(Signal::TERM);
}

#[test]
fn what_is_saved_is_there_after_the_next_start() {
    let place = Place::new();
    place.image("web.img");
    let serving = serve(&place, FILE);
    done(&place.run(&["export", "add", "web", "--path", "web.img", "--save"]), "web: device web");
    let text = fs::read_to_string(place.path("iopace.toml")).expect("read");
    assert!(text.starts_with(FILE) && text.contains("web.img"), "{text}");
    // The file says what holds.
    reload(&place, &serving, &text, "nothing has changed");
    serving.end_by(Signal::TERM);
    let serving = serve(&place, &text);
    assert_eq!(exports(&place), [("disk".into(), 0), ("web".into(), 0)]);
    done(&place.run(&["export", "add", "two", "--device", "web", "--save"]), "two: device web");
    let ran = place.run(&["export", "remove", "web", "--save"]);
    done(&ran, "device web stays open");
    let text = fs::read_to_string(place.path("iopace.toml")).expect("read");
    serving.end_by(Signal::TERM);
    let serving = serve(&place, &text);
    assert_eq!(exports(&place), [("disk".into(), 0), ("two".into(), 0)]);
    serving.end_by(Signal::TERM);
}

/// Whoever has the token of the port, a browser for one, may be another user: a daemon of root must
/// open no file for him, nor let him write to a disk under a name of his.
#[test]
fn who_comes_by_the_port_changes_no_export() {
    let place = Place::new();
    place.image("web.img");
    let serving = place.serve(&["disk.img", "--http", "0"]);
    let told = place.run(&["dashboard"]).out;
    let (address, token) = told.trim().split_once("/#token=").expect("with its token");
    let address = address.strip_prefix("http://").expect("a URL");
    let ask = |method: &str, route: &str, body: &str| {
        let mut stream = TcpStream::connect(address).expect("connected");
        let head = format!(
            "{method} {route} HTTP/1.1\r\nhost: {address}\r\nauthorization: Bearer {token}\r\n\
             content-length: {}\r\n\r\n{body}",
            body.len()
        );
        stream.write_all(head.as_bytes()).expect("sent");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("an answer");
        answer
    };
    let path = place.path("web.img").display().to_string();
    let add = format!("{{\"name\":\"web\",\"path\":{path:?}}}");
    for answer in [
        ask("POST", "/v1/exports", &add),
        ask("POST", "/v1/exports", "{\"name\":\"two\",\"device\":\"disk\"}"),
        ask("DELETE", "/v1/exports?export=disk&disconnect=true", ""),
        ask("POST", "/v1/exports/resize", "{\"export\":\"disk\",\"size_bytes\":9999999}"),
    ] {
        assert!(answer.contains(" 403 "), "{answer}");
        assert!(answer.contains("only root and the daemon's own user may"), "{answer}");
    }
    assert_eq!(exports(&place), [("disk".into(), 0)]);
    serving.end_by(Signal::TERM);
}
