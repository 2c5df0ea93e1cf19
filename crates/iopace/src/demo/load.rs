//! A program as a client: one NBD connection, one request at a time, in a thread of its own.

use iopace_core::request::Op;
use iopace_core::stats::Histogram;
use iopace_core::time::Nanos;
use iopace_nbd::client::{Failure, Wanted};
use iopace_sim::task::{Action, Task, TaskKind};
use std::io;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// The seed of the workloads; the simulated figures beside are of the same.
pub const SEED: u64 = 1;

/// Largest request of the programs.
const REQUEST_MAX: usize = 128 * 1024;

/// What a client did since it was last asked.
#[derive(Debug, Default)]
pub struct Seen {
    /// Requests finished that are the program's own work.
    pub count: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Their latencies.
    pub latencies: Histogram,
}

#[derive(Debug, Default)]
struct Shared {
    seen: Seen,
    /// When the request was submitted that is not yet answered.
    waiting_since: Option<Instant>,
    failure: Option<String>,
}

/// A running client.
#[derive(Debug)]
pub struct Client {
    kind: TaskKind,
    shared: Arc<Mutex<Shared>>,
    ended: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

impl Client {
    /// Connects to an export and starts working. Ends with [`Client::finish`], or when `stop` is
    /// set.
    ///
    /// # Errors
    /// What the socket or the server said.
    pub fn start(
        socket: &Path,
        export: &str,
        task: &Task,
        stop: &Arc<AtomicBool>,
    ) -> io::Result<Client> {
        let wanted = Wanted { structured: true, ..Wanted::default() };
        let server =
            iopace_nbd::client::Client::connect(UnixStream::connect(socket)?, export, wanted)?;
        let shared = Arc::new(Mutex::new(Shared::default()));
        let ended = Arc::new(AtomicBool::new(false));
        let mut workload = task.workload(SEED);
        let work = (Arc::clone(&shared), Arc::clone(&ended), Arc::clone(stop));
        let builder = thread::Builder::new().name(task.name.clone());
        let thread = builder.spawn(move || {
            let (shared, ended, stop) = work;
            // Think times are tens of microseconds: the kernel's 50 us of slack would double them.
            let _ = rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1));
            let mut session = Session { server, shared: &shared, data: vec![0; REQUEST_MAX] };
            while !ended.load(Relaxed) && !stop.load(Relaxed) {
                if let Err(error) = session.carry_out(&workload.next()) {
                    lock(&shared).failure = Some(error.to_string());
                    return;
                }
            }
            let _ = session.server.disconnect();
        })?;
        Ok(Client { kind: task.kind, shared, ended, thread })
    }

    /// What it is.
    pub fn kind(&self) -> TaskKind {
        self.kind
    }

    /// What it did since it was last asked.
    pub fn take(&self) -> Seen {
        std::mem::take(&mut lock(&self.shared).seen)
    }

    /// How long its present request waits already.
    pub fn waiting(&self) -> Option<Nanos> {
        let since = lock(&self.shared).waiting_since?;
        u64::try_from(since.elapsed().as_nanos()).ok().map(Nanos)
    }

    /// Why it gave up, if it did.
    pub fn failure(&self) -> Option<io::Error> {
        let failure = lock(&self.shared).failure.clone();
        failure.map(io::Error::other)
    }

    /// Lets it end its present request and disconnect.
    ///
    /// # Errors
    /// Why it gave up, if it did.
    pub fn finish(self) -> io::Result<()> {
        self.ended.store(true, Relaxed);
        self.thread.join().map_err(|_| io::Error::other("a client panicked"))?;
        let failure = lock(&self.shared).failure.take();
        failure.map_or(Ok(()), |text| Err(io::Error::other(text)))
    }
}

fn lock(shared: &Mutex<Shared>) -> std::sync::MutexGuard<'_, Shared> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

/// An open connection.
struct Session<'a> {
    server: iopace_nbd::client::Client<UnixStream>,
    shared: &'a Mutex<Shared>,
    data: Vec<u8>,
}

impl Session<'_> {
    /// Thinks, submits, waits, counts.
    fn carry_out(&mut self, action: &Action) -> Result<(), Failure> {
        thread::sleep(Duration::from_nanos(action.think.0));
        let len = usize::try_from(action.extent.len().get()).expect("small requests");
        let offset = action.extent.offset().get();
        let submitted = Instant::now();
        lock(self.shared).waiting_since = Some(submitted);
        match action.op {
            Op::Write => self.server.write(offset, &self.data[..len], action.fua)?,
            _ => self.server.read(offset, &mut self.data[..len])?,
        }
        let latency = u64::try_from(submitted.elapsed().as_nanos()).unwrap_or(u64::MAX);
        let mut shared = lock(self.shared);
        shared.waiting_since = None;
        if action.payload {
            shared.seen.count += 1;
            shared.seen.bytes += len as u64;
            shared.seen.latencies.record(Nanos(latency));
        }
        Ok(())
    }
}
