//! `iopace group` against a daemon.

mod common;

use common::Place;
use iopace_nbd::client::{Client, Wanted};
use rustix::process::Signal;
use std::io::Write;
use std::os::unix::net::UnixStream;
use std::process::Stdio;

fn open(socket: &std::path::Path, export: &str) -> std::io::Result<Client<UnixStream>> {
    let stream = UnixStream::connect(socket)?;
    Client::connect(stream, export, Wanted { structured: true, ..Wanted::default() })
}

#[test]
fn groups_are_made_set_and_read_from_the_command_line() {
    let place = Place::new();
    let serving = place.serve(&["disk.img"]);
    let group = |words: &[&str]| place.run(&[&["group"], words].concat());
    assert_eq!(group(&["create", "/vms/web", "-p"]).out, "/vms/web is there\n");
    assert_eq!(group(&["tree"]).out, "/  (exports disk)\n└─ vms\n   └─ web\n");

    let ran = group(&["set", "/vms/web", "io.max", "disk rbps=10M wiops=120"]);
    assert!(ran.out.starts_with("/vms/web io.max: changed on disk\n  "), "{ran:?}");
    assert!(ran.out.contains("disk rbps=10485760 "), "{ran:?}");
    let text = group(&["get", "/vms/web", "io.max"]).out;
    let mut command = place.command(&["group", "set", "/vms", "io.max", "-"]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().expect("started");
    child.stdin.take().expect("piped").write_all(text.as_bytes()).expect("sent");
    assert!(child.wait().expect("ended").success());
    assert_eq!(group(&["get", "/vms", "io.max"]).out, text, "what is read may be written");
    let weights = group(&["set", "/vms/web", "io.weight", "50", "disk 200", "--format", "json"]);
    assert_eq!(weights.json()["changed_devices"][0], "disk");
    let ran = group(&["get", "/vms/web", "io.weight", "--device", "disk"]);
    assert_eq!(ran.out, "disk 200 (line of the device)\n");
    let ran = group(&["get", "/vms/web"]);
    let line = ran.out.lines().find(|line| line.starts_with("io.weight")).expect("a line");
    let words: Vec<&str> = line.split_whitespace().collect();
    assert_eq!(words, ["io.weight", "disk", "200", "line", "of", "the", "device"]);
    assert!(ran.out.contains("built in") && !ran.out.contains("io.stat"), "{}", ran.out);
    let files = group(&["get", "/vms/web", "--format", "json"]).json();
    assert!(files.as_array().is_some_and(|files| files.len() == 8), "{files}");
    let ran = group(&["get", "/", "io.pressure"]);
    assert!(ran.out.starts_with("some avg10=0.00 avg60=0.00 avg300=0.00 total="), "{ran:?}");

    let ran = group(&["set", "/vms/web", "io.max", "disk rbps=20M"]);
    assert_eq!(ran.status, Some(1));
    assert!(ran.error.starts_with("error: /vms/web io.max, line 1: "), "{ran:?}");
    let ran = group(&["remove", "/vms"]);
    assert_eq!(ran.error, "error: /vms is not removed: remove the groups in it first: web\n");
    assert_eq!(group(&["remove", "/vms/web"]).out, "/vms/web is removed\n");
    let ran = group(&["get", "/vms/web"]);
    assert_eq!(ran.error, "error: no group '/vms/web'; groups in /vms: none\n");
    serving.end_by(Signal::TERM);
}

#[test]
fn clients_are_moved_and_what_they_do_is_counted() {
    let place = Place::new();
    let serving = place.serve(&["--emulate", "null", "--size", "1MiB", "--direct"]);
    let group = |words: &[&str]| place.run(&[&["group"], words].concat());
    for path in ["/a", "/b"] {
        assert_eq!(group(&["create", path]).status, Some(0));
    }
    let mut client = open(serving.socket(), "null").expect("opens");
    let mut named = open(serving.socket(), "null@/b").expect("opens");
    assert!(open(serving.socket(), "null@/c").is_err());
    assert_eq!(group(&["move", "--export", "null", "/a"]).status, Some(0));
    let list = group(&["list", "--connections", "--format", "json"]).json();
    assert_eq!((&list[0]["group"], &list[0]["moved"]), (&"/a".into(), &false.into()));
    assert_eq!((&list[1]["group"], &list[1]["moved"]), (&"/b".into(), &true.into()));
    client.read(0, &mut [0; 4096]).expect("read");
    named.write(0, &[1; 512], false).expect("written");
    let number = list[0]["connection"].to_string();
    let ran = group(&["move", "--connection", &number, "/b"]);
    assert!(ran.out.contains("/b"), "{ran:?}");
    client.read(0, &mut [0; 4096]).expect("read");

    let stat = group(&["stat", "--format", "json"]).json();
    let of = |at: usize, key: &str| stat["groups"][at]["devices"][0][key].as_u64();
    assert_eq!((of(0, "rios"), of(0, "wios")), (Some(2), Some(1)), "/ and all below it");
    assert_eq!((of(1, "rios"), of(1, "wios")), (Some(1), Some(0)), "/a");
    assert_eq!((of(2, "rbytes"), of(2, "wbytes")), (Some(4096), Some(512)), "/b");
    let ran = group(&["stat", "/b"]);
    assert!(ran.out.lines().nth(1).is_some_and(|line| line.starts_with("/b ")), "{ran:?}");
    let ran = group(&["get", "/b", "io.stat"]);
    assert!(ran.out.starts_with("null rbytes=4096 wbytes=512 rios=1 wios=1 dbytes=0"), "{ran:?}");
    let ran = group(&["remove", "/b"]);
    assert!(ran.error.contains("2 exports or connections pay as it"), "{ran:?}");
    client.disconnect().expect("orderly");
    named.disconnect().expect("orderly");
    serving.end_by(Signal::TERM);
}

/// A scheduler that knows no weights is warned of when it is put in, as the weight is beside it.
#[test]
fn a_weight_and_a_scheduler_without_weights_are_told_in_either_order() {
    let place = Place::new();
    let serving = place.serve(&["disk.img", "--sched", "fair"]);
    for path in ["/a", "/b"] {
        assert_eq!(place.run(&["group", "create", path]).status, Some(0));
        let ran = place.run(&["group", "set", path, "io.weight", "disk 300"]);
        assert_eq!((ran.status, &*ran.error), (Some(0), ""));
    }
    let text = "scheduler rr does not divide the disk by weight, so io.weight counts for slots and \
                dirty memory only: iopace sched configure -a fair disk";
    let ran = place.run(&["sched", "configure", "-a", "rr", "disk"]);
    assert_eq!(ran.error, format!("warning: /a, /b on disk: {text}\n"), "{ran:?}");
    assert!(ran.out.starts_with("disk: scheduler rr (inserted)"), "{ran:?}");
    let ran = place.run(&["group", "set", "/a", "io.weight", "disk 200"]);
    assert_eq!(ran.error, format!("warning: disk: {text}\n"), "{ran:?}");
    serving.end_by(Signal::TERM);
}

#[test]
fn groups_of_the_configuration_are_there_from_the_start() {
    let place = Place::new();
    place.write(
        "iopace.toml",
        "[[device]]\nfile = \"disk.img\"\n\
         [[export]]\nname = \"web\"\ndevice = \"disk\"\ngroup = \"/vms/web\"\n\
         [group.\"/vms/web\"]\n\"io.weight\" = 200\n\"io.max\" = [\"disk rbps=10M\"]\n",
    );
    let serving = place.serve(&["--config", "iopace.toml"]);
    let list = place.run(&["group", "list", "/vms/web", "--format", "json"]).json();
    assert_eq!(list[0]["exports"][0], "web");
    assert_eq!(list[0]["files"]["io.weight"], "default 200\n");
    let _client = open(serving.socket(), "web").expect("opens");
    let ran = place.run(&["group", "tree", "/vms"]);
    assert!(ran.out.starts_with("/vms\n└─ web  (exports web; 1 connection; io.max: "), "{ran:?}");
    serving.end_by(Signal::TERM);
}

/// A number of a connection names the daemon that has it, or it is said what to add.
fn a_connection_has_its_daemon(place: &Place, socket: &std::path::Path, other: &std::path::Path) {
    let client = open(socket, "data").expect("opens");
    let control = place.sockets().join("data.ctl").display().to_string();
    let words = ["group", "list", "--connections", "--format", "json", "--control", &control];
    let number = place.run(&words).json()[0]["connection"].to_string();
    let moved = ["group", "move", "--connection", &number, "/both"];
    let ran = place.run(&moved);
    assert!(ran.status == Some(0) && ran.out.contains("/both"), "{ran:?}");
    let list = place.run(&words).json();
    assert_eq!((&list[0]["group"], &list[0]["moved"]), (&"/both".into(), &true.into()));
    let ran = place.run(&["group", "move", "--connection", "4711", "/both"]);
    let error = "no daemon has connection 4711: there are ";
    assert!(ran.status == Some(1) && ran.error.contains(error), "{ran:?}");
    let ran = place.run(&["group", "move", "--connection", &number, "/none"]);
    let error = "no daemon has group '/none': there are ";
    assert!(ran.status == Some(1) && ran.error.contains(error), "{ran:?}");
    // The group is in the one, the connection in the other.
    let first = place.sockets().join("iopace.ctl").display().to_string();
    let ran = place.run(&["group", "create", "/first", "--control", &first]);
    assert_eq!(ran.status, Some(0), "{ran:?}");
    let ran = place.run(&["group", "move", "--connection", &number, "/first"]);
    let missing =
        ["(devices data) has no group '/first'".into(), format!("has no connection {number}")];
    assert!(
        ran.status == Some(1) && missing.iter().all(|text| ran.error.contains(text)),
        "{ran:?}"
    );
    // Each counts for itself: the first of each has the same number.
    let twin = open(other, "disk").expect("opens");
    let ran = place.run(&moved);
    let error = format!("several daemons have group '/both' and connection {number}: name one");
    assert!(ran.status == Some(2) && ran.error.contains(&error), "{ran:?}");
    client.disconnect().expect("orderly");
    twin.disconnect().expect("orderly");
}

#[test]
fn all_daemons_are_one_view() {
    let place = Place::new();
    std::fs::create_dir(place.path("other")).expect("made");
    place.image("other/disk.img");
    place.image("data.img");
    let first = place.serve(&["disk.img"]);
    let second = place.serve(&["data.img", "other/disk.img", "--socket", "x.sock"]);
    for (control, device) in [("iopace.ctl", "disk"), ("iopace-x.ctl", "data")] {
        let control = match control {
            "iopace.ctl" => place.sockets().join(control),
            // The second daemon takes a name of its own.
            _ => {
                let all = std::fs::read_dir(place.sockets()).expect("listed").flatten();
                let mut all = all.map(|entry| entry.path());
                let is_second = |path: &std::path::PathBuf| {
                    path.extension().is_some_and(|ending| ending == "ctl")
                        && !path.ends_with("iopace.ctl")
                };
                all.find(is_second).expect("a second one")
            }
        };
        let control = control.display().to_string();
        let line = format!("{device} rbps=1M");
        let words = ["group", "set", "/both", "io.max", &line, "-p", "--control", &control];
        let ran = place.run(&words);
        assert_eq!(ran.status, Some(0), "{ran:?}");
    }
    let list = place.run(&["group", "list"]);
    assert_eq!(list.status, Some(0), "{list:?}");
    let both: Vec<&str> = list.out.lines().filter(|line| line.starts_with("/both")).collect();
    assert!(both.len() == 2 && list.out.contains("devices"), "{list:?}");
    let json = place.run(&["group", "list", "--format", "json"]).json();
    let controls = json.as_array().expect("a list").iter().filter(|one| one["control"].is_string());
    assert_eq!(controls.count(), 4);
    let tree = place.run(&["group", "tree"]).out;
    assert_eq!(tree.lines().count(), 2, "one tree: {tree}");
    assert!(tree.contains("disk rbps=1048576") && tree.contains("data rbps=1048576"), "{tree}");
    // A device that both have goes by its daemon as well.
    let stat = place.run(&["group", "stat", "/both"]).out;
    assert_eq!(stat.matches(":disk").count(), 2, "{stat}");
    assert!(stat.contains(" data "), "{stat}");
    let top = place.run(&["top", "--batch", "--count", "1"]).out;
    assert!(top.contains("iopace:disk (file)") && top.contains("data (file)"), "{top}");
    for words in [&["explain", "--look", "0"][..], &["events"], &["sched", "status"]] {
        let ran = place.run(words);
        assert_eq!((ran.status, &*ran.error), (Some(0), ""), "{words:?}: {ran:?}");
    }
    let explained = place.run(&["explain", "--look", "0"]).out;
    assert!(explained.contains("Scheduler of data: "), "{explained}");
    let control = place.sockets().join("iopace.ctl").display().to_string();
    let words = ["sched", "insert", "-a", "rr", "disk", "--control", &control];
    let ran = place.run(&words);
    assert_eq!(ran.status, Some(0), "{ran:?}");
    let events = place.run(&["events"]).out;
    assert!(events.contains("iopace:disk") && events.contains("exchanged"), "{events}");
    second.end_by(Signal::TERM);
    first.end_by(Signal::TERM);
}

#[test]
fn of_several_daemons_one_is_named() {
    let place = Place::new();
    place.image("data.img");
    let first = place.serve(&["disk.img"]);
    let second = place.serve(&["data.img"]);
    let ran = place.run(&["group", "create", "/one"]);
    assert_eq!(ran.status, Some(2));
    assert!(ran.error.contains("name one of them with --control: "), "{}", ran.error);
    assert!(
        ran.error.contains("(devices disk)") && ran.error.contains("(devices data)"),
        "{ran:?}"
    );
    // Whoever names a device, or a group that one of them has, has named the daemon.
    assert_eq!(place.run(&["explain", "data"]).status, Some(0));
    assert_eq!(place.run(&["top", "disk", "--batch", "--count", "1"]).status, Some(0));
    assert_eq!(place.run(&["events", "--device", "data"]).out, "nothing has happened\n");
    let ran = place.run(&["explain", "dusk"]);
    assert!(ran.status == Some(1) && ran.error.contains("no daemon has device 'dusk'"), "{ran:?}");
    let both = ["iopace.ctl", "data.ctl"].map(|name| place.sockets().join(name));
    for control in &both {
        let control = control.display().to_string();
        let ran = place.run(&["group", "create", "/both", "--control", &control]);
        assert_eq!(ran.status, Some(0), "{ran:?}");
    }
    let ran = place.run(&["group", "create", "/own", "--control", &both[1].display().to_string()]);
    assert_eq!(ran.status, Some(0), "{ran:?}");
    assert_eq!(place.run(&["group", "set", "/own", "io.max", "default rbps=1M"]).status, Some(0));
    // Also where it would be made if it were nowhere.
    let ran = place.run(&["group", "set", "-p", "/own", "io.weight", "50"]);
    assert_eq!(ran.status, Some(0), "{ran:?}");
    let ran = place.run(&["group", "set", "/both", "io.max", "default rbps=1M"]);
    assert_eq!(ran.status, Some(2), "{ran:?}");
    assert!(ran.error.contains("several daemons have group '/both'"), "{ran:?}");
    let ran = place.run(&["group", "set", "/both", "io.max", "data rbps=1M"]);
    assert!(ran.status == Some(0) && ran.out.contains("changed on data"), "{ran:?}");
    a_connection_has_its_daemon(&place, second.socket(), first.socket());
    let control = place.sockets().join("data.ctl").display().to_string();
    let ran = place.run(&["group", "list", "--control", &control]);
    assert!(ran.out.contains("data"), "{ran:?}");
    second.end_by(Signal::KILL);
    assert!(place.run(&["group", "list"]).out.contains("disk"), "what was left hides nobody");
    first.end_by(Signal::TERM);
}
