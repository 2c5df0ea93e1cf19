//! `iopace doctor`: who passes a mount by.

mod common;
mod mounted;

use common::{Place, Ran};
use mounted::Bench;
use std::fs;
use std::io::Read as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// A shell that has done this in a directory, and stays until it is killed.
fn shell(script: &str, at: &Path) -> Child {
    let mut command = Command::new("sh");
    command.args(["-c", &format!("{script}; echo; exec sleep 600")]).current_dir(at);
    let spawned = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn();
    let mut child = spawned.expect("started");
    child.stdout.as_mut().expect("piped").read_exact(&mut [0]).expect("ready");
    child
}

/// The findings about the directory and its users, as kinds and commands. Those about the machine
/// depend on it.
fn findings(ran: &Ran) -> Vec<(String, String, String)> {
    let report: serde_json::Value = serde_json::from_str(&ran.out).expect("JSON");
    let findings = report["findings"].as_array().expect("a list");
    assert_eq!(ran.status, Some(i32::from(!findings.is_empty())), "{ran:?}");
    let text =
        |finding: &serde_json::Value, key: &str| finding[key].as_str().expect(key).to_owned();
    let all = findings
        .iter()
        .map(|finding| (text(finding, "kind"), text(finding, "text"), text(finding, "command")));
    let of_use = [
        "not-mounted",
        "bypass-write",
        "bypass-read",
        "bind-mount",
        "covered",
        "in-use",
        "dead-mount",
        "not-looked-at",
    ];
    all.filter(|(kind, ..)| of_use.contains(&&**kind)).collect()
}

#[test]
fn who_passes_a_mount_by_is_named_with_a_command() {
    let Some(bench) = Bench::new() else { return };
    let doctor = || bench.run(&["doctor", "data", "--format", "json"]);
    let kinds = || findings(&doctor()).into_iter().map(|one| one.0).collect::<Vec<_>>();
    assert_eq!(kinds(), ["not-mounted"]);
    // What it opened before goes on below; its name commands nothing.
    let mut writer = shell("exec 9>>file", &bench.path("data"));
    let (pid, daemon) = (writer.id(), bench.mount(&["data", "--while-written"]));
    let found = findings(&doctor());
    let (kind, text, command) = found.first().expect("a finding");
    assert_eq!((kind.as_str(), found.len()), ("bypass-write", 1), "{found:?}");
    assert!(text.contains(&format!("(pid {pid}: file open for writing")), "{text}");
    assert!(command == &format!("kill {pid}") || command.starts_with("systemctl "), "{command}");
    let table = bench.run(&["doctor", "data"]);
    assert!(
        table.status == Some(1) && table.out.contains(&format!("    {command}\n")),
        "{table:?}"
    );
    writer.kill().and_then(|()| writer.wait()).expect("ended");
    assert_eq!(kinds(), [] as [&str; 0], "the daemon {daemon:?} itself is none");

    // Through the mount nobody passes it by.
    let mut above = shell("exec 9>>file", &bench.path("data"));
    assert_eq!(kinds(), [] as [&str; 0]);
    above.kill().and_then(|()| above.wait()).expect("ended");
    assert_eq!(bench.run(&["unmount", "data"]).status, Some(0));
}

#[test]
fn a_bind_mount_of_the_origin_is_found() {
    let Some(bench) = Bench::new() else { return };
    let flags = rustix::mount::MountFlags::BIND;
    let view = bench.path("view");
    rustix::mount::mount(bench.path("data"), &view, "", flags, None).expect("bound");
    bench.mount(&["data"]);
    let ran = bench.run(&["doctor", "data", "--format", "json"]);
    let found = findings(&ran);
    let (kind, _, command) = found.first().expect("a finding");
    assert_eq!((kind.as_str(), found.len()), ("bind-mount", 1), "{found:?}");
    assert_eq!(command, &format!("umount {}", view.display()));
    let done = Command::new("sh").args(["-c", command]).status().expect("started");
    assert!(done.success(), "the command can be pasted");
    assert!(findings(&bench.run(&["doctor", "data", "--format", "json"])).is_empty());
    assert_eq!(bench.run(&["unmount", "data"]).status, Some(0));
}

#[test]
fn a_mount_whose_daemon_was_killed_is_a_finding() {
    let Some(bench) = Bench::new() else { return };
    let pid = bench.mount(&["data"]);
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).expect("killed");
    common::until("it is gone", || mounted::is_gone(pid));
    let found = findings(&bench.run(&["doctor", "data", "--format", "json"]));
    let (kind, _, command) = found.first().expect("a finding");
    assert_eq!(kind, "dead-mount", "{found:?}");
    let words: Vec<&str> = command.split(' ').skip(1).collect();
    assert_eq!(bench.run(&words).status, Some(0), "{command}");
}

#[test]
fn a_hostile_name_is_shown_safely_and_no_fifo_is_opened() {
    let place = Place::new();
    let name = "a\x1b[2J\u{202e}'\nb";
    fs::create_dir(place.path(name)).expect("made");
    let fifo = place.path(name).join("fifo");
    let kind = rustix::fs::FileType::Fifo;
    rustix::fs::mknodat(rustix::fs::CWD, fifo, kind, rustix::fs::Mode::RUSR, 0).expect("made");
    let ran = place.run(&["doctor", name]);
    assert_eq!(ran.status, Some(1), "{ran:?}");
    assert!(!ran.out.chars().any(|c| c.is_control() && c != '\n') && !ran.out.contains('\u{202e}'));
    assert!(ran.out.contains(r"iopace mount $'"), "{ran:?}");
    let ran = place.run(&["doctor", "nothing"]);
    assert!(ran.status == Some(1) && ran.error.contains("there is no such directory"), "{ran:?}");
}
