//! `iopace container-hook`, as a runtime and as containerd call it, in front of a daemon.

mod common;
mod mounted;

use common::{Place, Ran, until};
use mounted::Bench;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// Calls the hook with a text on its standard input.
fn hook(place: &Place, words: &[&str], text: &str) -> Ran {
    let mut command = place.command(&[&["container-hook"], words].concat());
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("started");
    // One that refuses its arguments reads nothing.
    let _ = child.stdin.take().expect("piped").write_all(text.as_bytes());
    Ran::from(child.wait_with_output().expect("ended"))
}

/// The state of a container, as runc says it.
fn state(pid: u32, annotations: &[(&str, &str)]) -> String {
    let annotations: serde_json::Map<_, _> =
        annotations.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect();
    serde_json::json!({
        "ociVersion": "1.0.2-dev", "id": "web", "status": "creating", "pid": pid,
        "bundle": "/run/web", "annotations": annotations,
    })
    .to_string()
}

/// A request of containerd 1.6.
fn request(pid: u32, annotations: &[(&str, &str)]) -> String {
    let state: serde_json::Value = serde_json::from_str(&state(pid, annotations)).expect("JSON");
    serde_json::json!({
        "version": "0.1", "state": "create", "id": "web", "sandboxID": "pod", "pid": pid,
        "labels": {}, "spec": {"resources": {}, "annotations": state["annotations"]},
    })
    .to_string()
}

/// A process in a cgroup of its own, with that name as the group's; it reads a line, writes to a
/// file of the mount, and reads another line.
struct Container {
    child: Child,
    cgroup: PathBuf,
    name: String,
}

impl Container {
    /// `None`, aloud, where no cgroup of version 2 can be made.
    fn start(bench: &Bench) -> Option<Container> {
        let table = fs::read_to_string("/proc/self/mounts").expect("read");
        let root = table.lines().find_map(|line| match *line.split(' ').collect::<Vec<_>>() {
            [_, mountpoint, "cgroup2", ..] => Some(PathBuf::from(mountpoint)),
            _ => None,
        });
        let name = format!("iopace-test-hook-{}", std::process::id());
        let Some(cgroup) = root.map(|root| root.join(&name)) else {
            println!("skipped: no cgroup of version 2 is mounted");
            return None;
        };
        if let Err(error) = fs::create_dir(&cgroup) {
            println!("skipped: no cgroup can be made: {error}");
            return None;
        }
        let script = "read line; head -c 65536 /dev/zero > data/new; read line";
        let mut command = Command::new("sh");
        command.args(["-c", script]).current_dir(bench.path("")).stdin(Stdio::piped());
        let child = command.spawn().expect("started");
        let container = Container { child, cgroup, name };
        fs::write(container.cgroup.join("cgroup.procs"), container.pid().to_string())
            .expect("a process may be put into a cgroup");
        Some(container)
    }

    fn pid(&self) -> u32 {
        self.child.id()
    }

    fn goes_on(&mut self) {
        self.child.stdin.as_mut().expect("piped").write_all(b"on\n").expect("it reads");
    }
}

impl Drop for Container {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = fs::remove_dir(&self.cgroup);
    }
}

