//! Clients that do what no client should, beside one that must not notice.

mod support;

use iopace_daemon::daemon::Daemon;
use iopace_nbd::client::{Client, encode_request};
use iopace_nbd::wire;
use iopace_suites::random::Random;
use std::fs;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::Duration;
use support::{Running, emulated};

const SIZE: u64 = 256 << 20;

fn serve() -> Running {
    let folder = tempfile::tempdir().expect("a folder");
    let path = Running::image(&folder, SIZE);
    fs::write(&path, vec![7; 64 << 20]).expect("some data that is cached");
    fs::OpenOptions::new()
        .write(true)
        .open(&path)
        .and_then(|file| file.set_len(SIZE))
        .expect("its size again");
    Running::start_in(folder, iopace_daemon::config::Backend::Path(path), |_| {})
}

/// The greeting is read and the client's flags are sent.
fn greeted(running: &Running) -> UnixStream {
    let mut stream = running.raw();
    stream.set_read_timeout(Some(Duration::from_secs(20))).expect("a timeout");
    stream.read_exact(&mut [0; 18]).expect("a greeting");
    stream.write_all(&3u32.to_be_bytes()).expect("flags");
    stream
}

/// A raw connection with the export open.
fn opened(running: &Running) -> UnixStream {
    let stream = running.client().into_stream();
    stream.set_read_timeout(Some(Duration::from_secs(20))).expect("a timeout");
    stream
}

fn request(kind: u16, flags: u16, cookie: u64, offset: u64, len: u32) -> Vec<u8> {
    let mut bytes = Vec::new();
    encode_request(&mut bytes, kind, flags, cookie, offset, len);
    bytes
}

/// Whether the server closes the connection without a further word (or with a last one).
fn is_closed(stream: &mut UnixStream) -> bool {
    let mut rest = Vec::new();
    match stream.read_to_end(&mut rest) {
        Ok(_) => true,
        Err(error) => error.kind() == std::io::ErrorKind::ConnectionReset,
    }
}

/// Waits until only so many connections are left.
fn settle(daemon: &Arc<Daemon>, connections: usize) {
    for _ in 0..10_000 {
        if daemon.connections_count() <= connections && daemon.memory_used_bytes() == 0 {
            return;
        }
        // SLEEP: the pause between two looks at the condition.
        thread::sleep(Duration::from_millis(1));
    }
    let (left, used) = (daemon.connections_count(), daemon.memory_used_bytes());
    panic!("{left} connections are left and {used} bytes are held");
}

/// A good client that works all the time; it panics if anything is wrong.
fn beside(running: &Running, hostile: impl FnOnce()) {
    let stop = AtomicBool::new(false);
    let (finished, sum) = thread::scope(|scope| {
        let good = scope.spawn(|| {
            let mut client = running.client();
            let (mut random, mut count) = (Random(3), 0u64);
            let mut data = vec![0; 4096];
            while !stop.load(Relaxed) || count < 100 {
                let offset = SIZE - (1 << 20) + random.below(128) * 4096;
                client.write(offset, &[count as u8; 4096], false).expect("write");
                client.read(offset, &mut data).expect("read");
                assert!(data.iter().all(|&byte| byte == count as u8), "request {count}");
                count += 1;
            }
            client.disconnect().expect("orderly");
            count
        });
        hostile();
        stop.store(true, Relaxed);
        (true, good.join().expect("the good client noticed"))
    });
    assert!(finished && sum >= 100);
    settle(&running.daemon, 0);
}

#[test]
fn nonsense_in_the_handshake_ends_the_connection() {
    let running = serve();
    beside(&running, || {
        for bytes in [&[0xff; 64][..], b"GET / HTTP/1.1\r\nHost: disk\r\n\r\n0123456789"] {
            let mut stream = greeted(&running);
            let _ = stream.write_all(bytes);
            assert!(is_closed(&mut stream));
        }
        let mut stream = greeted(&running);
        let mut huge = wire::IHAVEOPT.to_be_bytes().to_vec();
        huge.extend_from_slice(&wire::OPT_GO.to_be_bytes());
        huge.extend_from_slice(&u32::MAX.to_be_bytes());
        stream.write_all(&huge).expect("sent");
        assert!(is_closed(&mut stream), "an option of 4 GiB");
    });
}

#[test]
fn bad_requests_get_an_error_and_the_connection_goes_on() {
    let running = serve();
    beside(&running, || {
        let stream = opened(&running);
        let mut client = Client::connect(running.raw(), "disk", Default::default()).expect("opens");
        drop(stream);
        let bad = [
            (wire::CMD_READ, 0, SIZE, 4096),
            (wire::CMD_READ, 0, SIZE - 512, 4096),
            (wire::CMD_READ, 0, u64::MAX - 100, 4096),
            (wire::CMD_READ, 0, 0, 0),
            (wire::CMD_READ, 0, 0, u32::MAX),
            (wire::CMD_TRIM, 0, SIZE - 512, u32::MAX),
            (wire::CMD_READ, 0x8000, 0, 4096),
            (77, 0, 0, 4096),
            (wire::CMD_BLOCK_STATUS, 0, 0, 4096),
        ];
        for (kind, flags, offset, len) in bad {
            let result = client.command(kind, flags, offset, len);
            assert!(result.is_err(), "command {kind} at {offset}+{len}");
        }
        assert!(client.write(SIZE - 512, &[1; 4096], false).is_err(), "past the end");
        client.write(0, &[9; 512], true).expect("the connection is fine");
        let mut back = [0; 512];
        client.read(0, &mut back).expect("as before");
        assert_eq!(back, [9; 512]);
    });
}

