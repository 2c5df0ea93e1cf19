//! A file system below that does not answer (`fsfreeze`): programs can be killed, whatever they
//! asked for, and what they asked for overtakes nobody.

use crate::{HANG, Mounted, wait_for};
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

fn run(program: &str, words: &[&Path]) -> bool {
    Command::new(program).args(words).output().is_ok_and(|ran| ran.status.success())
}

/// An ext4 file system of its own, in a file.
fn own_file_system(below: &Path) -> bool {
    let image = below.with_file_name("image");
    fs::File::create(&image).and_then(|file| file.set_len(128 << 20)).expect("made");
    run("mkfs.ext4", &[Path::new("-q"), &image])
        && run("mount", &[Path::new("-o"), Path::new("loop"), &image, below])
}

/// It answers no change until this goes.
struct Frozen(PathBuf);

impl Frozen {
    fn new(below: PathBuf) -> Frozen {
        assert!(run("fsfreeze", &[Path::new("-f"), &below]), "it freezes");
        Frozen(below)
    }
}

impl Drop for Frozen {
    fn drop(&mut self) {
        run("fsfreeze", &[Path::new("-u"), &self.0]);
    }
}

/// Threads are told apart by nothing but their number: one test at a time.
static ALONE: Mutex<()> = Mutex::new(());

fn mounted() -> Option<(Mounted, MutexGuard<'static, ()>)> {
    let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let mut is_there = false;
    let prepare = |below: &Path| {
        is_there = own_file_system(below);
        for name in ["old", "removed", "moved", "cut", "written"] {
            fs::write(below.join(name), vec![7; 1 << 20]).expect("written");
        }
        fs::create_dir(below.join("folder")).expect("made");
    };
    let mounted = Mounted::over(prepare, |_| {})?;
    if !is_there {
        println!("skipped: this needs mkfs.ext4 and a loop device");
        return None;
    }
    Some((mounted, alone))
}

/// Runs a program until what it asked for keeps a thread of ours, which the file system below does
/// not let go, or waits in us behind what does.
fn run_until_kept(mounted: &Mounted, command: &str) -> Child {
    let (threads, requests) = (kept(), waiting(mounted));
    let (mut kept_looks, mut line_looks) = (0, 0);
    let child = mounted.run_in("/", command);
    wait_for(command, || {
        // The locks of a fork are of that kind as well, and are let go; a request that is about to
        // be carried out is not in line for seconds.
        kept_looks = if kept() > threads { kept_looks + 1 } else { 0 };
        line_looks = if waiting(mounted) > requests { line_looks + 1 } else { 0 };
        kept_looks == 20 || (threads > 0 && line_looks == 400)
    });
    child
}

/// How many threads of ours wait in the kernel for a file system that is frozen: it is a lock for
/// each processor that changes pass. Whoever waits for a disk waits elsewhere.
fn kept() -> usize {
    let threads = fs::read_dir("/proc/self/task").expect("procfs").flatten();
    let stacks = threads.filter_map(|thread| fs::read_to_string(thread.path().join("stack")).ok());
    stacks.filter(|stack| stack.contains("percpu_")).count()
}

/// How many requests wait for their answer without a thread.
fn waiting(mounted: &Mounted) -> usize {
    mounted.daemon().mounts().reports()[0].waiting_count
}

fn kill_all(children: Vec<(&str, Child)>) {
    let begin = Instant::now();
    for (command, mut child) in children {
        let state = child.try_wait().expect("its state");
        assert!(state.is_none(), "{command}: it waits, and is not gone: {state:?}");
        child.kill().expect("killed");
        wait_for(command, || child.try_wait().expect("its state").is_some());
    }
    assert!(begin.elapsed() < HANG / 2, "{:?}", begin.elapsed());
}

fn names(folder: &Path) -> BTreeSet<OsString> {
    fs::read_dir(folder).expect("there").map(|entry| entry.expect("read").file_name()).collect()
}

