//! Exports as files by the command line: what is written is in the image, and nothing else can be
//! done to them.

mod attached;
mod common;

use attached::{Bench, pattern, tool};
use common::{umount, until};
use rustix::fs::{FallocateFlags, SeekFrom, fallocate, seek};
use rustix::io::Errno;
use rustix::process::Signal;
use std::fs::{self, File};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};

const MIB: usize = 1 << 20;

fn open(path: &std::path::Path) -> File {
    File::options().read(true).write(true).open(path).expect("opened")
}

#[test]
fn what_is_written_is_in_the_image() {
    let Some(bench) = Bench::new() else { return };
    let serving = bench.place.serve(&["disk.img", "--fuse", "view"]);
    assert!(serving.welcome.contains("\nfile: ") && serving.welcome.contains("/view/disk\n"));
    let path = bench.path("view/disk");
    let found = fs::metadata(&path).expect("there");
    assert_eq!((found.len(), found.mode() & 0o7777, found.uid()), (1 << 20, 0o600, 0));
    let data = pattern(MIB, 7);
    fs::write(bench.path("data"), &data).expect("written");
    let [from, to] = [bench.path("data"), path.clone()].map(|path| path.display().to_string());
    // Odd sizes: neither the kernel nor we ask for whole sectors.
    for size in ["bs=1000003", "bs=4k", "bs=777"] {
        let words = [&*format!("if={from}"), &format!("of={to}"), size, "conv=notrunc,fsync"];
        tool(&[&["dd", "status=none"], &words[..]].concat());
        let image = fs::read(bench.path("disk.img")).expect("read");
        assert!(image == data, "{size}");
        assert!(fs::read(&path).expect("read") == data, "{size}");
        fs::write(bench.path("disk.img"), vec![0; MIB]).expect("cleared");
    }
    let file = open(&path);
    file.write_all_at(b"past", MIB as u64 - 2).expect_err("there is no space behind the end");
    assert_eq!(file.read_at(&mut [0; 10], MIB as u64).expect("read"), 0);
    let mut end = [0; 10];
    assert_eq!(file.read_at(&mut end, MIB as u64 - 2).expect("read"), 2);
    assert_eq!(&end[..2], b"pa");
    file.sync_all().expect("durable");
    drop(file);
    serving.signal(Signal::TERM);
    let ran = serving.end();
    assert_eq!(ran.status, Some(0), "{ran:?}");
    bench.assert_nothing_left();
}

#[test]
fn o_direct_and_mappings_see_the_same() {
    let Some(bench) = Bench::new() else { return };
    let _serving = bench.place.serve(&["disk.img", "--fuse", "view"]);
    let path = bench.path("view/disk");
    let [a, b] = ["a", "b"].map(|name| bench.path(name).display().to_string());
    let view = path.display().to_string();
    fs::write(&a, pattern(MIB, 3)).expect("written");
    let both = |from: &str, to: &str, flag: &str| {
        let words = [&*format!("if={from}"), &format!("of={to}"), "bs=64k", "conv=notrunc", flag];
        tool(&[&["dd", "status=none"], &words[..]].concat());
    };
    both(&a, &view, "oflag=direct");
    both(&view, &b, "iflag=direct");
    assert!(fs::read(&b).expect("read") == pattern(MIB, 3));
    assert!(fs::read(bench.path("disk.img")).expect("read") == pattern(MIB, 3));
    // cp reads data and skips holes.
    tool(&["cp", "--sparse=always", &view, &b]);
    assert!(fs::read(&b).expect("read") == pattern(MIB, 3));
    let sync = File::options().write(true).custom_flags(libc_o_dsync()).open(&path);
    sync.expect("opened").write_all_at(b"durable", 0).expect("written");
    assert_eq!(fs::read(bench.path("disk.img")).expect("read")[..7], *b"durable");
}

/// `O_DSYNC`, without a crate for one number.
fn libc_o_dsync() -> i32 {
    i32::try_from(rustix::fs::OFlags::DSYNC.bits()).expect("small")
}

