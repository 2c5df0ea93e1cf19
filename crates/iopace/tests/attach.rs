//! Disks behind iopace as block devices of the kernel: attached, used, detached, killed.

mod attached;
mod common;

use attached::{Bench, pattern, tool};
use common::{Ran, umount, until};
use rustix::process::{Pid, Signal, kill_process};
use std::fs::{self, File};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::process::{Command, Stdio};

fn pid_of(row: &serde_json::Value) -> Pid {
    let pid = row["pid"].as_i64().expect("a pid");
    Pid::from_raw(i32::try_from(pid).expect("a pid")).expect("a pid")
}

#[test]
fn a_file_system_lives_on_it() {
    let tools = ["mkfs.ext4", "fsck.ext4", "fstrim", "mount"];
    let Some(bench) = Bench::with_loops(&tools) else { return };
    let image = bench.sized("big.img", 64);
    let disk = bench.attach(&["big.img"]);
    tool(&["mkfs.ext4", "-q", &disk]);
    let mnt = bench.path("mnt").display().to_string();
    tool(&["mount", &disk, &mnt]);
    let data = pattern(20 << 20, 9);
    for name in ["one", "two"] {
        fs::write(bench.path("mnt").join(name), &data).expect("written");
    }
    let ran = bench.run(&["detach", &disk]);
    assert_eq!(ran.status, Some(1), "{ran:?}");
    assert!(ran.error.contains(&format!("is mounted at {mnt}")), "{ran:?}");
    assert_eq!(bench.list()[0]["mounted"][0], mnt.as_str());
    tool(&["sync", "-f", &mnt]);
    let used = || fs::metadata(&image).expect("there").blocks() * 512;
    let before = used();
    fs::remove_file(bench.path("mnt/two")).expect("removed");
    tool(&["sync", "-f", &mnt]);
    tool(&["fstrim", &mnt]);
    assert!(used() + (16 << 20) < before, "{} of {before}", used());
    umount(&bench.path("mnt"));
    tool(&["fsck.ext4", "-fn", &disk]);
    // Once more, from a new daemon.
    let ran = bench.run(&["detach", "big.img"]);
    assert_eq!((ran.status, &*ran.out), (Some(0), &*format!("{disk}: detached\n")), "{ran:?}");
    bench.assert_nothing_left();
    let disk = bench.attach(&["big.img", "--read-only"]);
    tool(&["mount", "-o", "ro", &disk, &mnt]);
    assert!(fs::read(bench.path("mnt/one")).expect("read") == data);
    umount(&bench.path("mnt"));
    assert!(
        File::options().write(true).open(&disk).and_then(|f| f.write_at(&[0; 512], 0)).is_err()
    );
    assert_eq!(bench.run(&["detach", "--all"]).status, Some(0));
    bench.assert_nothing_left();
}

#[test]
fn the_kernel_caches_nothing_between() {
    let Some(bench) = Bench::with_loops(&[]) else { return };
    let disk = bench.attach(&["disk.img"]);
    let name = disk.trim_start_matches("/dev/");
    let says = |file: &str| {
        let text = fs::read_to_string(format!("/sys/block/{name}/{file}")).expect("read");
        text.trim().to_owned()
    };
    assert_eq!((says("loop/dio"), says("queue/logical_block_size")), ("1".into(), "512".into()));
    assert_eq!(says("size"), "2048");
    let row = &bench.list()[0];
    assert_eq!((&row["state"], &row["device"]), (&"serving".into(), &"disk".into()));
    let text = bench.run(&["attach"]).out;
    assert!(text.contains(&disk) && text.contains(" serving"), "{text}");
    // A second one of the same file is refused, as its daemon is.
    let ran = bench.run(&["attach", "disk.img"]);
    assert_eq!(ran.status, Some(1), "{ran:?}");
    assert!(ran.error.contains("another process serves it already"), "{ran:?}");
    assert_eq!(bench.run(&["detach", "disk"]).status, Some(0));
    // Direct devices have larger sectors.
    let ran = bench.run(&["attach", "disk.img", "--direct", "--block-size", "512"]);
    let text = &ran.error;
    assert!(text.contains("say --block-size 4096") || text.contains("no --direct"), "{ran:?}");
    bench.assert_nothing_left();
    let ran = bench.run(&["detach", "disk"]);
    assert!(ran.error.contains("not attached by iopace; nothing is attached"), "{ran:?}");
}

