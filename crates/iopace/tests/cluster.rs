//! Two hosts of one volume with Debian's etcd. What depends on rates is in `scripts/cluster.sh`.

mod common;

use common::load::Reader;
use common::{Place, Serving, until};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use rustix::process::Signal;
use serde_json::{Value, json};
use std::fs::{File, Permissions};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::process::{Child, Command, Stdio};

/// The limit of both together, in bytes a second.
const LIMIT: u64 = 8 << 20;

/// A member of etcd; killed when dropped.
struct Etcd {
    child: Option<Child>,
    /// Its address and port, for clients.
    at: String,
    peer: String,
    is_encrypted: bool,
}

impl Etcd {
    /// `None`, said aloud, where there is none.
    fn start(place: &Place) -> Option<Etcd> {
        if Command::new("etcd").arg("--version").stdout(Stdio::null()).status().is_err() {
            eprintln!("skipped: etcd is not installed (Debian: etcd-server)");
            return None;
        }
        let [at, peer] = [(), ()].map(|()| {
            let free = TcpListener::bind("127.0.0.1:0").expect("a port");
            free.local_addr().expect("bound").to_string()
        });
        let mut etcd = Etcd { child: None, at, peer, is_encrypted: false };
        etcd.run(place);
        Some(etcd)
    }

    fn url(&self) -> String {
        format!("{}://{}", if self.is_encrypted { "https" } else { "http" }, self.at)
    }

    fn run(&mut self, place: &Place) {
        let (url, peer) = (&self.url(), &format!("http://{}", self.peer));
        let log = File::create(place.path("etcd.log")).expect("a log");
        let mut command = Command::new("etcd");
        command.arg("--data-dir").arg(place.path("etcd")).args(["--name", "a"]);
        command.args(["--listen-client-urls", url, "--advertise-client-urls", url]);
        command.args(["--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer]);
        command.arg("--initial-cluster").arg(format!("a={peer}")).env("ETCD_UNSAFE_NO_FSYNC", "1");
        if self.is_encrypted {
            command.arg("--client-cert-auth");
            for (word, file) in
                [("cert", "etcd.pem"), ("key", "etcd-key.pem"), ("trusted-ca", "ca.pem")]
            {
                command.arg(format!("--{word}-file")).arg(place.path(file));
            }
        }
        let child = command.stdout(Stdio::null()).stderr(log).spawn().expect("started");
        self.child = Some(child);
        let log = place.path("etcd.log");
        until("etcd answers", || {
            let told = std::fs::read_to_string(&log).unwrap_or_default();
            told.contains("ready to serve") && TcpStream::connect(&self.at).is_ok()
        });
    }

    /// A question to its gateway, as long as that is not encrypted.
    fn ask(&self, path: &str, question: &Value) {
        let text = question.to_string();
        let mut stream = TcpStream::connect(&self.at).expect("it listens");
        let (at, length) = (&self.at, text.len());
        let head = format!("Host: {at}\r\nContent-Length: {length}\r\nConnection: close");
        write!(stream, "POST /v3/{path} HTTP/1.1\r\n{head}\r\n\r\n{text}").expect("sent");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("answered");
        assert!(answer.starts_with("HTTP/1.1 200"), "{path}: {answer}");
    }

    /// From now on it knows users: `iopace`, who may do as he likes below `iopace/`.
    fn know_users(&self) {
        for user in ["root", "iopace"] {
            self.ask("auth/user/add", &json!({"name": user, "password": "secret"}));
            self.ask("auth/role/add", &json!({"name": user}));
            self.ask("auth/user/grant", &json!({"user": user, "role": user}));
        }
        // `iopace/` to `iopace0`, in base64.
        let range =
            json!({"permType": "READWRITE", "key": "aW9wYWNlLw==", "range_end": "aW9wYWNlMA=="});
        self.ask("auth/role/grant", &json!({"name": "iopace", "perm": range}));
        self.ask("auth/enable", &json!({}));
    }

    fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().expect("killed");
            child.wait().expect("ended");
        }
    }
}

