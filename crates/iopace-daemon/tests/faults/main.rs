//! Files that are missing, full, locked or become shorter: a clear message or the right error.

mod claims;
#[path = "../support/mod.rs"]
mod support;

use iopace_core::units::Bytes;
use iopace_daemon::config::{Backend, DaemonConfig, DeviceConfig, Listen};
use iopace_daemon::daemon::Daemon;
use iopace_nbd::Error as NbdError;
use iopace_nbd::client::Failure;
use std::fs;
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::thread;
use support::{Running, emulated};

fn start_error(backend: Backend, change: impl FnOnce(&mut DaemonConfig)) -> String {
    let mut config =
        DaemonConfig { devices: vec![DeviceConfig::new("disk", backend)], ..Default::default() };
    change(&mut config);
    match Daemon::start(config) {
        Ok(_) => panic!("it started"),
        Err(error) => error.to_string(),
    }
}

fn path(path: &Path) -> Backend {
    Backend::Path(path.to_path_buf())
}

#[test]
fn what_cannot_be_opened_is_named_with_the_remedy() {
    let folder = tempfile::tempdir().expect("a folder");
    let missing = folder.path().join("missing.img");
    let text = start_error(path(&missing), |_| {});
    assert!(text.contains("there is no such file; make one with 'truncate"), "{text}");
    let text = start_error(path(folder.path()), |_| {});
    assert!(text.contains("it is a directory"), "{text}");
    let text = start_error(emulated("hdd"), |_| {});
    assert!(text.contains("no disk model 'hdd'") && text.contains("hdd-sata-250g"), "{text}");
    let text = start_error(emulated("null"), |config| {
        config.devices[0].scheduler = Some(("rrr".into(), Vec::new()));
    });
    assert!(text.contains("no scheduler 'rrr'; there are: fifo"), "{text}");
    let text = start_error(emulated("null"), |config| {
        config.devices[0].scheduler = Some(("rr".into(), vec![("wait_ms".into(), 99)]));
    });
    assert!(text.contains("wait_ms=99 is out of bounds: 1 to 30 ms"), "{text}");
}

#[test]
fn two_writers_of_one_image_are_refused_two_readers_are_not() {
    let folder = tempfile::tempdir().expect("a folder");
    let image = Running::image(&folder, 1 << 20);
    let read_only = |config: &mut DaemonConfig| config.devices[0].read_only = true;
    {
        let _first = Running::start(path(&image), |_| {});
        let text = start_error(path(&image), |_| {});
        assert!(text.contains("another process serves it already"), "{text}");
    }
    let _one = Running::start(path(&image), read_only);
    let _two = Running::start(path(&image), read_only);
}

/// As a daemon that was killed: the kernel closes its files a moment later.
#[test]
fn an_image_whose_lock_goes_is_served() {
    let folder = tempfile::tempdir().expect("a folder");
    let image = Running::image(&folder, 1 << 20);
    let dying = fs::File::open(&image).expect("opens");
    dying.lock().expect("nobody else has it");
    let late = std::thread::spawn(move || {
        // SLEEP: the lock goes late on purpose; any time below the patience will do.
        std::thread::sleep(std::time::Duration::from_millis(100));
        drop(dying);
    });
    drop(Running::start(path(&image), |_| {}));
    late.join().expect("closed");
}

#[test]
fn an_end_that_cannot_be_reached_is_refused_with_the_remedy() {
    let folder = tempfile::tempdir().expect("a folder");
    let image = Running::image(&folder, (1 << 20) + 512);
    let text = start_error(path(&image), |config| config.devices[0].direct = true);
    if text.contains("knows no --direct") {
        println!("skipped: no O_DIRECT in the temporary folder");
        return;
    }
    assert!(text.contains("last 512 bytes") && text.contains("truncate -s %4096"), "{text}");
    let running = Running::start(path(&image), |_| {});
    assert_eq!(running.client().session().size_bytes, (1 << 20) + 512);
}

#[test]
fn a_request_of_64_mib_is_served() {
    const LEN: usize = 64 << 20;
    let folder = tempfile::tempdir().expect("a folder");
    let image = Running::image(&folder, LEN as u64 + 4096);
    let running = Running::start(path(&image), |_| {});
    let mut client = running.client();
    let data: Vec<u8> = (0..LEN).map(|at| (at / 4093) as u8).collect();
    client.write(4096, &data, true).expect("written");
    let mut back = vec![0; LEN];
    client.read(4096, &mut back).expect("read");
    assert!(back == data);
}

#[test]
fn a_busy_socket_is_refused_a_stale_one_replaced_and_a_file_left_alone() {
    let folder = tempfile::tempdir().expect("a folder");
    let socket = folder.path().join("s");
    let listen = |config: &mut DaemonConfig| config.listen = vec![Listen::Unix(socket.clone())];
    let alive = UnixListener::bind(&socket).expect("binds");
    let text = start_error(emulated("null"), listen);
    assert!(text.contains("a server is listening there already"), "{text}");
    drop(alive);
    assert!(socket.exists(), "it is stale now");
    drop(Running::start(emulated("null"), listen));
    assert!(!socket.exists(), "and removed at the end");
    fs::write(&socket, "precious").expect("written");
    let text = start_error(emulated("null"), listen);
    assert!(text.contains("exists and is not a socket"), "{text}");
    assert_eq!(fs::read_to_string(&socket).expect("still there"), "precious");
}

