//! Disks that somebody else writes, and whom iopace keeps out.

use crate::support::Running;
use crate::{Loop, Small, path, start_error};
use std::fs;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// A lock of one byte as QEMU has them: of an open file, shared. Whether it can be had exclusively.
fn qemu_lock(file: &fs::File, command: i32, byte: i64) -> bool {
    let kind = if command == libc::F_OFD_GETLK { libc::F_WRLCK } else { libc::F_RDLCK };
    let mut lock = libc::flock {
        l_type: kind as libc::c_short,
        l_whence: libc::SEEK_SET as libc::c_short,
        l_start: byte,
        l_len: 1,
        l_pid: 0,
    };
    // SAFETY: the descriptor is open; the kernel uses the structure during the call only.
    let done = unsafe { libc::fcntl(file.as_raw_fd(), command, &mut lock) };
    assert_eq!(done, 0, "{}", std::io::Error::last_os_error());
    i32::from(lock.l_type) == libc::F_UNLCK || command == libc::F_OFD_SETLK
}

#[test]
fn an_image_and_qemu_exclude_each_other() {
    let folder = tempfile::tempdir().expect("a folder");
    let image = folder.path().join("disk.img");
    fs::File::create(&image).and_then(|file| file.set_len(1 << 20)).expect("made");
    // A machine that writes, and leaves that to nobody else.
    let machine = fs::File::open(&image).expect("opens");
    assert!([100, 101, 201].iter().all(|byte| qemu_lock(&machine, libc::F_OFD_SETLK, *byte)));
    let text = start_error(path(&image), |_| {});
    assert!(text.contains("disk.img: QEMU has it open") && text.contains("--read-only"), "{text}");
    let reading = Running::start(path(&image), |config| config.devices[0].read_only = true);
    drop((reading, machine));
    let running = Running::start(path(&image), |_| {});
    let other = fs::File::open(&image).expect("opens");
    assert!(!qemu_lock(&other, libc::F_OFD_GETLK, 101), "it writes");
    assert!(!qemu_lock(&other, libc::F_OFD_GETLK, 201), "nobody else is to write");
    let words = ["-f", "raw", "-c", "write 0 512"];
    match std::process::Command::new("qemu-io").args(words).arg(&image).output() {
        Ok(ran) => {
            let said = String::from_utf8_lossy(&ran.stderr);
            assert!(said.contains("lock"), "{ran:?}");
        }
        Err(_) => println!("skipped: there is no qemu-io"),
    }
    drop(running);
    assert!(qemu_lock(&other, libc::F_OFD_GETLK, 201), "it is gone");
}

#[test]
fn a_disk_that_the_system_writes_is_refused() {
    let Some(disk) = Small::mount().and_then(Loop::over) else { return };
    let image = disk.small.0.path().join("disk.img");
    let text = start_error(path(&image), |_| {});
    assert!(text.contains(&format!("it is the disk of {}", disk.path)), "{text}");
    let reading = Running::start(path(&image), |config| config.devices[0].read_only = true);
    drop(reading);
    // As a mount has it.
    let alone = || fs::File::options().write(true).custom_flags(libc::O_EXCL).open(&disk.path);
    let mounted = alone().expect("nobody has it");
    let text = start_error(path(Path::new(&disk.path)), |_| {});
    assert!(text.contains("it is mounted, swapped to"), "{text}");
    drop(mounted);
    let running = Running::start(path(Path::new(&disk.path)), |_| {});
    assert_eq!(alone().expect_err("it is served").raw_os_error(), Some(libc::EBUSY));
    let text = start_error(path(Path::new(&disk.path)), |_| {});
    assert!(text.contains("another process serves it already"), "{text}");
    drop(running);
}
