//! A mount's life by the command line: as a daemon, in the foreground, killed, refused.

mod common;
mod mounted;

use common::{Ran, umount, until};
use mounted::{Bench, is_gone};
use rustix::process::{Pid, Signal, kill_process};
use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

#[test]
fn a_daemon_whose_log_is_full_serves_on() {
    let Some(bench) = Bench::new() else { return };
    let small = bench.path("view");
    let flags = rustix::mount::MountFlags::empty();
    let size = Some(c"size=4k");
    if let Err(error) = rustix::mount::mount("none", &small, "tmpfs", flags, size) {
        println!("skipped: no tmpfs: {error}");
        return;
    }
    fs::write(small.join("all"), [0; 4096]).expect("written");
    let pid = bench.mount(&["data", "--log", "view/log"]);
    for value in ["50", "60"] {
        let ran = bench.run(&["group", "set", "/", "io.weight", value]);
        assert_eq!(ran.status, Some(0), "{ran:?}");
    }
    assert_eq!(fs::read_to_string(bench.path("data/file")).expect("read"), "content");
    assert_eq!(fs::read(small.join("log")).expect("read"), b"");
    // With room again, it says what is missing.
    fs::remove_file(small.join("all")).expect("removed");
    let ran = bench.run(&["group", "set", "/", "io.weight", "70"]);
    assert_eq!(ran.status, Some(0), "{ran:?}");
    let text = fs::read_to_string(small.join("log")).expect("read");
    assert!(text.contains("could not be written: ") && text.contains("group set"), "{text}");
    let ran = bench.run(&["unmount", "data"]);
    assert_eq!(ran.status, Some(0), "{ran:?}");
    until("the daemon is gone", || is_gone(pid));
}

#[test]
fn a_daemon_serves_until_it_is_unmounted() {
    let Some(bench) = Bench::new() else { return };
    let pid = bench.mount(&["data"]);
    assert_eq!(fs::read_to_string(bench.path("data/file")).expect("read"), "content");
    fs::write(bench.path("data/new"), "more").expect("written");
    // A daemon that has no processor for a while is silent.
    until("it serves", || bench.list()[0]["state"] == "serving");
    assert_eq!(bench.list()[0]["device"], "data");
    // A directory has no size.
    let status = bench.run(&["sched", "status", "data"]);
    let title = status.out.lines().next().unwrap_or_default();
    assert!(title.starts_with("data: ") && !title.contains("iB"), "{status:?}");
    let status = bench.run(&["sched", "status", "data", "--format", "json"]).json();
    let device = if status.is_array() { &status[0] } else { &status };
    assert!(device["name"] == "data" && device["size_bytes"].is_null(), "{status}");
    let scheduler = &device["scheduler"];
    assert!(scheduler["algorithm"] == "fair" && scheduler["auto"] == true, "{status}");
    until("it serves in the table as well", || {
        let text = bench.run(&["mount"]).out;
        assert!(text.starts_with("mountpoint "), "{text}");
        text.contains(" data ") && text.contains(" serving")
    });
    let cwd = fs::read_link(format!("/proc/{}/cwd", pid.as_raw_nonzero())).expect("read");
    assert_eq!(cwd, Path::new("/"), "it does not keep itself busy");
    let session = rustix::process::getsid(Some(pid)).expect("asked");
    assert_eq!(session, pid, "a session of its own");

    let again = bench.run(&["mount", "data"]);
    assert_eq!(again.status, Some(1));
    assert!(again.error.contains("iopace is mounted there already"), "{again:?}");
    let again = bench.run(&["mount", "data", "view"]);
    assert_eq!(again.status, Some(1));
    assert!(again.error.contains("data: iopace is mounted there already"), "{again:?}");

    let ran = bench.run(&["unmount", "data"]);
    assert_eq!((ran.status, ran.error.as_str()), (Some(0), ""), "{ran:?}");
    until("the daemon ends", || is_gone(pid));
    assert_eq!(bench.seen(), 0);
    assert_eq!(fs::read_to_string(bench.path("data/new")).expect("read"), "more");
    let left: Vec<_> = fs::read_dir(bench.place.sockets()).expect("there").flatten().collect();
    let names: Vec<_> = left.iter().map(fs::DirEntry::file_name).collect();
    assert!(names.is_empty(), "nothing stays: {names:?}");
}