#[test]
fn daemons_of_another_runtime_directory_are_left_alone() {
    let Some(bench) = Bench::with_loops(&[]) else { return };
    let disk = bench.attach(&["disk.img"]);
    fs::create_dir(bench.path("other")).expect("made");
    let other = |words: &[&str]| {
        let mut command = bench.place.command(words);
        command.env("IOPACE_RUNTIME_DIR", bench.path("other")).stdin(Stdio::null());
        Ran::from(command.output().expect("started"))
    };
    assert_eq!(other(&["attach", "--list", "--format", "json"]).out.trim(), "[]");
    let ran = other(&["detach", &disk]);
    assert!(ran.error.contains("not attached by iopace; nothing is attached"), "{ran:?}");
    other(&["detach", "--all"]);
    assert_eq!(bench.list()[0]["state"], "serving");
    assert_eq!(bench.run(&["detach", "--all"]).status, Some(0));
    bench.assert_nothing_left();
}

#[test]
fn two_at_once_and_one_in_use() {
    let Some(bench) = Bench::with_loops(&[]) else { return };
    bench.place.image("other.img");
    let [one, two] = ["disk.img", "other.img"].map(|name| bench.attach(&[name]));
    assert_ne!(one, two);
    let file = File::options().read(true).write(true).open(&one).expect("opened");
    file.write_all_at(&pattern(1 << 20, 5), 0).expect("written");
    let ran = bench.run(&["detach", "--all"]);
    assert_eq!(ran.status, Some(1), "{ran:?}");
    let me = format!("(pid {})", std::process::id());
    assert!(ran.error.contains("is in use by ") && ran.error.contains(&me), "{ran:?}");
    assert!(ran.out.contains(&format!("{two}: detached")), "{ran:?}");
    assert_eq!(bench.list().len(), 1);
    drop(file);
    assert_eq!(bench.run(&["detach", &one]).status, Some(0));
    assert!(fs::read(bench.path("disk.img")).expect("read") == pattern(1 << 20, 5));
    bench.assert_nothing_left();
}

#[test]
fn what_a_killed_daemon_left_is_cleared_away() {
    let Some(bench) = Bench::with_loops(&[]) else { return };
    for words in [&["attach", "disk.img"][..], &["detach", "disk.img"]] {
        let disk = bench.attach(&["disk.img"]);
        let file = File::options().read(true).write(true).open(&disk).expect("opened");
        let data = pattern(1 << 20, words[0].len() as u8 ^ words[1].len() as u8);
        file.write_all_at(&data, 0).expect("written");
        file.sync_all().expect("durable");
        let pid = pid_of(&bench.list()[0]);
        drop(file);
        kill_process(pid, Signal::KILL).expect("killed");
        until("it is dead", || bench.list()[0]["state"] == "dead");
        let ran = bench.run(words);
        assert_eq!(ran.status, Some(0), "{words:?}: {ran:?}");
        assert!(ran.error.contains("its daemon was killed"), "{ran:?}");
        assert!(fs::read(bench.path("disk.img")).expect("read") == data);
        if words[0] == "attach" {
            assert_eq!(bench.list().len(), 1);
            assert_eq!(bench.run(&["detach", "--all"]).status, Some(0));
        }
        bench.assert_nothing_left();
    }
}

#[test]
fn force_cuts_a_user_off_in_time() {
    let Some(bench) = Bench::with_loops(&[]) else { return };
    let disk = bench.attach(&["disk.img"]);
    let file = File::open(&disk).expect("opened");
    let ran = bench.run(&["detach", "--force", &disk]);
    assert_eq!(ran.status, Some(0), "{ran:?}");
    assert!(ran.out.contains("cut off"), "{ran:?}");
    assert!(file.read_at(&mut [0; 4096], 4096).is_err());
    drop(file);
    until("the loop device is free", || bench.loops().is_empty());
    bench.assert_nothing_left();
}

#[test]
fn schedulers_are_exchanged_under_fio() {
    let Some(bench) = Bench::with_loops(&["fio"]) else { return };
    let disk = bench.attach(&["--emulate", "ssd-nvme", "--size", "64MiB"]);
    let fio = Command::new("fio")
        .args(["--name=verify", "--ioengine=libaio", "--direct=1", "--rw=randrw", "--bs=4k"])
        .args(["--iodepth=16", "--size=8M", "--offset_increment=8M", "--numjobs=4", "--loops=2"])
        .args(["--verify=crc32c", "--verify_fatal=1", "--group_reporting"])
        .arg(format!("--filename={disk}"))
        .current_dir(bench.path(""))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let mut fio = fio.expect("started");
    assert_eq!(bench.run(&["sched", "insert", "-a", "rr"]).status, Some(0));
    let mut count = 0;
    while count < 12 || fio.try_wait().expect("asked").is_none() {
        for name in ["deadline", "fair", "fifo", "rr"] {
            let ran = bench.run(&["sched", "configure", "-a", name]);
            assert_eq!(ran.status, Some(0), "{ran:?}");
            count += 1;
        }
        assert!(count < 20_000, "fio does not end");
    }
    let ran = fio.wait_with_output().expect("waited");
    assert!(ran.status.success(), "{ran:?}");
    assert_eq!(bench.run(&["detach", "--all"]).status, Some(0));
    bench.assert_nothing_left();
}
