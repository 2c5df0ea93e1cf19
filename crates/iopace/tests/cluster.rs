//! Two hosts of one volume with Debian's etcd. What depends on rates is in `scripts/cluster.sh`.

mod common;

use common::load::Reader;
use common::{Place, Serving, until};
use rustix::process::Signal;
use serde_json::Value;
use std::fs::File;
use std::net::TcpListener;
use std::process::{Child, Command, Stdio};

/// The limit of both together, in bytes a second.
const LIMIT: u64 = 8 << 20;

/// A member of etcd; killed when dropped.
struct Etcd {
    child: Option<Child>,
    url: String,
    peer: String,
}

impl Etcd {
    /// `None`, said aloud, where there is none.
    fn start(place: &Place) -> Option<Etcd> {
        if Command::new("etcd").arg("--version").stdout(Stdio::null()).status().is_err() {
            eprintln!("skipped: etcd is not installed (Debian: etcd-server)");
            return None;
        }
        let [url, peer] = [(), ()].map(|()| {
            let free = TcpListener::bind("127.0.0.1:0").expect("a port");
            format!("http://{}", free.local_addr().expect("bound"))
        });
        let mut etcd = Etcd { child: None, url, peer };
        etcd.run(place);
        Some(etcd)
    }

    fn run(&mut self, place: &Place) {
        let Etcd { url, peer, .. } = self;
        let log = File::create(place.path("etcd.log")).expect("a log");
        let mut command = Command::new("etcd");
        command.arg("--data-dir").arg(place.path("etcd")).args(["--name", "a"]);
        command.args(["--listen-client-urls", url, "--advertise-client-urls", url]);
        command.args(["--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer]);
        command.arg("--initial-cluster").arg(format!("a={peer}")).env("ETCD_UNSAFE_NO_FSYNC", "1");
        let child = command.stdout(Stdio::null()).stderr(log).spawn().expect("started");
        self.child = Some(child);
        let address = url.trim_start_matches("http://").to_owned();
        until("etcd listens", || std::net::TcpStream::connect(&address).is_ok());
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
    let (url, control) = (&etcd.url, place.path(&format!("{name}.ctl")));
    let socket = place.path(&format!("{name}.sock"));
    let config = format!(
        "socket = \"{}\"\ncontrol = \"{}\"\n\
         [cluster]\netcd = [\"{url}\"]\nhost = \"{name}\"\nhosts = 4\nstate = \"{name}.state\"\n\
         [[device]]\nname = \"disk\"\nemulate = \"null\"\ndirect = true\nvolume = \"pool\"\n\
         [[export]]\nname = \"disk\"\ndevice = \"disk\"\ngroup = \"/vms\"\n[group.\"/vms\"]\n",
        socket.display(),
        control.display()
    );
    place.write(&format!("{name}.toml"), &config);
    place.serve(&["--config", &format!("{name}.toml")])
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
    let ran = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| host(&place, &etcd, "c")));
    let told = *ran.err().expect("it knows nothing").downcast::<String>().expect("text");
    assert!(told.contains("nothing is known of the volume 'pool'"), "{told}");
    let ran = cluster(&place, "a", &set);
    assert!(ran.status == Some(1) && ran.error.contains("the store does not do it"), "{ran:?}");

    // Back.
    etcd.run(&place);
    until("a has most of it again", || allowed(&place, "a") > LIMIT / 10 * 8);
    let events = cluster(&place, "a", &["cluster", "events"]).out;
    assert!(events.contains("all is well again"), "{events}");
    drop(reads);
    let ran = cluster(&place, "a", &["cluster", "forget", "b"]);
    assert!(ran.error.contains("'b' is there"), "{ran:?}");
    b.end_by(Signal::TERM);
    let ran = cluster(&place, "a", &["cluster", "forget", "b"]);
    assert_eq!(ran.out, "b: its place is free\n", "{ran:?}");
    let ran = cluster(&place, "a", &["group", "set", "--cluster", "/vms", "io.max", "pool max"]);
    assert_eq!(ran.status, Some(0), "{ran:?}");
    assert_eq!(volume(&place, "a")["limits"], serde_json::json!([]));
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
}
