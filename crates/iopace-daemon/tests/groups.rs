//! Groups in a running daemon: who pays, while clients are busy.

mod support;

use iopace_core::engine::WaitingNow;
use iopace_core::group::Weight;
use iopace_core::verdict::Reason;
use iopace_daemon::config::{ExportConfig, GroupConfig, Listen};
use iopace_daemon::daemon::Daemon;
use iopace_daemon::groups::{ConnectionInfo, GroupError, Groups};
use iopace_nbd::client::{Client, Wanted};
use iopace_nbd::wire::CMD_WRITE_ZEROES;
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};
use support::{Running, emulated, wait_for};

/// A disk that costs nothing, without a page cache: every request is counted.
fn start(change: impl FnOnce(&mut iopace_daemon::config::DaemonConfig)) -> Running {
    Running::start(emulated("null"), |config| {
        config.devices[0].direct = true;
        change(config);
    })
}

fn open(running: &Running, export: &str) -> std::io::Result<Client<UnixStream>> {
    let wanted = Wanted { structured: true, ..Wanted::default() };
    Client::connect(running.raw(), export, wanted)
}

/// The number behind a key of `io.stat`.
fn stat(groups: &Groups, path: &str, key: &str) -> u64 {
    let text = groups.read(path, "io.stat").expect("read");
    let value = text.split_whitespace().find_map(|word| word.strip_prefix(&format!("{key}=")));
    value.expect(key).parse().expect("a number")
}

fn group_of(groups: &Groups, number: u64) -> ConnectionInfo {
    let all = groups.connections();
    all.into_iter().find(|connection| connection.number == number).expect("open")
}

fn waiting_for_a_limit(running: &Running) -> u32 {
    let mut now = WaitingNow::default();
    running.daemon.devices()[0].waiting_now(&mut now);
    now.all().count(Reason::Budget)
}

#[test]
fn a_limit_holds_for_its_group_and_for_no_other() {
    let running = start(|_| {});
    let groups = running.daemon.groups();
    groups.create("/slow", false).expect("made");
    groups.create("/free", false).expect("made");
    groups.write("/slow", "io.max", "disk riops=20").expect("written");
    let read = |export: &str, count: u64| {
        let mut client = open(&running, export).expect("opens");
        let mut block = [0; 4096];
        for at in 0..count {
            client.read(at * 4096, &mut block).expect("read");
        }
        client.disconnect().expect("orderly");
    };
    let begin = Instant::now();
    read("disk@/slow", 40);
    // 40 reads at 20 per second, less a second that may be had at once.
    assert!(begin.elapsed() >= Duration::from_millis(900), "{:?}", begin.elapsed());
    // One read passes, and the next one waits for an hour: whatever is late, the others overtake.
    groups.write("/slow", "io.max", "disk rbps=1").expect("written");
    let (took, waiting) = thread::scope(|scope| {
        let slow = scope.spawn(|| read("disk@/slow", 2));
        wait_for("the limit", || waiting_for_a_limit(&running) == 1);
        let begin = Instant::now();
        read("disk@/free", 400);
        let seen = (begin.elapsed(), waiting_for_a_limit(&running));
        groups.write("/slow", "io.max", "disk rbps=max").expect("written");
        slow.join().expect("read");
        seen
    });
    // 400 at the 20 per second of the other one would take 20 s.
    assert!(took < Duration::from_secs(10), "{took:?}");
    assert_eq!(waiting, 1, "the other one waits all the time");
    assert_eq!(stat(groups, "/slow", "rios"), 42);
    assert_eq!(stat(groups, "/slow", "rbytes"), 42 * 4096);
    assert_eq!(stat(groups, "/free", "rios"), 400);
    assert_eq!(stat(groups, "/", "rios"), 442, "of the root and all below it");
    let (budget, admit) = (stat(groups, "/slow", "budget_us"), stat(groups, "/slow", "admit_us"));
    assert!(budget > 0 && budget >= admit / 2, "{budget} of {admit} us wait for the limit");
    let mut tasks = Vec::new();
    running.daemon.devices()[0].tasks(iopace_core::time::Instant::ZERO, &mut tasks);
    let mut reads: Vec<u64> = tasks.iter().map(|task| task.counts.reads_count).collect();
    reads.sort_unstable();
    assert_eq!(reads, [2, 40, 400], "a task for each connection");
    let pressure = groups.read("/slow", "io.pressure").expect("read");
    assert!(pressure.starts_with("some avg10="), "{pressure}");
}

