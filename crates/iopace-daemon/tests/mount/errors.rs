//! What the file system below refuses is refused in the same way, and nobody else hears of it.

use crate::Mounted;
use iopace_core::units::Bytes;
use iopace_daemon::buffer::Buffer;
use iopace_fuse::{
    Config, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation, INodeNo,
    LockOwner, OpenFlags, ReplyAttr, ReplyData, ReplyEmpty, ReplyEntry, ReplyOpen, Request,
};
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::{Duration, UNIX_EPOCH};

/// Of the bad file, what can be read.
const GOOD: u64 = 64 << 10;
const SIZE: u64 = 256 << 10;

/// A file system with one good and one bad file.
struct Bad;

fn attributes(ino: u64) -> FileAttr {
    let is_root = ino == 1;
    FileAttr {
        ino: INodeNo(ino),
        size: if is_root { 0 } else { SIZE },
        blocks: 1,
        atime: UNIX_EPOCH,
        mtime: UNIX_EPOCH,
        ctime: UNIX_EPOCH,
        kind: if is_root { FileType::Directory } else { FileType::RegularFile },
        perm: 0o755,
        nlink: 1,
        uid: 0,
        gid: 0,
        rdev: 0,
        blksize: 4096,
    }
}

impl Filesystem for Bad {
    fn lookup(&self, _: &Request, _: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let number = match name.to_str() {
            Some("good") => 2,
            Some("bad") => 3,
            _ => return reply.error(Errno::ENOENT),
        };
        reply.entry(&Duration::from_secs(60), &attributes(number), Generation(0));
    }

    fn getattr(&self, _: &Request, ino: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        reply.attr(&Duration::from_secs(60), &attributes(ino.0));
    }

    fn open(&self, _: &Request, _: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        reply.opened(FileHandle(1), FopenFlags::empty());
    }

    fn read(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let len = u64::from(size).min(SIZE.saturating_sub(offset));
        if ino.0 == 3 && offset + len > GOOD {
            return reply.error(Errno::EIO);
        }
        reply.data(&vec![7; len as usize]);
    }

    fn fsync(&self, _: &Request, ino: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        if ino.0 == 3 { reply.error(Errno::EIO) } else { reply.ok() }
    }
}

#[test]
fn a_read_that_fails_is_an_error_and_never_zeroes() {
    let mut session = None;
    let prepare = |below: &Path| {
        session =
            Some(iopace_fuse::spawn_mount(Bad, below, &Config::default()).expect("it mounts"));
    };
    let Some(mounted) = Mounted::over(prepare, |_| {}) else { return };
    let bad = File::open(mounted.at("bad")).expect("opens");
    // Several times: the page cache must not remember anything else.
    for _ in 0..3 {
        let mut data = vec![0; SIZE as usize];
        let mut done = 0;
        let end = loop {
            match bad.read_at(&mut data[done..], done as u64) {
                Ok(0) => break None,
                Ok(count) => done += count,
                Err(error) => break error.raw_os_error(),
            }
        };
        assert_eq!(end, Some(libc_eio()), "{done} bytes were read");
        assert!(done as u64 <= GOOD && data[..done].iter().all(|byte| *byte == 7), "{done}");
        assert_eq!(bad.metadata().expect("there").len(), SIZE);
        let tail = bad.read_at(&mut data, GOOD + 4096).map_err(|error| error.raw_os_error());
        assert_eq!(tail, Err(Some(libc_eio())));
    }
    let mut first = [0; 4096];
    assert_eq!(bad.read_at(&mut first, 0).expect("the good part"), 4096);
    assert_eq!(first, [7; 4096]);
    assert!(fs::read(mounted.at("good")).expect("others go on") == vec![7; SIZE as usize]);
    let synced = bad.sync_all().map_err(|error| error.raw_os_error());
    assert_eq!(synced, Err(Some(libc_eio())));
    drop(bad);
    drop(mounted);
    drop(session);
}

fn libc_eio() -> i32 {
    rustix::io::Errno::IO.raw_os_error()
}

/// A file system of so many bytes in memory.
fn small(at: &Path, size: u32) {
    let data = format!("size={size}");
    let data = std::ffi::CString::new(data).expect("no zero in it");
    let flags = rustix::mount::MountFlags::empty();
    rustix::mount::mount("tmpfs", at, "tmpfs", flags, data.as_c_str()).expect("a tmpfs");
}