impl Drop for Etcd {
    fn drop(&mut self) {
        self.kill();
    }
}

/// A daemon that is a host of the volume `pool`.
fn host(place: &Place, etcd: &Etcd, name: &str) -> Serving {
    place.serve(&["--config", &config(place, (etcd, name), "")])
}

/// The configuration of a host, with more lines for `[cluster]`.
fn config(place: &Place, (etcd, name): (&Etcd, &str), more: &str) -> String {
    let (url, control) = (etcd.url(), place.path(&format!("{name}.ctl")));
    let socket = place.path(&format!("{name}.sock"));
    let config = format!(
        "socket = \"{}\"\ncontrol = \"{}\"\n\
         [cluster]\netcd = [\"{url}\"]\nhost = \"{name}\"\nhosts = 4\nstate = \"{name}.state\"\n\
         {more}[[device]]\nname = \"disk\"\nemulate = \"null\"\ndirect = true\nvolume = \"pool\"\n\
         [[export]]\nname = \"disk\"\ndevice = \"disk\"\ngroup = \"/vms\"\n[group.\"/vms\"]\n",
        socket.display(),
        control.display()
    );
    let file = format!("{name}.toml");
    place.write(&file, &config);
    file
}

/// A file that nobody else reads.
fn secret(place: &Place, name: &str, text: &str) {
    place.write(name, text);
    std::fs::set_permissions(place.path(name), Permissions::from_mode(0o600)).expect("set");
}

/// Certificates of one authority: of etcd, of a host, and of a host with a name.
fn certificates(place: &Place) {
    let params = |name: Option<&str>| {
        let mut params = CertificateParams::new(["127.0.0.1".to_owned()]).expect("an address");
        params.distinguished_name = rcgen::DistinguishedName::new();
        if let Some(name) = name {
            params.distinguished_name.push(DnType::CommonName, name);
        }
        params
    };
    let mut authority = params(Some("authority"));
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = CertifiedIssuer::self_signed(authority, KeyPair::generate().expect("a key"));
    let authority = authority.expect("signed");
    place.write("ca.pem", &authority.pem());
    for (file, name) in [("etcd", Some("etcd")), ("host", None), ("named", Some("host"))] {
        let key = KeyPair::generate().expect("a key");
        let signed = params(name).signed_by(&key, &authority).expect("signed");
        place.write(&format!("{file}.pem"), &signed.pem());
        secret(place, &format!("{file}-key.pem"), &key.serialize_pem());
    }
}

fn cluster(place: &Place, name: &str, words: &[&str]) -> common::Ran {
    let control = place.path(&format!("{name}.ctl"));
    let control = control.to_str().expect("text");
    place.run(&[words, &["--control", control]].concat())
}

fn volume(place: &Place, name: &str) -> Value {
    let told = cluster(place, name, &["cluster", "status", "--format", "json"]).json();
    told["volumes"][0].clone()
}

fn allowed(place: &Place, name: &str) -> u64 {
    volume(place, name)["limits"][0]["allowed"].as_u64().unwrap_or(0)
}

