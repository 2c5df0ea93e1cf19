//! Directories and mounts in use: who uses them is named, and nothing is done unless it was told.

mod common;
mod mounted;

use common::{Ran, umount, until};
use mounted::{Bench, is_gone};
use rustix::process::{Pid, Signal, kill_process};
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

#[test]
fn a_mount_in_use_stays_and_its_user_is_named() {
    let Some(bench) = Bench::new() else { return };
    let pid = bench.mount(&["data", "view", "--name", "d"]);
    let file = File::options().read(true).write(true).open(bench.path("view/file"));
    let file = file.expect("opened");
    rustix::fs::flock(&file, rustix::fs::FlockOperation::LockExclusive).expect("locked");
    let mut sleep = Command::new("sleep");
    sleep.arg("600").current_dir(bench.path("view")).stdin(Stdio::null());
    let mut child = sleep.spawn().expect("started");
    let named = format!("/proc/{}/comm", child.id());
    until("it has its name", || fs::read(&named).is_ok_and(|name| name == b"sleep\n"));
    fs::write("/proc/self/comm", "a\x1bname").expect("named");
    let ran = bench.run(&["unmount", "view"]);
    assert_eq!((ran.status, bench.seen()), (Some(1), 1), "nothing is done: {ran:?}");
    let me = format!("(pid {}: file open for writing)", std::process::id());
    assert!(ran.error.contains("is in use by ") && ran.error.contains(&me), "{ran:?}");
    let it = format!("sleep (pid {}: working directory)", child.id());
    assert!(ran.error.contains(&it) && !ran.error.contains('\x1b'), "{ran:?}");
    assert!(ran.error.contains("--lazy") && ran.error.contains("--force"), "{ran:?}");
    assert!(ran.error.contains("not for databases: whoever opens"), "{ran:?}");
    assert!(!is_gone(pid));
    child.kill().and_then(|()| child.wait()).expect("ended");
    let ran = bench.run(&["unmount", "view", "--lazy", "--wait", "1"]);
    assert_eq!((ran.status, bench.seen()), (Some(1), 0), "out of sight: {ran:?}");
    assert!(ran.error.contains("warning: ") && ran.error.contains("unmounted lazily"), "{ran:?}");
    assert!(ran.error.contains("not for databases: whoever opens"), "{ran:?}");
    assert!(ran.error.contains("has not let go after 1 s"), "{ran:?}");
    file.write_all_at(b"C", 0).expect("still served");
    drop(file);
    let ran = bench.run(&["umount", "view"]);
    // Either it was still being ended, or there is nothing left to wait for.
    assert!(ran.status == Some(0) || ran.error.contains("not mounted there"), "{ran:?}");
    until("the daemon ends", || is_gone(pid));
    assert_eq!(fs::read_to_string(bench.path("data/file")).expect("read"), "Content");
}

/// The command returns, and the daemon goes on for those who use the mount: it is listed.
#[test]
fn a_mount_that_is_unmounted_lazily_is_listed_until_its_user_ends() {
    let Some(bench) = Bench::new() else { return };
    let pid = bench.mount(&["data", "view"]);
    let daemon = pid.as_raw_nonzero();
    let file = File::open(bench.path("view/file")).expect("opened");
    let ran = bench.run(&["unmount", "--lazy", "view"]);
    assert_eq!((ran.status, bench.seen()), (Some(0), 0), "{ran:?}");
    let me = format!("(pid {}: open file)", std::process::id());
    assert!(ran.error.contains(&me) && ran.error.contains("unmounted lazily"), "{ran:?}");
    let lives_on = format!("its daemon (pid {daemon}) serves its users until they have closed");
    assert!(ran.out.contains(&lives_on), "{ran:?}");
    let list = bench.list();
    assert_eq!(list.len(), 1, "{list:?}");
    assert_eq!((&list[0]["state"], &list[0]["pid"]), (&"detached".into(), &daemon.get().into()));
    // The same again says the same, and whoever waits is told for whom.
    let again = bench.run(&["unmount", "--lazy", "view"]);
    assert!(again.status == Some(0) && again.out.contains(&lives_on), "{again:?}");
    let waited = bench.run(&["unmount", "view", "--wait", "1"]);
    assert_eq!(waited.status, Some(1), "{waited:?}");
    assert!(waited.error.contains("is out of sight already"), "{waited:?}");
    assert!(waited.error.contains(&me), "{waited:?}");
    // Nobody mounts the directory beside its users: it is refused in time, or waited for.
    for words in [&["mount", "data", "--wait=1"][..], &["mount", "data"]] {
        refused(&bench, words, &format!("last daemon (pid {daemon}) still serves "), &me);
    }
    assert_eq!(bench.list().len(), 1);
    drop(file);
    until("the daemon ends", || is_gone(pid));
    assert!(bench.list().is_empty());
}