#[test]
fn a_mount_that_cannot_be_told_of_is_said_to_be_there() {
    let Some(bench) = Bench::new() else { return };
    let full = File::options().write(true).open("/dev/full").expect("opened");
    let mut command = bench.place.command(&["mount", "data"]);
    let ran = Ran::from(command.stdout(full).output().expect("started"));
    assert_eq!(ran.status, Some(1), "{ran:?}");
    assert!(ran.error.contains("No space left") && ran.error.contains("is mounted: "), "{ran:?}");
    assert_eq!(bench.list().len(), 1);
    assert_eq!(bench.run(&["unmount", "data"]).status, Some(0));
}

/// By mount(8) and fstab(5), in a mount namespace that has a directory of its own for helpers.
#[test]
fn mount_and_fstab_know_it() {
    let Some(bench) = Bench::new() else { return };
    fs::create_dir(bench.path("sbin")).expect("made");
    let binary = env!("CARGO_BIN_EXE_iopace");
    for name in ["mount.iopace", "mount.fuse.iopace"] {
        std::os::unix::fs::symlink(binary, bench.path("sbin").join(name)).expect("linked");
    }
    let here = bench.path("").display().to_string();
    let options = "nofail,noatime,x-systemd.before=db.service,sched=rr,allow_other";
    bench.place.write("fstab", &format!("{here}/data {here}/data iopace {options} 0 0\n"));
    let script = "set -e; mount --bind sbin /sbin
        flags() { grep \" $PWD/$1 .*fuse.iopace\" /proc/self/mountinfo | cut -d' ' -f6; }
        mount -t iopace -o rw,nosuid,nodev,name=d \"$PWD/data\" \"$PWD/view\"
        test \"$(cat view/file)\" = content; flags view
        mount -o remount,ro,nosuid view; flags view; ! touch view/x; $iopace unmount view
        mount -T fstab \"$PWD/data\"; flags data; $iopace unmount data
        ! mount -t iopace -o sync \"$PWD/data\" \"$PWD/view\"
        ! mount -t iopace -o sched=none \"$PWD/data\" \"$PWD/view\"
        mount -f -t iopace \"$PWD/data\" \"$PWD/view\"; ! flags view | grep .";
    let mut command = Command::new("unshare");
    command.args(["-m", "sh", "-c", script]).env("iopace", binary).current_dir(bench.path(""));
    command.env("XDG_RUNTIME_DIR", bench.path("")).stdin(Stdio::null());
    let ran = Ran::from(command.output().expect("started"));
    assert_eq!(ran.status, Some(0), "{ran:?}");
    let flags: Vec<&str> = ran.out.lines().filter(|line| line.starts_with('r')).collect();
    let [mounted, remounted, by_fstab] = *flags else { panic!("{ran:?}") };
    assert!(mounted.starts_with("rw,nosuid,nodev"), "{ran:?}");
    assert!(remounted.starts_with("ro,nosuid"), "{ran:?}");
    assert!(by_fstab.contains("noatime"), "{ran:?}");
    assert!(ran.error.contains("the option 'sync' is not known"), "{ran:?}");
    assert!(ran.error.contains("'none'"), "{ran:?}");
}

/// The daemon reads `/etc/subuid` for each thread that it starts; the mount over it has none yet,
/// or none that is free. In a pid namespace of its own: whatever hangs ends with the first process.
#[test]
fn a_mount_over_etc_does_not_wait_for_itself() {
    let Some(bench) = Bench::new() else { return };
    let script = "umount -a -l -t fuse.iopace
        set -e; mkdir etc; cp /etc/passwd etc; echo 4242:165536:65536 >etc/subuid
        mount --bind etc /etc
        $iopace mount /etc --name e
        read_all() {
          all=; for n in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
            cat /etc/passwd >/dev/null & all=\"$all $!\"; done
          for one in $all; do wait $one; done; }
        read_all
        # What is read anew is read below, too.
        echo 4242:300000:65536 >>/etc/subuid; mv /etc/subuid /etc/new; mv /etc/new /etc/subuid
        read_all
        $iopace unmount /etc; test $(wc -l </etc/subuid) = 2";
    let mut command = Command::new("timeout");
    let unshare = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"];
    command.args(["-s", "KILL", "240"]).args(unshare).args(["sh", "-c", script]);
    command.env("iopace", env!("CARGO_BIN_EXE_iopace")).current_dir(bench.path(""));
    command.env("XDG_RUNTIME_DIR", bench.path("")).stdin(Stdio::null());
    let ran = Ran::from(command.output().expect("started"));
    assert_eq!(ran.status, Some(0), "{ran:?}");
}

#[test]
fn what_a_killed_daemon_left_is_cleared_away() {
    let Some(bench) = Bench::new() else { return };
    for words in [&["mount", "data"][..], &["unmount", "data"]] {
        let pid = bench.mount(&["data"]);
        let kept = bench.path(&format!("data/{}", words[0]));
        fs::write(&kept, "acknowledged").expect("written");
        kill_process(pid, Signal::KILL).expect("killed");
        until("it is dead", || fs::read(bench.path("data/file")).is_err());
        assert_eq!(bench.list()[0]["state"], "dead");
        let ran = bench.run(words);
        assert_eq!(ran.status, Some(0), "{words:?}: {ran:?}");
        assert_eq!(fs::read_to_string(&kept).expect("read"), "acknowledged");
        if words[0] == "mount" {
            assert_eq!(bench.run(&["unmount", "data"]).status, Some(0));
        }
        assert_eq!(bench.seen(), 0);
    }
}

#[test]
fn a_daemon_notices_that_somebody_else_unmounts_it() {
    let Some(bench) = Bench::new() else { return };
    let log = bench.path("named.log");
    let pid = bench.mount(&["data", "--log", log.to_str().expect("text")]);
    umount(&bench.path("data"));
    until("the daemon ends", || is_gone(pid));
    let log = fs::read_to_string(log).expect("one that was asked for stays");
    assert!(log.contains("was unmounted"), "{log}");
}

#[test]
fn signals_end_it_and_leave_no_mount() {
    let Some(bench) = Bench::new() else { return };
    for busy in [false, true] {
        let mut command = bench.place.command(&["mount", "data", "--foreground"]);
        let child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("started");
        let pid = Pid::from_child(&child);
        until("it is mounted", || bench.seen() == 1);
        let file = busy.then(|| File::open(bench.path("data/file")).expect("opened"));
        // The signal may come before it says that it is ready: it ends all the same.
        kill_process(pid, Signal::INT).expect("signalled");
        if busy {
            until("it is out of sight", || bench.seen() == 0);
            kill_process(pid, Signal::INT).expect("signalled");
        }
        let ran = Ran::from(child.wait_with_output().expect("waited"));
        let right = if busy { Some(130) } else { Some(0) };
        assert_eq!(ran.status, right, "{ran:?}");
        assert_eq!(bench.seen(), 0);
        drop(file);
    }
}

/// Nothing is left of a mount that was given up, or that failed: no log, no daemon.
#[test]
fn a_mount_that_comes_to_nothing_leaves_no_log() {
    let Some(bench) = Bench::new() else { return };
    let logs = || {
        let all = fs::read_dir(bench.place.sockets()).into_iter().flatten().flatten();
        all.filter(|entry| entry.file_name().to_string_lossy().ends_with(".log")).count()
    };
    let reader = File::open(bench.path("data/file")).expect("opened");
    assert_eq!((bench.run(&["mount", "data"]).status, logs()), (Some(1), 0));
    let mut command = bench.place.command(&["mount", "data", "--wait"]);
    let mut child = command.stderr(Stdio::piped()).stdout(Stdio::null()).spawn().expect("started");
    let mut said = BufReader::new(child.stderr.take().expect("piped"));
    let mut line = String::new();
    said.read_line(&mut line).expect("read");
    assert!(line.contains("waiting for ") && logs() == 1, "{line}");
    kill_process(Pid::from_child(&child), Signal::INT).expect("signalled");
    child.wait().expect("waited");
    until("the log is gone", || logs() == 0);
    drop(reader);
    assert_eq!(bench.seen(), 0);
}

#[test]
fn what_cannot_be_mounted_is_refused_by_the_command_in_front() {
    let Some(bench) = Bench::new() else { return };
    fs::create_dir(bench.path("data/sub")).expect("made");
    let runtime = bench.path("");
    let runtime = runtime.to_str().expect("text");
    let cases: [(&[&str], i32, &str); 8] = [
        (&["mount", "none"], 1, "there is no such directory"),
        (&["mount", "data/file"], 1, "is not a directory"),
        (&["mount", "data", "data/sub"], 1, "the mount would show itself"),
        (&["mount", "/"], 1, "cannot be mounted over, as /dev"),
        (&["mount", runtime], 1, "XDG_RUNTIME_DIR"),
        (&["mount", "data", "--log", "data/log"], 1, "another place with --log"),
        (&["mount", "data", "--sched", "rr", "--set", "x=1"], 2, "no parameter 'x'"),
        (&["unmount", "data"], 1, "iopace is not mounted there"),
    ];
    for (words, status, text) in cases {
        let ran = bench.run(words);
        assert_eq!(ran.status, Some(status), "{words:?}: {ran:?}");
        assert!(ran.error.contains(text), "{words:?}: {ran:?}");
        assert!(ran.error.starts_with("error: ") && ran.out.is_empty(), "{words:?}: {ran:?}");
    }
    assert_eq!(bench.seen(), 0);
    let _pid = bench.mount(&["data", "view"]);
    let locked = bench.run(&["mount", "data"]);
    let at = bench.path("view").display().to_string();
    let said = format!("iopace has it mounted at {at} already (pid ");
    assert!(locked.error.contains(&said), "{locked:?}");
    assert!(locked.error.contains("'iopace unmount "), "{locked:?}");
    let inside = bench.run(&["mount", "view/sub", "--name", "s"]);
    assert_eq!(inside.status, Some(1), "{inside:?}");
    assert_eq!(bench.run(&["unmount", "view"]).status, Some(0));
}

#[test]
fn a_file_with_two_mounts_is_one_daemon() {
    let Some(bench) = Bench::new() else { return };
    fs::create_dir(bench.path("other")).expect("made");
    bench.place.write(
        "iopace.toml",
        "[[mount]]\ndir = \"data\"\n[[mount]]\ndir = \"other\"\nmountpoint = \"view\"\n",
    );
    let pid = bench.mount(&["--config", "iopace.toml"]);
    assert_eq!(bench.list().len(), 2);
    assert!(bench.list().iter().all(|row| row["pid"] == bench.list()[0]["pid"]));
    assert_eq!(bench.run(&["unmount", "data"]).status, Some(0));
    assert!(!is_gone(pid), "the other one is still mounted");
    // The directory is free, though its daemon goes on.
    let second = bench.mount(&["data"]);
    assert_ne!(second, pid);
    assert_eq!(bench.run(&["unmount", "data"]).status, Some(0));
    until("the second daemon ends", || is_gone(second));
    assert_eq!(bench.run(&["unmount", "view"]).status, Some(0));
    until("the daemon ends", || is_gone(pid));
}

/// Of several daemons, the one with a mount; of several mounts, the one that the process uses.
#[test]
fn a_process_has_its_daemon() {
    let Some(bench) = Bench::new() else { return };
    let serving = bench.place.serve(&["disk.img"]);
    fs::create_dir(bench.path("other")).expect("made");
    let pids = [bench.mount(&["data", "view", "--name", "d"]), bench.mount(&["other"])];
    let create = |control: &str| {
        let control = bench.place.sockets().join(control).display().to_string();
        let ran = bench.run(&["group", "create", "/both", "--control", &control]);
        assert_eq!(ran.status, Some(0), "{ran:?}");
        control
    };
    let controls = [create("d.ctl"), create("other.ctl")];
    create("iopace.ctl");
    let file = File::open(bench.path("view/file")).expect("opened");
    file.read_at(&mut [0; 7], 0).expect("read");
    let own = std::process::id().to_string();
    let thread = rustix::thread::gettid().as_raw_nonzero().to_string();
    for number in [&own, &thread] {
        let ran = bench.run(&["group", "move", "--pid", number, "/both"]);
        assert_eq!(ran.status, Some(0), "{ran:?}");
    }
    let seen = |control: &str| {
        let words = ["group", "list", "--processes", "--format", "json", "--control", control];
        let all = bench.run(&words).json()["processes"].clone();
        let all = all.as_array().expect("a list").clone();
        let own = all.into_iter().find(|one| one["pid"] == std::process::id());
        own.map(|one| one["moved"] == true && one["group"] == "/both")
    };
    assert_eq!([seen(&controls[0]), seen(&controls[1])], [Some(true), None]);
    // One that has used neither.
    let mut idle = Command::new("sleep").arg("60").spawn().expect("started");
    let number = idle.id().to_string();
    let ran = bench.run(&["group", "move", "--pid", &number, "/both"]);
    assert_eq!(ran.status, Some(2), "{ran:?}");
    let error = "several daemons have group '/both' and a mount: name one of them with --control: ";
    assert!(ran.error.contains(error) && !ran.error.contains("(devices disk)"), "{ran:?}");
    drop(file);
    assert_eq!(bench.run(&["unmount", "other"]).status, Some(0));
    until("the daemon ends", || is_gone(pids[1]));
    let ran = bench.run(&["group", "move", "--pid", &number, "/both"]);
    assert_eq!(ran.status, Some(0), "the only one with a mount: {ran:?}");
    let ran = bench.run(&["group", "move", "--pid", &number, "/none"]);
    assert!(ran.error.contains("no daemon has group '/none': there are "), "{ran:?}");
    idle.kill().and_then(|()| idle.wait()).expect("ended");
    assert_eq!(bench.run(&["unmount", "view"]).status, Some(0));
    until("the daemon ends", || is_gone(pids[0]));
    let only = bench.place.serve(&["--emulate", "null", "--control", "iopace/null.ctl"]);
    let ran = bench.run(&["group", "move", "--pid", &own, "/"]);
    assert!(ran.error.contains("no daemon has a mount: there are "), "{ran:?}");
    drop((serving, only));
}

#[test]
fn everybody_else_mounts_by_the_helper() {
    let Some(mut bench) = Bench::new() else { return };
    let helper = Command::new("fusermount3").arg("-V").stdout(Stdio::null()).status();
    if helper.is_err() {
        return println!("skipped: there is no fusermount3");
    }
    const NOBODY: u32 = 65_534;
    let mode = fs::metadata("/dev/fuse").expect("there").permissions().mode();
    if mode & 0o006 != 0o006 {
        return println!("skipped: others may not open /dev/fuse");
    }
    for path in ["", "data", "view", "data/file"] {
        std::os::unix::fs::chown(bench.path(path), Some(NOBODY), Some(NOBODY)).expect("given");
    }
    bench.uid = Some(NOBODY);
    let binary = env!("CARGO_BIN_EXE_iopace");
    let mut reach = Command::new(binary);
    if reach.arg("--version").uid(NOBODY).stdout(Stdio::null()).status().is_err() {
        return println!("skipped: the binary cannot be reached by others");
    }
    let allowed = fs::read_to_string("/etc/fuse.conf").unwrap_or_default();
    if !allowed.lines().any(|line| line.trim() == "user_allow_other") {
        let other = bench.run(&["mount", "data", "view", "--allow-other"]);
        assert!(other.error.contains("/etc/fuse.conf has the line"), "{other:?}");
    }
    let pid = bench.mount(&["data", "view"]);
    let list = bench.list();
    assert_eq!(list[0]["directory"], bench.path("data").to_str().expect("text"));
    assert_eq!(bench.run(&["unmount", "view"]).status, Some(0));
    until("the daemon ends", || is_gone(pid));
    assert_eq!(bench.seen(), 0);
}