#[test]
fn a_long_request_is_charged_in_pieces_and_lets_its_siblings_pass() {
    let running = start(|_| {});
    let groups = running.daemon.groups();
    for path in ["/both", "/both/long", "/both/short"] {
        groups.create(path, false).expect("made");
    }
    groups.write("/both", "io.max", "disk wbps=134217728").expect("written");
    let is_done = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut client = open(&running, "disk@/both/long").expect("opens");
            // Not aligned, and with one reply.
            let (offset, len) = (4096, 0xFFFF_F000);
            client.command(CMD_WRITE_ZEROES, 0, offset, len).expect("zeroes");
            is_done.store(true, Relaxed);
            client.write(0, &[1; 512], false).expect("the connection is fine");
            client.disconnect().expect("orderly");
        });
        wait_for("the first piece", || stat(groups, "/both/long", "wios") > 0);
        let mut client = open(&running, "disk@/both/short").expect("opens");
        client.write(0, &[1; 4096], false).expect("written");
        // At that rate the long request takes half a minute.
        assert!(!is_done.load(Relaxed), "it was charged as one");
        groups.write("/both", "io.max", "disk wbps=max").expect("written");
    });
    // In 32 pieces of 128 MiB, and the write.
    assert_eq!(stat(groups, "/both/long", "wios"), 33);
    assert_eq!(stat(groups, "/both/long", "wbytes"), 0xFFFF_F000 + 512);
}

#[test]
fn a_busy_connection_is_moved_and_every_request_is_paid_once() {
    let running = start(|_| {});
    let groups = running.daemon.groups();
    for path in ["/a", "/b"] {
        groups.create(path, false).expect("made");
    }
    let (stop, count) = (AtomicBool::new(false), AtomicU64::new(0));
    thread::scope(|scope| {
        let mut client = running.client();
        let number = groups.connections()[0].number;
        let (stop, count) = (&stop, &count);
        scope.spawn(move || {
            let mut block = [0; 512];
            while !stop.load(Relaxed) {
                client.read(0, &mut block).expect("read");
                count.fetch_add(1, Relaxed);
            }
        });
        for turn in 0..600 {
            let path = ["/a", "/b", "/"][turn % 3];
            let before = count.load(Relaxed);
            if turn % 2 == 0 {
                groups.move_connection(number, path).expect("moved");
            } else {
                // It was moved by itself: it stays where it is.
                groups.move_export("disk", path).expect("moved");
            }
            wait_for("the next request", || count.load(Relaxed) > before + 1);
        }
        assert!(group_of(groups, number).is_moved);
        stop.store(true, Relaxed);
    });
    let total = count.load(Relaxed);
    assert_eq!(stat(groups, "/", "rios"), total);
    let (a, b) = (stat(groups, "/a", "rios"), stat(groups, "/b", "rios"));
    assert!(a > 0 && b > 0 && a + b < total, "{a} {b} of {total}");
    wait_for("the end of the connection", || groups.connections().is_empty());
}

#[test]
fn connections_follow_their_export_unless_they_have_a_group_of_their_own() {
    let running = start(|_| {});
    let groups = running.daemon.groups();
    for path in ["/a", "/b"] {
        groups.create(path, false).expect("made");
    }
    let _follows = running.client();
    let _named = open(&running, "disk@/a").expect("opens");
    let numbers: Vec<u64> = groups.connections().iter().map(|one| one.number).collect();
    assert_eq!(group_of(groups, numbers[0]).group, "/");
    assert_eq!(group_of(groups, numbers[1]).group, "/a");
    groups.move_export("disk", "/b").expect("moved");
    assert!(groups.export_groups().values().eq(["/b"]));
    assert_eq!(group_of(groups, numbers[0]).group, "/b");
    assert_eq!(group_of(groups, numbers[1]).group, "/a");
    let _later = running.client();
    assert_eq!(groups.connections()[2].group, "/b");
    let error = groups.remove("/b").expect_err("somebody pays");
    assert!(error.to_string().contains("3 exports or connections pay as it"), "{error}");
}

