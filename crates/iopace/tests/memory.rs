//! The memory of a daemon when its clients mean it harm.

mod common;

use common::{Place, Serving};
use iopace_nbd::client::{Client, Wanted, encode_request};
use iopace_nbd::wire;
use rustix::process::Signal;
use std::fs;
use std::io::Write;
use std::os::unix::net::UnixStream;
use std::thread;
use std::time::{Duration, Instant};

const MIB: u64 = 1 << 20;

/// A client that waits longer than this hangs, and fails.
const HANG: Duration = Duration::from_secs(120);

fn client(serving: &Serving) -> Client<UnixStream> {
    let stream = UnixStream::connect(serving.socket()).expect("connected");
    stream.set_read_timeout(Some(HANG)).expect("a timeout");
    Client::connect(stream, "disk", Wanted::default()).expect("opens")
}

fn ask(stream: &mut UnixStream, kind: u16, cookie: u64, offset: u64, len: u32) {
    let mut bytes = Vec::new();
    encode_request(&mut bytes, kind, 0, cookie, offset, len);
    stream.write_all(&bytes).expect("sent");
}

/// Most memory that the daemon ever had, in bytes.
fn peak(serving: &Serving) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", serving.pid())).expect("procfs");
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).expect("a peak");
    let kib = line.split_whitespace().nth(1).and_then(|kib| kib.parse::<u64>().ok());
    kib.expect("a number") * 1024
}

#[test]
fn memory_is_bounded_and_nobody_keeps_it_from_others() {
    let place = Place::new();
    fs::write(place.path("disk.img"), vec![7; 64 << 20]).expect("data that is cached");
    place.write(
        "iopace.toml",
        "memory = \"64MiB\"\n[[device]]\nname = \"disk\"\nfile = \"disk.img\"\n",
    );
    let serving = place.serve(&["--config", "iopace.toml"]);
    let mut good = client(&serving);

    // Clients that ask for 3 MiB each and take nothing of it.
    let mut stuck: Vec<UnixStream> = (0..300).map(|_| client(&serving).into_stream()).collect();
    for (number, stream) in (0..).zip(&mut stuck) {
        for cookie in 0..32 {
            ask(stream, wire::CMD_READ, cookie, (number + cookie) % 60 * MIB, 100 << 10);
        }
    }
    // Small requests flow meanwhile, and large ones when it is their turn.
    for at in 0..100 {
        good.read(at * 4096, &mut [0; 4096]).expect("small");
    }
    let mut data = vec![0; 16 << 20];
    good.read(0, &mut data).expect("large");
    assert!(data.iter().all(|&byte| byte == 7));
    good.write(0, &data, false).expect("large");
    let most = peak(&serving);
    assert!(most < (64 + 64) * MIB, "{} MiB", most >> 20);
    drop(stuck);

    // Clients that announce writes and send nothing: what is left is less than is wanted.
    let mut silent: Vec<UnixStream> = (0..24).map(|_| client(&serving).into_stream()).collect();
    for stream in &mut silent {
        ask(stream, wire::CMD_WRITE, 1, 0, 2 << 20);
    }
    let mut data = vec![0; 32 << 20];
    for _ in 0..2 {
        good.write(0, &data, true).expect("large");
        good.read(0, &mut data).expect("large");
    }
    let most = peak(&serving);
    assert!(most < (64 + 64) * MIB, "{} MiB", most >> 20);
    good.disconnect().expect("orderly");
    drop(silent);
    assert_eq!(serving.end_by(Signal::TERM).status, Some(0));
}

/// Waits until the daemon's peak has not grown for some looks. On a slow machine that makes the
/// check easier, never wrong.
fn settled(serving: &Serving, len: u32) -> u64 {
    let (begin, mut last, mut same) = (Instant::now(), 0, 0);
    while same < 15 {
        // SLEEP: the pause between two looks at the condition.
        thread::sleep(Duration::from_millis(20));
        let most = peak(serving);
        same = if most == last && most > 128 * MIB { same + 1 } else { 0 };
        last = most;
        assert!(begin.elapsed() < HANG, "{} MiB with reads of {len}", most >> 20);
    }
    last
}

#[test]
fn a_hundred_clients_that_never_read_stay_below_the_default_with_all_that_there_is() {
    // Pieces from pages of the allocator, from halves of huge pages, and small ones.
    for len in [2 << 20, 1 << 20, 100 << 10] {
        let place = Place::new();
        let image = fs::File::create(place.path("disk.img"));
        image.and_then(|image| image.set_len(256 * MIB)).expect("sparse");
        let serving = place.serve(&["disk.img", "--direct"]);
        let mut stuck: Vec<UnixStream> = (0..100).map(|_| client(&serving).into_stream()).collect();
        for (number, stream) in (0..).zip(&mut stuck) {
            // At once: no more is read of a client whose socket is full of replies.
            let mut all = Vec::new();
            for cookie in 0..64 {
                let offset = (number + cookie) % 127 * 2 * MIB;
                encode_request(&mut all, wire::CMD_READ, 0, cookie, offset, len);
            }
            stream.write_all(&all).expect("sent");
        }
        let most = settled(&serving, len);
        assert!(most <= 256 * MIB, "{} MiB with reads of {} KiB", most >> 20, len >> 10);
        drop(stuck);
        assert_eq!(serving.end_by(Signal::TERM).status, Some(0));
    }
}