#[test]
fn a_limit_holds_for_two_hosts_and_in_the_dark() {
    let place = Place::new();
    let Some(mut etcd) = Etcd::start(&place) else { return };
    let (a, b) = (host(&place, &etcd, "a"), host(&place, &etcd, "b"));
    let line = format!("pool rbps={LIMIT}");
    let set = ["group", "set", "--cluster", "/vms", "io.max", &line];
    let ran = cluster(&place, "a", &set);
    assert_eq!(ran.out, "/vms: io.max is set for all hosts\n", "{ran:?}");
    until("b has its part", || allowed(&place, "b") > 0);

    // Who wants it has nearly all, and both have halves.
    let reads = Reader::new(&a, "disk", 64 << 10);
    until("a has most of it", || allowed(&place, "a") > LIMIT / 10 * 8);
    let others = Reader::new(&b, "disk", 64 << 10);
    let is_half = |name: &str| (LIMIT / 10 * 4..LIMIT / 10 * 6).contains(&allowed(&place, name));
    until("both have halves", || is_half("a") && is_half("b"));
    let told = cluster(&place, "b", &["cluster", "hosts"]).out;
    assert!(told.contains("pool") && told.contains("rbps"), "{told}");
    says_what_holds_for_all(&place);

    // In the dark: the grant until the session ends, then the static part, and it says so.
    etcd.kill();
    let each = LIMIT / 20 / 4;
    until("a is in the dark", || allowed(&place, "a") == each);
    let told = cluster(&place, "a", &["cluster", "status"]).out;
    assert!(told.contains("the store is not reached for"), "{told}");
    assert_eq!(volume(&place, "a")["limits"][0]["in_the_dark"].as_u64(), Some(each));
    // One that starts in the dark goes by what it knows; a new one does not start.
    drop(others);
    b.end_by(Signal::TERM);
    let b = host(&place, &etcd, "b");
    assert_eq!(allowed(&place, "b"), each);
    let told = cluster(&place, "b", &["cluster", "status"]).out;
    assert!(told.contains("2 hosts are known from before, 4 have places"), "{told}");
    assert!(told.contains("limits: the static part;"), "{told}");
    let told = cluster(&place, "b", &["cluster", "hosts"]).out;
    assert!(told.contains("not seen since this daemon was started"), "{told}");
    let ran = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| host(&place, &etcd, "c")));
    let told = *ran.err().expect("it knows nothing").downcast::<String>().expect("text");
    assert!(told.contains("nothing is known of the volume 'pool'"), "{told}");
    let ran = cluster(&place, "a", &set);
    assert!(ran.status == Some(1) && ran.error.contains("etcd is not reached: http"), "{ran:?}");

    // Back.
    etcd.run(&place);
    until("a has most of it again", || allowed(&place, "a") > LIMIT / 10 * 8);
    drop(reads);
    is_forgotten_and_reset(&place, b);
    a.end_by(Signal::TERM);
}

/// Host b says what is set for all, and warns of what breaks it.
fn says_what_holds_for_all(place: &Place) {
    let of_device = ["group", "get", "/vms", "io.max", "--device", "disk"];
    for words in [&["group", "get", "/vms"][..], &of_device] {
        let told = cluster(place, "b", words).out;
        assert!(told.contains(&format!("rbps={LIMIT}")), "{words:?}: {told}");
        assert!(told.contains("for all hosts of"), "{words:?}: {told}");
    }
    let ran = cluster(place, "b", &["group", "remove", "/vms"]);
    assert!(ran.error.contains("io.max is set for it on all hosts"), "{ran:?}");
    let ran = cluster(place, "b", &["window", "configure", "-a", "fixed", "disk"]);
    assert!(ran.error.contains("the other hosts of volume pool are unknown"), "{ran:?}");
    let ran = cluster(place, "b", &["window", "configure", "-a", "latency", "disk"]);
    assert!(ran.status == Some(0) && ran.error.is_empty(), "{ran:?}");
    let ran = cluster(place, "b", &["cluster", "forget", "b", "--volume", "pol"]);
    assert!(ran.error.contains("there is no volume 'pol'; there are: pool"), "{ran:?}");
}