#[test]
fn a_group_is_removed_with_requests_in_flight_and_its_number_waits_for_them() {
    let running = start(|_| {});
    let groups = running.daemon.groups();
    groups.create("/vms", false).expect("made");
    groups.create("/vms/web", false).expect("made");
    groups.write("/vms/web", "io.max", "disk riops=3").expect("written");
    // All but one wait until this is lifted.
    groups.write("/", "io.max", "disk rbps=1").expect("written");
    groups.move_export("disk", "/vms/web").expect("moved");
    let old = groups.find("/vms/web").expect("there");
    thread::scope(|scope| {
        for _ in 0..12 {
            let mut client = running.client();
            scope.spawn(move || client.read(0, &mut [0; 512]).expect("read"));
        }
        wait_for("requests that wait", || {
            running.daemon.devices()[0].status().engine.waiting_count >= 6
        });
        let error = groups.remove("/vms/web").expect_err("somebody pays");
        assert!(matches!(error, GroupError::Tree(_)), "{error}");
        groups.move_export("disk", "/").expect("moved");
        groups.remove("/vms/web").expect("nobody pays");
        groups.remove("/vms").expect("nothing in it");
        assert!(groups.find("/vms/web").is_err());
        assert_eq!(groups.dying_count(), 2);
        let new = groups.create("/vms", false).expect("made").path;
        assert_ne!(groups.find(&new).expect("there"), old, "its requests are on their way");
        assert_eq!(groups.dying_count(), 2, "a parent waits for its children");
        groups.write("/", "io.max", "disk rbps=max").expect("written");
    });
    groups.create("/x", false).expect("made");
    assert_eq!(groups.dying_count(), 0, "all were answered");
    groups.create("/y", false).expect("made");
    let known = ["/x", "/y"].map(|path| groups.find(path).expect("there"));
    assert!(known.contains(&old), "{known:?}: the number is given again");
    assert_eq!(stat(groups, "/x", "rios") + stat(groups, "/y", "rios"), 0);
    assert_eq!(stat(groups, "/", "rios"), 12);
}

#[test]
fn a_weight_is_set_a_thousand_times_under_load_and_nothing_is_lost() {
    let running = start(|_| {});
    let groups = running.daemon.groups();
    let (stop, count) = (AtomicBool::new(false), AtomicU64::new(0));
    thread::scope(|scope| {
        for number in 0..4 {
            let path = format!("/{number}");
            groups.create(&path, false).expect("made");
            let mut client = open(&running, &format!("disk@{path}")).expect("opens");
            let (stop, count) = (&stop, &count);
            scope.spawn(move || {
                let (data, mut back) = ([number as u8 + 1; 4096], [0; 4096]);
                while !stop.load(Relaxed) {
                    client.write(number << 20, &data, false).expect("write");
                    client.read(number << 20, &mut back).expect("read");
                    assert_eq!(data, back);
                    count.fetch_add(2, Relaxed);
                }
            });
        }
        for turn in 0..1_000 {
            let text = format!("disk {}", 1 + turn * 10 % 10_000);
            groups.write(&format!("/{}", turn % 4), "io.weight", &text).expect("written");
        }
        let before = count.load(Relaxed);
        wait_for("more requests", || count.load(Relaxed) > before + 100);
        stop.store(true, Relaxed);
    });
    let total = count.load(Relaxed);
    assert_eq!(stat(groups, "/", "rios") + stat(groups, "/", "wios"), total);
    let status = running.daemon.devices()[0].status();
    assert_eq!(status.engine.totals_count, (total, total));
    assert_eq!((status.stats.failed_over_count, status.hold_up.count()), (0, 0));
}

#[test]
fn writes_at_once_leave_every_device_with_what_the_tree_has() {
    let running = start(|config| {
        let mut second = config.devices[0].clone();
        second.name = "other".into();
        config.devices.push(second);
    });
    let groups = running.daemon.groups();
    let id = {
        groups.create("/a", false).expect("made");
        groups.find("/a").expect("there")
    };
    thread::scope(|scope| {
        for writer in 0..4u32 {
            scope.spawn(move || {
                for turn in 0..200 {
                    let weight = 1 + writer * 1_000 + turn;
                    let text = format!("disk {weight}\nother {weight}");
                    groups.write("/a", "io.weight", &text).expect("written");
                    let text = groups.read("/a", "io.weight").expect("read");
                    let values: Vec<&str> = text.split_whitespace().collect();
                    assert_eq!(values[3], values[5], "half of a write: {text}");
                }
            });
        }
    });
    let effective = groups.effective("/a", Some("io.weight"), None).expect("explained");
    for (device, effective) in running.daemon.devices().iter().zip(effective) {
        let weight = Weight::new(effective.value.parse().expect("a number"));
        assert_eq!(Some(device.group(id).expect("known").settings.weight), weight);
    }
}