#[test]
fn a_bad_magic_or_too_large_a_write_ends_the_connection() {
    let running = serve();
    beside(&running, || {
        let mut stream = opened(&running);
        stream.write_all(&[0; 28]).expect("sent");
        assert!(is_closed(&mut stream));
        let mut stream = opened(&running);
        stream.write_all(&request(wire::CMD_WRITE, 0, 1, 0, 128 << 20)).expect("sent");
        assert!(is_closed(&mut stream));
    });
}

#[test]
fn clients_that_vanish_in_the_middle_leave_nothing() {
    let running = serve();
    beside(&running, || {
        for round in 0..50u64 {
            let mut stream = opened(&running);
            for cookie in 0..20 {
                let _ =
                    stream.write_all(&request(wire::CMD_READ, 0, cookie, cookie << 20, 1 << 20));
            }
            let _ = stream.write_all(&request(wire::CMD_WRITE, 0, 99, 0, 1 << 20));
            let _ = stream.write_all(&vec![7; (round as usize * 4096) % (1 << 20)]);
        }
    });
}

#[test]
fn a_disconnect_with_requests_in_flight_answers_them_first() {
    let running = serve();
    let mut stream = opened(&running);
    let mut bytes = Vec::new();
    for cookie in 0..64 {
        bytes.extend_from_slice(&request(wire::CMD_FLUSH, 0, cookie, 0, 0));
    }
    bytes.extend_from_slice(&request(wire::CMD_DISC, 0, 99, 0, 0));
    stream.write_all(&bytes).expect("sent");
    let mut replies = Vec::new();
    stream.read_to_end(&mut replies).expect("closed after the last reply");
    assert_eq!(replies.len(), 64 * 16);
}

#[test]
fn a_hundred_clients_that_never_read_hold_bounded_memory() {
    let running = serve();
    let before = resident_bytes();
    beside(&running, || {
        let mut hoarders = Vec::new();
        for _ in 0..100 {
            let stream = opened(&running);
            stream.set_nonblocking(true).expect("non-blocking");
            hoarders.push(stream);
        }
        for (number, stream) in hoarders.iter_mut().enumerate() {
            for cookie in 0..32u64 {
                let offset = ((number as u64 + cookie) % 32) * (2 << 20);
                let _ = stream.write(&request(wire::CMD_READ, 0, cookie, offset, 2 << 20));
            }
        }
        // SLEEP: memory has time to grow; a slow machine makes the check easier, never wrong.
        thread::sleep(Duration::from_millis(500));
        let grown = resident_bytes().saturating_sub(before);
        // The configured bound. Peers grow by 6.4 GB if they have it.
        let bound = 256 << 20;
        assert!(grown < bound, "grew by {} MiB", grown >> 20);
    });
}

fn resident_bytes() -> u64 {
    let statm = fs::read_to_string("/proc/self/statm").expect("procfs");
    statm.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok()).expect("a number") * 4096
}

#[test]
fn thousands_of_connections_come_and_go() {
    let running = serve();
    beside(&running, || {
        for round in 0..2_000 {
            let mut stream = running.raw();
            if round % 3 == 0 {
                let _ = stream.read(&mut [0; 10]);
            }
        }
    });
}

#[test]
fn one_client_too_many_is_closed_and_the_others_stay() {
    let running = Running::start(emulated("null"), |config| config.connections_max = 4);
    let mut clients: Vec<_> = (0..4).map(|_| running.client()).collect();
    for _ in 0..20 {
        assert!(is_closed(&mut running.raw()), "the fifth");
    }
    for client in &mut clients {
        client.read(0, &mut [0; 512]).expect("they go on");
    }
}

#[test]
fn shutdown_answers_what_was_asked_and_removes_the_socket() {
    let running = serve();
    let mut stream = opened(&running);
    let mut bytes = Vec::new();
    // All replies together fit into the socket: this client reads them later.
    for cookie in 0..32 {
        bytes.extend_from_slice(&request(wire::CMD_READ, 0, cookie, cookie << 12, 4096));
    }
    stream.write_all(&bytes).expect("sent");
    let mut first = [0; 16];
    stream.read_exact(&mut first).expect("it has begun to answer");
    let report = running.daemon.shutdown();
    assert_eq!((report.cut_count, report.unflushed.len()), (0, 0));
    assert!(!running.socket().exists());
    let mut rest = Vec::new();
    stream.read_to_end(&mut rest).expect("closed after the last reply");
    assert_eq!(rest.len() + 16, 32 * (4096 + 28), "a header of 28 bytes before each");
}
