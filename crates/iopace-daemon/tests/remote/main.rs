//! A disk that another NBD server has: against servers that fail, against our own, and against
//! those of others.

mod array;
mod programs;
#[path = "../support/mod.rs"]
mod support;

use array::{Array, Fate};
use iopace_core::time::Nanos;
use iopace_core::units::Bytes;
use iopace_daemon::config::{Backend, DaemonConfig, DeviceConfig};
use iopace_daemon::daemon::Daemon;
use iopace_daemon::device::DeviceEvent;
use iopace_nbd::client::{Client, Failure, Wanted};
use iopace_nbd::{Error, wire};
use iopace_suites::random::Random;
use std::os::unix::net::UnixStream;
use std::sync::atomic::Ordering::Relaxed;
use std::thread;
use std::time::Instant;
use support::{HANG, Running, emulated, wait_for};

fn remote(uri: &str, patience: Option<Nanos>) -> Backend {
    Backend::Remote { uri: uri.parse().expect("a URI"), patience }
}

/// A daemon before that export.
fn before(array: &Array, patience: Option<Nanos>) -> Running {
    Running::start(remote(&array.uri(), patience), |_| {})
}

/// The texts of the events that the server was lost, and that it is back.
fn news(running: &Running) -> (Vec<String>, Vec<String>) {
    let (mut lost, mut back) = (Vec::new(), Vec::new());
    for logged in running.daemon.devices()[0].status().events {
        match logged.event {
            DeviceEvent::DiskLost(text) => lost.push(text),
            DeviceEvent::DiskBack(text) => back.push(text),
            _ => {}
        }
    }
    (lost, back)
}

/// The bytes that each client has for itself, and how many there are.
const REGION: usize = 64 << 10;
const CLIENTS: usize = 3;

/// Writes, reads and flushes in its region until the array has no fates left, and compares every
/// byte; returns what has to be there.
fn work(running: &Running, array: &Array, number: usize) -> Vec<u8> {
    let mut client = running.client();
    let mut random = Random(number as u64 + 1);
    let mut model = vec![0; REGION];
    let mut rounds = 0;
    while rounds < 50 || !array.fates.lock().expect("whole").is_empty() {
        rounds += 1;
        let start = random.below(REGION as u64 - 20_000) as usize;
        let len = 1 + random.below(20_000) as usize;
        let offset = (number * REGION + start) as u64;
        match random.below(10) {
            0 => client.flush().expect("flushes"),
            1 => {
                let kind = wire::CMD_WRITE_ZEROES;
                client.command(kind, 0, offset, len as u32).expect("writes zeroes");
                model[start..start + len].fill(0);
            }
            2..6 => {
                let data: Vec<u8> = (0..len).map(|_| random.below(256) as u8).collect();
                client.write(offset, &data, random.below(6) == 0).expect("writes");
                model[start..start + len].copy_from_slice(&data);
            }
            _ => {
                let mut data = vec![0; len];
                client.read(offset, &mut data).expect("reads");
                assert!(data == model[start..start + len], "client {number}: {start}+{len}");
            }
        }
    }
    client.flush().expect("flushes");
    model
}

/// All clients at once; what is durable in the array is what they have written.
fn work_all(array: &Array) {
    let running = before(array, None);
    let models: Vec<Vec<u8>> = thread::scope(|scope| {
        let running = &running;
        let all: Vec<_> =
            (0..CLIENTS).map(|number| scope.spawn(move || work(running, array, number))).collect();
        all.into_iter().map(|one| one.join().expect("no client fails")).collect()
    });
    let stable = array.stable();
    for (number, model) in models.iter().enumerate() {
        assert!(stable[number * REGION..][..REGION] == **model, "client {number} has lost data");
    }
}

#[test]
fn nothing_is_lost_wherever_the_connection_is_cut() {
    let array = Array::start(CLIENTS * REGION, |_| {});
    {
        let mut fates = array.fates.lock().expect("whole");
        for count in 0..6 {
            fates.extend([Fate::Cut(count), Fate::CutIn(count, 1), Fate::CutIn(count, 16)]);
            fates.extend([Fate::CutIn(count, 20), Fate::CutIn(count, 700)]);
        }
    }
    work_all(&array);
    assert!(array.connections_count.load(Relaxed) > 30, "each fate was met");
}

