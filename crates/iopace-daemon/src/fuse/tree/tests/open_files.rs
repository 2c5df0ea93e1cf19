//! What becomes of files that are open: removed, appended to, changed from elsewhere.

use super::{Mounted, until};
use rustix::fs::{AtFlags, OFlags};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};

#[test]
fn a_removed_file_lives_until_it_is_closed() {
    for mounted in Mounted::all() {
        let path = mounted.mount.join("f");
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(true);
        let file = options.open(&path).unwrap();
        let number = file.metadata().unwrap().ino();
        fs::write(mounted.mount.join("other"), "over").unwrap();
        fs::rename(mounted.mount.join("other"), &path).unwrap();
        file.write_all_at(b"still here", 5).unwrap();
        file.set_len(10).unwrap();
        let stat = file.metadata().unwrap();
        assert_eq!((stat.nlink(), stat.len(), stat.ino()), (0, 10, number));
        let mut data = [0; 20];
        assert_eq!(file.read_at(&mut data, 0).unwrap(), 10);
        assert_eq!(&data[..10], b"\0\0\0\0\0still");
        rustix::fs::fchmod(&file, rustix::fs::Mode::from_raw_mode(0o600)).unwrap();
        file.sync_all().unwrap();
        assert!(mounted.data.forgotten.lock().unwrap().is_empty());
        drop(file);
        until("it is forgotten", || *mounted.data.forgotten.lock().unwrap() == [number]);
        assert_eq!(fs::read(&path).unwrap(), b"over");
    }
}

#[test]
fn appending_holds_for_as_long_as_the_caller_wants() {
    let Some(mounted) = Mounted::elsewhere() else { return };
    let path = mounted.mount.join("f");
    let mut file = OpenOptions::new().append(true).create(true).open(&path).unwrap();
    file.write_all(b"one").unwrap();
    // Somebody else, of whom the kernel does not know, makes it longer.
    let mut other = OpenOptions::new().append(true).open(mounted.below.join("f")).unwrap();
    other.write_all(b"-two-").unwrap();
    file.write_all(b"three").unwrap();
    assert_eq!(fs::read(mounted.below.join("f")).unwrap(), b"one-two-three");
    let flags = rustix::fs::fcntl_getfl(&file).unwrap();
    rustix::fs::fcntl_setfl(&file, flags - OFlags::APPEND).unwrap();
    file.write_all_at(b"ONE", 0).unwrap();
    rustix::fs::fcntl_setfl(&file, flags).unwrap();
    file.write_all(b"!").unwrap();
    assert_eq!(fs::read(mounted.below.join("f")).unwrap(), b"ONE-two-three!");
}

#[test]
fn pages_of_a_mapping_have_their_place_beside_an_appender() {
    let Some(mounted) = Mounted::elsewhere() else { return };
    let path = mounted.mount.join("f");
    fs::write(&path, [b'a'; 8192]).unwrap();
    let appender = OpenOptions::new().read(true).append(true).open(&path).unwrap();
    // SAFETY: the mapping is of the file's size, is used only here and unmapped at the end.
    unsafe {
        use rustix::mm::{MapFlags, MsyncFlags, ProtFlags, mmap, msync, munmap};
        let both = ProtFlags::READ | ProtFlags::WRITE;
        let null = std::ptr::null_mut();
        let start = mmap(null, 8192, both, MapFlags::SHARED, &appender, 0).unwrap();
        start.cast::<u8>().add(5000).write(b'b');
        msync(start, 8192, MsyncFlags::SYNC).unwrap();
        munmap(start, 8192).unwrap();
    }
    let data = fs::read(mounted.below.join("f")).unwrap();
    assert_eq!((data.len(), data[5000], data[0]), (8192, b'b', b'a'));
}

#[test]
fn durable_writes_are_known_as_such() {
    use rustix::io::ReadWriteFlags;
    use std::sync::atomic::Ordering;
    let Some(mounted) = Mounted::elsewhere() else { return };
    let path = mounted.mount.join("f");
    fs::write(&path, "x").unwrap();
    let durable = || mounted.data.durable.swap(0, Ordering::Relaxed);
    assert_eq!(durable(), 0);
    for flag in [libc::O_SYNC, libc::O_DSYNC] {
        let file = OpenOptions::new().write(true).custom_flags(flag).open(&path).unwrap();
        file.write_all_at(b"y", 0).unwrap();
        assert_eq!(durable(), 1);
    }
    let file = OpenOptions::new().write(true).open(&path).unwrap();
    let data = [io::IoSlice::new(b"z")];
    rustix::io::pwritev2(&file, &data, 0, ReadWriteFlags::DSYNC).unwrap();
    assert_eq!(durable(), 1);
}

#[test]
fn direct_io_takes_blocks_and_says_so() {
    let Some(mounted) = Mounted::elsewhere() else { return };
    let open = |folder: &std::path::Path| {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        options.custom_flags(libc::O_DIRECT).open(folder.join("f"))
    };
    let mut said = Vec::new();
    for folder in [&mounted.mount, &mounted.plain] {
        let Ok(file) = open(folder) else {
            eprintln!("skipped: no direct I/O here");
            return;
        };
        let mut buffer = crate::buffer::Buffer::new(64 * 1024);
        buffer.as_mut_slice().fill(9);
        let whole = file.write_at(buffer.as_slice(), 0).map_err(|e| e.raw_os_error());
        let crooked = file.write_at(&buffer.as_slice()[..100], 7).map_err(|e| e.raw_os_error());
        let read = file.read_at(buffer.as_mut_slice(), 32 * 1024).unwrap();
        said.push((whole, crooked, read, file.metadata().unwrap().len()));
    }
    assert_eq!(said[0], said[1]);
}

