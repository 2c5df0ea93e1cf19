//! `iopace demo`: the effect of a scheduler, seen in a minute on any machine.
//!
//! A daemon with an emulated SATA disk runs inside this process. Clients connect to it over real
//! NBD sockets and do what the programs of the geom_sched measurements did: one `dd`, one `cvs
//! update`. Half-way through each mix the scheduler is put in under them; nobody stops. The
//! requests are drawn from the simulator's own workloads, so the live figures stand beside the
//! simulated ones.

mod dashboard;
mod load;
mod show;

use crate::scheduler_words::schedulers_and;
use crate::units;
use iopace_core::engine::Control;
use iopace_core::pace;
use iopace_core::request::Extent;
use iopace_core::sched::{self, Changes, elevator};
use iopace_core::units::Bytes;
use iopace_core::window;
use iopace_daemon::config::{Backend, DaemonConfig, DeviceConfig, Listen};
use iopace_daemon::daemon::Daemon;
use iopace_sim::milli::Milli;
use iopace_sim::tables::geom;
use iopace_sim::task::{Task, TaskKind};
use load::{Client, Seen};
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

/// How often the clients' counters are read: a column of the chart.
const TICK: Duration = Duration::from_millis(500);

/// The device, and its export.
const DEVICE: &str = "disk";

/// What counts in no figure after a start or an exchange, in ticks: caches fill, queues empty.
const SETTLE_TICKS: usize = 2;

/// The file of the writing `dd`: smaller than in the simulator, as its data is really kept in
/// memory.
const FILE_LEN: Bytes = Bytes::from_mib(1024);

/// Arguments of `iopace demo`.
#[derive(clap::Args, Clone, Debug)]
pub struct Args {
    /// Show a noisy neighbour on the dashboard, for you to put right in a browser
    #[arg(long, conflicts_with_all = ["row", "sched", "seconds"])]
    pub dashboard: bool,
    /// Port of the dashboard on this machine; 0: any that is free
    #[arg(long, default_value_t = 0, value_name = "PORT", requires = "dashboard")]
    #[arg(value_parser = units::whole::<u16>(0..=u64::from(u16::MAX)))]
    pub http: u16,
    /// Which program runs beside cvs
    #[arg(long, value_enum, default_value_t = Row::Both)]
    pub row: Row,
    /// The scheduler that is put in, or the file of a policy (./mine.wasm)
    #[arg(long, default_value = "rr", value_name = "NAME", value_parser = schedulers_and(&[]))]
    #[arg(hide_possible_values = true)]
    pub sched: String,
    /// Seconds of each measurement without and with the scheduler
    #[arg(long, default_value_t = 8, value_parser = units::whole::<u64>(3..=600))]
    pub seconds: u64,
    /// How the result is printed
    #[arg(long, value_enum, default_value_t = Format::Table)]
    pub format: Format,
}

/// Which mix is shown.
#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub enum Row {
    /// A sequential reader beside cvs
    Reader,
    /// A buffered writer beside cvs
    Writer,
    /// Both, one after the other
    Both,
}

/// How the result is printed.
#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// A table and a chart
    Table,
    /// One object per figure
    Json,
}

/// The figures of one mix, or of a program alone.
#[derive(Clone, Copy, Debug, Default)]
pub struct Figures {
    /// Throughput of dd in MB/s.
    pub dd_mb_s: Milli,
    /// Requests of cvs per second.
    pub cvs_ops_s: Milli,
    /// 99th percentile of the latency of cvs in ms.
    pub cvs_p99_ms: Milli,
}

/// One mix, live.
#[derive(Debug)]
pub struct Mix {
    /// Its row of the table.
    pub row: &'static str,
    /// Each program alone.
    pub alone: Figures,
    /// Both, without a scheduler.
    pub none: Figures,
    /// Both, with it.
    pub with: Figures,
    /// Bytes of dd and requests of cvs, per tick.
    pub ticks: Vec<(u64, u64)>,
    /// The tick at which the scheduler was put in.
    pub inserted_at: usize,
}