/// Nothing is left of a mount that was given up while it waited for a daemon that has users still.
#[test]
fn a_mount_given_up_beside_the_last_daemon_leaves_nothing() {
    let Some(bench) = Bench::new() else { return };
    let left = || {
        let all = fs::read_dir(bench.place.sockets()).into_iter().flatten().flatten();
        let mut names: Vec<_> = all.map(|entry| entry.file_name()).collect();
        names.sort();
        names
    };
    let last = bench.mount(&["data"]);
    let reader = File::open(bench.path("data/file")).expect("opened");
    assert_eq!(bench.run(&["unmount", "--lazy", "data"]).status, Some(0));
    let before = left();
    for signal in [Signal::INT, Signal::KILL] {
        let mut command = bench.place.command(&["mount", "data", "--wait"]);
        command.stderr(Stdio::piped()).stdout(Stdio::null());
        let mut child = command.spawn().expect("started");
        let mut said = BufReader::new(child.stderr.take().expect("piped"));
        let mut line = String::new();
        said.read_line(&mut line).expect("read");
        let me = format!("(pid {}: open file)", std::process::id());
        assert!(line.contains("waiting for its last daemon (pid ") && line.contains(&me), "{line}");
        assert_ne!(left(), before, "it has a log");
        kill_process(Pid::from_child(&child), signal).expect("signalled");
        child.wait().expect("waited");
        until("nothing is left of it", || left() == before);
    }
    assert!(!is_gone(last));
    drop(reader);
    until("the last daemon ends", || is_gone(last));
    assert_eq!(bench.seen(), 0);
}

/// Where the mount is not seen, the command says where it is, and does not wait for its end.
#[test]
fn a_mount_of_another_namespace_is_not_taken_for_one_that_ends() {
    let Some(bench) = Bench::new() else { return };
    let pid = bench.mount(&["data", "view"]).as_raw_nonzero();
    let script = "umount -a -l -t fuse.iopace; $iopace mount; $iopace unmount view";
    let mut command = Command::new("unshare");
    command.args(["-m", "sh", "-c", script]).env("iopace", env!("CARGO_BIN_EXE_iopace"));
    command.current_dir(bench.path("")).env("XDG_RUNTIME_DIR", bench.path(""));
    let ran = Ran::from(command.stdin(Stdio::null()).output().expect("started"));
    assert_eq!(ran.status, Some(1), "{ran:?}");
    let view = bench.path("view").display().to_string();
    let listed = |line: &&str| line.starts_with(&view) && line.contains(" elsewhere ");
    assert_eq!(ran.out.lines().filter(listed).count(), 1, "{ran:?}");
    let right = format!("'nsenter -t {pid} -m iopace unmount {view}'");
    assert!(ran.error.contains(&right), "{ran:?}");
    assert_eq!((bench.seen(), bench.run(&["unmount", "view"]).status), (1, Some(0)));
}

