//! How a real disk is read and written once the engine has said "start".
//!
//! [`Disk`] is given started requests and reports each completion to a [`Completions`], from a
//! thread of its own. Reads and writes go through io_uring where the kernel allows it and through a
//! pool of threads where it does not; what may block for long (flush, trim, write-zeroes, cache)
//! always goes to a small pool, and write-back of the kernel's page cache, which blocks until the
//! disk has it, to another one.

use crate::buffer::Buffer;
use crate::config::IoEngineChoice;
use crate::limits::{FLUSH_THREADS, POOL_THREADS, SLOW_THREADS};
use iopace_core::group::Class;
use iopace_core::request::{Extent, Op, RequestId};
use std::io;
use std::sync::{Arc, Weak};

mod cached;
pub(crate) mod durable;
pub mod file;
pub(crate) mod image;
pub(crate) mod lock;
pub(crate) mod ofd;
pub(crate) mod past_cache;
pub(crate) mod pending_space;
pub(crate) mod pool;
mod priority;
pub mod remote;
pub(crate) mod shares;
pub mod target;
pub(crate) mod untold;
mod uring;

use file::File;
use pool::Pool;
use priority::Meanwhile;
use target::Target;
use uring::Uring;
pub(crate) use uring::common::may_submit_from_here;

/// One started request.
#[derive(Debug)]
pub struct IoRequest {
    /// The engine's name for it.
    pub id: RequestId,
    /// The frontend's key for it.
    pub key: usize,
    /// What to do.
    pub op: Op,
    /// Where.
    pub extent: Extent,
    /// Durable before it is done.
    pub fua: bool,
    /// For a scheduler below.
    pub class: Class,
    /// The data is in the page cache: have the kernel write it to the disk.
    pub write_back: bool,
    /// The file, if it is not the device's own.
    pub target: Option<Target>,
    /// The data of a write; room for the data of a read. Comes back with the completion.
    pub buffer: Buffer,
}

/// A request that the disk is done with.
#[derive(Debug)]
pub struct IoDone {
    /// The request, with its buffer; what was read of a file that ends is shorter than asked.
    pub request: IoRequest,
    /// Bytes of a write that were written before an error.
    pub written: u64,
    /// How it went.
    pub result: io::Result<()>,
}

/// Who is told of completions.
pub trait Completions: Send + Sync {
    /// These requests are done. Takes all out of the list.
    fn completed(&self, done: &mut Vec<IoDone>);
}

/// A file or block device and the means to work on it.
#[derive(Debug)]
pub struct Disk {
    fast: Fast,
    slow: Arc<Pool<IoRequest>>,
    flusher: Pool<IoRequest>,
}

#[derive(Debug)]
enum Fast {
    Uring(Uring),
    Pool(Pool<IoRequest>),
}

impl Disk {
    /// Starts the threads. Completions go to `to` as long as it exists.
    ///
    /// # Errors
    /// No threads, or io_uring was demanded and is not allowed.
    pub fn start(
        file: Arc<File>,
        choice: IoEngineChoice,
        to: Weak<dyn Completions>,
    ) -> io::Result<Disk> {
        let work = || {
            let (file, to) = (Arc::clone(&file), to.clone());
            move |request| carry_out(&file, &to, request)
        };
        let slow = Arc::new(Pool::start("slow", SLOW_THREADS, work())?);
        let flusher = Pool::start("flush", FLUSH_THREADS, work())?;
        let pool = || Pool::start("disk", POOL_THREADS, work());
        let uring = || Uring::start(Arc::clone(&file), to.clone(), &slow);
        let fast = match choice {
            IoEngineChoice::Threads => Fast::Pool(pool()?),
            IoEngineChoice::Uring => Fast::Uring(uring()?),
            IoEngineChoice::Auto => match uring() {
                Ok(uring) => Fast::Uring(uring),
                Err(error) => {
                    tracing::info!(%error, "io_uring is not allowed here: using threads");
                    Fast::Pool(pool()?)
                }
            },
        };
        Ok(Disk { fast, slow, flusher })
    }

    /// `io_uring` or `threads`.
    pub fn name(&self) -> &'static str {
        match self.fast {
            Fast::Uring(_) => "io_uring",
            Fast::Pool(_) => "threads",
        }
    }

    /// Takes started requests; each comes back as a completion exactly once.
    pub fn start_all(&self, requests: &mut Vec<IoRequest>) {
        if requests.iter().any(|request| request.write_back) {
            self.flusher.submit(requests.extract_if(.., |request| request.write_back).collect());
        }
        let is_slow = |request: &IoRequest| {
            let has_no_data = |target: &Target| target.source.is_some() || target.is_written;
            request.target.as_ref().is_some_and(has_no_data)
                || !matches!(request.op, Op::Read | Op::Write)
        };
        if requests.iter().any(is_slow) {
            let (slow, fast) = std::mem::take(requests).into_iter().partition(is_slow);
            *requests = fast;
            self.slow.submit(slow);
        }
        if requests.is_empty() {
            return;
        }
        match &self.fast {
            Fast::Uring(uring) => uring.submit(requests),
            Fast::Pool(pool) => pool.submit(std::mem::take(requests)),
        }
    }
}

/// Carries out a request with ordinary blocking calls.
fn carry_out(file: &File, to: &Weak<dyn Completions>, request: IoRequest) {
    let done = request.carry_out(file);
    if let Some(to) = to.upgrade() {
        to.completed(&mut vec![done]);
    }
}

impl IoRequest {
    /// Carries it out with ordinary blocking calls, on `file` unless it has one of its own.
    pub(crate) fn carry_out(mut self, file: &File) -> IoDone {
        let IoRequest { op, extent, fua, class, .. } = self;
        // A commit waits for a flush, and with it everybody who comes after.
        let _meanwhile = (op != Op::Flush).then(|| Meanwhile::of_class(class));
        let len = extent.len().get();
        if let Some(target) = &mut self.target {
            target.choose(self.buffer.len());
        }
        let (written, result) = match &self.target {
            Some(target) if self.write_back => (0, target.write_back(len)),
            Some(target) => match target.perform(op, len, fua, &mut self.buffer) {
                Ok(()) => (0, Ok(())),
                Err((written, error)) => (written, Err(error)),
            },
            None if self.write_back => (0, file.write_back(extent)),
            None => (0, file.perform(op, extent, fua, self.buffer.as_mut_slice())),
        };
        IoDone { request: self, written, result }
    }
}
