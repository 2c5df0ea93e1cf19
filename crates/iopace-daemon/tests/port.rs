//! The loopback port of a real daemon: who is let in, and what they get.

mod support;

use iopace_daemon::control::{self, Port, Ports, Server, Token};
use iopace_daemon::daemon::Daemon;
use rustix::process::Uid;
use rustix::thread::set_thread_res_uid;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use support::{Running, emulated};
use tokio::sync::oneshot;

/// A daemon with a control socket and a port, served by a thread of its own.
struct Open {
    running: Running,
    address: SocketAddr,
    token: String,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Open {
    fn new() -> Open {
        Open::with(|address, file| {
            let port = Port::bind(address, file, false).expect("bound");
            (port.address(), Ports { api: Some(port), ..Ports::default() })
        })
    }

    /// With a port of the metrics alone.
    fn metrics() -> Open {
        Open::with(|address, file| {
            let port = Port::bind_metrics(address, file).expect("bound");
            (port.address(), Ports { metrics: Some(port), ..Ports::default() })
        })
    }

    fn with(bind: impl Fn(SocketAddr, &Path) -> (SocketAddr, Ports)) -> Open {
        let running = Running::start(emulated("null"), |_| {});
        let file = running.folder.path().join("token");
        let (address, ports) = bind(SocketAddr::from(([127, 0, 0, 1], 0)), &file);
        let server = Server::bind(&running.folder.path().join("iopace.ctl")).expect("bound");
        let token = Token::find(&file).expect("made").secret().to_owned();
        let (stop, stopped) = oneshot::channel::<()>();
        let daemon: Arc<Daemon> = Arc::clone(&running.daemon);
        let thread = thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            let until = async {
                let _ = stopped.await;
            };
            let run = control::run(daemon, Some(server), ports, until);
            runtime.expect("a runtime").block_on(run).expect("served");
        });
        Open { running, address, token, stop: Some(stop), thread: Some(thread) }
    }

    fn file(&self) -> PathBuf {
        self.running.folder.path().join("token")
    }

    /// Asks with these lines in the head, and reads to the end.
    fn ask(&self, what: &str, lines: &[&str]) -> String {
        let mut answer = String::new();
        let _ = self.send(what, lines).read_to_string(&mut answer);
        answer
    }

    fn send(&self, what: &str, lines: &[&str]) -> BufReader<TcpStream> {
        let mut stream = TcpStream::connect(self.address).expect("connected");
        let lines: String = lines.iter().map(|line| format!("{line}\r\n")).collect();
        let asked = format!("{what} HTTP/1.1\r\n{lines}\r\n");
        stream.write_all(asked.as_bytes()).expect("sent");
        BufReader::new(stream)
    }

    fn host(&self) -> String {
        format!("host: {}", self.address)
    }

    fn bearer(&self) -> String {
        format!("authorization: Bearer {}", self.token)
    }

    fn end(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            thread.join().expect("ended well");
        }
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.end();
    }
}

#[test]
fn the_api_needs_the_token_and_the_page_does_not() {
    let open = Open::new();
    let (host, bearer) = (open.host(), open.bearer());
    for path in ["/v1/status", "/v1/live", "/v1/openapi.json", "/metrics"] {
        let what = format!("GET {path}");
        let answer = open.ask(&what, &[&host, &bearer]);
        assert!(answer.starts_with("HTTP/1.1 200 "), "{path}: {answer}");
        assert!(!answer.to_lowercase().contains("access-control"), "{answer}");
        let answer = open.ask(&what, &[&host]);
        assert!(answer.starts_with("HTTP/1.1 401 "), "{path}: {answer}");
        assert!(answer.contains("www-authenticate: Bearer") && answer.contains("iopace dashboard"));
        assert!(!answer.contains(&open.token));
    }
    let status = open.ask("GET /v1/status", &[&host, &bearer]);
    assert!(status.contains(&format!("\"address\":\"{}\"", open.address)), "{status}");
    let control = open.running.folder.path().join("iopace.ctl");
    assert!(status.contains(&format!("\"control\":\"{}\"", control.display())), "{status}");

    let page = open.ask("GET /", &[&host]);
    assert!(page.starts_with("HTTP/1.1 200 ") && page.contains("<!doctype html>"), "{page}");
    let policy = page.lines().find_map(|line| line.strip_prefix("content-security-policy: "));
    let policy = policy.expect("a policy");
    assert!(policy.contains("default-src 'none'") && !policy.contains("unsafe"), "{policy}");
    assert!(open.ask("GET /static/nothing", &[&host]).starts_with("HTTP/1.1 404 "));
    // Nothing of the API is under a public name.
    for path in ["//v1/status", "/static/../v1/status", "/static/..%2fv1/status", "/V1/status"] {
        let answer = open.ask(&format!("GET {path}"), &[&host]);
        assert!(!answer.starts_with("HTTP/1.1 200 "), "{path}: {answer}");
    }
}