/// The kernel gives the number of a mount to the next one as soon as nobody uses it, while the
/// daemon of the first still makes durable what was written.
#[test]
fn a_mount_that_has_the_number_of_one_that_ends_is_not_taken_for_it() {
    let (Some(bench), Some(other)) = (Bench::new(), Bench::new()) else { return };
    let pid = other.mount(&["data", "view"]).as_raw_nonzero();
    let other_view = other.path("view").display().to_string();
    let table = fs::read_to_string("/proc/self/mountinfo").expect("read");
    let line = table.lines().find(|line| line.contains(&other_view)).expect("mounted");
    let device = line.split(' ').nth(2).expect("a device");
    let number = device.strip_prefix("0:").expect("it has no disk");
    // What a daemon has left that is still at it: its record, and the lock on that.
    let record = serde_json::json!({ "mountpoint": bench.path("view"), "device": "data",
        "directory": bench.path("data"), "pid": pid, "control": null, "log": null });
    let held = bench.path("iopace").join(format!("mount-{number}.json"));
    fs::create_dir_all(held.parent().expect("a directory")).expect("made");
    fs::write(&held, record.to_string()).expect("written");
    let lock = File::open(&held).expect("opened");
    rustix::fs::flock(&lock, rustix::fs::FlockOperation::LockExclusive).expect("locked");
    assert_eq!(bench.list()[0]["state"], "detached");
    let ran = bench.run(&["unmount", "view", "--wait", "1"]);
    assert_eq!(ran.status, Some(1), "{ran:?}");
    assert!(ran.error.contains("is out of sight already") && !ran.error.contains("nsenter"));
    assert!(ran.error.contains("has not let go after 1 s"), "{ran:?}");
    drop(lock);
    assert_eq!((other.seen(), other.run(&["unmount", "view"]).status), (1, Some(0)));
}

/// In a mount namespace of its own: mounts of other tests are not to be unmounted.
#[test]
fn all_mounts_are_unmounted_but_those_in_use() {
    let Some(bench) = Bench::new() else { return };
    fs::create_dir(bench.path("other")).expect("made");
    let script = "umount -a -l -t fuse.iopace; set -e
        $iopace mount data view --name d; $iopace mount other
        exec 9<view/file; ! $iopace unmount --all; exec 9<&-
        test -e view/file; $iopace unmount --all; ! test -e view/file
        $iopace unmount --all | grep 'nothing is mounted'
        # One that is out of sight is waited for.
        $iopace mount data view --name d; exec 9<view/file; $iopace unmount --lazy view
        if $iopace unmount --all --wait=1; then exit 3; fi
        exec 9<&-; $iopace unmount --all
        $iopace unmount --all | grep 'nothing is mounted'";
    let mut command = Command::new("unshare");
    command.args(["-m", "sh", "-c", script]).env("iopace", env!("CARGO_BIN_EXE_iopace"));
    command.current_dir(bench.path("")).env("XDG_RUNTIME_DIR", bench.path(""));
    let ran = Ran::from(command.stdin(Stdio::null()).output().expect("started"));
    assert_eq!(ran.status, Some(0), "{ran:?}");
    assert_eq!(ran.error.matches("nothing was done: ").count(), 1, "{ran:?}");
    assert_eq!(ran.error.matches("has not let go after 1 s: ").count(), 1, "{ran:?}");
}

#[test]
fn force_cuts_a_user_off() {
    let Some(bench) = Bench::new() else { return };
    let pid = bench.mount(&["data"]);
    let file = File::open(bench.path("data/file")).expect("opened");
    let ran = bench.run(&["unmount", "--force", "data"]);
    assert_eq!(ran.status, Some(0), "{ran:?}");
    until("the daemon ends", || is_gone(pid));
    assert!(file.read_at(&mut [0; 1 << 16], 0).is_err());
    assert_eq!(bench.seen(), 0);
}