#[test]
fn a_read_only_device_takes_no_write() {
    let folder = tempfile::tempdir().expect("a folder");
    let image = Running::image(&folder, 1 << 20);
    let running = Running::start_in(folder, path(&image), |config| {
        config.devices[0].read_only = true;
    });
    let mut client = running.client();
    let refused = client.write(0, &[1; 512], false);
    assert!(matches!(refused, Err(Failure::Refused(NbdError::NotPermitted))), "{refused:?}");
    client.read(0, &mut [0; 512]).expect("reads go on");
    client.flush().expect("and flushes");
}

#[test]
fn an_image_that_became_shorter_fails_where_it_is_gone() {
    let folder = tempfile::tempdir().expect("a folder");
    let image = Running::image(&folder, 4 << 20);
    let running = Running::start_in(folder, path(&image), |_| {});
    let mut client = running.client();
    client.write(0, &[5; 4096], true).expect("write");
    fs::OpenOptions::new().write(true).open(&image).and_then(|f| f.set_len(1 << 20)).expect("cut");
    let gone = client.read(2 << 20, &mut [0; 4096]);
    assert!(matches!(gone, Err(Failure::Refused(NbdError::Io))), "{gone:?}");
    let gone = client.read(0, &mut vec![0; 2 << 20]);
    assert!(matches!(gone, Err(Failure::Refused(NbdError::Io))), "{gone:?}");
    let mut back = [0; 4096];
    client.read(0, &mut back).expect("what is there is read");
    assert_eq!(back, [5; 4096]);
}

/// A file system of one MiB, unmounted when it goes. `None` where this process may not mount.
struct Small(tempfile::TempDir);

impl Small {
    fn mount() -> Option<Small> {
        let folder = tempfile::tempdir().expect("a folder");
        let mut mount = std::process::Command::new("mount");
        let mount = mount.args(["-t", "tmpfs", "-o", "size=1m", "none"]).arg(folder.path());
        let mounted = mount.output().is_ok_and(|output| output.status.success());
        if !mounted {
            println!("skipped: a small file system needs the right to mount");
        }
        mounted.then_some(Small(folder))
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        let _ = std::process::Command::new("umount").arg("-l").arg(self.0.path()).status();
    }
}

#[test]
fn a_full_file_system_under_a_sparse_image_is_no_space() {
    let Some(small) = Small::mount() else { return };
    let image = small.0.path().join("disk.img");
    fs::File::create(&image).and_then(|file| file.set_len(16 << 20)).expect("sparse");
    let store = Backend::Emulated {
        model: "ssd-nvme".into(),
        store: Some(small.0.path().join("store.img")),
        size: None,
        cache: None,
    };
    for backend in [path(&image), store] {
        let running = Running::start(backend, |_| {});
        let mut client = running.client();
        let mut failed = 0;
        for offset in (0..4u64 << 20).step_by(65_536) {
            match client.write(offset, &[3; 65_536], false) {
                Ok(()) => {}
                Err(Failure::Refused(NbdError::NoSpace)) => failed += 1,
                Err(other) => panic!("{other}"),
            }
        }
        assert!(failed > 0, "the file system was full");
        client.read(0, &mut [0; 4096]).expect("the daemon lives on");
        client.command(iopace_nbd::wire::CMD_TRIM, 0, 0, 4 << 20).expect("space is given back");
        client.write(0, &[3; 65_536], false).expect("and can be used");
        client.command(iopace_nbd::wire::CMD_TRIM, 0, 0, 4 << 20).expect("for the next");
    }
}

/// A disk makes a write as a whole or fails. A loop device over the exported file takes a write of
/// which a part was made for done, and the rest would be lost without an error.
#[test]
fn a_write_of_an_exported_file_is_done_as_a_whole_or_fails() {
    let Some(small) = Small::mount() else { return };
    let image = small.0.path().join("disk.img");
    fs::File::create(&image).and_then(|file| file.set_len(16 << 20)).expect("sparse");
    let view = tempfile::tempdir().expect("a folder");
    let _running = Running::start(path(&image), |config| {
        config.fuse = Some(view.path().to_owned());
    });
    let file = fs::File::options().read(true).write(true).open(view.path().join("disk"));
    let file = file.expect("opens");
    // Some of these megabytes fit, and one of them in part.
    let mut errors = 0;
    for offset in (0..4u64 << 20).step_by(768 << 10) {
        match file.write_at(&[3; 768 << 10], offset) {
            Ok(written) => assert_eq!(written, 768 << 10, "at {offset}"),
            Err(error) => {
                assert_eq!(error.raw_os_error(), Some(libc::ENOSPC), "{error}");
                errors += 1;
            }
        }
    }
    assert!(errors > 0, "the file system was full");
}