/// Runs the demo.
///
/// # Errors
/// A message for the user.
pub fn run(args: &Args) -> Result<(), String> {
    let algorithm = sched::find(&args.sched).expect("found by the command line");
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        signal_hook::flag::register_conditional_shutdown(signal, 130, Arc::clone(&stop))
            .and_then(|_| signal_hook::flag::register(signal, Arc::clone(&stop)))
            .map_err(|error| format!("signals cannot be handled: {error}"))?;
    }
    let folder = tempfile::Builder::new().prefix("iopace-demo-").tempdir();
    let folder = folder.map_err(|error| format!("no folder for the demo's socket: {error}"))?;
    if args.dashboard {
        return dashboard::run(args, folder.path(), &stop);
    }
    let socket = folder.path().join("disk.sock");
    let daemon = start(&socket).map_err(|error| format!("the demo's daemon: {error}"))?;
    let stage = Stage { daemon: &daemon, socket: &socket, stop: &stop, args };
    let mixes = stage.play(algorithm);
    daemon.shutdown();
    let mixes = mixes.map_err(|error| match error.kind() {
        io::ErrorKind::Interrupted => "interrupted; everything is cleaned up".to_owned(),
        _ => format!("a client of the demo failed: {error}"),
    })?;
    show::results(args, &mixes)
}

/// The elevator of the disk's driver, as in 2009: nothing else puts requests in order.
fn no_scheduler() -> (String, Vec<(String, u64)>) {
    (elevator::ALGORITHM.name.into(), Vec::new())
}

fn start(socket: &Path) -> Result<Arc<Daemon>, iopace_daemon::daemon::StartError> {
    let backend =
        Backend::Emulated { model: geom::DISK.to_owned(), store: None, size: None, cache: None };
    // The system of the source has schedulers only: pacing and a controlled window would give the
    // reader its disk back without any.
    let device = DeviceConfig {
        pace: &pace::none::POLICY,
        window: &window::fixed::POLICY,
        scheduler: Some(no_scheduler()),
        ..DeviceConfig::new(DEVICE, backend)
    };
    Daemon::start(DaemonConfig {
        devices: vec![device],
        listen: vec![Listen::Unix(socket.to_path_buf())],
        ..DaemonConfig::default()
    })
}

/// What the acts share.
struct Stage<'a> {
    daemon: &'a Arc<Daemon>,
    socket: &'a Path,
    stop: &'a Arc<AtomicBool>,
    args: &'a Args,
}

