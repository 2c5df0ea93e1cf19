//! A disk that another NBD server has: started requests go there over one connection, many at a
//! time, and it is made again when it is lost.
//!
//! ```text
//!  device ─► start_all ─► ledger ─► sender.rs ──► link ──► server
//!     ▲                     │                               │
//!     └───── completed ◄────┴────── keeper.rs ◄── link ◄────┘
//! ```
//!
//! # Properties
//! 1. While the connection is lost requests wait, for ever or for the patience that is set; then
//!    they fail with EIO until the server is back. Attempts to connect go on in either case.
//! 2. A request without an answer is sent again by the next connection. The client above sees one
//!    answer, and none of this but time.
//! 3. A server that keeps writes in a volatile cache (it has FLUSH) may lose them when it is
//!    started anew, while the programs that wrote them live on and will not write them again. So
//!    the changes that were acknowledged and not flushed are kept here, 64 MiB of them at most, and
//!    are repeated before anything else; at half of that the daemon flushes by itself. A server
//!    without FLUSH is durable by its word.
//! 4. If such a change cannot be repeated, or a flush of the daemon's own fails, the next flush of
//!    a client fails with EIO: a file system or database knows then that writes may be lost.
//! 5. An export that has another size after a reconnect, or takes no writes or needs flushes now
//!    and did not before, is another disk: nothing is sent to it, and requests fail with EIO until
//!    the former one is back.
//!
//! # Limits
//! - NBD has no way to end the requests of an earlier connection. A server that still carries out
//!   a write of a lost connection, after it has answered the next one, may undo a newer write of
//!   the same place by that. It takes a connection that is lost and a server that is alive and has
//!   kept the write for longer than it takes to connect again. So a slow server is not left: only
//!   one whose kernel acknowledges nothing for ten seconds.
//! - Acknowledged changes are kept in memory: they do not outlive this daemon. A client that
//!   outlives it has its own means (the flush that was not answered).
//! - One connection, no encryption.

mod abilities;
mod keeper;
mod ledger;
mod link;
mod opening;
mod sender;
mod unflushed;

pub(crate) use opening::OpenedExport;

use super::{Completions, IoDone, IoRequest};
use crate::clock;
use crate::limits::REMOTE_FLUSH_PATIENCE;
use crate::nbd_uri::NbdUri;
use iopace_core::time::{Instant, Nanos};
use ledger::Ledger;
use link::RemoteLink;
use std::io;
use std::sync::mpsc;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::thread;

/// Learns of completions, and of the connection.
pub(crate) trait RemoteListener: Completions {
    /// This has happened to the connection.
    fn told(&self, news: RemoteNews);
}

/// What has happened to a connection, in words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum RemoteNews {
    /// It is lost, or given up.
    Lost(String),
    /// It is back.
    Back(String),
}

/// A connection to another server as it stands.
#[derive(Clone, Debug)]
pub struct RemoteStatus {
    /// The export, as a URI.
    pub uri: String,
    /// Whether there is a connection.
    pub is_connected: bool,
    /// Since when that is so.
    pub since: Instant,
    /// The reason why the last connection was lost, or the last attempt has failed; empty if none.
    pub trouble: String,
    /// How long requests wait without a connection; `None`: for ever.
    pub patience: Option<Nanos>,
    /// Connections that were made after one was lost.
    pub reconnects_count: u64,
    /// Requests that are not answered.
    pub waiting_count: usize,
    /// Bytes of acknowledged writes that no flush has covered.
    pub unflushed_bytes: u64,
}

#[derive(Debug)]
struct State {
    ledger: Ledger,
    link: Option<Arc<RemoteLink>>,
    is_closed: bool,
    /// Requests fail from then on.
    give_up_at: Option<Instant>,
    /// Since when there is a connection, or none.
    since: Instant,
    trouble: String,
    reconnects_count: u64,
}

#[derive(Debug)]
struct Shared {
    uri: NbdUri,
    /// How long requests wait without a connection; `None`: for ever.
    patience: Option<Nanos>,
    state: Mutex<State>,
    changed: Condvar,
}

