//! Encrypted clients: who is let in, what is negotiated, and that the bytes are the same.

mod certificates;
mod client;
mod programs;
#[path = "../support/mod.rs"]
mod support;

use certificates::{Authority, Signed, expired, write};
use client::{encrypt, greeted, open, option, reply};
use iopace_daemon::config::{Backend, DaemonConfig, ExportConfig};
use iopace_daemon::tls::TlsMode;
use iopace_daemon::{Rule, Rules};
use iopace_nbd::client::{Client, Wanted, encode_request};
use iopace_nbd::wire;
use iopace_suites::random::Random;
use rcgen::SerialNumber;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::thread;
use support::{Running, wait_for};
use tempfile::TempDir;

const SIZE: u64 = 64 << 20;

/// A daemon with the certificates of an authority, both in one folder.
struct Bench {
    running: Running,
    authority: Authority,
}

impl Bench {
    fn start(mode: TlsMode, change: impl FnOnce(&mut DaemonConfig)) -> Bench {
        Bench::start_in(tempfile::tempdir().expect("a folder"), Authority::new(), mode, change)
    }

    fn start_in(
        folder: TempDir,
        authority: Authority,
        mode: TlsMode,
        change: impl FnOnce(&mut DaemonConfig),
    ) -> Bench {
        authority.write_server(folder.path());
        let certificates = folder.path().to_owned();
        let backend = Backend::Path(Running::image(&folder, SIZE));
        let running = Running::start_in(folder, backend, |config| {
            config.tls.mode = mode;
            config.tls.certificates = certificates;
            change(config);
        });
        Bench { running, authority }
    }

    fn plain(&self) -> UnixStream {
        greeted(self.running.raw()).expect("a greeting")
    }

    fn open(&self, own: Option<&Signed>) -> std::io::Result<Client<client::Encrypted>> {
        open(self.running.raw(), &self.authority, own, "disk")
    }
}

/// Clients must show certificates, and pay by these rules.
fn mutual(rules: &'static [&'static str]) -> impl FnOnce(&mut DaemonConfig) {
    move |config| {
        config.tls.verify_peer = true;
        let rules: Vec<Rule> = rules.iter().map(|rule| rule.parse().expect("a rule")).collect();
        config.client_rules = Rules::for_clients(rules).expect("rules");
    }
}

#[test]
fn where_it_is_required_a_plain_client_learns_nothing() {
    let bench = Bench::start(TlsMode::Require, |_| {});
    let mut stream = bench.plain();
    for kind in [wire::OPT_LIST, wire::OPT_STRUCTURED_REPLY] {
        stream.write_all(&option(kind, &[])).expect("sent");
        assert_eq!(reply(&mut stream).expect("a reply").0, wire::REP_ERR_TLS_REQD);
    }
    let refused = Client::connect(bench.running.raw(), "disk", Wanted::default());
    let text = refused.expect_err("refused").to_string();
    assert!(text.contains("TLS"), "{text}");
    assert!(bench.running.daemon.uris().iter().all(|uri| uri.starts_with("nbds+unix:")));
    bench.open(None).expect("opens encrypted").disconnect().expect("orderly");
}

#[test]
fn where_it_is_allowed_both_see_the_same_disk() {
    let bench = Bench::start(TlsMode::Allow, |_| {});
    let mut plain = bench.running.client();
    let mut encrypted = bench.open(None).expect("opens");
    let (mut random, mut data) = (Random(7), vec![0; 3 << 20]);
    for len in [1, 511, 4096, 16_384, 16_385, 65_536, 200_000, 1 << 20, 3 << 20] {
        let offset = random.below(SIZE - (3 << 20));
        let written: Vec<u8> = (0..len).map(|_| random.below(256) as u8).collect();
        encrypted.write(offset, &written, false).expect("written");
        plain.read(offset, &mut data[..len]).expect("read");
        assert!(data[..len] == written, "{len} bytes written encrypted, read plain");
        data.fill(0);
        encrypted.read(offset, &mut data[..len]).expect("read");
        assert!(data[..len] == written, "{len} bytes read encrypted");
    }
}