impl Stage<'_> {
    fn play(&self, algorithm: &'static sched::Algorithm) -> io::Result<Vec<Mix>> {
        let rows: &[&str] = match self.args.row {
            Row::Reader => &["dd-read+cvs"],
            Row::Writer => &["dd-write+cvs"],
            Row::Both => &["dd-read+cvs", "dd-write+cvs"],
        };
        let short = (self.args.seconds * 5 / 8).max(2);
        let cvs = self.alone("cvs alone", &programs(rows[0])[1..], short)?;
        let mut mixes = Vec::new();
        for row in rows {
            let programs = programs(row);
            let dd = self.alone(&format!("{} alone", row_program(row)), &programs[..1], short)?;
            let alone = Figures { dd_mb_s: dd.dd_mb_s, ..cvs };
            mixes.push(self.mix(row, &programs, alone, algorithm)?);
        }
        Ok(mixes)
    }

    /// One program by itself.
    fn alone(&self, what: &str, programs: &[Task], seconds: u64) -> io::Result<Figures> {
        let clients = self.connect(programs)?;
        let mut ticks = Vec::new();
        self.watch(what, &clients, seconds, &mut ticks)?;
        let figures = figures(&clients, SETTLE_TICKS, ticks.len(), &ticks);
        self.finish(clients)?;
        Ok(figures)
    }

    /// Both programs, first without, then with the scheduler, which is put in under them.
    fn mix(
        &self,
        row: &str,
        programs: &[Task],
        alone: Figures,
        algorithm: &'static sched::Algorithm,
    ) -> io::Result<Mix> {
        let clients = self.connect(programs)?;
        let (mut ticks, seconds) = (Vec::new(), self.args.seconds + 1);
        let program = row_program(row);
        self.watch(&format!("{program} + cvs, no scheduler"), &clients, seconds, &mut ticks)?;
        let inserted_at = ticks.len();
        let none = figures(&clients, SETTLE_TICKS, inserted_at, &ticks);
        self.control(Control::Configure(Some(algorithm), Changes::default()))?;
        let name = algorithm.name;
        let what = format!("{program} + cvs, {name} inserted under them");
        self.watch(&what, &clients, seconds, &mut ticks)?;
        let with = figures(&clients, inserted_at + SETTLE_TICKS, ticks.len(), &ticks);
        self.finish(clients)?;
        self.control(Control::Configure(Some(&elevator::ALGORITHM), Changes::default()))?;
        let row = geom::ROWS.iter().find(|known| **known == row).expect("a row of the table");
        let ticks = ticks.iter().map(|tick| (tick.dd_bytes, tick.cvs_count)).collect();
        Ok(Mix { row, alone, none, with, ticks, inserted_at })
    }

    fn control(&self, control: Control) -> io::Result<()> {
        let device = &self.daemon.devices()[0];
        device.control(control).map_err(|error| io::Error::other(error.to_string()))
    }

    fn connect(&self, programs: &[Task]) -> io::Result<Vec<Client>> {
        programs.iter().map(|task| Client::start(self.socket, DEVICE, task, self.stop)).collect()
    }

    fn finish(&self, clients: Vec<Client>) -> io::Result<()> {
        clients.into_iter().try_for_each(Client::finish)
    }

    /// Reads the counters for some seconds, and says so.
    fn watch(
        &self,
        what: &str,
        clients: &[Client],
        seconds: u64,
        ticks: &mut Vec<Tick>,
    ) -> io::Result<()> {
        let count = Duration::from_secs(seconds).as_millis() / TICK.as_millis();
        let mut next = Instant::now();
        for tick in 0..count {
            show::progress(what, seconds, tick as u64, TICK);
            next += TICK;
            thread::sleep(next.saturating_duration_since(Instant::now()));
            if self.stop.load(Relaxed) {
                show::progress_done();
                return Err(io::ErrorKind::Interrupted.into());
            }
            if let Some(error) = clients.iter().find_map(Client::failure) {
                show::progress_done();
                return Err(error);
            }
            let mut sum = Tick::default();
            for client in clients {
                let seen = client.take();
                match client.kind() {
                    TaskKind::Cvs => (sum.cvs_count, sum.cvs) = (seen.count, seen),
                    _ => sum.dd_bytes = seen.bytes,
                }
            }
            ticks.push(sum);
        }
        show::progress_done();
        Ok(())
    }
}

/// What both programs did in one tick.
#[derive(Debug, Default)]
struct Tick {
    dd_bytes: u64,
    cvs_count: u64,
    cvs: Seen,
}

/// The figures over some ticks. A request that is still waiting counts with the time it has waited:
/// otherwise a program that is locked out would have no latency at all.
fn figures(clients: &[Client], from: usize, to: usize, ticks: &[Tick]) -> Figures {
    let ticks = &ticks[from.min(to)..to];
    let nanos = (ticks.len().max(1) as u128) * TICK.as_nanos();
    let sum =
        |part: fn(&Tick) -> u64| ticks.iter().map(|tick| u128::from(part(tick))).sum::<u128>();
    let per_second = |total: u128| Milli::ratio(total * 1_000_000_000, nanos).unwrap_or_default();
    let mut latencies = iopace_core::stats::Histogram::default();
    for tick in ticks {
        latencies.merge(&tick.cvs.latencies);
    }
    let waiting = clients.iter().filter(|client| client.kind() == TaskKind::Cvs);
    waiting.filter_map(Client::waiting).for_each(|time| latencies.record(time));
    let p99 = latencies.quantile(990);
    Figures {
        dd_mb_s: per_second(sum(|tick| tick.dd_bytes) / 1_000_000),
        cvs_ops_s: per_second(sum(|tick| tick.cvs_count)),
        cvs_p99_ms: Milli::ratio(u128::from(p99.0), 1_000_000).unwrap_or_default(),
    }
}

/// The programs of a row: `dd` first.
fn programs(row: &str) -> Vec<Task> {
    let mut tasks = geom::tasks(row);
    for task in tasks.iter_mut().filter(|task| task.kind == TaskKind::DdWrite) {
        let len = task.region.len().min(FILE_LEN);
        task.region = Extent::new(task.region.offset(), len).expect("smaller than it was");
    }
    tasks
}

fn row_program(row: &str) -> &str {
    row.split('+').next().unwrap_or(row)
}