#[test]
fn annotations_hold_from_the_first_request_on() {
    let Some(bench) = Bench::new() else { return };
    let Some(mut container) = Container::start(&bench) else { return };
    let (place, pid) = (&bench.place, container.pid());
    let max = [("iopace.io/io.max", "wbps=2M")];
    let none = hook(place, &[], &state(pid, &max));
    assert_eq!(none.status, Some(0), "{none:?}");
    assert!(none.error.starts_with("error: container web: no daemon listens at "), "{none:?}");
    let none = hook(place, &["--required"], &state(pid, &max));
    assert_eq!((none.status, none.error.ends_with("not started\n")), (Some(1), true), "{none:?}");

    bench.mount(&["data", "--rule", "user=4242:/other"]);
    let unmapped = hook(place, &["--required"], &state(pid, &max));
    assert!(unmapped.error.contains("iopace mount DIR --rule map=cgroup"), "{unmapped:?}");
    assert_eq!(bench.run(&["unmount", "data"]).status, Some(0));

    bench.mount(&["data", "--rule", "map=cgroup:/units"]);
    let group = format!("/units/{}", container.name);
    let told = hook(place, &["--required"], &state(pid, &max));
    assert_eq!((told.status, &*told.out, &*told.error), (Some(0), "", ""), "{told:?}");
    let holds = |file: &str| bench.run(&["group", "get", &group, file, "--device", "data"]).out;
    assert_eq!(holds("io.max"), "data wbps=2097152 (default of the group)\n");
    container.goes_on();
    until("it pays as its group", || {
        let all = bench.run(&["group", "list", "--processes", "--format", "json"]).json();
        let all = all["processes"].as_array().expect("a list");
        all.iter().any(|one| one["group"] == *group)
    });

    // The same by NRI, and with a mistake beside what is right.
    let weight = [("iopace.io/io.weight", "300")];
    let answer = hook(place, &[], &request(pid, &weight)).json();
    assert_eq!((&answer["version"], &answer["error"]), (&"0.1".into(), &"".into()), "{answer}");
    assert_eq!(holds("io.weight"), "data 300 (default of the group)\n");
    let wrong = [("iopace.io/io.max", "wbps=3M"), ("iopace.io/io.weight", "0")];
    let answer = hook(place, &["--required"], &request(pid, &wrong));
    assert_eq!(answer.status, Some(1), "{answer:?}");
    assert!(answer.out.contains("annotation iopace.io/io.weight: "), "{answer:?}");
    // A limit above that of the group above.
    let ran = bench.run(&["group", "set", "/units", "io.max", "default wbps=4M"]);
    assert_eq!(ran.status, Some(0), "{ran:?}");
    let above = [("iopace.io/io.max", "wbps=9M"), ("iopace.io/io.weight", "7")];
    let refused = hook(place, &["--required"], &state(pid, &above));
    assert!(refused.error.starts_with("error: container web: /units/"), "{refused:?}");
    assert_eq!(holds("io.max"), "data wbps=2097152 (default of the group)\n");
    assert_eq!(holds("io.weight"), "data 300 (default of the group)\n");
    assert_eq!(bench.run(&["unmount", "data"]).status, Some(0));
}

#[test]
fn a_mistake_is_told_and_stops_no_container() {
    let place = Place::new();
    let own = std::process::id();
    let max = ("iopace.io/io.max", "wbps=2M");
    let cases = [
        (state(own, &[max]), "shares the cgroup"),
        (state(own, &[("iopace.io/io.mux", "1")]), "did you mean iopace.io/io.max?"),
        (state(own, &[("iopace.io/io.min", "rbps=1M")]), "only io.max, io.weight"),
        (state(own, &[("iopace.io/io.weight", "\u{1b}[2J")]), "is empty, too long or of several"),
        (state(u32::MAX >> 1, &[max]), "is gone"),
        (state(0, &[max]), "no process yet"),
        ("{}".into(), "is expected there"),
        ("[".repeat(100_000), "is expected there"),
    ];
    for (text, reason) in &cases {
        for (words, status) in [(&[][..], 0), (&["--required"][..], 1)] {
            let told = hook(&place, words, text);
            assert_eq!(told.status, Some(status), "{told:?}");
            assert!(told.error.starts_with("error: ") && told.error.contains(reason), "{told:?}");
            assert!(!told.error.contains('\u{1b}') && told.out.is_empty(), "{told:?}");
        }
    }
    // Those of others, and one that has ended, are nothing to us.
    for text in [state(own, &[("app", "web")]), state(0, &[max]).replace("creating", "stopped")] {
        let told = hook(&place, &["--required"], &text);
        assert_eq!((told.status, &*told.out, &*told.error), (Some(0), "", ""), "{told:?}");
    }
    let allowed = hook(&place, &["--allow", "io.min,io.max"], &state(own, &[max]));
    assert!(allowed.error.contains("shares the cgroup"), "{allowed:?}");
    assert_eq!(hook(&place, &["--allow", "io.stat"], "").status, Some(2));
    assert!(!Path::new(&place.sockets()).exists(), "nothing is made");
}
