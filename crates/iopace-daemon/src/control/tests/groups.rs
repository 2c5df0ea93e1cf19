//! Groups over the control socket.

use super::*;
use crate::api::{Move, WriteFile};

fn write(group: &str, file: &str, text: &str) -> WriteFile {
    WriteFile { group: group.into(), file: file.into(), text: text.into(), parents: false }
}

fn refused<T: std::fmt::Debug>(result: Result<T, ClientError>) -> (u16, String) {
    match result {
        Err(error @ ClientError::Refused { status, .. }) => (status, error.to_string()),
        other => panic!("not a refusal: {other:?}"),
    }
}

#[test]
fn groups_are_made_set_read_and_removed() {
    let bench = Bench::new(&["disk", "slow"]);
    let client = bench.client();
    let made = client.create_group("/my vms/ä", true).expect("made");
    assert_eq!((&*made.group, made.exports.len(), made.files.len()), ("/my vms/ä", 0, 0));
    let all = client.groups("/").expect("listed");
    let paths: Vec<&str> = all.iter().map(|group| &*group.group).collect();
    assert_eq!(paths, ["/", "/my vms", "/my vms/ä"]);

    let weight = write("/my vms/ä", "io.weight", "default 50\ndisk 200\n");
    let written = client.write_group(&weight).expect("written");
    assert_eq!(written.changed_devices, ["disk", "slow"]);
    let warned: Vec<&str> = written.warnings.iter().map(|one| &*one.command).collect();
    assert_eq!(warned, ["disk", "slow"].map(|name| format!("iopace sched insert -a fair {name}")));
    let again = client.write_group(&weight).expect("written");
    assert!(again.changed_devices.is_empty() && again.text == written.text);
    let files = client.group_files("/my vms/ä", Some("io.weight"), None).expect("read");
    assert_eq!(files[0].text, "default 50\ndisk 200\n");
    let effective: Vec<(&str, &str)> =
        files[0].effective.iter().map(|one| (&*one.value, &*one.source)).collect();
    assert_eq!(effective, [("200", "device"), ("50", "group")]);
    let files = client.group_files("/my vms", None, Some("disk")).expect("read");
    assert_eq!(files.len(), iopace_groups::files::FILES.len());
    let weight = &files[0].effective;
    assert_eq!((weight.len(), &*weight[0].value, &*weight[0].source), (1, "100", "built in"));

    let pressure = client.group_files("/", Some("io.pressure"), None).expect("read");
    assert!(pressure[0].text.starts_with("disk some avg10=0.00 "), "{}", pressure[0].text);
    assert!(pressure[0].text.contains("\nslow full avg10=0.00 "), "{}", pressure[0].text);
    let stat = client.group_files("/", Some("io.stat"), None).expect("read");
    let line = "slow rbytes=0 wbytes=0 rios=0 wios=0 dbytes=0 dios=0 fios=0 failed=0 pace_us=0 ";
    assert!(stat[0].text.lines().nth(1).is_some_and(|text| text.starts_with(line)));
    let stat = client.group_stat("/my vms").expect("told");
    assert_eq!((stat.groups.len(), stat.left_out_count), (2, 0));
    assert_eq!(stat.groups[1].devices[1].device, "slow");

    assert_eq!(client.remove_group("/my vms/ä").expect("removed").group, "/my vms/ä");
    assert_eq!(client.groups("/my vms").expect("listed").len(), 1);
    assert!(client.connections().expect("listed").is_empty());
}

#[test]
fn a_device_may_give_each_group_so_many_slots() {
    let bench = Bench::new(&["capped", "disk"]);
    let client = bench.client();
    client.create_group("/vms/web", true).expect("made");
    let file = "io.nr_group_requests";
    let told = |group: &str| -> Vec<(String, String)> {
        let files = client.group_files(group, Some(file), None).expect("read");
        let all = files[0].effective.iter();
        all.map(|one| (one.value.clone(), one.source.clone())).collect()
    };
    let of = |value: &str, source: &str| (value.to_string(), source.to_string());
    assert_eq!(told("/vms/web"), [of("4", "device default"), of("max", "built in")]);
    assert_eq!(told("/"), [of("max", "built in"), of("max", "built in")]);
    let (_, text) = refused(client.write_group(&write("/vms/web", file, "capped 5")));
    assert!(text.contains("5 slots on capped is above the 4 slots of /vms"), "{text}");
    client.write_group(&write("/vms", file, "capped 8")).expect("above what devices give");
    client.write_group(&write("/vms/web", file, "capped 5")).expect("below its parent");
    assert_eq!(told("/vms/web"), [of("5", "device"), of("max", "built in")]);
}