#[test]
fn holes_and_zeroes() {
    let Some(bench) = Bench::new() else { return };
    bench.sized("big.img", 128);
    let _serving = bench.place.serve(&["big.img", "--fuse", "view"]);
    let file = open(&bench.path("view/big"));
    let used = || fs::metadata(bench.path("big.img")).expect("there").blocks() * 512;
    file.write_all_at(&pattern(4 * MIB, 1), 64 << 20).expect("written");
    file.sync_all().expect("durable");
    assert!(used() >= 4 << 20);
    let mib = 1 << 20;
    let seek = |from| seek(&file, from);
    assert_eq!(seek(SeekFrom::Data(0)), Ok(64 * mib));
    assert_eq!(seek(SeekFrom::Hole(64 * mib)), Ok(68 * mib));
    assert_eq!(seek(SeekFrom::Data(68 * mib)), Err(Errno::NXIO));
    assert_eq!(seek(SeekFrom::Hole(127 * mib)), Ok(127 * mib));

    let punch = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    fallocate(&file, punch, 65 * mib, 2 * mib).expect("punched");
    assert!(used() <= 3 << 20, "{}", used());
    let mut read = vec![0; 4 * MIB];
    file.read_exact_at(&mut read, 64 << 20).expect("read");
    let mut right = pattern(4 * MIB, 1);
    right[MIB..3 * MIB].fill(0);
    assert!(read == right);
    // Longer than one piece, and not at its borders.
    let zero = FallocateFlags::ZERO_RANGE | FallocateFlags::KEEP_SIZE;
    fallocate(&file, zero, 100, 128 * mib - 200).expect("zeroed");
    file.read_exact_at(&mut read, 64 << 20).expect("read");
    assert!(read.iter().all(|byte| *byte == 0));
    assert_eq!(fallocate(&file, FallocateFlags::empty(), 0, mib), Err(Errno::OPNOTSUPP));
    let beyond = fallocate(&file, FallocateFlags::ZERO_RANGE, 128 * mib, mib);
    assert_eq!(beyond, Err(Errno::FBIG), "it does not grow");
}

#[test]
fn names_and_sizes_stay() {
    let Some(bench) = Bench::new() else { return };
    bench.place.image("other.img");
    bench.place.write(
        "c.toml",
        "fuse = \"view\"\n[[device]]\nfile = \"disk.img\"\n[[device]]\nfile = \"other.img\"\n\
         [[export]]\nname = \"rw\"\ndevice = \"disk\"\n[[export]]\nname = \"ro\"\n\
         device = \"disk\"\nread-only = true\n[[export]]\nname = \"two\"\ndevice = \"other\"\n",
    );
    let serving = bench.place.serve(&["--config", "c.toml"]);
    let view = bench.path("view");
    let mut names: Vec<_> = fs::read_dir(&view).expect("read").flatten().collect();
    names.sort_by_key(fs::DirEntry::file_name);
    let names: Vec<_> = names.iter().map(fs::DirEntry::file_name).collect();
    assert_eq!(names, ["ro", "rw", "two"]);
    // Two exports of one device show the same; another device does not.
    open(&view.join("rw")).write_all_at(b"one", 4096).expect("written");
    open(&view.join("two")).write_all_at(b"two", 4096).expect("written");
    let at = |name: &str| fs::read(view.join(name)).expect("read")[4096..4099].to_vec();
    assert_eq!([at("ro"), at("rw"), at("two")], [b"one", b"one", b"two"]);
    assert_eq!(fs::metadata(view.join("ro")).expect("there").mode() & 0o7777, 0o444);
    let error = File::options().write(true).open(view.join("ro")).expect_err("read-only");
    assert_eq!(Errno::from_io_error(&error), Some(Errno::ROFS));

    let errno = |error: std::io::Error| Errno::from_io_error(&error);
    let denied = Some(Errno::PERM);
    assert_eq!(errno(File::create(view.join("new")).expect_err("no")), denied);
    assert_eq!(errno(fs::create_dir(view.join("new")).expect_err("no")), denied);
    assert_eq!(errno(fs::remove_file(view.join("rw")).expect_err("no")), denied);
    assert_eq!(errno(fs::rename(view.join("rw"), view.join("x")).expect_err("no")), denied);
    assert_eq!(errno(open(&view.join("rw")).set_len(1).expect_err("no")), denied);
    open(&view.join("rw")).set_len(1 << 20).expect("the size that it has");
    assert_eq!(errno(fs::metadata(view.join("x")).expect_err("no")), Some(Errno::NOENT));
    drop(serving);
}