/// A loop device over a sparse image on a small file system; detached when it goes.
struct Loop {
    path: String,
    small: Small,
}

impl Loop {
    fn over(small: Small) -> Option<Loop> {
        let image = small.0.path().join("disk.img");
        fs::File::create(&image).and_then(|file| file.set_len(16 << 20)).expect("sparse");
        let mut attach = std::process::Command::new("losetup");
        let attached = attach.args(["-f", "--show"]).arg(&image).output();
        let Some(attached) = attached.ok().filter(|output| output.status.success()) else {
            println!("skipped: there is no loop device");
            return None;
        };
        let path = String::from_utf8(attached.stdout).expect("a path").trim_end().to_owned();
        Some(Loop { path, small })
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        let _ = std::process::Command::new("losetup").args(["-d", &self.path]).status();
    }
}

#[test]
fn a_failed_write_back_is_told_to_every_client_once() {
    let Some(disk) = Small::mount().and_then(Loop::over) else { return };
    let view = tempfile::tempdir().expect("a folder");
    let running = Running::start(path(Path::new(&disk.path)), |config| {
        config.fuse = Some(view.path().to_owned());
    });
    let mut clients: Vec<_> = (0..3).map(|_| running.client()).collect();
    let image = view.path().join("disk");
    let files: Vec<_> = (0..2)
        .map(|_| fs::File::options().read(true).write(true).open(&image).expect("opens"))
        .collect();
    // All fits into the page cache, and a quarter of it onto the disk.
    for offset in (0..4u64 << 20).step_by(1 << 20) {
        clients[0].write(offset, &vec![3; 1 << 20], false).expect("into memory");
    }
    for (number, client) in clients.iter_mut().enumerate() {
        let told = client.flush();
        assert!(matches!(told, Err(Failure::Refused(NbdError::Io))), "{number}: {told:?}");
    }
    for file in &files {
        let told = file.sync_data().expect_err("as every client");
        assert_eq!(told.raw_os_error(), Some(libc::EIO), "{told}");
    }
    // A client that came since, or was told already, has nothing to be told.
    clients.push(running.client());
    for client in &mut clients {
        client.flush().expect("told before");
    }
    for file in &files {
        file.sync_data().expect("told before");
    }
    let late = fs::File::options().write(true).open(&image).expect("opens");
    late.sync_all().expect("nothing has failed since");
}

/// Durable writes that fail at the same time: the kernel tells each open file once of all of them.
#[test]
fn each_durable_write_that_fails_is_told() {
    let Some(disk) = Small::mount().and_then(Loop::over) else { return };
    let running = Running::start(path(Path::new(&disk.path)), |_| {});
    let mut clients: Vec<_> = (0..4).map(|_| running.client()).collect();
    // The disk is full from here on, but for what the file system needs for itself.
    let mut offset = 0;
    while clients[0].write(offset, &[3; 65_536], true).is_ok() {
        offset += 65_536;
    }
    let areas = (offset + 65_536..16 << 20).step_by(65_536).collect::<Vec<u64>>();
    let (begin, done) = (std::sync::Barrier::new(clients.len()), AtomicUsize::new(0));
    thread::scope(|scope| {
        for (number, client) in clients.iter_mut().enumerate() {
            let (areas, begin, done) = (&areas, &begin, &done);
            scope.spawn(move || {
                for area in areas.chunks_exact(4) {
                    begin.wait();
                    done.fetch_add(
                        client.write(area[number], &[4; 65_536], true).is_ok().into(),
                        SeqCst,
                    );
                }
            });
        }
    });
    assert_eq!(done.into_inner(), 0, "of {} writes to a full disk", areas.len());
}

/// As the kernel tells whoever opens a file next: the client that wrote may be gone by then.
#[test]
fn a_failed_write_back_is_told_to_the_next_client_if_nobody_has_heard_of_it() {
    let Some(disk) = Small::mount().and_then(Loop::over) else { return };
    let running = Running::start(path(Path::new(&disk.path)), |config| {
        config.devices[0].dirty_limit = Some(Bytes::from_mib(1));
    });
    let mut first = running.client();
    // No more than a mebibyte of it is dirty in the end: the rest was written back, and failed.
    for offset in (0..4u64 << 20).step_by(1 << 20) {
        first.write(offset, &vec![3; 1 << 20], false).expect("into memory");
    }
    drop(first);
    let flags = rustix::mount::MountFlags::empty();
    rustix::mount::mount_remount(disk.small.0.path(), flags, c"size=64m").expect("there is room");
    let mut later = [running.client(), running.client()];
    let told = later[0].flush();
    assert!(matches!(told, Err(Failure::Refused(NbdError::Io))), "{told:?}");
    for client in &mut later {
        client.flush().expect("told before");
    }
}