#[test]
fn a_token_of_metrics_opens_nothing_else() {
    let mut open = Open::metrics();
    let bearer = open.bearer();
    // A scraper may know the machine by any name.
    let named = "host: nas.example:9100";
    let answer = open.ask("GET /metrics", &[named, &bearer]);
    assert!(answer.starts_with("HTTP/1.1 200 ") && answer.contains("iopace_"), "{answer}");
    let answer = open.ask("GET /metrics", &[named]);
    assert!(answer.starts_with("HTTP/1.1 401 ") && answer.contains("--metrics-token-file"));
    assert!(open.ask("POST /metrics", &[named, &bearer]).starts_with("HTTP/1.1 405 "));
    for path in ["/v1/status", "/", "/static/page.js", "/metrics/", "/metrics/..%2fv1/status"] {
        let what = format!("GET {path}");
        let answer = open.ask(&what, &[named, &bearer]);
        assert!(answer.starts_with("HTTP/1.1 404 ") && answer.contains("GET /metrics"), "{answer}");
        assert!(open.ask(&what, &[named]).starts_with("HTTP/1.1 401 "), "{path}");
    }
    let change = r#"{"action":"insert","algorithm":"rr"}"#;
    let length = format!("content-length: {}\r\n\r\n{change}", change.len());
    let answer = open.ask("POST /v1/devices/disk/scheduler", &[named, &bearer, &length]);
    assert!(answer.starts_with("HTTP/1.1 404 "), "{answer}");
    assert!(!open.running.daemon.devices()[0].status().engine.inserted);
    let file = open.file();
    open.end();
    assert!(file.exists(), "Prometheus goes on with it after a restart");
}

#[test]
fn a_change_through_the_port_is_one() {
    let open = Open::new();
    let (host, bearer) = (open.host(), open.bearer());
    let change = r#"{"action":"insert","algorithm":"rr"}"#;
    let length = format!("content-length: {}\r\n\r\n{change}", change.len());
    let what = "POST /v1/devices/disk/scheduler";
    let answer = open.ask(what, &[&host, &length]);
    assert!(answer.starts_with("HTTP/1.1 401 "), "{answer}");
    let inserted = || open.running.daemon.devices()[0].status().engine.inserted;
    assert!(!inserted());
    let answer = open.ask(what, &[&host, &bearer, &length]);
    assert!(answer.starts_with("HTTP/1.1 200 ") && inserted(), "{answer}");
}

#[test]
fn wrong_tokens_are_refused() {
    let open = Open::new();
    let (host, bearer) = (open.host(), open.bearer());
    let twisted = format!("authorization: Bearer {}", open.token.to_uppercase());
    let longer = format!("{bearer}0");
    let (basic, bare) = (bearer.replace("Bearer", "Basic"), bearer.replace("Bearer ", ""));
    for wrong in [&*twisted, &longer, &basic, &bare, "authorization: Bearer ", "authorization:"] {
        let answer = open.ask("GET /v1/status", &[&host, wrong]);
        assert!(answer.starts_with("HTTP/1.1 401 "), "{wrong}: {answer}");
    }
    let answer = open.ask("GET /v1/status", &[&host, &bearer, &twisted]);
    assert!(answer.starts_with("HTTP/1.1 401 "), "two of them: {answer}");
    let query = format!("GET /v1/status?token={}", open.token);
    assert!(open.ask(&query, &[&host]).starts_with("HTTP/1.1 401 "));
}

#[test]
fn other_hosts_and_origins_are_refused() {
    let open = Open::new();
    let (host, bearer, port) = (open.host(), open.bearer(), open.address.port());
    let refused = |lines: &[&str], why: &str| {
        for what in ["GET /v1/status", "GET /", "POST /v1/devices/disk/scheduler"] {
            let answer = open.ask(what, lines);
            assert!(answer.starts_with("HTTP/1.1 403 "), "{lines:?}: {answer}");
            assert!(answer.contains(why) && answer.contains("hint"), "{answer}");
        }
    };
    let other = "another host";
    refused(&[&bearer], other);
    refused(&[&bearer, &host, &host], other);
    for wrong in [
        "evil.example",
        "evil.example:PORT",
        "127.0.0.1",
        "127.0.0.1:1",
        "localhost:",
        "127.0.0.1.evil.example:PORT",
        "x@127.0.0.1:PORT",
        "0.0.0.0:PORT",
        "[::1]",
        "::1:PORT",
    ] {
        let wrong = format!("host: {}", wrong.replace("PORT", &port.to_string()));
        refused(&[&bearer, &wrong], other);
    }
    for wrong in [
        "null",
        "https://127.0.0.1:PORT",
        "http://evil.example",
        "http://127.0.0.1:1",
        "http://127.0.0.1",
        "file://",
        "http://127.0.0.1:PORT/",
    ] {
        let wrong = format!("origin: {}", wrong.replace("PORT", &port.to_string()));
        refused(&[&host, &bearer, &wrong], "another page");
    }
    for right in ["127.0.0.1", "localhost", "LocalHost", "[::1]"] {
        let lines = [format!("host: {right}:{port}"), format!("origin: http://{right}:{port}")];
        let answer = open.ask("GET /v1/status", &[&lines[0], &lines[1], &bearer]);
        assert!(answer.starts_with("HTTP/1.1 200 "), "{right}: {answer}");
    }
    let absolute = open.ask("GET http://evil.example/v1/status", &[&host, &bearer]);
    assert!(absolute.starts_with("HTTP/1.1 403 "), "{absolute}");
    // What a browser asks before it sends a token from elsewhere: no.
    let preflight = ["origin: http://evil.example", "access-control-request-method: GET"];
    let answer = open.ask("OPTIONS /v1/status", &[&host, preflight[0], preflight[1]]);
    assert!(answer.starts_with("HTTP/1.1 403 ") && !answer.contains("access-control"), "{answer}");
}