#[test]
fn a_client_that_takes_its_replies_late_gets_all_of_them() {
    let bench = Bench::start(TlsMode::Require, |_| {});
    let mut client = bench.open(None).expect("opens");
    let pattern: Vec<u8> = (0..1 << 20).map(|at: u32| (at >> 8) as u8 ^ at as u8).collect();
    for at in 0..16 {
        client.write(at << 20, &pattern, false).expect("written");
    }
    let mut stream = client.into_stream();
    // Small ones and large ones: from memory, from the page cache, and by the drainer.
    let lens = [512u32, 1 << 20, 4096, 65_536, 200_000, 1 << 20, 16_384, 1 << 20];
    let mut requests = Vec::new();
    for (cookie, len) in lens.iter().cycle().take(64).enumerate() {
        let offset = (cookie as u64 % 15) << 20;
        encode_request(&mut requests, wire::CMD_READ, 0, cookie as u64, offset, *len);
    }
    stream.write_all(&requests).expect("sent");
    let mut seen = 0u64;
    let mut left = 64;
    while left > 0 {
        let mut head = [0; 28];
        stream.read_exact(&mut head).expect("a reply");
        let cookie = u64::from_be_bytes(head[8..16].try_into().expect("eight bytes"));
        let mut data = vec![0; lens[cookie as usize % lens.len()] as usize];
        stream.read_exact(&mut data).expect("its data");
        assert!(data == pattern[..data.len()], "reply {cookie}");
        (seen, left) = (seen | 1 << cookie, left - 1);
    }
    assert_eq!(seen, u64::MAX, "each request is answered once");
}

#[test]
fn plain_bytes_behind_starttls_are_never_taken_for_encrypted_ones() {
    let bench = Bench::start(TlsMode::Allow, |_| {});
    let mut stream = bench.plain();
    let both = [option(wire::OPT_STARTTLS, &[]), option(wire::OPT_STRUCTURED_REPLY, &[])];
    stream.write_all(&both.concat()).expect("sent");
    let mut rest = Vec::new();
    // Whether the client is reset depends on what of its bytes was read.
    let _ = stream.read_to_end(&mut rest);
    assert_eq!(rest, b"", "hung up without an answer");
    // And what was agreed on before is forgotten: GO then opens with simple replies.
    let mut stream = bench.plain();
    stream.write_all(&option(wire::OPT_STRUCTURED_REPLY, &[])).expect("sent");
    assert_eq!(reply(&mut stream).expect("a reply").0, wire::REP_ACK);
    let encrypted = encrypt(stream, &bench.authority, None).expect("encrypts");
    let client = Client::connect(encrypted, "disk", Wanted::default()).expect("opens");
    assert_eq!(client.session().flags & wire::SEND_DF, 0, "no structured replies");
}

#[test]
fn only_clients_of_the_authority_are_let_in() {
    let bench = Bench::start(TlsMode::Require, mutual(&[]));
    let good = bench.authority.sign("web", |_| {});
    let old = bench.authority.sign("web", expired);
    let foreign = Authority::new().sign("web", |_| {});
    for (own, what) in [(None, "none"), (Some(&foreign), "foreign"), (Some(&old), "expired")] {
        assert!(bench.open(own).is_err(), "{what}");
    }
    let mut client = bench.open(Some(&good)).expect("let in");
    client.write(0, b"hello", false).expect("written");
    client.disconnect().expect("orderly");
    wait_for("the end of all", || bench.running.daemon.connections_count() == 0);
    // A client knows its server too.
    let other = Authority::new();
    assert!(open(bench.running.raw(), &other, Some(&good), "disk").is_err());
}

#[test]
fn who_was_revoked_is_let_in_no_more() {
    let (folder, authority) = (tempfile::tempdir().expect("a folder"), Authority::new());
    write(folder.path(), "ca-crl.pem", &authority.revoke(7), 0o644);
    let bench = Bench::start_in(folder, authority, TlsMode::Require, mutual(&[]));
    let with_serial = |serial: u64| {
        bench.authority.sign("web", |params| {
            params.serial_number = Some(SerialNumber::from(serial));
        })
    };
    assert!(bench.open(Some(&with_serial(7))).is_err(), "revoked");
    bench.open(Some(&with_serial(8))).expect("let in");
}

#[test]
fn a_certificate_says_who_pays() {
    let rules = &["certificate=db*:/vms/db", "map=certificate:/clients"];
    let bench = Bench::start(TlsMode::Require, mutual(rules));
    // No name leads out of the group that it is mapped below, and none commands a terminal.
    let cases = [
        ("db-1", "/vms/db", Some("db-1")),
        ("web", "/clients/web", Some("web")),
        ("../vms/db", "/", Some("../vms/db")),
        ("..", "/", Some("..")),
        ("a@b", "/", Some("a@b")),
        ("a\x1b[2J", "/", None),
    ];
    for (name, group, shown) in cases {
        let own = bench.authority.sign(name, |_| {});
        let client = bench.open(Some(&own)).expect("let in");
        let groups = bench.running.daemon.groups();
        let all = groups.connections();
        let [one] = &all[..] else { panic!("{all:?}") };
        assert_eq!((&*one.group, one.certificate.as_deref()), (group, shown), "{name:?}");
        assert_eq!(one.is_moved, group != "/");
        client.disconnect().expect("orderly");
        wait_for("its end", || groups.connections().is_empty());
    }
}

