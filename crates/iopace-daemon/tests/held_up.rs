//! Clients whose writes wait in stage pace: what they hold, who notices, and how it ends.

mod support;

use iopace_core::units::Bytes;
use iopace_daemon::config::Backend;
use iopace_daemon::device::DeviceStatus;
use iopace_nbd::client::encode_request;
use iopace_nbd::wire;
use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::thread;
use std::time::Duration;
use support::{HANG, Running, wait_for};

const SIZE: u64 = 64 << 20;

fn status(running: &Running) -> DeviceStatus {
    running.daemon.devices()[0].status()
}

/// A daemon with little memory for clients, and a raw connection of a group that may write a byte
/// per second.
fn held_up() -> (Running, UnixStream) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = Running::image(&folder, SIZE);
    let running = Running::start_in(folder, Backend::Path(path), |config| {
        config.memory_max = Bytes::from_mib(16);
    });
    let groups = running.daemon.groups();
    groups.create("/capped", true).expect("made");
    groups.write("/capped", "io.max", "disk wbps=1").expect("written");
    let stream = running.open("disk@/capped").into_stream();
    (running, stream)
}

/// A daemon that has taken nothing at so many looks, 3 s, reads no more: it is not just late.
const LOOKS: u32 = 10;

/// Sends writes of `len` without reading replies, until the daemon reads no more; how many bytes of
/// data it has taken.
fn send_until_full(stream: &mut UnixStream, len: u32, most: u64) -> u64 {
    stream.set_write_timeout(Some(Duration::from_millis(300))).expect("a timeout");
    let data = vec![5; len as usize];
    let (mut sent, mut looks) = (0, 0);
    for cookie in 0..most / u64::from(len) {
        let mut bytes = Vec::new();
        let offset = sent % SIZE;
        encode_request(&mut bytes, wire::CMD_WRITE, 0, cookie, offset, len);
        bytes.extend_from_slice(&data);
        let mut left = &bytes[..];
        while !left.is_empty() {
            match stream.write(left) {
                Ok(count) => (left, looks) = (&left[count..], 0),
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::WouldBlock, "{} KiB", sent >> 10);
                    looks += 1;
                    if looks == LOOKS {
                        return sent;
                    }
                }
            }
        }
        sent += u64::from(len);
    }
    sent
}

#[test]
fn a_client_that_is_held_up_is_not_read_and_nobody_else_notices() {
    let (running, mut stream) = held_up();
    let taken = send_until_full(&mut stream, 64 * 1024, SIZE);
    // Its own MiB, a fifth of 16 MiB, what the socket and the connection's buffer hold, and what
    // the limit lets pass at first.
    assert!(taken < 6 << 20, "{} KiB were taken", taken >> 10);
    assert!(taken > 1 << 20, "{} KiB were taken", taken >> 10);
    wait_for("writes that wait", || status(&running).engine.paced_count > 10);
    let used = running.daemon.memory_used_bytes();
    assert!(used <= 5 << 20, "{used} bytes are held");

    // Others write and read, also more at once than is free for each.
    thread::scope(|scope| {
        for number in 0..4u64 {
            let running = &running;
            scope.spawn(move || {
                let mut client = running.client();
                let (data, mut back) = (vec![number as u8; 4 << 20], vec![0; 4 << 20]);
                for _ in 0..4 {
                    client.write(number * (4 << 20), &data, false).expect("write");
                    client.read(number * (4 << 20), &mut back).expect("read");
                    assert!(data == back);
                }
            });
        }
    });

    // The limit is lifted: it goes on where it was.
    running.daemon.groups().write("/capped", "io.max", "disk wbps=max").expect("written");
    stream.set_write_timeout(Some(HANG)).expect("a timeout");
    stream.set_read_timeout(Some(HANG)).expect("a timeout");
    let mut reply = [0; 16];
    for _ in 0..taken / (64 * 1024) {
        stream.read_exact(&mut reply).expect("a reply");
        assert_eq!(reply[4..8], [0; 4], "no error");
    }
    wait_for("an idle device", || status(&running).engine.paced_count == 0);
}

#[test]
fn who_leaves_while_writes_wait_loses_none_and_leaks_nothing() {
    let (running, mut stream) = held_up();
    let data = vec![9; 256 * 1024];
    let mut bytes = Vec::new();
    for cookie in 0..4u64 {
        let offset = cookie << 20;
        encode_request(&mut bytes, wire::CMD_WRITE, 0, cookie, offset, 256 * 1024);
        bytes.extend_from_slice(&data);
    }
    stream.write_all(&bytes).expect("sent");
    wait_for("writes that wait", || status(&running).engine.paced_count >= 3);
    drop(stream);
    let groups = running.daemon.groups();
    groups.write("/capped", "io.max", "disk wbps=max").expect("written");
    wait_for("the end of the connection", || running.daemon.connections_count() == 0);
    assert_eq!(status(&running).engine.paced_count, 0);
    assert_eq!(running.daemon.memory_used_bytes(), 0);
    let mut back = vec![0; 256 * 1024];
    let mut client = running.client();
    for cookie in 0..4u64 {
        client.read(cookie << 20, &mut back).expect("read");
        assert!(back == data, "write {cookie} is there");
    }
    client.flush().expect("flush");
    groups.remove("/capped").expect("nobody pays");
    wait_for("the group's number", || {
        groups.create("/x", true).expect("made");
        groups.dying_count() == 0
    });
}

#[test]
fn a_daemon_ends_with_writes_that_wait() {
    let (running, mut stream) = held_up();
    send_until_full(&mut stream, 64 * 1024, 2 << 20);
    wait_for("writes that wait", || status(&running).engine.paced_count > 0);
    let report = running.daemon.shutdown();
    assert!(report.unflushed.is_empty());
    stream.set_read_timeout(Some(HANG)).expect("a timeout");
    let mut rest = Vec::new();
    stream.read_to_end(&mut rest).ok();
    assert!(rest.len() < 2 << 20, "closed");
}