#[test]
fn a_directory_in_use_is_not_mounted_unless_told() {
    let Some(bench) = Bench::new() else { return };
    let refused = |words: &[&str], reason: &str, word: &str| refused(&bench, words, reason, word);
    // A descriptor for reading, a working directory.
    let reader = File::open(bench.path("data/file")).expect("opened");
    let reads = format!("(pid {}: open file): ", std::process::id());
    for words in [&["mount", "data"][..], &["mount", "data", "view"]] {
        refused(words, &reads, "say --while-in-use");
    }
    let ran = bench.run(&["mount", "data", "--while-in-use"]);
    assert_eq!(ran.status, Some(0), "{ran:?}");
    assert!(ran.error.contains("they go on past iopace"), "{ran:?}");
    assert!(!ran.error.contains("destroyed"), "{ran:?}");
    assert_eq!(bench.run(&["unmount", "data"]).status, Some(0));
    drop(reader);
    let script = "cd data; $iopace mount . --control ../c.ctl; exit $?";
    let mut command = Command::new("sh");
    command.args(["-c", script]).current_dir(bench.path("")).stdin(Stdio::null());
    command.env("iopace", env!("CARGO_BIN_EXE_iopace")).env("XDG_RUNTIME_DIR", bench.path(""));
    let ran = Ran::from(command.output().expect("started"));
    assert_eq!(ran.status, Some(1), "{ran:?}");
    assert!(ran.error.contains("working directory") && ran.error.contains("'cd' out"), "{ran:?}");
}

/// No mount is made, for the reason and with the remedy that is named.
fn refused(bench: &Bench, words: &[&str], reason: &str, word: &str) {
    let ran = bench.run(words);
    assert_eq!((ran.status, bench.seen()), (Some(1), 0), "{words:?}: {ran:?}");
    assert!(ran.error.contains(reason) && ran.error.contains(word), "{words:?}: {ran:?}");
}

#[test]
fn a_directory_that_is_written_takes_a_word_of_its_own() {
    let Some(bench) = Bench::new() else { return };
    let refused = |words: &[&str], reason: &str, word: &str| refused(&bench, words, reason, word);
    let me = std::process::id();
    // A descriptor for writing, with and without a lock; a mapping. A lock of somebody who can only
    // read keeps nobody away for long.
    let open = || File::options().read(true).write(true).open(bench.path("data/file"));
    let writes = "is written by ";
    let writer = open().expect("opened");
    for words in [&["mount", "data"][..], &["mount", "data", "view", "--while-in-use"]] {
        refused(words, writes, "(--while-written mounts all the same)");
    }
    refused(&["mount", "data", "--wait=1"], writes, "waiting for ");
    drop(writer);
    let locker = File::open(bench.path("data/file")).expect("opened");
    rustix::fs::flock(&locker, rustix::fs::FlockOperation::LockExclusive).expect("locked");
    refused(&["mount", "data"], "open file, lock", "--while-in-use");
    drop(locker);
    let locker = open().expect("opened");
    rustix::fs::flock(&locker, rustix::fs::FlockOperation::LockExclusive).expect("locked");
    refused(&["mount", "data", "--while-in-use"], "write lock", "--while-written");
    drop(locker);
    let map = "import mmap, sys; f = open('data/file', 'r+b'); m = mmap.mmap(f.fileno(), 0)
f.close(); print(flush=True); sys.stdin.read()";
    let mut python = Command::new("python3");
    python.args(["-c", map]).current_dir(bench.path("")).stdin(Stdio::piped());
    let mut mapper = python.stdout(Stdio::piped()).spawn().expect("python3");
    let mut line = String::new();
    let out = mapper.stdout.take().expect("piped");
    BufReader::new(out).read_line(&mut line).expect("mapped");
    refused(&["mount", "data", "--while-in-use"], writes, "writable mapping");
    drop(mapper.stdin.take());
    mapper.wait().expect("ended");
    // By another way: a bind mount, which is named too.
    rustix::mount::mount_bind(bench.path("data"), bench.path("view")).expect("bound");
    let writer = File::options().write(true).open(bench.path("view/file")).expect("opened");
    let view = bench.path("view").display().to_string();
    let ran = bench.run(&["mount", "data"]);
    assert_eq!(ran.status, Some(1), "{ran:?}");
    let warning = format!("warning: {view} shows files of ");
    assert!(ran.error.contains(&warning) && ran.error.contains(writes), "{ran:?}");
    // It is waited for.
    let mut waiting = bench.place.command(&["mount", "data", "--wait"]);
    let mut waiting =
        waiting.stderr(Stdio::piped()).stdout(Stdio::null()).spawn().expect("started");
    let mut said = BufReader::new(waiting.stderr.take().expect("piped")).lines();
    let waits = said.by_ref().map_while(Result::ok).find(|line| line.contains("waiting for "));
    assert!(waits.is_some_and(|line| line.contains(&format!("(pid {me}: "))));
    drop(writer);
    assert_eq!(waiting.wait().expect("waited").code(), Some(0), "{said:?}");
    assert_eq!(bench.run(&["unmount", "data"]).status, Some(0));
}

