//! Names and attributes of programs whose group has a limit: they wait, and nobody else does.

use crate::{HANG, Mounted, emulate, wait_for};
use std::fs::{self, File};
use std::path::Path;
use std::process::Child;
use std::thread;
use std::time::{Duration, Instant};

/// One operation, and then nothing for as long as a test lasts: 12 days for a byte.
const ONE_BYTE: &str = "rbps=1 wbps=1";

/// Two directories, and files in them that anybody may open.
pub(crate) fn prepare(below: &Path) {
    for name in ["ours", "theirs"] {
        fs::create_dir(below.join(name)).expect("made");
        for file in 0..10 {
            fs::write(below.join(format!("{name}/{file}")), [1; 8192]).expect("written");
        }
    }
}

/// A group that is a megabyte, and so days, over its limits.
fn over_its_limit(model: Option<&str>) -> Option<Mounted> {
    let mounted = Mounted::over(prepare, |config| {
        if let Some(model) = model {
            emulate(&mut config.mounts[0], model);
        }
    })?;
    let taste = mounted.below("taste");
    fs::write(mounted.at("taste"), vec![0; 1 << 20]).expect("written");
    assert_eq!(fs::metadata(taste).expect("there").len(), 1 << 20);
    mounted.limit("/slow", ONE_BYTE);
    // What comes first finds its limit open.
    let write = "dd if=/dev/zero of=at/taste bs=1M count=1 oflag=direct conv=notrunc";
    for taste in [write, "dd if=at/taste of=/dev/null bs=1M iflag=direct"] {
        let before = mounted.in_line();
        let mut taste = mounted.run_in("/slow", taste);
        wait_for("somebody who waits", || mounted.in_line() > before || ended(&mut taste));
        end(taste);
    }
    Some(mounted)
}

fn waiting(mounted: &Mounted) -> usize {
    mounted.daemon().mounts().reports()[0].waiting_count
}

pub(crate) fn ended(child: &mut Child) -> bool {
    child.try_wait().expect("its state").is_some()
}

pub(crate) fn end(mut child: Child) {
    let _ = child.kill();
    wait_for("the end of a killed program", || ended(&mut child));
}

#[test]
fn a_limited_program_waits_and_nobody_else() {
    for model in [None, Some("null")] {
        let Some(mounted) = over_its_limit(model) else { return };
        let mut opens = mounted.run_in("/slow", "sh -c 'stat at/ours/1; cat at/ours/1'");
        let mut changes = mounted.run_in("/slow", "truncate -c -s 1 at/ours/2");
        // Names have their deadline; what comes behind it waits for the limit alone.
        wait_for("two that wait", || waiting(&mounted) == 2);
        // SLEEP: nothing may happen, also after the 1.5 s that a name waits at most.
        thread::sleep(Duration::from_secs(4));
        assert!(!ended(&mut opens) && !ended(&mut changes));
        assert_eq!(fs::metadata(mounted.below("ours/2")).expect("there").len(), 8192);
        // More of them than there are threads: none is taken.
        let all: Vec<Child> =
            (0..20).map(|_| mounted.run_in("/slow", "truncate -c -s 2 at/ours/3")).collect();
        wait_for("all wait", || waiting(&mounted) >= 22);
        let begin = Instant::now();
        for number in 0..10 {
            let (old, new) = (format!("theirs/{number}"), format!("theirs/new{number}"));
            fs::rename(mounted.at(&old), mounted.at(&new)).expect("renamed");
            File::create(mounted.at(&old)).expect("created");
            fs::remove_file(mounted.at(&new)).expect("removed");
        }
        assert_eq!(fs::read_dir(mounted.at("theirs")).expect("listed").count(), 10);
        assert!(begin.elapsed() < Duration::from_secs(30), "{:?}", begin.elapsed());
        // Whoever waits can be killed, and what he asked for is not done.
        for child in all {
            end(child);
        }
        // A lifted limit lets the others go on at once.
        mounted.limit("/slow", "rbps=max wbps=max");
        wait_for("the end of both", || ended(&mut opens) && ended(&mut changes));
        assert_eq!(fs::metadata(mounted.below("ours/2")).expect("there").len(), 1);
        assert_eq!(fs::metadata(mounted.below("ours/3")).expect("there").len(), 8192);
        // Those who were killed have left something in line as well.
        wait_for("the end of the line", || waiting(&mounted) == 0);
    }
}

#[test]
fn a_directory_is_not_locked_for_everybody() {
    let Some(mounted) = over_its_limit(None) else { return };
    let mut slow = mounted.run_in("/slow", "rm at/ours/1");
    wait_for("it waits", || waiting(&mounted) > 0 || ended(&mut slow));
    // The kernel keeps the directory locked while one of its names is removed, or looked for.
    let begin = Instant::now();
    File::create(mounted.at("ours/new")).expect("created");
    assert!(begin.elapsed() < Duration::from_secs(30), "{:?}", begin.elapsed());
    wait_for("what is removed late", || !mounted.below("ours/1").exists());
    wait_for("its end", || ended(&mut slow));
    assert!(begin.elapsed() < HANG);
}

#[test]
fn a_group_can_go_while_what_it_asked_for_is_in_line() {
    let Some(mounted) = over_its_limit(None) else { return };
    let waits = mounted.run_in("/slow", "truncate -c -s 1 at/ours/2");
    wait_for("it waits", || waiting(&mounted) > 0);
    // SLEEP: nothing may happen, also after the 1.5 s that a name waits at most.
    thread::sleep(Duration::from_secs(4));
    let groups = mounted.daemon().groups();
    groups.remove("/slow").expect_err("a program pays as it");
    end(waits);
    assert!(waiting(&mounted) > 0, "it is still in line");
    wait_for("the end of the group", || groups.remove("/slow").is_ok());
    wait_for("the end of the line", || waiting(&mounted) == 0);
    assert_eq!(fs::metadata(mounted.below("ours/2")).expect("there").len(), 8192);
}

#[test]
fn a_mount_ends_whoever_waits_and_nothing_comes_too_late() {
    let Some(mounted) = over_its_limit(None) else { return };
    let mut waits = mounted.run_in("/slow", "truncate -c -s 1 at/ours/2");
    wait_for("it waits", || waiting(&mounted) > 0);
    // SLEEP: nothing may happen, also after the 1.5 s that a name waits at most.
    thread::sleep(Duration::from_secs(4));
    assert!(!ended(&mut waits));
    let below = File::open(mounted.below("ours/2")).expect("opens");
    let begin = Instant::now();
    drop(mounted);
    assert!(begin.elapsed() < HANG, "{:?}", begin.elapsed());
    wait_for("its end", || ended(&mut waits));
    let status = waits.wait().expect("its end");
    assert!(!status.success(), "it had an error");
    assert_eq!(below.metadata().expect("open").len(), 8192);
}
