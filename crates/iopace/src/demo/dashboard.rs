//! `iopace demo --dashboard`: a backup that takes the disk from a database, and a page on which to
//! put that right.
//!
//! The disk is one of 7200 rpm without a scheduler but the elevator of its driver, and its window
//! is fixed: as a kernel has it that was told nothing. The clients are real, and go on until the
//! demo is ended. The database has the disk for itself at first: the page compares with that.

use super::load::Client;
use super::{Args, DEVICE, FILE_LEN, Format, no_scheduler};
use crate::output::{note, note_over, print};
use crate::units::shell_word;
use iopace_core::request::Extent;
use iopace_core::time::Nanos;
use iopace_core::units::Bytes;
use iopace_core::window;
use iopace_daemon::config::{Backend, DaemonConfig, DeviceConfig, GroupConfig, Listen};
use iopace_daemon::control::{self, Controlled, Port, Ports, Server};
use iopace_daemon::daemon::Daemon;
use iopace_sim::tables::geom;
use iopace_sim::task::{Task, TaskKind};
use serde::Serialize;
use std::io::{self, IsTerminal};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};
use tokio::sync::oneshot;

/// The groups: who suffers, and from whom.
const DATABASE: &str = "/database";
const BACKUP: &str = "/backup";

/// Readers of the database, and what each thinks between two reads.
const READERS: u64 = 4;
const THINK: Nanos = Nanos::from_millis(2);

/// Writers of the backup.
const WRITERS: u64 = 2;

/// The backup begins so long after the database.
const ALONE: Duration = Duration::from_secs(8);

/// How often the line of figures is written anew.
const TICK: Duration = Duration::from_secs(1);

/// Where the demo is to be seen, for programs.
#[derive(Serialize)]
struct Doors {
    url: String,
    control: String,
}

/// Runs until `stop`.
///
/// # Errors
/// A message for the user.
pub fn run(args: &Args, folder: &Path, stop: &Arc<AtomicBool>) -> Result<(), String> {
    let shown = |error: &dyn std::fmt::Display| format!("the demo's daemon: {error}");
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, args.http));
    let port = Port::bind(address, &folder.join("token"), false).map_err(|e| shown(&e))?;
    let control_path = folder.join("ctl");
    let server = Server::bind(&control_path).map_err(|error| shown(&error))?;
    let doors = Doors { url: port.url(true), control: control_path.display().to_string() };
    let socket = folder.join("disk.sock");
    let daemon = start(&socket).map_err(|error| shown(&error))?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| shown(&error))?;
    let (end, ended) = oneshot::channel::<()>();
    let subject: Arc<dyn Controlled> = Arc::<Daemon>::clone(&daemon);
    let serve = move || {
        let ended = async { drop(ended.await) };
        let ports = Ports { api: Some(port), ..Ports::default() };
        runtime.block_on(control::run(subject, Some(server), ports, ended))
    };
    let serving = thread::Builder::new().name("control".into()).spawn(serve);
    let result = serving.map_err(|error| shown(&error)).and_then(|serving| {
        let result = welcome(args, &doors).and_then(|()| {
            let played = play(&socket, stop);
            played.map_err(|error| format!("a client of the demo failed: {error}"))
        });
        drop(end);
        let served = serving.join().map_err(|_| "the control thread panicked".to_owned())?;
        served.map_err(|error| shown(&error))?;
        result
    });
    daemon.shutdown();
    result
}

fn start(socket: &Path) -> Result<Arc<Daemon>, iopace_daemon::daemon::StartError> {
    let backend =
        Backend::Emulated { model: geom::DISK.to_owned(), store: None, size: None, cache: None };
    let device = DeviceConfig {
        window: &window::fixed::POLICY,
        scheduler: Some(no_scheduler()),
        ..DeviceConfig::new(DEVICE, backend)
    };
    let group = |path: &str| GroupConfig { path: path.into(), files: Vec::new() };
    Daemon::start(DaemonConfig {
        devices: vec![device],
        groups: vec![group(DATABASE), group(BACKUP)],
        listen: vec![Listen::Unix(socket.to_path_buf())],
        ..DaemonConfig::default()
    })
}

