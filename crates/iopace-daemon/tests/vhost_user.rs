//! An export as the disk of a machine, driven over vhost-user.

#[path = "support/machine.rs"]
mod machine;
mod support;

use iopace_daemon::config::{Backend, ExportConfig, Listen};
use machine::Machine;
use std::fs;
use std::os::unix::net::UnixStream;
use support::{HANG, Running, emulated, wait_for};

const MIB: usize = 1 << 20;

/// Serves a device as `disk`, over NBD and as the disk of a machine.
fn serve(backend: impl FnOnce(&tempfile::TempDir) -> Backend, read_only: bool) -> Running {
    let folder = tempfile::tempdir().expect("a folder");
    let backend = backend(&folder);
    let socket = folder.path().join("vm.sock");
    Running::start_in(folder, backend, |config| {
        config.exports = vec![ExportConfig {
            vhost_user: Some(socket),
            read_only,
            ..ExportConfig::new("disk", "disk")
        }];
    })
}

fn image(folder: &tempfile::TempDir) -> Backend {
    Backend::Path(Running::image(folder, 64 << 20))
}

fn connect(running: &Running, queues: usize) -> Machine {
    Machine::connect(&running.folder.path().join("vm.sock"), (queues, 128), 16 * MIB)
}

/// Writes, reads back through machine and NBD, in one piece and in many.
fn data_arrives(running: &Running) {
    let mut machine = connect(running, 1);
    let config = machine.config();
    assert_eq!(u64::from(config.capacity) * 512, running.daemon.devices()[0].info().size_bytes);
    for (at, byte) in machine.memory.bytes().iter_mut().enumerate() {
        *byte = (at / 512 + at) as u8;
    }
    let wanted = machine.memory.bytes()[..MIB].to_vec();
    machine.write(4096, &[(0, MIB)]).expect("written in one piece");
    let pieces: Vec<(usize, usize)> = (0..64).map(|at| (2 * MIB + at * 8192, 4096)).collect();
    machine.read(4096, &pieces).expect("read in many");
    for (at, piece) in pieces.iter().enumerate() {
        let read = &machine.memory.bytes()[piece.0..piece.0 + 4096];
        assert!(read == &wanted[at * 4096..(at + 1) * 4096], "piece {at}");
    }
    let pieces = [(3 * MIB + 512, 1024), (5 * MIB + 3, 512), (6 * MIB, 2560)];
    machine.write(8 << 20, &pieces).expect("written in uneven pieces");
    let mut second: Vec<u8> = Vec::new();
    pieces.iter().for_each(|&(at, len)| second.extend(&machine.memory.bytes()[at..at + len]));
    machine.perform(|queue, _| queue.flush(0).expect("room")).expect("durable");
    let mut client = running.client();
    let mut read = vec![0; MIB];
    client.read(4096, &mut read).expect("over NBD");
    assert!(read == wanted);
    client.read(8 << 20, &mut read[..4096]).expect("over NBD");
    assert!(read[..4096] == second);
    machine.read(8 << 20, &[(12 * MIB, 4096)]).expect("read");
    assert!(machine.memory.bytes()[12 * MIB..12 * MIB + 4096] == second);
}

#[test]
fn data_arrives_through_the_page_cache() {
    data_arrives(&serve(image, false));
}

#[test]
fn data_arrives_on_an_emulated_disk() {
    data_arrives(&serve(|_| emulated("ssd-nvme"), false));
}

#[test]
fn zeroes_and_discards_are_zeroes() {
    let running = serve(image, false);
    let mut machine = connect(&running, 1);
    machine.memory.bytes()[..4 * MIB].fill(7);
    machine.write(0, &[(0, 4 * MIB)]).expect("written");
    machine.perform(|queue, _| queue.discard(0, MIB as u64, 0).expect("room")).expect("gone");
    let zeroes = |queue: &mut virtio_driver::VirtioBlkQueue<'_, u64>| {
        queue.write_zeroes(2 << 20, MIB as u64, true, 0).expect("room");
    };
    machine.perform(|queue, _| zeroes(queue)).expect("zeroes");
    machine.read(0, &[(8 * MIB, 4 * MIB)]).expect("read");
    for (at, wanted) in [0, 7, 0, 7].into_iter().enumerate() {
        let from = (8 + at) * MIB;
        assert!(machine.memory.bytes()[from..from + MIB].iter().all(|byte| *byte == wanted));
    }
}