#[test]
fn what_is_refused_says_why_and_changes_nothing() {
    let bench = Bench::new(&["disk"]);
    let client = bench.client();
    client.create_group("/a", false).expect("made");
    client.write_group(&write("/a", "io.max", "disk rbps=10M")).expect("written");
    let set = |file: &str, text: &str| refused(client.write_group(&write("/a", file, text)));
    let get = |file, device| refused(client.group_files("/a", file, device));
    let go = |export: Option<&str>, connection, group: &str| {
        let export = export.map(Into::into);
        refused(client.move_to_group(&Move { export, connection, pid: None, group: group.into() }))
    };
    let pid = |pid, group: &str| {
        let group = group.into();
        let change = Move { export: None, connection: None, pid: Some(pid), group };
        refused(client.move_to_group(&change))
    };
    let cases = [
        (refused(client.create_group("/a", false)), 409, "there is a group /a already"),
        (refused(client.create_group("a", false)), 400, "it does not begin with '/'"),
        (refused(client.create_group("/x/y", false)), 404, "no group '/x'; groups in /: a"),
        (refused(client.remove_group("/")), 409, "the root group / cannot be removed"),
        (refused(client.remove_group("/b")), 404, "no group '/b'; groups in /: a"),
        (refused(client.groups("/b")), 404, "no group '/b'"),
        (set("io.max", "disk rbps=1k\ndisk wbps=-1"), 400, "/a io.max, line 2: "),
        (set("io.max", "dsik rbps=1k"), 400, "no device 'dsik'; devices: disk"),
        (set("io.wait", "1"), 404, "'io.wait': no such file; there are: io.weight"),
        (set("io.stat", "1"), 400, "read-only"),
        (get(Some("io.wait"), None), 404, "no such file"),
        (get(Some("io.max"), Some("dsik")), 404, "there is no device 'dsik'; there are: disk"),
        (go(Some("disk"), None, "/a"), 404, "there is no export 'disk'; there are: "),
        (go(None, Some(7), "/a"), 404, "no connection 7 has an export open"),
        (go(None, None, "/a"), 400, "as in {\"export\":\"disk\""),
        (go(Some("disk"), Some(7), "/a"), 400, "one of 'export', 'connection' and 'pid'"),
        (pid(1, "/b"), 404, "no group '/b'"),
        (pid(1, "/a"), 409, "nothing is mounted by this daemon"),
    ];
    for ((status, message), right, text) in cases {
        assert_eq!(status, right, "{message}");
        assert!(message.contains(text), "{text}: {message}");
        assert!(!message.ends_with("; "), "{message}");
    }
    let text = client.group_files("/a", Some("io.max"), None).expect("read").remove(0).text;
    assert!(text.contains("rbps=10485760") && !text.contains("1024"), "{text}");
}

#[test]
fn hostile_requests_about_groups_are_refused() {
    let bench = Bench::new(&["disk"]);
    let get = |path: &str| bench.raw(format!("GET {path} HTTP/1.1\r\nhost: x\r\n\r\n").as_bytes());
    let post = |route: &str, body: &str| {
        let head = format!("POST {route} HTTP/1.1\r\nhost: x\r\ncontent-length: {}", body.len());
        bench.raw(format!("{head}\r\n\r\n{body}").as_bytes())
    };
    let long = "x".repeat(BODY_BYTES_MAX + 1);
    let cases = [
        (get("/v1/groups?grup=/"), " 400 ", "it knows: group"),
        (get("/v1/groups?group=%ff"), " 400 ", "not text"),
        (get("/v1/groups?group=/&group=/"), " 400 ", "twice"),
        (get("/v1/groups/files"), " 400 ", "?group=/vms/web"),
        (bench.raw(b"DELETE /v1/groups HTTP/1.1\r\nhost: x\r\n\r\n"), " 400 ", "?group=/vms/web"),
        (get("/v1/groups/move"), " 405 ", "POST"),
        (post("/v1/groups", r#"{"group":"/a","parnts":true}"#), " 400 ", "parnts"),
        (post("/v1/groups", "[[[["), " 400 ", "as in"),
        (post("/v1/groups/files", &long), " 413 ", "65536"),
        (post("/v1/groups/move", r#"{"connection":-1,"group":"/"}"#), " 400 ", "-1"),
        (post("/v1/groups", &format!(r#"{{"group":"/{}"}}"#, "a/".repeat(9_000))), " 400 ", "/"),
    ];
    for (answer, status, text) in cases {
        let first = answer.lines().next().unwrap_or_default();
        assert!(first.contains(status), "{status}: {answer}");
        assert!(answer.contains(text), "{text}: {answer}");
    }
    assert_eq!(bench.client().groups("/").expect("still served").len(), 1);
}

/// In whatever order the two are set, the same words.
#[test]
fn a_scheduler_that_knows_no_weights_is_told_so_when_it_is_put_in() {
    let bench = Bench::new(&["disk", "slow"]);
    let client = bench.client();
    let change = |action, name: &str| {
        let change = Change { action, algorithm: Some(name.into()), set: Default::default() };
        client.change("disk", &change).expect("possible").warnings
    };
    assert!(change(Action::Insert, "fair").is_empty());
    let set = |path: &str, file: &str, text: &str| {
        client.write_group(&write(path, file, text)).expect("written").warnings
    };
    client.create_group("/none", false).expect("made");
    for number in 10..20 {
        let path = format!("/g{number}");
        client.create_group(&path, false).expect("made");
        assert!(set(&path, "io.weight", "disk 200").is_empty());
    }
    assert!(set("/g10", "io.ioprio_class", "disk IDLE").is_empty());
    assert!(set("/g11", "io.min", "disk riops=20").is_empty());
    // It is asked of this device only.
    set("/g12", "io.weight", "slow 300");
    assert!(change(Action::Configure, "fair").is_empty());
    let warned = change(Action::Configure, "rr");
    assert_eq!(warned.len(), 3, "{warned:?}");
    assert!(warned.iter().all(|one| one.command == "iopace sched configure -a fair disk"));
    let counts: Vec<(usize, usize)> =
        warned.iter().map(|one| (one.groups_count, one.groups.len())).collect();
    assert_eq!(counts, [(10, 8), (1, 1), (1, 1)]);
    for (file, value, warning) in [
        ("io.weight", "disk 200", &warned[0]),
        ("io.ioprio_class", "disk IDLE", &warned[1]),
        ("io.min", "disk riops=20", &warned[2]),
    ] {
        let again = &set(&warning.groups[0], file, value)[0];
        assert_eq!((&again.text, &again.command), (&warning.text, &warning.command));
    }
    // Whoever asks how the device stands has changed nothing.
    assert!(client.device("disk").expect("there").warnings.is_empty());
}