/// The directory is put aside, with a link in its place, while it is being mounted.
#[test]
fn a_directory_that_is_exchanged_is_not_mounted() {
    let Some(bench) = Bench::new() else { return };
    let reader = File::open(bench.path("data/file")).expect("opened");
    let mut command = bench.place.command(&["mount", "data", "--wait"]);
    let mut child = command.stderr(Stdio::piped()).stdout(Stdio::null()).spawn().expect("started");
    let mut said = BufReader::new(child.stderr.take().expect("piped"));
    let mut line = String::new();
    said.read_line(&mut line).expect("read");
    assert!(line.contains("waiting for "), "{line}");
    fs::rename(bench.path("data"), bench.path("other")).expect("renamed");
    std::os::unix::fs::symlink(bench.path("view"), bench.path("data")).expect("linked");
    drop(reader);
    assert_eq!(child.wait().expect("waited").code(), Some(1));
    said.read_to_string(&mut line).expect("read");
    assert!(line.contains("was renamed, replaced or mounted over"), "{line}");
    assert_eq!(bench.seen(), 0);
    // A link of somebody else's leads nowhere.
    std::os::unix::fs::lchown(bench.path("data"), Some(1001), Some(1001)).expect("given");
    let ran = bench.run(&["mount", "data"]);
    assert_eq!((ran.status, bench.seen()), (Some(1), 0), "{ran:?}");
    assert!(ran.error.contains("belongs to user 1001"), "{ran:?}");
}

#[test]
fn a_reader_cannot_lock_root_out() {
    let Some(bench) = Bench::new() else { return };
    let mut flock = Command::new("flock");
    flock.args(["-s", "data", "sh", "-c", "echo; exec cat"]).current_dir(bench.path(""));
    flock.stdin(Stdio::piped()).stdout(Stdio::piped());
    fs::set_permissions(bench.path(""), PermissionsExt::from_mode(0o755)).expect("set");
    let mut holder = flock.uid(65_534).gid(65_534).spawn().expect("flock");
    let mut out = BufReader::new(holder.stdout.take().expect("piped"));
    out.read_line(&mut String::new()).expect("locked");
    let pid = bench.mount(&["data", "--while-in-use"]);
    // Root's own claim holds, whatever else is locked.
    let again = bench.run(&["mount", "data", "view", "--while-in-use"]);
    assert_eq!(again.status, Some(1), "{again:?}");
    drop(holder.stdin.take());
    holder.wait().expect("ended");
    assert_eq!(bench.run(&["unmount", "data"]).status, Some(0));
    until("the daemon ends", || is_gone(pid));
}

/// The daemon that is ending is waited for, however often.
#[test]
fn a_directory_is_mounted_right_after_it_was_unmounted() {
    let Some(bench) = Bench::new() else { return };
    for round in 0..20 {
        let ran = bench.run(&["mount", "data"]);
        assert_eq!(ran.status, Some(0), "round {round}: {ran:?}");
        fs::write(bench.path("data/file"), format!("{round}")).expect("written");
        umount(&bench.path("data"));
    }
    let pid = bench.mount(&["data"]);
    assert_eq!(bench.run(&["unmount", "data"]).status, Some(0));
    until("the daemon ends", || is_gone(pid));
    assert_eq!(fs::read_to_string(bench.path("data/file")).expect("read"), "19");
}