#[test]
fn requests_outside_the_disk_fail() {
    let running = serve(image, false);
    let mut machine = connect(&running, 1);
    let end = 64 << 20;
    assert_eq!(machine.read(end, &[(0, 512)]), Err(libc::EIO));
    assert_eq!(machine.read(end - 512, &[(0, 1024)]), Err(libc::EIO));
    assert_eq!(machine.write(0, &[(0, 100)]), Err(libc::EIO));
    let last = |queue: &mut virtio_driver::VirtioBlkQueue<'_, u64>| {
        queue.discard(end - 512, 1024, 0).expect("room");
    };
    assert_eq!(machine.perform(|queue, _| last(queue)), Err(libc::EIO));
    assert_eq!(machine.read(end - 512, &[(0, 512)]), Ok(()));
}

#[test]
fn a_read_only_export_takes_no_writes() {
    let running = serve(image, true);
    let mut machine = connect(&running, 1);
    assert_eq!(machine.write(0, &[(0, 512)]), Err(libc::EIO));
    assert_eq!(machine.read(0, &[(0, 512)]), Ok(()));
}

#[test]
fn many_requests_of_many_queues_are_each_answered_once() {
    let running = serve(|_| emulated("ssd-nvme"), false);
    let mut machine = connect(&running, 4);
    let (mut asked, mut answered) = (0u64, vec![0u32; 4096]);
    while asked < 4096 {
        for queue in 0..4 {
            for _ in 0..32 {
                let place = (asked as usize % 2048) * 4096;
                let (at, offset) = (machine.memory.at(place), (asked % 1000) * 4096);
                // SAFETY: memory of the machine; what is read there does not matter.
                let read = unsafe { machine.queues[queue].read_raw(offset, at, 4096, asked) };
                read.expect("room in the queue");
                asked += 1;
            }
            machine.kick(queue);
        }
        for queue in 0..4 {
            let mut left = 32;
            while left > 0 {
                for (context, ret) in machine.wait(queue) {
                    assert_eq!(ret, 0);
                    answered[context as usize] += 1;
                    left -= 1;
                }
            }
        }
    }
    assert!(answered.iter().all(|count| *count == 1));
}

#[test]
fn one_machine_at_a_time_and_the_next_when_it_is_gone() {
    let running = serve(image, false);
    let machine = connect(&running, 1);
    assert_eq!(running.daemon.connections_count(), 1);
    let socket = running.folder.path().join("vm.sock");
    let mut second = UnixStream::connect(&socket).expect("connected");
    second.set_read_timeout(Some(HANG)).expect("set");
    let mut byte = [0];
    let read = std::io::Read::read(&mut second, &mut byte).expect("closed, not stuck");
    assert_eq!(read, 0, "it was turned away");
    drop(machine);
    let mut next = connect(&running, 2);
    next.read(0, &[(0, 4096)]).expect("served");
}

#[test]
fn a_daemon_that_ends_leaves_no_machine_and_no_socket() {
    let running = serve(image, false);
    let mut machine = connect(&running, 1);
    machine.write(0, &[(0, 4096)]).expect("written");
    let socket = running.folder.path().join("vm.sock");
    assert!(socket.exists());
    let report = running.daemon.shutdown();
    assert_eq!((report.cut_count, report.unflushed.len()), (0, 0));
    assert!(!socket.exists());
    wait_for("the end", || running.daemon.connections_count() == 0);
    assert_eq!(running.daemon.memory_used_bytes(), 0);
}

#[test]
fn a_socket_that_cannot_be_bound_leaves_nothing_behind() {
    let folder = tempfile::tempdir().expect("a folder");
    let (path, socket) = (Running::image(&folder, 1 << 20), folder.path().join("disk.sock"));
    let blocked = folder.path().join("vm.sock");
    fs::write(&blocked, "something else").expect("a file");
    let config = iopace_daemon::config::DaemonConfig {
        devices: vec![iopace_daemon::config::DeviceConfig::new("disk", Backend::Path(path))],
        exports: vec![ExportConfig {
            vhost_user: Some(blocked.clone()),
            ..ExportConfig::new("disk", "disk")
        }],
        listen: vec![Listen::Unix(socket.clone())],
        ..Default::default()
    };
    let error = iopace_daemon::daemon::Daemon::start(config).err().expect("refused").to_string();
    assert!(error.contains("vm.sock"), "{error}");
    assert!(!socket.exists() && blocked.exists());
}