#[test]
fn whoever_waits_for_a_frozen_file_system_can_be_killed() {
    let Some((mounted, _alone)) = mounted() else { return };
    // The kernel knows them all, so that only the change itself has to wait.
    assert!(names(&mounted.at("")).len() > 5);
    let frozen = Frozen::new(mounted.below(""));
    let commands = [
        "rm at/removed",
        "mv at/moved at/folder/moved",
        "truncate -s 5 at/cut",
        "dd if=/dev/zero of=at/written bs=4k count=1 conv=notrunc",
        "mkdir at/folder/made",
    ];
    // One after the other: who waits for a lock in the kernel itself is not killed by us.
    for command in commands {
        let child = run_until_kept(&mounted, command);
        kill_all(vec![(command, child)]);
    }
    // What needs no change goes on meanwhile.
    assert_eq!(fs::read(mounted.at("old")).expect("read").len(), 1 << 20);
    drop(frozen);
    // What they asked for came to pass, or not; the mount shows what is there.
    let is_shown = || {
        ["", "folder"].iter().all(|name| names(&mounted.at(name)) == names(&mounted.below(name)))
            && ["removed", "folder/moved", "folder/made"]
                .iter()
                .all(|name| mounted.at(name).exists() == mounted.below(name).exists())
            && fs::metadata(mounted.at("cut")).expect("there").len()
                == fs::metadata(mounted.below("cut")).expect("there").len()
    };
    wait_for("the truth", is_shown);
    fs::write(mounted.at("new"), "new").expect("it goes on");
}

#[test]
fn what_was_given_up_overtakes_nobody() {
    let Some((mounted, _alone)) = mounted() else { return };
    fs::write(mounted.below("moved"), "moved").expect("written");
    let frozen = Frozen::new(mounted.below(""));
    let gone = run_until_kept(&mounted, "mv at/moved at/away");
    kill_all(vec![("mv", gone)]);
    // Done before the other, this would take its file away.
    let mut next = mounted.run_in("/", "mv -f at/old at/moved");
    // It waits in us: at the file system below it would be anybody's race.
    wait_for("the next move", || waiting(&mounted) == 1);
    drop(frozen);
    wait_for("the next move", || next.try_wait().expect("its state").is_some());
    for name in [Mounted::at, Mounted::below] {
        wait_for("the first move", || name(&mounted, "away").exists());
        assert_eq!(fs::read_to_string(name(&mounted, "away")).expect("there"), "moved");
        assert_eq!(fs::read(name(&mounted, "moved")).expect("there"), [7; 1 << 20]);
        assert!(!name(&mounted, "old").exists());
    }
}

/// The same of a request of the device, which others carry out.
#[test]
fn a_direct_write_that_was_given_up_overtakes_nobody() {
    let Some((mounted, _alone)) = mounted() else { return };
    let frozen = Frozen::new(mounted.below(""));
    let words = "bs=1M count=1 oflag=direct conv=notrunc of=at/written";
    let gone = run_until_kept(&mounted, &format!("dd if=/dev/zero {words}"));
    kill_all(vec![("dd", gone)]);
    let before = waiting(&mounted);
    let mut next = mounted.run_in("/", &format!("dd if=at/old {words}"));
    wait_for("the next write", || waiting(&mounted) == before + 1);
    drop(frozen);
    wait_for("the end of the next write", || next.try_wait().expect("its state").is_some());
    assert!(fs::read(mounted.below("written")).expect("read") == [7; 1 << 20]);
}

#[test]
fn a_mount_of_a_frozen_file_system_ends() {
    let Some((mounted, _alone)) = mounted() else { return };
    let below = mounted.below("");
    let frozen = Frozen::new(below);
    let mut waits = run_until_kept(&mounted, "rm -f at/removed");
    let begin = Instant::now();
    let daemon = mounted.daemon.as_ref().expect("it runs");
    daemon.mounts().cut();
    wait_for("the end of a program of a mount that is gone", || {
        waits.try_wait().is_ok_and(|ended| ended.is_some())
    });
    assert!(begin.elapsed() < HANG / 2, "{:?}", begin.elapsed());
    drop(frozen);
}