#[test]
fn a_full_disk_is_full_as_without_us() {
    let Some(mounted) = Mounted::over(|below| small(below, 4 << 20), |_| {}) else { return };
    let plain = mounted.folder.path().join("plain");
    fs::create_dir(&plain).expect("made");
    small(&plain, 4 << 20);
    let fill = |folder: &Path| -> (u64, Option<i32>) {
        let file = File::create(folder.join("a")).expect("created");
        let (data, mut done) = (vec![1; 300_000], 0);
        loop {
            match rustix::io::pwrite(&file, &data, done) {
                Ok(count) => done += count as u64,
                Err(error) => {
                    file.sync_all().expect("what was written is there");
                    return (done, Some(error.raw_os_error()));
                }
            }
        }
    };
    let (here, there) = (fill(&mounted.at("")), fill(&plain));
    let unmounted = rustix::mount::unmount(&plain, rustix::mount::UnmountFlags::DETACH);
    assert_eq!(here, there);
    assert_eq!(fs::metadata(mounted.at("a")).expect("there").len(), here.0);
    fs::remove_file(mounted.at("a")).expect("removed");
    fs::write(mounted.at("b"), vec![2; 1 << 20]).expect("there is room again");
    unmounted.expect("unmounted");
}

/// The kernel tells after the fact that nobody has a file open any more: here later still.
#[test]
fn who_writes_gets_the_space_of_a_file_that_is_just_going() {
    let prepare = |below: &Path| {
        fs::write(below.with_file_name("source"), vec![3; 1 << 20]).expect("written");
        small(below, 2 << 20);
    };
    let Some(mounted) = Mounted::over(prepare, |_| {}) else { return };
    let (data, source) = (vec![2; 1 << 20], mounted.folder.path().join("source"));
    let flagged = |flags: i32| -> io::Result<()> {
        let mut options = fs::OpenOptions::new();
        let opened = options.write(true).create(true).custom_flags(flags).open(mounted.at("b"));
        // Memory can be written past the page cache since Linux 6.6.
        let Ok(file) = opened else { return fs::write(mounted.at("b"), &data) };
        let mut whole = Buffer::new(data.len());
        whole.as_mut_slice().copy_from_slice(&data);
        file.write_all_at(whole.as_slice(), 0)
    };
    let ways: [(&str, &dyn Fn() -> io::Result<()>); 4] = [
        ("buffered", &|| fs::write(mounted.at("b"), &data)),
        ("durable", &|| flagged(libc::O_DSYNC)),
        ("direct", &|| flagged(libc::O_DIRECT)),
        ("copied", &|| fs::copy(&source, mounted.at("b")).map(drop)),
    ];
    for (way, write) in ways {
        let mut full = File::create(mounted.at("a")).expect("created");
        let error = full.write_all(&vec![1; 3 << 20]).expect_err("more than there is");
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
        fs::remove_file(mounted.at("a")).expect("removed");
        let late = thread::spawn(move || {
            // SLEEP: the file is closed late on purpose; any time will do.
            thread::sleep(Duration::from_millis(200));
            drop(full);
        });
        write().unwrap_or_else(|error| panic!("{way}: {error}"));
        late.join().expect("closed");
        assert_eq!(fs::metadata(mounted.below("b")).expect("there").len(), 1 << 20, "{way}");
        fs::remove_file(mounted.at("b")).expect("removed");
    }
}

/// An ext4 file system in a file whose own file system is too small for it.
fn thin(folder: &Path, below: &Path) -> io::Result<bool> {
    let host = folder.join("host");
    fs::create_dir(&host)?;
    small(&host, 24 << 20);
    let image = host.join("image");
    File::create(&image)?.set_len(256 << 20)?;
    let run = |program: &str, words: &[&OsStr]| {
        let ran = Command::new(program).args(words).output();
        ran.is_ok_and(|ran| ran.status.success())
    };
    let (image, below) = (image.as_os_str(), below.as_os_str());
    let made = run("mkfs.ext4", &["-q".as_ref(), "-O".as_ref(), "^has_journal".as_ref(), image]);
    Ok(made && run("mount", &["-o".as_ref(), "loop,errors=continue".as_ref(), image, below]))
}