#[test]
fn files_that_vanish_below_are_errors_only() {
    let Some(mounted) = Mounted::elsewhere() else { return };
    let at = |name: &str| mounted.mount.join(name);
    fs::create_dir(at("d")).unwrap();
    fs::write(at("d/f"), "data").unwrap();
    let (open, folder) = (File::open(at("d/f")).unwrap(), File::open(at("d")).unwrap());
    fs::remove_dir_all(mounted.below.join("d")).unwrap();
    fs::write(mounted.below.join("d"), "now a file").unwrap();
    let mut data = [0; 9];
    assert_eq!(open.read_at(&mut data, 0).unwrap(), 4);
    let made = rustix::fs::mkdirat(&folder, "x", rustix::fs::Mode::RWXU);
    assert_eq!(made.unwrap_err(), rustix::io::Errno::NOENT);
    let linked = rustix::fs::linkat(&open, "", &folder, "y", AtFlags::EMPTY_PATH);
    assert!(linked.is_err());
    until("the kernel sees the file", || fs::read(at("d")).is_ok_and(|data| data == b"now a file"));
    fs::remove_file(mounted.below.join("d")).unwrap();
    until("the kernel sees it go", || fs::metadata(at("d")).is_err());
    assert!(fs::File::create(at("d")).is_ok());
}

#[test]
fn changes_of_space_are_told() {
    use rustix::fs::{FallocateFlags, fallocate};
    let Some(mounted) = Mounted::elsewhere() else { return };
    let path = mounted.mount.join("f");
    fs::write(&path, vec![1; 10_000]).unwrap();
    let file = OpenOptions::new().read(true).write(true).open(&path).unwrap();
    let number = file.metadata().unwrap().ino();
    let told = || std::mem::take(&mut *mounted.data.reshaped.lock().unwrap());
    told();
    file.set_len(5_000).unwrap();
    file.set_len(7_000).unwrap();
    assert_eq!(told(), [(number, 5_000, u64::MAX), (number, 5_000, u64::MAX)]);
    let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    fallocate(&file, hole, 100, 1_000).unwrap();
    assert_eq!(told(), [(number, 100, 1_100)]);
    File::create(&path).unwrap();
    assert_eq!(told(), [(number, 0, u64::MAX)]);
}

#[test]
fn a_write_takes_one_request() {
    use std::sync::atomic::Ordering;
    let Some(mounted) = Mounted::over_itself() else { return };
    let path = mounted.mount.join("f");
    fs::write(&path, vec![1; 400 * 1024]).unwrap();
    let file = OpenOptions::new().read(true).write(true).open(&path).unwrap();
    mounted.data.passed.store(0, Ordering::Relaxed);
    for at in 0..100 {
        file.write_all_at(&[2; 4096], at * 4096).unwrap();
        file.read_exact_at(&mut [0; 4096], at * 4096).unwrap();
    }
    // Without FUSE_HANDLE_KILLPRIV_V2 (Linux 5.11) the kernel asks for `security.capability` before
    // each write.
    let passed = mounted.data.passed.load(Ordering::Relaxed);
    assert!(passed < 5, "{passed} requests besides 100 writes");
}

#[test]
fn many_at_once_leave_nothing_behind() {
    for mounted in Mounted::all() {
        let root = &mounted.mount;
        std::thread::scope(|scope| {
            for worker in 0..8usize {
                scope.spawn(move || {
                    for step in 0..150 {
                        // Few names, so that all of them meet; whatever is said, nothing breaks.
                        let name = |at: usize| root.join(format!("n{}", (worker * 7 + at) % 5));
                        let _ = match step % 7 {
                            0 | 1 => fs::write(name(step), "data"),
                            2 => fs::rename(name(step), name(step + 1)),
                            3 => fs::hard_link(name(step), name(step + 2)),
                            4 => fs::read(name(step)).map(drop),
                            5 => fs::read_dir(root).map(|entries| assert!(entries.count() <= 50)),
                            _ => fs::remove_file(name(step)),
                        };
                    }
                });
            }
        });
        for entry in fs::read_dir(root).unwrap() {
            fs::remove_file(entry.unwrap().path()).unwrap();
        }
        until("nothing is known", || mounted.tree.inodes_known() == 0);
        until("nothing is open", || mounted.tree.files_open() == 0);
        assert_eq!(fs::read_dir(&mounted.below).unwrap().count(), 0);
    }
}

#[test]
fn programs_run_from_a_mount_and_cannot_be_written_meanwhile() {
    let Some(mounted) = Mounted::elsewhere() else { return };
    let path = mounted.mount.join("sleep");
    fs::copy("/bin/sleep", &path).unwrap();
    let mut child = std::process::Command::new(&path).arg("30").spawn().unwrap();
    let written = OpenOptions::new().write(true).open(&path);
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(written.unwrap_err().raw_os_error(), Some(libc::ETXTBSY));
}