#[test]
fn only_loopback_addresses_are_bound_and_the_token_goes_with_the_port() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("token");
    for wrong in ["0.0.0.0:0", "[::]:0", "192.0.2.1:80"] {
        let error = Port::bind(wrong.parse().expect("an address"), &file, false);
        let error = error.expect_err(wrong).to_string();
        assert!(error.contains("other machines") && error.contains("ssh -L"), "{error}");
        assert!(!file.exists(), "no token without a port");
    }
    let mut open = Open::new();
    let file = open.file();
    assert!(file.exists());
    open.end();
    assert!(!file.exists());
}

#[test]
fn streams_deliver_and_end_with_the_server() {
    let mut open = Open::new();
    let (host, bearer) = (open.host(), open.bearer());
    let refused = open.ask("GET /v1/live/stream", &[&host]);
    assert!(refused.starts_with("HTTP/1.1 401 "), "{refused}");
    // More at the same moment than there are places for those who have said nothing yet.
    let mut streams: Vec<BufReader<TcpStream>> =
        (0..150).map(|_| open.send("GET /v1/live/stream", &[&host, &bearer])).collect();
    for stream in &mut streams {
        let mut line = String::new();
        while !line.contains("\"sequence\"") {
            line.clear();
            assert_ne!(stream.read_line(&mut line).expect("readable"), 0);
        }
        assert!(line.contains("\"device\":\"disk\""), "{line}");
    }
    open.end();
    for mut stream in streams {
        let mut rest = String::new();
        stream.read_to_string(&mut rest).expect("readable");
        assert!(rest.ends_with("\r\n0\r\n\r\n"), "cut off instead of ended: {rest}");
    }
}

/// Whether the kernel can be asked about TCP sockets, as `ss` does.
fn has_diag() -> bool {
    let listed = std::process::Command::new("ss").args(["-Htln"]).output();
    listed.is_ok_and(|listed| !listed.stdout.is_empty())
}

/// Runs as another user, in a thread of its own: only that thread is the other user's.
fn as_stranger<T: Send + 'static>(act: impl FnOnce() -> T + Send + 'static) -> T {
    let acting = thread::spawn(move || {
        let uid = Uid::from_raw(4_242);
        set_thread_res_uid(uid, uid, uid).expect("root may become anybody");
        act()
    });
    acting.join().expect("no panic")
}

#[test]
fn another_user_takes_no_place_of_the_owner_s() {
    if !rustix::process::geteuid().is_root() {
        return eprintln!("skipped: only root can be somebody else");
    }
    let open = Arc::new(Open::new());
    let (host, bearer) = (open.host(), open.bearer());
    let first_line = |mut stream: BufReader<TcpStream>| {
        let mut line = String::new();
        let _ = stream.read_line(&mut line);
        (line, stream)
    };
    // Somebody else who knows the token: he has some connections, and no more.
    let (of_stranger, head) = (Arc::clone(&open), [host.clone(), bearer.clone()]);
    let streams = as_stranger(move || {
        let head = [&*head[0], &*head[1]];
        // Streams stay; after any other answer the daemon closes, and the place is free again.
        let stream = || first_line(of_stranger.send("GET /v1/live/stream", &head));
        (0..48).map(|_| stream()).collect::<Vec<_>>()
    });
    let is_served = |line: &str| line.starts_with("HTTP/1.1 200 ");
    let served = streams.iter().filter(|(line, _)| is_served(line)).count();
    if served == 48 && !has_diag() {
        return eprintln!("skipped: this kernel does not say whose a connection is");
    }
    // A connection of which the kernel does not say it counts with others like it.
    assert!((16..=32).contains(&served), "his share: {served}");
    // He says nothing on a thousand more, while the owner asks.
    let address = open.address;
    let silent = as_stranger(move || {
        (0..1_000).map(|_| TcpStream::connect(address)).filter_map(Result::ok).collect::<Vec<_>>()
    });
    for _ in 0..5 {
        let answer = open.ask("GET /v1/status", &[&host, &bearer]);
        assert!(is_served(&answer), "{answer}");
    }
    drop((streams, silent));
    // His place is free again once the daemon has seen that he is gone.
    let asked = (Arc::clone(&open), [host, bearer]);
    as_stranger(move || {
        let (open, head) = asked;
        while !is_served(&open.ask("GET /v1/status", &[&head[0], &head[1]])) {
            thread::yield_now();
        }
    });
}
