//! The control socket in front of a stand-in device with a real engine and no disk.

mod contrib;
pub(super) mod fake;
mod groups;
mod live;
#[cfg(feature = "policies")]
mod loaded;
mod metrics;
mod openapi;
mod policies;

use super::Controlled;
use super::client::{Client, ClientError};
use super::server::Server;
use super::shared::BODY_BYTES_MAX;
use crate::api::{Action, Change, ExportReport, MountReport};
use crate::config::GroupConfig;
use crate::device::Device;
use crate::device_table::DeviceList;
use crate::groups::Groups;
use crate::live::{Hub, Live};
use fake::Fake;
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;
use tokio::sync::oneshot;

struct Subject(Vec<Arc<dyn Device>>, Arc<Groups>, Live);

impl Subject {
    fn new(devices: Vec<Arc<dyn Device>>) -> Subject {
        Subject::with_groups(devices, &[])
    }

    fn with_groups(devices: Vec<Arc<dyn Device>>, groups: &[GroupConfig]) -> Subject {
        let groups = Groups::start(groups, &[], devices.clone()).expect("good groups");
        let groups = Arc::new(groups);
        let live = Live::start(Arc::clone(&groups)).expect("a thread");
        Subject(devices, groups, live)
    }
}

impl Controlled for Subject {
    fn devices(&self) -> DeviceList {
        self.0.clone().into()
    }

    fn groups(&self) -> &Groups {
        &self.1
    }

    fn live(&self) -> &Arc<Hub> {
        self.2.hub()
    }

    fn exports(&self) -> Vec<ExportReport> {
        let (name, device, group) = ("disk".into(), "disk".into(), "/".into());
        vec![ExportReport { name, device, read_only: false, group }]
    }

    fn uris(&self) -> Vec<String> {
        vec!["nbd+unix:///disk?socket=/x".into()]
    }

    fn connections_count(&self) -> usize {
        2
    }

    fn memory_used_bytes(&self) -> u64 {
        0
    }

    fn mounts(&self) -> Vec<MountReport> {
        let (mountpoint, device) = ("/srv".into(), "disk".into());
        let (known_count, open_count, kept_count) = (30, 2, 1);
        let (waiting_count, passed_through_count) = (0, 400);
        vec![MountReport {
            rules: Vec::new(),
            group: "/".into(),
            cgroup_limits: "follow".into(),
            mountpoint,
            device,
            known_count,
            open_count,
            kept_count,
            waiting_count,
            passed_through_count,
        }]
    }
}

/// A control socket with a thread that serves it; ended by dropping.
struct Bench {
    directory: tempfile::TempDir,
    live: Arc<Hub>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Bench {
    fn new(devices: &[&str]) -> Bench {
        let directory = tempfile::tempdir().expect("a directory");
        let (live, stop, thread) = serve(&directory.path().join("iopace.ctl"), devices);
        Bench { directory, live, stop: Some(stop), thread: Some(thread) }
    }

    /// Starts another server in the place of the one that was ended.
    fn begin(&mut self, devices: &[&str]) {
        let (live, stop, thread) = serve(&self.path(), devices);
        (self.live, self.stop, self.thread) = (live, Some(stop), Some(thread));
    }

    fn end(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            thread.join().expect("ended well");
        }
    }

    fn path(&self) -> PathBuf {
        self.directory.path().join("iopace.ctl")
    }

    fn client(&self) -> Client {
        Client::new(self.path())
    }

    /// Sends bytes as they are and reads until the server closes.
    fn raw(&self, bytes: &[u8]) -> String {
        let mut stream = UnixStream::connect(self.path()).expect("connected");
        // The server may answer and close before it has read all of it.
        let _ = stream.write_all(bytes);
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        String::from_utf8(answer).expect("text")
    }

    fn post(&self, body: &str) -> String {
        self.raw(
            format!(
                "POST /v1/devices/disk/scheduler HTTP/1.1\r\nhost: x\r\ncontent-length: {}\r\n\r\n\
                 {body}",
                body.len()
            )
            .as_bytes(),
        )
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        self.end();
    }
}

fn serve(path: &Path, devices: &[&str]) -> (Arc<Hub>, oneshot::Sender<()>, JoinHandle<()>) {
    let server = Server::bind(path).expect("bound");
    let devices: Vec<_> = devices.iter().map(|name| Fake::device(name)).collect();
    let subject = Arc::new(Subject::new(devices));
    let live = Arc::clone(subject.live());
    let (stop, stopped) = oneshot::channel::<()>();
    let thread = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let until = async {
            let _ = stopped.await;
        };
        let run = server.run(subject, until);
        runtime.expect("a runtime").block_on(run).expect("served");
    });
    (live, stop, thread)
}

fn change(action: Action, algorithm: Option<&str>, set: &[(&str, u64)]) -> Change {
    let set = set.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect();
    Change { action, algorithm: algorithm.map(Into::into), set }
}

fn refusal<T: std::fmt::Debug>(result: Result<T, ClientError>) -> (u16, String, String) {
    match result {
        Err(ClientError::Refused { status, problem }) => (status, problem.error, problem.hint),
        other => panic!("not a refusal: {other:?}"),
    }
}