#[test]
fn the_daemon_goes_on_when_it_is_unmounted() {
    let Some(bench) = Bench::new() else { return };
    let mut serving = bench.place.serve(&["disk.img", "--fuse", "view"]);
    umount(&bench.path("view"));
    serving.wait_for_log("NBD clients are served");
    let status = bench.run(&["sched", "status", "--format", "json"]).json();
    assert_eq!(status[0]["name"], "disk");
    serving.signal(Signal::TERM);
    assert_eq!(serving.end().status, Some(0));
    bench.assert_nothing_left();
}

#[test]
fn a_killed_daemons_mount_is_replaced() {
    let Some(bench) = Bench::new() else { return };
    let serving = bench.place.serve(&["disk.img", "--fuse", "view"]);
    let path = bench.path("view/disk");
    open(&path).write_all_at(b"acknowledged", 0).expect("written");
    serving.signal(Signal::KILL);
    serving.end();
    until("it is dead", || fs::metadata(&path).is_err());
    let serving = bench.place.serve(&["disk.img", "--fuse", "view"]);
    assert_eq!(fs::read(&path).expect("read")[..12], *b"acknowledged");
    // With a file open it is unmounted all the same, and in time.
    let file = open(&path);
    serving.signal(Signal::TERM);
    let ran = serving.end();
    assert_eq!(ran.status, Some(0), "{ran:?}");
    assert!(ran.error.contains("is in use by"), "{ran:?}");
    assert!(file.read_at(&mut [0; 512], 0).is_err(), "it was cut");
    assert!(bench.mounts().is_empty());
}

#[test]
fn what_cannot_be_is_refused() {
    let Some(bench) = Bench::new() else { return };
    for (at, right) in [("nowhere", "there is no such"), ("disk.img", "not a directory")] {
        let ran = bench.run(&["serve", "disk.img", "--fuse", at]);
        assert_eq!(ran.status, Some(1), "{ran:?}");
        assert!(ran.error.contains(right), "{ran:?}");
    }
    let inside = bench.path("").display().to_string();
    let ran = bench.run(&["serve", "disk.img", "--fuse", &inside]);
    assert!(ran.error.contains("cannot be mounted over"), "{ran:?}");
    bench.place.write(
        "c.toml",
        "fuse = \"view\"\n[[device]]\nfile = \"disk.img\"\n[[export]]\nname = \"..\"\n\
         device = \"disk\"\n",
    );
    let ran = bench.run(&["serve", "--config", "c.toml"]);
    assert!(ran.error.contains("cannot be shown as a file"), "{ran:?}");
    bench.assert_nothing_left();
}

#[test]
fn a_killed_program_does_not_wait_for_its_limit() {
    let Some(bench) = Bench::new() else { return };
    let _serving = bench.place.serve(&["disk.img", "--fuse", "view"]);
    // The first piece passes, each further one takes a minute.
    let ran = bench.run(&["group", "set", "/", "io.max", "disk rbps=4k"]);
    assert_eq!(ran.status, Some(0), "{ran:?}");
    let mut dd = std::process::Command::new("dd")
        .args(["bs=256k", "of=/dev/null", "status=none"])
        .arg(format!("if={}", bench.path("view/disk").display()))
        .spawn()
        .expect("started");
    let state = format!("/proc/{}/stat", dd.id());
    let sleeps = || fs::read_to_string(&state).is_ok_and(|text| text.contains("(dd) S "));
    // SLEEP: ten looks in a row, with a pause, have to find it asleep.
    let pause = || std::thread::sleep(std::time::Duration::from_millis(50));
    until("it waits for us", || {
        (0..10).all(|_| {
            pause();
            sleeps()
        })
    });
    dd.kill().expect("killed");
    for _ in 0..100 {
        if dd.try_wait().expect("asked").is_some() {
            return;
        }
        // SLEEP: the pause between two looks at the condition.
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
    panic!("it is held for ten seconds");
}