#[test]
fn nothing_is_lost_by_a_server_that_forgets_what_was_not_flushed() {
    let array = Array::start(CLIENTS * REGION, |_| {});
    let fates = (0..30).map(|count| Fate::Restart(count * 2 % 37));
    array.fates.lock().expect("whole").extend(fates);
    work_all(&array);
}

#[test]
fn a_server_that_breaks_the_protocol_is_left_and_asked_again() {
    let array = Array::start(CLIENTS * REGION, |export| export.block_max = 4096);
    for count in 0..6 {
        let mut fates = array.fates.lock().expect("whole");
        fates.extend([Fate::Rubbish(count), Fate::Stranger(count), Fate::GoesAway(count)]);
    }
    work_all(&array);
    assert_eq!(array.longest.load(Relaxed), 4096, "no request is longer than it takes");
}

#[test]
fn a_lost_server_is_told_of_and_shown() {
    let array = Array::start(1 << 20, |_| {});
    let running = before(&array, None);
    let mut client = running.client();
    client.write(0, &[7; 4096], false).expect("writes");
    let device = &running.daemon.devices()[0];
    let status = || device.status().remote.expect("it is remote");
    assert!(status().is_connected);
    assert_eq!(status().unflushed_bytes, 4096);
    array.is_gone.store(true, Relaxed);
    array.cut();
    wait_for("the news", || !news(&running).0.is_empty());
    assert!(!status().is_connected && !status().trouble.is_empty());
    thread::scope(|scope| {
        let waiting = scope.spawn(|| {
            let mut data = [0; 4096];
            client.read(0, &mut data).expect("reads when it is back");
            assert_eq!(data, [7; 4096]);
            client.flush().expect("flushes");
        });
        wait_for("a request that waits", || status().waiting_count == 1);
        array.is_gone.store(false, Relaxed);
        waiting.join().expect("it is served");
    });
    let (lost, back) = news(&running);
    assert!(lost[0].contains("the connection is lost") && back[0].contains("answers again"));
    let now = status();
    assert!(now.is_connected && now.reconnects_count >= 1 && now.unflushed_bytes == 0, "{now:?}");
}

#[test]
fn requests_fail_when_the_patience_ends_and_go_on_when_it_is_back() {
    let array = Array::start(1 << 20, |_| {});
    let running = before(&array, Some(Nanos::from_millis(300)));
    let mut client = running.client();
    client.write(0, &[7; 4096], false).expect("writes");
    array.is_gone.store(true, Relaxed);
    array.cut();
    let begin = Instant::now();
    let mut data = [0; 4096];
    for _ in 0..2 {
        let failure = client.read(0, &mut data).expect_err("nobody is there");
        assert!(matches!(failure, Failure::Refused(Error::Io)), "{failure}");
    }
    assert!(begin.elapsed() < HANG);
    wait_for("the news", || news(&running).0.iter().any(|text| text.contains("requests fail")));
    array.is_gone.store(false, Relaxed);
    wait_for("the connection", || client.read(0, &mut data).is_ok());
    assert_eq!(data, [7; 4096]);
}

#[test]
fn an_export_of_another_size_is_another_disk() {
    let array = Array::start(1 << 20, |_| {});
    let running = before(&array, None);
    let mut client = running.client();
    client.write(0, &[7; 4096], false).expect("writes");
    array.set_size(2 << 20);
    array.fates.lock().expect("whole").push_back(Fate::Cut(0));
    array.cut();
    let mut data = [0; 4096];
    let failure = client.read(0, &mut data).expect_err("it is another one");
    assert!(matches!(failure, Failure::Refused(Error::Io)), "{failure}");
    let told = || news(&running).0.iter().any(|text| text.contains("it has 2097152 bytes"));
    wait_for("the news", told);
    array.set_size(1 << 20);
    wait_for("the connection", || client.read(0, &mut data).is_ok());
    assert_eq!(data, [7; 4096]);
    client.flush().expect("flushes");
    assert_eq!(array.stable()[..4096], data);
}