#[test]
fn status_and_devices_are_told() {
    let bench = Bench::new(&["disk", "other disk"]);
    let status = bench.client().status().expect("answered");
    assert_eq!(status.pid, std::process::id());
    assert_eq!(status.uris, ["nbd+unix:///disk?socket=/x"]);
    assert_eq!(status.connections_count, 2);
    let devices = bench.client().devices().expect("answered");
    assert_eq!(devices.len(), 2);
    let device = bench.client().device("other disk").expect("answered");
    assert_eq!((&*device.name, device.size_bytes), ("other disk", Some(1 << 30)));
    assert_eq!(device.scheduler.algorithm, "fifo");
    assert!(!device.scheduler.inserted);
    assert_eq!((device.cached_reads_count, device.buffered_writes_count), (3, 4));
}

#[test]
fn the_registry_is_told_with_bounds() {
    let bench = Bench::new(&["disk"]);
    let schedulers = bench.client().schedulers().expect("answered");
    let names: Vec<&str> = schedulers.iter().map(|spec| &*spec.name).collect();
    let registry: Vec<&str> =
        iopace_core::sched::REGISTRY.iter().map(|algorithm| algorithm.name).collect();
    assert!(names.starts_with(&registry), "{names:?}");
    let rr = schedulers.iter().find(|spec| spec.name == "rr").expect("rr");
    let wait = rr.params.iter().find(|param| param.name == "wait_ms").expect("wait_ms");
    assert!(wait.min <= wait.default && wait.default <= wait.max && !wait.doc.is_empty());
}

#[test]
fn a_change_is_read_back_as_it_is_in_force() {
    let bench = Bench::new(&["disk"]);
    let client = bench.client();
    let insert = change(Action::Insert, Some("rr"), &[("wait_ms", 5)]);
    let device = client.change("disk", &insert).expect("inserted");
    assert!(device.scheduler.inserted);
    assert_eq!(device.scheduler.algorithm, "rr");
    assert_eq!(device.scheduler.params["wait_ms"], 5);
    assert!(device.scheduler.params.contains_key("quantum_ms"));
    assert_eq!(device.hold_up.count, 1);

    // The same scheduler keeps what was set before, whether it is named or not.
    let set = change(Action::Configure, None, &[("quantum_ms", 77)]);
    let device = client.change("disk", &set).expect("set");
    assert_eq!(device.scheduler.params["wait_ms"], 5);
    assert_eq!(device.scheduler.params["quantum_ms"], 77);
    let set = change(Action::Configure, Some("rr"), &[("wait_ms", 6)]);
    let device = client.change("disk", &set).expect("set");
    assert_eq!(device.scheduler.params["wait_ms"], 6);
    assert_eq!(device.scheduler.params["quantum_ms"], 77);

    let exchange = change(Action::Configure, Some("elevator"), &[]);
    let device = client.change("disk", &exchange).expect("exchanged");
    assert_eq!(device.scheduler.algorithm, "elevator");

    let device = client.change("disk", &change(Action::Destroy, None, &[])).expect("destroyed");
    assert!(!device.scheduler.inserted);
    assert_eq!(device.scheduler.algorithm, "fifo");
    let events = client.events().expect("answered");
    assert!(events.iter().any(|event| event.text.contains("rr exchanged for elevator")));
    assert!(events.windows(2).all(|pair| pair[0].age_ns >= pair[1].age_ns));
}

#[test]
fn a_refused_change_says_what_would_be_right_and_changes_nothing() {
    let bench = Bench::new(&["disk", "data"]);
    let client = bench.client();
    let insert = change(Action::Insert, Some("rr"), &[("wait_ms", 31)]);
    let (status, error, hint) = refusal(client.change("disk", &insert));
    assert_eq!(status, 400);
    assert!(error.starts_with("scheduler 'rr': wait_ms=31 is out of bounds: "), "{error}");
    assert!(hint.contains("sched list"), "{hint}");
    assert!(!client.device("disk").expect("answered").scheduler.inserted);

    let unknown = change(Action::Insert, Some("cfq"), &[]);
    let (status, error, hint) = refusal(client.change("disk", &unknown));
    assert_eq!((status, &*error), (400, "there is no scheduler 'cfq'"));
    assert!(hint.contains("fifo") && hint.contains("rr"), "{hint}");

    let (status, ..) = refusal(client.change("disk", &change(Action::Insert, None, &[])));
    assert_eq!(status, 400);
    let (status, error, _) = refusal(client.change("disk", &change(Action::Destroy, None, &[])));
    assert_eq!((status, &*error), (409, "device 'disk' has no scheduler inserted"));
    let configure = change(Action::Configure, None, &[("wait_ms", 3)]);
    assert_eq!(refusal(client.change("disk", &configure)).0, 409);

    client.change("disk", &change(Action::Insert, Some("rr"), &[])).expect("inserted");
    let again = change(Action::Insert, Some("elevator"), &[]);
    let (status, error, hint) = refusal(client.change("disk", &again));
    assert_eq!((status, &*error), (409, "device 'disk' has scheduler 'rr' inserted already"));
    assert!(hint.contains("configure -a"), "{hint}");
    let wrong = change(Action::Destroy, Some("rr"), &[]);
    assert_eq!(refusal(client.change("disk", &wrong)).0, 400);
    assert_eq!(client.device("disk").expect("answered").scheduler.algorithm, "rr");

    let (status, error, hint) = refusal(client.device("disc"));
    assert_eq!((status, &*error), (404, "there is no device 'disc'"));
    assert_eq!(hint, "there are: disk, data");
}