fn welcome(args: &Args, doors: &Doors) -> Result<(), String> {
    let Doors { url, control } = doors;
    if args.format == Format::Json {
        return print(&(serde_json::to_string(doors).expect("two strings") + "\n"))
            .map_err(|failure| failure.message);
    }
    let typed = shell_word(control);
    let text = format!(
        "A database in group {DATABASE} reads from a disk of 7200 rpm, and a backup writes to it \
         after {} seconds.\n\
         Watch why the reads wait, and put it right while both run:\n\n    {url}\n\n\
         Each of these does, on the page or from another terminal:\n\
         \x20 scheduler fair        iopace sched configure -a fair {DEVICE} --control {typed}\n\
         \x20 window latency        iopace window configure -a latency {DEVICE} \
         --control {typed}\n\
         \x20 a limit for {BACKUP}   iopace group set {BACKUP} io.max 'default wbps=10MB' \
         --control {typed}\n\nEnd: Ctrl-C\n\n",
        ALONE.as_secs()
    );
    print(&text).map_err(|failure| failure.message)
}

/// The clients at work, and a line of what they get.
fn play(socket: &Path, stop: &Arc<AtomicBool>) -> io::Result<()> {
    let piece = |place: u64, len: Bytes| {
        let offset = Bytes(place * FILE_LEN.get());
        Extent::new(offset, len).expect("far below 2^64")
    };
    let reader = |number: u64| Task {
        block: Bytes::from_kib(8),
        think: THINK,
        ..Task::new(&format!("reader {number}"), TaskKind::Random, piece(16 + number, FILE_LEN))
    };
    let writer = |number: u64| {
        Task::new(&format!("writer {number}"), TaskKind::DdWrite, piece(number, FILE_LEN))
    };
    let connect =
        |group: &str, task: Task| Client::start(socket, &format!("{DEVICE}@{group}"), &task, stop);
    let readers = (0..READERS).map(|number| connect(DATABASE, reader(number)));
    let readers = readers.collect::<io::Result<Vec<Client>>>()?;
    let mut writers: Vec<Client> = Vec::new();
    let is_told = io::stderr().is_terminal();
    let began = Instant::now();
    let mut next = began;
    while !stop.load(Relaxed) {
        next += TICK;
        while !stop.load(Relaxed) && Instant::now() < next {
            thread::sleep(Duration::from_millis(50));
        }
        if let Some(error) = readers.iter().chain(&writers).find_map(Client::failure) {
            return Err(error);
        }
        let line = figures(&readers, &writers);
        if writers.is_empty() && began.elapsed() >= ALONE {
            let begun = (0..WRITERS).map(|number| connect(BACKUP, writer(number)));
            writers = begun.collect::<io::Result<Vec<Client>>>()?;
        }
        if is_told {
            note_over(format_args!("{line}"));
        }
    }
    if is_told {
        note(format_args!(""));
    }
    readers.into_iter().chain(writers).try_for_each(Client::finish)
}

/// What both got since the last line.
fn figures(readers: &[Client], writers: &[Client]) -> String {
    let mut latencies = iopace_core::stats::Histogram::default();
    let mut reads_count = 0;
    for client in readers {
        let seen = client.take();
        reads_count += seen.count;
        latencies.merge(&seen.latencies);
        client.waiting().into_iter().for_each(|time| latencies.record(time));
    }
    let bytes: u64 = writers.iter().map(|client| client.take().bytes).sum();
    let p99_ms = latencies.quantile(990).as_nanos() / 1_000_000;
    let mb_s = bytes / 1_000_000;
    format!("{DATABASE} {reads_count} reads/s, p99 {p99_ms} ms   {BACKUP} {mb_s} MB/s")
}
