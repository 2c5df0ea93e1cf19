//! One client's socket, the replies on their way to it, and what it holds of our memory.
//!
//! Any thread may answer a request; replies are gathered and sent without blocking. Only the
//! connection's own thread ever waits: for memory, for room in the socket, or for its requests.

mod sending;

use super::drainer::Drainer;
use super::encryption::{ENCRYPTION_BYTES, Encryption};
use super::outbox::Outbox;
use crate::buffer::Buffer;
use crate::groups::payer::Payer;
use crate::held::{Held, Holdings};
use crate::limits::{
    CONNECTION_REQUESTS_MAX, CONNECTION_RESERVED_BYTES, REPLY_BATCH_BYTES, SEND_LOOK,
};
use crate::memory::Memory;
use rustix::io::Errno;
use rustix::net::{RecvFlags, Shutdown, recv};
use std::fmt;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::{self, ThreadId};
use std::time::Duration;

/// Where the data of a reply lies.
#[derive(Clone, Copy, Debug)]
pub enum Data<'a> {
    /// In memory.
    Memory(&'a [u8]),
    /// In the page cache of a file: from an offset on, so many bytes.
    File(BorrowedFd<'a>, u64, u64),
}

/// How the socket stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Socket {
    /// It may be written.
    #[default]
    Open,
    /// It is full; nobody watches it yet.
    Full,
    /// It is full and the drainer watches it.
    Watched,
    /// The connection's own thread is sending; others only add replies.
    Owned,
    /// It is closed; replies are thrown away.
    Closed,
}

#[derive(Debug, Default)]
struct State {
    /// Replies not sent yet, but for those in flight.
    out: Outbox,
    /// Bytes of replies that the connection's own thread has taken out of `out` and is sending.
    /// Their buffers are still there, so nothing is given back meanwhile.
    in_flight_bytes: usize,
    socket: Socket,
    /// What it holds for requests and for replies not sent.
    holds: Holdings,
    /// Whether the connection's thread waits for a change and was not woken yet.
    waiting: bool,
}

/// One client.
pub struct Connection {
    number: u64,
    /// Who pays for its requests.
    pub payer: Arc<Payer>,
    socket: OwnedFd,
    /// What it is encrypted by, if it is.
    encryption: OnceLock<Encryption>,
    state: Mutex<State>,
    changed: Condvar,
    memory: Arc<Memory>,
    drainer: Arc<Drainer>,
    /// The thread that reads its requests, and whether that may wait for the client now. It asks
    /// for that itself, so the order in which others see it does not matter.
    own: OnceLock<ThreadId>,
    is_own_patient: AtomicBool,
}

impl Connection {
    /// A connection on an accepted socket.
    pub fn new(
        number: u64,
        socket: OwnedFd,
        memory: Arc<Memory>,
        drainer: Arc<Drainer>,
    ) -> Arc<Connection> {
        let (state, changed) = (Mutex::default(), Condvar::new());
        let kind = rustix::net::sockopt::Timeout::Send;
        let _ = rustix::net::sockopt::set_socket_timeout(&socket, kind, Some(SEND_LOOK));
        let payer = Arc::<Payer>::default();
        memory.reserve(CONNECTION_RESERVED_BYTES);
        let (own, is_own_patient) = (OnceLock::new(), AtomicBool::new(false));
        Arc::new(Connection {
            number,
            payer,
            socket,
            encryption: OnceLock::new(),
            state,
            changed,
            memory,
            drainer,
            own,
            is_own_patient,
        })
    }

    /// The connection's own thread has nothing left to read: until it calls
    /// [`Connection::send_and_wait`], it may wait for the client.
    pub(crate) fn may_wait_here(&self) {
        self.own.get_or_init(|| thread::current().id());
        self.is_own_patient.store(true, Relaxed);
    }

    /// Whether this thread may wait for the client.
    pub(crate) fn is_patient(&self) -> bool {
        self.is_own_patient.load(Relaxed) && self.own.get() == Some(&thread::current().id())
    }