/// The disk.
#[derive(Debug)]
pub(crate) struct RemoteDisk {
    shared: Arc<Shared>,
}

impl RemoteDisk {
    /// Connects and opens the export.
    ///
    /// # Errors
    /// No connection, or the reason why the server does not open it.
    pub(crate) fn open(uri: &NbdUri) -> io::Result<OpenedExport> {
        OpenedExport::open(uri, &|| false)
    }

    /// The disk of an opened export, without its threads.
    pub(crate) fn new(uri: &NbdUri, opened: &OpenedExport, patience: Option<Nanos>) -> RemoteDisk {
        let state = State {
            ledger: Ledger::new(opened.abilities),
            link: Some(Arc::clone(&opened.link)),
            is_closed: false,
            give_up_at: None,
            since: clock::now(),
            trouble: String::new(),
            reconnects_count: 0,
        };
        let (state, changed) = (Mutex::new(state), Condvar::new());
        let shared = Shared { uri: uri.clone(), patience, state, changed };
        RemoteDisk { shared: Arc::new(shared) }
    }

    /// Starts the threads, which end with this. Completions and news go to `to` as long as it
    /// exists.
    ///
    /// # Errors
    /// No threads.
    pub(crate) fn start(
        &self,
        opened: OpenedExport,
        to: &Weak<dyn RemoteListener>,
    ) -> io::Result<()> {
        let (shared, listener) = (Arc::clone(&self.shared), Weak::clone(to));
        let send = move || sender::run(&shared, &listener);
        thread::Builder::new().name("nbd-send".into()).spawn(send)?;
        let (shared, listener) = (Arc::clone(&self.shared), Weak::clone(to));
        let keep = move || keeper::run(&shared, &listener, opened);
        thread::Builder::new().name("nbd-receive".into()).spawn(keep)?;
        Ok(())
    }

    /// Takes started requests; each comes back as a completion exactly once, from a thread of the
    /// disk.
    pub(crate) fn start_all(&self, requests: impl IntoIterator<Item = IoRequest>) {
        let mut state = self.shared.lock();
        requests.into_iter().for_each(|request| state.ledger.submit(request));
        drop(state);
        self.shared.changed.notify_all();
    }

    /// Makes everything durable that was acknowledged, blocking.
    ///
    /// # Errors
    /// The server refuses, or has not answered in time.
    pub(crate) fn flush(&self) -> io::Result<()> {
        let (done, result) = mpsc::sync_channel(1);
        let mut state = self.shared.lock();
        if state.ledger.is_durable() {
            return Ok(());
        }
        state.ledger.flush_for(done);
        drop(state);
        self.shared.changed.notify_all();
        let answered = result.recv_timeout(REMOTE_FLUSH_PATIENCE);
        answered
            .map_err(|_| io::Error::new(io::ErrorKind::TimedOut, "the server does not answer"))?
    }

    /// The connection as it stands.
    pub(crate) fn status(&self) -> RemoteStatus {
        let state = self.shared.lock();
        RemoteStatus {
            uri: self.shared.uri.to_string(),
            is_connected: state.link.is_some(),
            since: state.since,
            trouble: state.trouble.clone(),
            patience: self.shared.patience,
            reconnects_count: state.reconnects_count,
            waiting_count: state.ledger.waiting_count(),
            unflushed_bytes: state.ledger.unflushed_bytes(),
        }
    }
}

impl Drop for RemoteDisk {
    /// The threads end by themselves: one may be about to connect, which takes its time.
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        state.is_closed = true;
        if let Some(link) = state.link.take() {
            link.shut_down();
        }
        drop(state);
        self.shared.changed.notify_all();
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_closed(&self) -> bool {
        self.lock().is_closed
    }
}

/// Reports completions, without the lock.
fn deliver(to: &Weak<dyn RemoteListener>, mut done: Vec<IoDone>) {
    if done.is_empty() {
        return;
    }
    if let Some(to) = to.upgrade() {
        to.completed(&mut done);
    }
}

fn tell(to: &Weak<dyn RemoteListener>, news: RemoteNews) {
    if let Some(to) = to.upgrade() {
        to.told(news);
    }
}