#[test]
fn an_export_for_encrypted_clients_is_not_shown_to_others() {
    let bench = Bench::start(TlsMode::Allow, |config| {
        let safe = ExportConfig { needs_tls: true, ..ExportConfig::new("safe", "disk") };
        config.exports = vec![ExportConfig::new("disk", "disk"), safe];
    });
    let refused = Client::connect(bench.running.raw(), "safe", Wanted::default());
    assert!(refused.expect_err("refused").to_string().contains("TLS"));
    open(bench.running.raw(), &bench.authority, None, "safe").expect("opens");
}

/// By command and by a changed file: what was agreed on about TLS holds for them too.
#[test]
fn exports_that_come_later_are_for_encrypted_clients_too() {
    let bench = Bench::start(TlsMode::Allow, |_| {});
    let daemon = &bench.running.daemon;
    let safe = |name: &str| ExportConfig { needs_tls: true, ..ExportConfig::new(name, "disk") };
    let check = |name: &str| {
        let refused = Client::connect(bench.running.raw(), name, Wanted::default());
        assert!(refused.expect_err("refused").to_string().contains("TLS"), "{name}");
        open(bench.running.raw(), &bench.authority, None, name).expect("opens");
    };
    daemon.add_export(safe("added"), None).expect("added");
    check("added");
    let old = daemon.config().clone();
    let mut new = old.clone();
    new.exports = vec![ExportConfig::new("disk", "disk"), safe("late")];
    daemon.reload(&old, &new).expect("applied");
    check("late");
    check("added");
    let mut other = new.clone();
    other.tls.mode = TlsMode::Off;
    let refused = daemon.reload(&new, &other).expect_err("not while it runs").to_string();
    assert!(refused.contains("a restart is needed for: `tls`, "), "{refused}");
    check("late");
}

#[test]
fn an_export_for_encrypted_clients_needs_tls() {
    let bench = Bench::start(TlsMode::Off, |_| {});
    let safe = ExportConfig { needs_tls: true, ..ExportConfig::new("safe", "disk") };
    let refused = bench.running.daemon.add_export(safe, None).expect_err("nobody could open it");
    assert!(refused.to_string().contains("--tls-certificates"), "{refused}");
}

/// Connections that never end their handshake, on either side of STARTTLS, keep nobody out, though
/// there are more of them than clients may be connected.
#[test]
fn whoever_does_not_end_the_handshake_keeps_nobody_out() {
    let bench = Bench::start(TlsMode::Require, |config| config.connections_max = 4);
    let mut good = bench.open(None).expect("opens");
    let stalled: Vec<UnixStream> = (0..100)
        .map(|at| {
            let mut stream = bench.running.raw();
            if at % 3 > 0 {
                // The daemon may have closed it already, for the sake of others.
                let _ = stream.read_exact(&mut [0; 18]);
                let _ = stream.write_all(&3u32.to_be_bytes());
                let _ = stream.write_all(&option(wire::OPT_STARTTLS, &[]));
            }
            if at % 3 > 1 {
                let _ = stream.write_all(b"\x16\x03\x01\x02");
            }
            stream
        })
        .collect();
    good.write(0, b"hello", false).expect("the client before them is served");
    let mut late = bench.open(None).expect("so is one that comes after them");
    let mut data = [0; 5];
    late.read(0, &mut data).expect("read");
    assert_eq!(&data, b"hello");
    drop(stalled);
}

#[test]
fn a_client_that_vanishes_leaves_nothing() {
    let bench = Bench::start(TlsMode::Require, |_| {});
    let used = || bench.running.daemon.memory_used_bytes();
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let mut stream = bench.open(None).expect("opens").into_stream();
                let mut requests = Vec::new();
                for cookie in 0..32 {
                    encode_request(&mut requests, wire::CMD_READ, 0, cookie, 0, 1 << 20);
                }
                stream.write_all(&requests).expect("sent");
                let mut some = vec![0; 100_000];
                stream.read_exact(&mut some).expect("some replies");
            });
        }
    });
    wait_for("the end", || bench.running.daemon.connections_count() == 0 && used() == 0);
}

#[test]
fn renewed_certificates_hold_for_those_who_come_then() {
    let bench = Bench::start(TlsMode::Require, |_| {});
    let daemon = &bench.running.daemon;
    let mut before = bench.open(None).expect("opens");
    let other = Authority::new();
    other.write_server(bench.running.folder.path());
    bench.open(None).expect("nothing was read again");
    assert!(daemon.renew_certificates().expect("read"));
    assert!(bench.open(None).is_err(), "the server is another one");
    open(bench.running.raw(), &other, None, "disk").expect("which its clients know");
    before.write(0, b"hello", false).expect("who was there before is served");
    write(bench.running.folder.path(), "server-key.pem", "", 0o600);
    let text = daemon.renew_certificates().expect_err("no key").to_string();
    assert!(text.contains("server-key.pem"), "{text}");
    open(bench.running.raw(), &other, None, "disk").expect("what held stays");
}