    /// Its number, unique in this process.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Its socket.
    pub fn socket(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// All that is sent and received from now on is encrypted.
    ///
    /// # Panics
    /// If it is encrypted already.
    pub(in crate::nbd) fn encrypt(&self, encryption: Encryption) {
        self.memory.reserve(ENCRYPTION_BYTES);
        self.encryption.set(encryption).expect("encrypted once");
    }

    /// The name of the client, as its certificate says it.
    pub(in crate::nbd) fn certificate(&self) -> Option<&str> {
        self.encryption.get().and_then(Encryption::peer)
    }

    /// Receives bytes of the client: zero at the end. `INTR` also if it is encrypted and nothing
    /// could be decrypted yet.
    pub(in crate::nbd) fn receive(
        &self,
        space: &mut [u8],
        flags: RecvFlags,
    ) -> Result<usize, Errno> {
        match self.encryption.get() {
            None => recv(&self.socket, space, flags).map(|(count, _)| count),
            Some(encryption) => encryption.recv(self.socket(), space, flags),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a request with its data, if there is room for it now.
    pub fn try_open(&self, held: impl Into<Held>) -> bool {
        self.lock().holds.try_open(held.into(), &self.memory)
    }

    /// Counts a request with its data, waiting for room. Whatever this thread has gathered must
    /// have been submitted and sent before. False if the connection was closed meanwhile.
    pub fn open(&self, held: impl Into<Held>) -> bool {
        let (held, mut state) = (held.into(), self.lock());
        while !state.holds.has_room(held, &self.memory) {
            if state.socket == Socket::Closed {
                return false;
            }
            state = self.wait(state);
        }
        // Only this thread takes more, so what is given back meanwhile leaves the rest as it is.
        let (paced, shared) = (state.holds.paced_part(held), state.holds.shared_part(held));
        if paced > 0 || shared > 0 {
            drop(state);
            self.memory.paced().take(paced);
            self.memory.take(shared);
            state = self.lock();
        }
        state.holds.open(held, shared, paced);
        true
    }

    fn wait<'a>(&self, mut state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        state.waiting = true;
        let mut state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        state.waiting = false;
        state
    }

    /// Wakes the connection's thread if it waits: by one system call, however many changes come
    /// before it runs.
    fn wake(&self, state: &mut State) {
        if std::mem::take(&mut state.waiting) {
            self.changed.notify_all();
        }
    }

    /// Adds a reply: `head` writes its header and says whether `data` follows. The request counts
    /// as answered; [`Connection::send`] sends what was gathered, and wakes who waits for room.
    pub fn answer(
        &self,
        held: impl Into<Held>,
        data: Buffer,
        head: impl FnOnce(&mut Vec<u8>) -> bool,
    ) {
        let mut state = self.lock();
        let state = &mut *state;
        self.memory.paced().give(state.holds.close(held.into()));
        if state.socket == Socket::Closed {
            self.settle(state);
        } else {
            if state.out.gather(head) {
                state.out.push(data);
            }
            if state.out.len() >= REPLY_BATCH_BYTES && state.socket == Socket::Open {
                self.send_gathered(state);
            }
        }
    }

    /// A request that was counted never came whole: its client is gone.
    pub fn forget(&self, held: impl Into<Held>) {
        let mut state = self.lock();
        self.memory.paced().give(state.holds.close(held.into()));
        if state.out.is_empty() {
            self.settle(&mut state);
        }
    }

    /// Whether others wait for memory.
    pub fn is_memory_wanted(&self) -> bool {
        self.memory.is_wanted() || self.memory.paced().is_wanted()
    }

    /// Adds bytes that answer no counted request (handshake, errors found by the protocol).
    pub fn append_raw(&self, bytes: &[u8]) {
        let mut state = self.lock();
        if state.socket != Socket::Closed {
            state.out.gather(|out| out.extend_from_slice(bytes));
        }
    }

    /// All is sent (or thrown away): gives back what answered requests held. While replies are in
    /// flight, the thread that sends them does this later.
    fn settle(&self, state: &mut State) {
        if state.in_flight_bytes > 0 {
            return;
        }
        state.out.clear();
        self.memory.give(state.holds.settle());
        self.wake(state);
    }

    /// Waits until the client has taken enough replies: requests still open, `None` if it is gone.
    pub fn wait_for_room(&self) -> Option<usize> {
        let mut state = self.lock();
        while state.socket != Socket::Closed {
            if state.socket == Socket::Open && state.holds.open_count < CONNECTION_REQUESTS_MAX {
                return Some(state.holds.open_count);
            }
            state = self.wait(state);
        }
        None
    }

    /// Waits until all is sent, at most for `limit`; whether it is.
    pub(in crate::nbd) fn is_all_sent(&self, limit: Duration) -> bool {
        self.wait_until_idle(limit);
        let state = self.lock();
        state.out.is_empty() && state.in_flight_bytes == 0 && state.socket == Socket::Open
    }

    /// Waits until every request is answered and every reply sent, at most for `limit`. Returns how
    /// many requests are still open.
    pub fn wait_until_idle(&self, limit: Duration) -> usize {
        let state = self.lock();
        let is_busy = |state: &mut State| {
            let has_replies = !state.out.is_empty() || state.in_flight_bytes > 0;
            let is_open = has_replies && state.socket != Socket::Closed;
            state.waiting = state.holds.open_count > 0 || is_open;
            state.waiting
        };
        let waited = self.changed.wait_timeout_while(state, limit, is_busy);
        let mut state = waited.unwrap_or_else(PoisonError::into_inner).0;
        state.waiting = false;
        state.holds.open_count
    }

    /// Tells an encrypted client, if it has taken all replies, that nothing more comes.
    pub(in crate::nbd) fn say_end(&self) {
        let state = self.lock();
        if let (Socket::Open, Some(encryption)) = (state.socket, self.encryption.get()) {
            encryption.say_end(self.socket());
        }
    }

    /// Ends the connection in both directions; replies that come later are thrown away.
    pub fn close(&self) {
        self.close_locked(&mut self.lock());
    }

    fn close_locked(&self, state: &mut State) {
        state.socket = Socket::Closed;
        self.settle(state);
        let _ = rustix::net::shutdown(&self.socket, Shutdown::Both);
        self.wake(state);
    }

    /// No more requests are read; those that were are answered.
    pub fn stop_reading(&self) {
        let _ = rustix::net::shutdown(&self.socket, Shutdown::Read);
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        let state = self.lock();
        self.memory.paced().give(state.holds.paced_shared_bytes);
        self.memory.give(state.holds.shared_bytes);
        drop(state);
        self.memory.unreserve(CONNECTION_RESERVED_BYTES);
        if self.encryption.get().is_some() {
            self.memory.unreserve(ENCRYPTION_BYTES);
        }
    }
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Connection({})", self.number)
    }
}

#[cfg(test)]
mod tests;