/// A host that is forgotten by host a, and a limit that is removed.
fn is_forgotten_and_reset(place: &Place, b: Serving) {
    let events = cluster(place, "a", &["cluster", "events"]).out;
    assert!(events.contains("all is well again"), "{events}");
    let is_b = |host: &Value| host["host"] == "b" && host["is_there"] == true;
    let hosts = || volume(place, "a")["hosts"].as_array().cloned().unwrap_or_default();
    until("b is back", || hosts().iter().any(is_b));
    let ran = cluster(place, "a", &["cluster", "forget", "b"]);
    assert!(ran.error.contains("'b' is there"), "{ran:?}");
    b.end_by(Signal::TERM);
    let ran = cluster(place, "a", &["cluster", "forget", "b"]);
    assert!(ran.out.contains("b: its place is free\n") && ran.out.contains("end it"), "{ran:?}");
    let forgotten = "host b is forgotten";
    until("that is told", || cluster(place, "a", &["cluster", "events"]).out.contains(forgotten));
    let ran = cluster(place, "a", &["group", "set", "--cluster", "/vms", "io.max", "pool max"]);
    assert_eq!(ran.status, Some(0), "{ran:?}");
    assert_eq!(volume(place, "a")["limits"], serde_json::json!([]));
}

#[test]
fn etcd_may_want_certificates_and_a_password() {
    let place = Place::new();
    let Some(mut etcd) = Etcd::start(&place) else { return };
    etcd.know_users();
    etcd.kill();
    certificates(&place);
    etcd.is_encrypted = true;
    etcd.run(&place);
    secret(&place, "password", "secret\n");
    secret(&place, "another", "wrong\n");
    let with = |certificate: &str, password: &str| {
        format!(
            "ca = \"ca.pem\"\ncert = \"{certificate}.pem\"\nkey = \"{certificate}-key.pem\"\n\
             user = \"iopace\"\npassword-file = \"{password}\"\n"
        )
    };
    for (name, more, why) in [
        ("b", with("named", "password"), "a CommonName: give this host one without"),
        ("c", with("host", "another"), "invalid user ID or password"),
        // In TLS 1.3 the server has closed before its reason is read, or not: any error will do.
        ("d", "ca = \"ca.pem\"\n".to_owned(), "etcd is not reached: https://127.0.0.1"),
    ] {
        let ran = place.run(&["serve", "--config", &config(&place, (&etcd, name), &more)]);
        assert!(ran.status == Some(1) && ran.error.contains(why), "{name}: {ran:?}");
    }
    let a = place.serve(&["--config", &config(&place, (&etcd, "a"), &with("host", "password"))]);
    let line = format!("pool rbps={LIMIT}");
    let ran = cluster(&place, "a", &["group", "set", "--cluster", "/vms", "io.max", &line]);
    assert_eq!(ran.status, Some(0), "{ran:?}");
    until("it has its part", || allowed(&place, "a") > 0);
    a.end_by(Signal::TERM);
}

#[test]
fn a_daemon_without_a_cluster_says_how_to_have_one() {
    let place = Place::new();
    let serving = place.serve(&["disk.img"]);
    let ran = place.run(&["cluster", "status"]);
    assert!(ran.error.contains("[cluster]") && ran.error.contains("volume"), "{ran:?}");
    serving.end_by(Signal::TERM);
    place.write("x.toml", "[cluster]\netcd = [\"http://127.0.0.1:1\"]\n[[device]]\nfile = \"a\"\n");
    let ran = place.run(&["config", "check", "x.toml"]);
    assert!(ran.error.contains("no device is a part of a volume"), "{ran:?}");
    place.write("x.toml", "[[device]]\nfile = \"a\"\nvolume = \"pool\"\n");
    let ran = place.run(&["config", "check", "x.toml"]);
    assert!(ran.error.contains("add a [cluster] table"), "{ran:?}");
    let etcd = "[cluster]\netcd = [\"http://127.0.0.1:1\"]\n";
    let device = "[[device]]\nfile = \"a\"\nvolume = \"pool\"\nwindow-policy = \"fixed\"\n";
    place.write("x.toml", &format!("{etcd}{device}"));
    let ran = place.run(&["config", "check", "x.toml"]);
    assert!(ran.status == Some(0) && ran.error.contains("of volume pool are unknown"), "{ran:?}");
    place.write("x.toml", &etcd.replace(['[', ']'], "").replace("cluster", "[cluster]"));
    let ran = place.run(&["config", "check", "x.toml"]);
    assert!(ran.error.contains("a list in brackets is meant"), "{ran:?}");
}