#[test]
fn fsync_tells_every_open_file_once_that_write_back_has_failed() {
    let (mut is_there, mut host) = (false, None);
    let prepare = |below: &Path| {
        let folder = below.parent().expect("the test's own");
        is_there = thin(folder, below).expect("prepared");
        host = Some(folder.join("host"));
    };
    let mounted = Mounted::over(prepare, |_| {});
    let both = |mounted: &Mounted| {
        let ours = fail_and_sync(&mounted.at("a"));
        (ours, fail_and_sync(&mounted.below("b")))
    };
    let results = mounted.as_ref().filter(|_| is_there).map(both);
    drop(mounted);
    if let Some(host) = host {
        let _ = rustix::mount::unmount(&host, rustix::mount::UnmountFlags::DETACH);
    }
    let Some((ours, plain)) = results else {
        println!("skipped: this needs mkfs.ext4 and a loop device");
        return;
    };
    assert!(ours[0].is_some(), "the writer hears of it");
    assert!(ours[1].is_some(), "and whoever else has it open");
    // Which error it is depends on when the host became full.
    let failed = |all: [Option<i32>; 3]| all.map(|errno| errno.is_some());
    assert_eq!(failed(ours), failed(plain), "as without us: {ours:?}, {plain:?}");
}

/// Linux tells of an error that nobody has heard of whoever opens the file next: databases write
/// with one process and sync with another. That iopace has heard of it does not count.
#[test]
fn fsync_tells_who_opens_a_file_later_that_write_back_has_failed() {
    let (mut is_there, mut host) = (false, None);
    let prepare = |below: &Path| {
        let folder = below.parent().expect("the test's own");
        is_there = thin(folder, below).expect("prepared");
        host = Some(folder.join("host"));
    };
    let mounted = Mounted::over(prepare, |config| {
        config.mounts[0].device.dirty_limit = Some(Bytes::from_mib(1));
    });
    let told = mounted.as_ref().zip(host.as_ref()).filter(|_| is_there).map(|(mounted, host)| {
        // No more than a mebibyte of it is dirty in the end: much was written back, and failed.
        fs::write(mounted.at("a"), vec![1; 48 << 20]).expect("the page cache takes it");
        let more = std::ffi::CString::new("size=400m").expect("no zero in it");
        let flags = rustix::mount::MountFlags::empty();
        rustix::mount::mount_remount(host, flags, more.as_c_str()).expect("there is room");
        let later = || File::options().write(true).open(mounted.at("a")).expect("opens");
        let (one, other) = (later(), later());
        [&one, &other, &one].map(|file| file.sync_data().is_err())
    });
    drop(mounted);
    if let Some(host) = host {
        let _ = rustix::mount::unmount(&host, rustix::mount::UnmountFlags::DETACH);
    }
    match told {
        Some(told) => assert_eq!(told, [true, false, false], "once, and not more"),
        None => println!("skipped: this needs mkfs.ext4 and a loop device"),
    }
}

/// What a mapping has on a disk that is full is an error, also if a part of it fits.
#[test]
fn pages_of_a_mapping_that_fit_in_part_are_an_error() {
    let Some(mounted) = Mounted::over(|below| small(below, 700 << 10), |_| {}) else { return };
    let path = mounted.at("a");
    File::create(&path).and_then(|file| file.set_len(1 << 20)).expect("sparse");
    // A process of its own maps it: one that serves what it has mapped could not end.
    let script = "import mmap, os, sys\n\
        f = os.open(sys.argv[1], os.O_RDWR)\n\
        m = mmap.mmap(f, 1 << 20)\n\
        m[:] = b'x' * (1 << 20)\n\
        try: m.flush(); os.fsync(f)\n\
        except OSError as error: sys.exit(error.errno)\n";
    let ran = Command::new("python3").args(["-c", script]).arg(&path).output().expect("runs");
    let said = String::from_utf8_lossy(&ran.stderr);
    assert!([Some(libc::ENOSPC), Some(libc::EIO)].contains(&ran.status.code()), "{ran:?} {said}");
}

/// Error numbers of `fsync`: of who wrote, of another, of who wrote again.
fn fail_and_sync(path: &Path) -> [Option<i32>; 3] {
    let writer = File::create(path).expect("created");
    let other = File::options().write(true).open(path).expect("opens");
    writer.write_all_at(&vec![1; 48 << 20], 0).expect("the page cache takes it");
    // Time for write-back to fail before anybody asks.
    // SLEEP: write-back has time to fail first; if it fails later, the check is the same.
    std::thread::sleep(Duration::from_secs(1));
    [&writer, &other, &writer].map(|file| file.sync_data().err()?.raw_os_error())
}