#[test]
fn hostile_requests_are_refused_and_the_next_one_is_served() {
    let bench = Bench::new(&["disk"]);
    let set = |value: &str| {
        bench
            .post(&format!(r#"{{"action":"insert","algorithm":"rr","set":{{"wait_ms":{value}}}}}"#))
    };
    let get = |path: &str| bench.raw(format!("GET {path} HTTP/1.1\r\nhost: x\r\n\r\n").as_bytes());
    let cases = [
        (bench.post(r#"{"action":"insert","algorithm":"rr","sett":{}}"#), " 400 ", "sett"),
        (bench.post(r#"{"action":"explode"}"#), " 400 ", "explode"),
        (set("-1"), " 400 ", "-1"),
        (set("99999999999999999999999"), " 400 ", "hint"),
        (set("null"), " 400 ", "null"),
        (bench.post(&"[".repeat(60_000)), " 400 ", "hint"),
        (bench.post(""), " 400 ", "hint"),
        (bench.post(&" ".repeat(BODY_BYTES_MAX + 1)), " 413 ", "65536"),
        (get("/v2/status"), " 404 ", "/v1/status"),
        (get("/v1/devices/%ff"), " 400 ", "hint"),
        (get("/v1/devices/..%2f"), " 404 ", "there are: disk"),
        (bench.raw(b"DELETE /v1/devices HTTP/1.1\r\nhost: x\r\n\r\n"), " 405 ", "hint"),
        (bench.raw(b"NBDMAGICIHAVEOPT\r\n\r\n"), " 400 ", ""),
    ];
    for (answer, status, text) in cases {
        let first = answer.lines().next().unwrap_or_default();
        assert!(first.contains(status), "{status}: {answer}");
        assert!(answer.contains(text), "{text}: {answer}");
    }
    let long = format!("GET /{} HTTP/1.1\r\nhost: x\r\n\r\n", "a".repeat(1 << 20));
    let answer = bench.raw(long.as_bytes());
    assert!(!answer.contains(" 200 "), "{answer}");
    bench.client().status().expect("still served");
}

#[test]
fn silent_clients_do_not_keep_others_out() {
    let bench = Bench::new(&["disk"]);
    let silent: Vec<UnixStream> =
        (0..200).map(|_| UnixStream::connect(bench.path()).expect("connected")).collect();
    bench.client().status().expect("served beside them");
    // Those that came first have gone for those that came last.
    for mut gone in &silent[..100] {
        assert_eq!(gone.read(&mut [0]).expect("closed"), 0);
    }
}

#[test]
fn the_socket_is_private_and_leaves_nothing() {
    let bench = Bench::new(&["disk"]);
    let (path, directory) = (bench.path(), bench.directory.path().to_owned());
    let mode = std::fs::metadata(&path).expect("there").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);

    let error = Server::bind(&path).expect_err("busy");
    assert_eq!(
        error.to_string(),
        format!(
            "{}: a daemon is controlled there already (pid {}); stop it, choose another \
             --control, or say --no-control",
            path.display(),
            std::process::id()
        )
    );
    bench.client().status().expect("not disturbed");
    drop(bench);
    assert!(!path.exists() && !directory.exists());
}

#[test]
fn a_stale_socket_is_replaced_and_a_foreign_one_is_not_removed() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("iopace.ctl");
    drop(std::os::unix::net::UnixListener::bind(&path).expect("bound"));
    assert!(path.exists(), "stale");
    let first = Server::bind(&path).expect("replaced");
    // Somebody else has taken the place meanwhile.
    std::fs::remove_file(&path).expect("removed");
    let second = std::os::unix::net::UnixListener::bind(&path).expect("bound");
    drop(first);
    assert!(path.exists(), "not ours to remove");
    drop(second);

    std::fs::remove_file(&path).expect("removed");
    std::fs::write(&path, "precious").expect("written");
    let error = Server::bind(&path).expect_err("a file");
    assert!(error.to_string().contains("not a socket"), "{error}");
    assert_eq!(std::fs::read_to_string(&path).expect("read"), "precious");
}

#[test]
fn without_a_daemon_the_client_says_how_to_start_one() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("iopace.ctl");
    let error = Client::new(&path).status().expect_err("nobody");
    assert_eq!(
        error.to_string(),
        format!(
            "no daemon listens at {}: start one with 'iopace serve FILE' or 'iopace mount \
             DIR', or name its socket with --control",
            path.display()
        )
    );
    drop(std::os::unix::net::UnixListener::bind(&path).expect("bound"));
    let error = Client::new(&path).status().expect_err("stale");
    assert!(matches!(error, ClientError::NoDaemon(_)), "{error}");
}