#[test]
fn a_daemon_does_not_start_without_its_server() {
    let start = |uri: &str, read_only: bool| {
        let mut device = DeviceConfig::new("disk", remote(uri, None));
        device.read_only = read_only;
        let config = DaemonConfig { devices: vec![device], ..DaemonConfig::default() };
        Daemon::start(config).map(|daemon| daemon.shutdown())
    };
    let refused = |uri: &str| start(uri, false).map(drop).expect_err("refused").to_string();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("bound").port();
    drop(listener);
    let text = refused(&format!("nbd://127.0.0.1:{port}/volume"));
    assert!(text.contains("Connection refused") && text.contains("nobody listens"), "{text}");
    let text = refused("nbd+unix:///volume?socket=/nowhere/a.sock");
    assert!(text.contains("is it the socket"), "{text}");
    let array = Array::start(1 << 20, |export| export.read_only = true);
    let text = refused(&array.uri().replace("volume", "another"));
    assert!(text.contains("there is no such export"), "{text}");
    let text = refused(&array.uri());
    assert!(text.contains("--read-only"), "{text}");
    start(&array.uri(), true).expect("starts");
}

#[test]
fn the_end_of_a_daemon_waits_for_no_server_that_is_gone() {
    let array = Array::start(1 << 20, |_| {});
    let running = before(&array, None);
    let mut client = running.client();
    client.write(0, &[7; 4096], false).expect("writes");
    client.flush().expect("flushes");
    array.is_gone.store(true, Relaxed);
    array.cut();
    wait_for("the news", || !news(&running).0.is_empty());
    drop(client);
    assert!(running.daemon.shutdown().unflushed.is_empty(), "all of it was durable");
}

#[test]
fn our_own_server_is_started_anew_in_the_middle() {
    let folder = tempfile::tempdir().expect("a folder");
    let image = Running::image(&folder, 8 << 20);
    let socket = folder.path().join("disk.sock");
    let start = || {
        Running::start_in(
            tempfile::tempdir().expect("one"),
            Backend::Path(image.clone()),
            |config| {
                config.listen = vec![iopace_daemon::config::Listen::Unix(socket.clone())];
            },
        )
    };
    let mut array = start();
    let uri = format!("nbd+unix:///disk?socket={}", socket.display());
    let running = Running::start(remote(&uri, None), |_| {});
    let info = running.daemon.devices()[0].info().clone();
    assert_eq!((info.size_bytes, info.kind, info.direct), (8 << 20, "remote", true));
    let mut client = running.client();
    for round in 0..3u8 {
        let data: Vec<u8> = (0..3 << 20).map(|at: u32| (at / 7) as u8 ^ round).collect();
        client.write(12_345, &data, false).expect("writes");
        drop(array);
        array = start();
        let mut read = vec![0; data.len()];
        client.read(12_345, &mut read).expect("reads");
        assert!(read == data, "round {round}");
        client.command(wire::CMD_TRIM, 0, 0, 4096).expect("trims");
        client.flush().expect("flushes");
    }
    let stream = UnixStream::connect(&socket).expect("connects");
    let mut second = Client::connect(stream, "disk", Wanted::default()).expect("opens");
    let mut read = vec![0; 3 << 20];
    second.read(12_345, &mut read).expect("reads");
    assert!((0..3 << 20).all(|at: u32| read[at as usize] == (at / 7) as u8 ^ 2));
}

#[test]
fn a_remote_emulated_disk_is_a_disk_with_a_head() {
    let array = Running::start(
        Backend::Emulated {
            model: "hdd-sata-250g".into(),
            store: None,
            size: Some(Bytes::from_mib(64)),
            cache: None,
        },
        |_| {},
    );
    let uri = format!("nbd+unix:///disk?socket={}", array.socket().display());
    let running = Running::start(remote(&uri, None), |_| {});
    assert!(running.daemon.devices()[0].info().rotational);
    let flat = Running::start(emulated("null"), |_| {});
    let uri = format!("nbd+unix:///disk?socket={}", flat.socket().display());
    let running = Running::start(remote(&uri, None), |_| {});
    assert!(!running.daemon.devices()[0].info().rotational);
}
