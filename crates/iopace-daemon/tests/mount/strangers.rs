//! Users who block what they ask for: a file system of theirs that has stopped, leases that they do
//! not give back. Only they themselves wait for it.

mod nobody;
mod stopped;

use crate::{Mounted, wait_for};
use iopace_daemon::limits::FUSE_BACKGROUND_MAX;
use iopace_fuse::limits::{BACKGROUND_PART, USER_THREADS};
use std::ffi::OsStr;
use std::fs::{self, Permissions};
use std::io::{BufRead, BufReader};
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use stopped::Opener;

/// Calls of each of the two strangers.
const CALLS: usize = 100;

const STOPPED: u32 = 1001;
const OTHER: u32 = 1002;
const LEASING: u32 = 1003;

/// Programs that are ended when they go, also when the test has failed.
struct Programs(Vec<Child>);

impl Programs {
    fn kill(&mut self) {
        self.0.iter_mut().for_each(|child| drop(child.kill()));
    }

    fn wait(&mut self, what: &str) {
        for child in &mut self.0 {
            wait_for(what, || child.try_wait().expect("it is ours").is_some());
        }
    }
}

impl Drop for Programs {
    fn drop(&mut self) {
        self.kill();
    }
}

fn as_user(uid: u32, program: &str, arguments: &[&OsStr]) -> Child {
    let mut command = Command::new(program);
    command.args(arguments).stdout(Stdio::null()).stderr(Stdio::null()).stdin(Stdio::null());
    command.uid(uid).gid(uid).spawn().expect("it starts")
}

/// A program of that user with a lease on each of its files, which it does not give back.
fn lease(folder: &Path) -> Option<Programs> {
    let text = "import fcntl,os,signal,sys\n\
                signal.signal(signal.SIGIO, signal.SIG_IGN)\n\
                for i in range(int(sys.argv[2])):\n\
                \tfd = os.open(f'{sys.argv[1]}/l{i}', os.O_RDWR | os.O_CREAT, 0o600)\n\
                \tfcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_WRLCK)\n\
                print('ready', flush=True)\n\
                sys.stdin.read()\n";
    user_program(LEASING, text, folder, CALLS)
}

/// A Python program of that user that has said that it is ready; none if there is no Python.
fn user_program(uid: u32, text: &str, folder: &Path, count: usize) -> Option<Programs> {
    let mut command = Command::new("/usr/bin/python3");
    command.args(["-c", text]).arg(folder).arg(count.to_string());
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).uid(uid).gid(uid);
    let mut child = command.spawn().ok()?;
    let mut line = String::new();
    let output = child.stdout.take().expect("piped");
    BufReader::new(output).read_line(&mut line).expect("it says something");
    let program = Programs(vec![child]);
    (line == "ready\n").then_some(program)
}

/// Pages of which no more than this many wait: a quarter of what the kernel sends without anybody
/// who waits, and it has [`READ_AHEAD`] to send.
const READ_AHEAD_KEPT: usize = FUSE_BACKGROUND_MAX as usize / BACKGROUND_PART;
const READ_AHEAD: usize = READ_AHEAD_KEPT + 512;

/// A program of him who has stopped that has had pages of his files read ahead.
fn read_ahead(folder: &Path) -> Option<Programs> {
    let text = "import os,sys\n\
                count = int(sys.argv[2])\n\
                name = sys.argv[1] + '/f'\n\
                files = [os.open(name + str(i), os.O_RDONLY) for i in range(count // 256 + 1)]\n\
                for i in range(count):\n\
                \tat = i % 256 * 4096\n\
                \tos.posix_fadvise(files[i // 256], at, 4096, os.POSIX_FADV_WILLNEED)\n\
                print('ready', flush=True)\n\
                sys.stdin.read()\n";
    user_program(STOPPED, text, folder, READ_AHEAD)
}

/// Another user and root read a file.
fn others_go_on(mounted: &Mounted) {
    for uid in [0, OTHER] {
        let mut reads = Programs(vec![as_user(uid, "cat", &[mounted.at("other").as_os_str()])]);
        reads.wait("what another user reads");
        assert!(reads.0[0].wait().expect("ended").success(), "user {uid}");
    }
}