#[test]
fn ten_thousand_groups_come_and_go() {
    let running = start(|_| {});
    let groups = running.daemon.groups();
    let mut client = running.client();
    for round in 0..2 {
        for a in 0..100 {
            for b in 0..100 {
                groups.create(&format!("/{a}/{b}"), true).expect("made");
            }
        }
        assert_eq!(groups.count(), 10_101);
        client.read(0, &mut [0; 512]).expect("read");
        for a in 0..100 {
            for b in 0..100 {
                groups.remove(&format!("/{a}/{b}")).expect("removed");
            }
            groups.remove(&format!("/{a}")).expect("removed");
        }
        assert_eq!((groups.count(), groups.dying_count()), (1, 0), "round {round}");
    }
    groups.create("/a", false).expect("made");
    assert_eq!(groups.find("/a").expect("there").0, 1, "numbers stay small");
}

#[test]
fn an_export_as_a_group_is_for_the_own_user_on_a_unix_socket() {
    let running = start(|config| {
        config.listen.push(Listen::Tcp("127.0.0.1:0".parse().expect("an address")));
        let group = "/vms".to_owned();
        config.exports = vec![ExportConfig { group, ..ExportConfig::new("public", "disk") }];
        config.exports[0].read_only = true;
        config.groups = ["/vms", "/vms/my web"]
            .map(|path| GroupConfig { path: path.into(), files: vec![] })
            .into();
    });
    let groups = running.daemon.groups();
    for (export, group) in [
        ("public", "/vms"),
        ("", "/vms"),
        ("public@/vms/my web", "/vms/my web"),
        ("disk@/vms", "/vms"),
        ("@/", "/"),
    ] {
        let mut client = open(&running, export).expect(export);
        let connections = groups.connections();
        assert_eq!((&*connections[0].group, connections.len()), (group, 1), "{export}");
        client.read(0, &mut [0; 512]).expect("read");
        assert!(client.write(0, &[0; 512], false).is_err(), "the export is read-only");
        client.disconnect().expect("orderly");
        wait_for("the end of the connection", || groups.connections().is_empty());
    }
    for export in
        ["public@/nothing", "disc@/vms", "disk", "public@vms", "public@/vms/", "@", "@/@/"]
    {
        assert!(open(&running, export).is_err(), "{export}");
    }
    let uris = running.daemon.uris();
    let tcp = uris.iter().find_map(|uri| uri.strip_prefix("nbd://")).expect("TCP");
    let (address, _) = tcp.split_once('/').expect("an export");
    let connect = |export: &str| {
        let stream = TcpStream::connect(address).expect("connects");
        Client::connect(stream, export, Wanted { structured: true, ..Wanted::default() })
    };
    assert!(connect("public").is_ok());
    assert!(connect("public@/vms").is_err(), "never over TCP");
    assert_eq!(stat(groups, "/vms/my web", "rios"), 1);
}

#[test]
fn a_daemon_does_not_start_with_groups_that_cannot_be() {
    let folder = tempfile::tempdir().expect("a folder");
    let start = |group: &str, files: &[(&str, &str)]| {
        let files = files.iter().map(|(file, text)| ((*file).into(), (*text).into())).collect();
        let config = iopace_daemon::config::DaemonConfig {
            devices: vec![iopace_daemon::config::DeviceConfig::new("disk", emulated("null"))],
            exports: vec![ExportConfig { group: group.into(), ..ExportConfig::new("e", "disk") }],
            groups: vec![GroupConfig { path: "/a/b".into(), files }],
            listen: vec![Listen::Unix(folder.path().join("disk.sock"))],
            ..Default::default()
        };
        Daemon::start(config).map(|daemon| {
            daemon.shutdown();
        })
    };
    start("/a", &[("io.weight", "200"), ("io.max", "disk rbps=1M")]).expect("right");
    let cases = [
        (start("/c", &[]), "export 'e' is to pay as its group: no group '/c'; groups in /: a"),
        (start("/a", &[("io.weight", "0")]), "group /a/b io.weight, line 1: "),
        (start("/a", &[("io.wait", "0")]), "group /a/b 'io.wait': no such file"),
    ];
    for (result, text) in cases {
        let error = result.expect_err(text).to_string();
        assert!(error.starts_with(text), "{text}: {error}");
    }
}