/// A user whose files have stopped reads as far ahead as he may; others go on.
fn read_ahead_beside(mounted: &Mounted, stopped: &Opener) {
    let waiting = || mounted.daemon().mounts().reports()[0].waiting_count;
    let others = [0, OTHER].map(|uid| {
        let path = mounted.at(&format!("ahead{uid}"));
        (uid, shell(uid, "cat \"$1\"", &path, ""))
    });
    stopped.stop();
    let mut ahead = read_ahead(&mounted.at("stopped"));
    if ahead.is_some() {
        wait_for("pages to be read ahead", || waiting() == READ_AHEAD_KEPT);
        for (uid, mut other) in others {
            drop(other.0[0].stdin.take());
            other.wait("what another user reads in order");
            assert!(other.0[0].wait().expect("ended").success(), "user {uid}");
        }
    } else {
        println!("skipped in part: reading ahead needs python3");
    }
    ahead.iter_mut().for_each(Programs::kill);
    stopped.open();
    ahead.iter_mut().for_each(|ahead| ahead.wait("him who has read ahead"));
    wait_for("the end of what was read ahead", || waiting() == 0);
}

#[test]
fn a_stranger_stops_only_himself() {
    let mut stopped = None;
    let prepare = |below: &Path| {
        let folder = below.parent().expect("a folder");
        fs::set_permissions(folder, Permissions::from_mode(0o755)).expect("set");
        fs::write(below.join("other"), "read").expect("written");
        for uid in [0, OTHER] {
            fs::write(below.join(format!("ahead{uid}")), vec![1; 1 << 20]).expect("written");
        }
        for (name, uid) in [("stopped", STOPPED), ("leases", LEASING)] {
            fs::create_dir(below.join(name)).expect("made");
            chown(below.join(name), Some(uid), Some(uid)).expect("given");
        }
        stopped = Some(Opener::mount(&below.join("stopped")));
    };
    let Some(mounted) = Mounted::over(prepare, |_| {}) else { return };
    let stopped = stopped.expect("prepared");
    let waiting = || mounted.daemon().mounts().reports()[0].waiting_count;
    let call = |folder: &str, uid, program: &str| {
        let call = |number| {
            let path = mounted.at(folder).join(format!("l{number}"));
            as_user(uid, program, &[path.as_os_str()])
        };
        Programs((0..CALLS).map(call).collect())
    };
    let mut asking = call("stopped", STOPPED, "stat");
    wait_for("calls of him who has stopped", || waiting() == CALLS - USER_THREADS);
    others_go_on(&mounted);
    if let Some(mut holder) = lease(&mounted.below("leases")) {
        let mut opening = call("leases", LEASING, "cat");
        // Not all: the system takes a lease away after some time, and each lets one call go on.
        let most = 2 * (CALLS - USER_THREADS) - CALLS / 2;
        wait_for("calls that wait for leases", || waiting() >= most);
        others_go_on(&mounted);
        holder.kill();
        opening.wait("calls that waited for leases");
    } else {
        println!("skipped in part: leases need python3");
    }
    assert_eq!(waiting(), CALLS - USER_THREADS, "the other one still waits");
    // Killed, they end at once, also those that wait for a thread.
    asking.kill();
    asking.wait("the end of killed programs");
    assert_eq!(waiting(), 0);
    others_go_on(&mounted);
    stopped.open();
    let mut again = Programs(vec![as_user(STOPPED, "cat", &[mounted.at("other").as_os_str()])]);
    again.wait("a call of him who has stopped no more");
    assert!(again.0[0].wait().expect("ended").success());
    read_ahead_beside(&mounted, &stopped);
    drop(mounted);
    drop(stopped);
}

/// A shell of that user which begins when its input ends. It is to be started while the file system
/// answers: a child has the descriptors of this process, which the daemon is a part of, and closes
/// them before it becomes another program. That it has is known when it says something: it counts
/// as started as soon as the first of them is closed.
fn shell(uid: u32, script: &str, path: &Path, each: &str) -> Programs {
    let script = format!("echo; exec >/dev/null; read go; {script}");
    let words = ["-c".as_ref(), script.as_ref(), "sh".as_ref(), path.as_os_str(), each.as_ref()];
    let mut command = Command::new("sh");
    command.args(words).stdout(Stdio::piped()).stderr(Stdio::null()).stdin(Stdio::piped());
    let mut shell = Programs(vec![command.uid(uid).gid(uid).spawn().expect("it starts")]);
    let said = shell.0[0].stdout.take().expect("piped");
    assert!(BufReader::new(said).lines().next().is_some(), "the shell of user {uid} says nothing");
    shell
}

/// Programs that use a file of a file system that has stopped, `$1`, and in what way.
const USES: [(&str, &str); 7] = [
    ("direct reads", "dd if=$1 of=/dev/null bs=4k count=1 iflag=direct"),
    ("reads", "cat $1"),
    ("direct writes", "dd if=/dev/zero of=$1 bs=4k count=1 conv=notrunc oflag=direct"),
    ("writes", "dd if=/dev/zero of=$1 bs=4k count=1 conv=notrunc"),
    ("syncs", "sync $1"),
    ("truncates", "truncate -s 1 $1"),
    ("closes", "true 3<> $1"),
];

/// Programs that have something of such a file, `$1`, say so, and end when their input `9` does.
/// The kernel asks in nobody's name for the end of what they had.
const ENDS: [(&str, &str); 2] = [
    ("descriptors that are let go", "exec 3< $1; echo; read go <&9"),
    // A lock of the open file (`F_OFD_SETLK`, `F_RDLCK`), which goes with it. The daemon has a file
    // of its own for the owner of the lock, and closes that.
    (
        "locks",
        "exec perl -e '$_ = pack \"ssx4qqlx4\", 0, 0, 0, 0, 0; fcntl STDIN, 37, $_ or die;
            $| = 1; print \"\\n\"; open GO, \"<&=9\" or die; <GO>' < $1",
    ),
];

/// Programs of each kind: more than the device has at the disk at a time, and than root may have
/// threads.
const USERS: usize = 80;

/// What others do meanwhile, in a directory of their own: with and without the page cache, and
/// durable.
const OTHERS: &str = "set -e; cd \"$1\"; dd if=/dev/zero of=a bs=4k count=4 conv=fsync
    dd if=a of=b bs=4k oflag=direct; dd if=b of=/dev/null bs=4k iflag=direct; sync a
    truncate -s 5 a; mv a c; rm b c";

type Others = [(u32, Programs); 2];

/// Root and another user, who are to begin.
fn others(mounted: &Mounted) -> Others {
    let others = [(0, "roots"), (OTHER, "others")];
    others.map(|(uid, folder)| (uid, shell(uid, OTHERS, &mounted.at(folder), "")))
}

/// They begin, and end.
fn go_on(others: Others, what: &str) {
    for (uid, mut other) in others {
        drop(other.0[0].stdin.take());
        other.wait(&format!("user {uid} beside {what} of him who has stopped"));
        let status = other.0[0].wait().expect("ended");
        assert!(status.success(), "user {uid} beside {what}: {status}");
    }
}

/// Others go on while [`USERS`] programs wait for a file of him who has stopped.
fn beside_uses(mounted: &Mounted, stopped: &Opener, (what, each): (&str, &str)) {
    let all = format!("for n in $(seq {USERS}); do sh -c \"$2\" sh \"$1/f$n\" & done; wait");
    stopped.open();
    let mut using = shell(STOPPED, &all, &mounted.at("stopped"), each);
    let others = others(mounted);
    stopped.stop();
    drop(using.0[0].stdin.take());
    wait_for(what, || stopped.count() >= USER_THREADS);
    go_on(others, what);
    stopped.open();
    using.wait(what);
}

/// Others go on when [`USERS`] programs have ended which had a file of him who has stopped.
fn beside_ends(mounted: &Mounted, stopped: &Opener, (what, each): (&str, &str)) {
    let all =
        format!("exec 9<&0; for n in $(seq {USERS}); do sh -c \"$1\" sh \"$0/f$n\" & done; wait");
    stopped.open();
    let mut command = Command::new("sh");
    command.args(["-c", &all]).arg(mounted.at("stopped")).arg(each);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).uid(STOPPED).gid(STOPPED);
    let mut using = Programs(vec![command.spawn().expect("it starts")]);
    let said = BufReader::new(using.0[0].stdout.take().expect("piped"));
    assert_eq!(said.lines().take(USERS).count(), USERS, "{what}: some have failed");
    let others = others(mounted);
    stopped.stop();
    drop(using.0[0].stdin.take());
    using.wait(what);
    wait_for(what, || stopped.count() >= USER_THREADS);
    go_on(others, what);
    stopped.open();
}

#[test]
fn a_stranger_whose_files_have_stopped_stops_only_himself() {
    let mut stopped = None;
    let prepare = |below: &Path| {
        let folder = below.parent().expect("a folder");
        fs::set_permissions(folder, Permissions::from_mode(0o755)).expect("set");
        for (name, uid) in [("stopped", STOPPED), ("others", OTHER), ("roots", 0)] {
            fs::create_dir(below.join(name)).expect("made");
            chown(below.join(name), Some(uid), Some(uid)).expect("given");
        }
        stopped = Some(Opener::mount(&below.join("stopped")));
    };
    let Some(mounted) = Mounted::over(prepare, |_| {}) else { return };
    let stopped = stopped.expect("prepared");
    for (what, each) in USES {
        beside_uses(&mounted, &stopped, (what, each));
    }
    let has_perl = Command::new("perl").args(["-e", "0"]).status().is_ok();
    for (what, each) in ENDS {
        match has_perl || !each.contains("perl") {
            true => beside_ends(&mounted, &stopped, (what, each)),
            false => println!("skipped in part: {what} need perl"),
        }
    }
    stopped.open();
    drop(mounted);
    drop(stopped);
}
