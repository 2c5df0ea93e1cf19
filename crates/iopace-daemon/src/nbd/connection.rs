//! One client's socket, the replies on their way to it, and what it holds of our memory.
//!
//! Any thread may answer a request; replies are gathered and sent without blocking. Only the
//! connection's own thread ever waits: for memory, for room in the socket, or for its requests.

use super::drainer::Drainer;
use super::held::{Held, Holdings};
use super::outbox::{Outbox, PIECES_MAX};
use super::payer::Payer;
use crate::buffer::Buffer;
use crate::limits::{
    CONNECTION_REQUESTS_MAX, CONNECTION_RESERVED_BYTES, REPLY_BATCH_BYTES, STUCK_CLIENT,
};
use crate::memory::Memory;
use rustix::io::Errno;
use rustix::net::{SendAncillaryBuffer, SendFlags, Shutdown, sendmsg};
use std::fmt;
use std::io::IoSlice;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Room for the header of a reply, of which the longest (structured, with an offset) has 28 bytes.
const HEADER_BYTES: usize = 32;

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
    /// Replies not sent yet.
    out: Outbox,
    socket: Socket,
    /// What it holds for requests and for replies not sent.
    holds: Holdings,
    /// Whether the connection's thread waits for a change.
    waiting: bool,
}

/// One client.
pub struct Connection {
    number: u64,
    /// Who pays for its requests.
    pub payer: Payer,
    socket: OwnedFd,
    state: Mutex<State>,
    changed: Condvar,
    memory: Arc<Memory>,
    drainer: Arc<Drainer>,
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
        let _ = rustix::net::sockopt::set_socket_timeout(&socket, kind, Some(STUCK_CLIENT));
        let payer = Payer::default();
        memory.reserve(CONNECTION_RESERVED_BYTES);
        Arc::new(Connection { number, payer, socket, state, changed, memory, drainer })
    }

    /// Its number, unique in this process.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Its socket.
    pub fn socket(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a request with its data, if there is room for it now.
    pub fn try_open(&self, held: impl Into<Held>) -> bool {
        let (held, mut state) = (held.into(), self.lock());
        if !state.holds.has_room(held, &self.memory) {
            return false;
        }
        let paced = state.holds.paced_part(held);
        if paced > 0 && !self.memory.paced().try_take(paced) {
            return false;
        }
        let shared = state.holds.shared_part(held);
        if shared > 0 && !self.memory.try_take(shared) {
            self.memory.paced().give(paced);
            return false;
        }
        state.holds.open(held, shared, paced);
        true
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

    /// Adds a reply: `head` writes its header and says whether `data` follows. The request counts
    /// as answered; [`Connection::send`] sends what was gathered.
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
        if state.waiting {
            self.changed.notify_all();
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

    /// The connection's own thread answers with data and waits until the client takes it: no copy,
    /// and nobody else has to finish the job.
    pub fn answer_and_wait(
        self: &Arc<Self>,
        held: Held,
        data: Data<'_>,
        head: impl FnOnce(&mut Vec<u8>),
    ) {
        // What is gathered goes first, by the drainer if the socket is full.
        self.send();
        let mut state = self.lock();
        while state.socket == Socket::Watched || state.socket == Socket::Full {
            state = self.wait(state);
        }
        let mut all_sent = false;
        if state.socket == Socket::Open {
            // The socket has taken all or nothing of what was gathered, so this may go before it.
            state.socket = Socket::Owned;
            drop(state);
            let mut first = Vec::with_capacity(HEADER_BYTES);
            head(&mut first);
            all_sent = match data {
                Data::Memory(data) => self.send_waiting(&first, data),
                Data::File(file, offset, len) => {
                    self.send_waiting(&first, &[]) && self.send_file(file, offset, len)
                }
            };
            state = self.lock();
        }
        self.memory.paced().give(state.holds.close(held));
        if !all_sent {
            return self.close_locked(&mut state);
        }
        state.socket = if state.socket == Socket::Owned { Socket::Open } else { state.socket };
        if state.socket == Socket::Open {
            self.send_gathered(&mut state);
        }
    }

    /// Sends from a file without copying, waiting for the client. False as for `send_waiting`, and
    /// if the file cannot be read any more: the header is out, so the connection must end.
    fn send_file(&self, file: BorrowedFd<'_>, mut offset: u64, len: u64) -> bool {
        let end = offset + len;
        while offset < end {
            let left = usize::try_from(end - offset).expect("requests are at most 64 MiB");
            match rustix::fs::sendfile(&self.socket, file, Some(&mut offset), left) {
                Ok(0) => return false,
                Ok(_) | Err(Errno::INTR) => {}
                Err(Errno::AGAIN) if !self.memory.is_wanted() => {}
                Err(_) => return false,
            }
        }
        true
    }

    /// Sends both pieces, waiting for the client. False if it is gone, or takes nothing for
    /// [`STUCK_CLIENT`] while others wait for memory.
    fn send_waiting(&self, mut head: &[u8], mut data: &[u8]) -> bool {
        while !head.is_empty() || !data.is_empty() {
            let pieces = [IoSlice::new(head), IoSlice::new(data)];
            let mut control = SendAncillaryBuffer::default();
            match sendmsg(&self.socket, &pieces, &mut control, SendFlags::NOSIGNAL) {
                Ok(count) => {
                    let of_head = count.min(head.len());
                    head = &head[of_head..];
                    data = &data[count - of_head..];
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) if !self.memory.is_wanted() => {}
                Err(_) => return false,
            }
        }
        true
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

    /// Sends what the socket takes of the gathered replies.
    fn send_gathered(&self, state: &mut State) {
        while !state.out.is_empty() {
            let mut pieces = [IoSlice::new(&[]); PIECES_MAX];
            let count = state.out.slices(&mut pieces);
            let pieces = &pieces[..count];
            let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
            match sendmsg(&self.socket, pieces, &mut SendAncillaryBuffer::default(), flags) {
                Ok(count) => state.out.advance(count),
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => {
                    if state.socket == Socket::Open {
                        state.socket = Socket::Full;
                    }
                    return;
                }
                Err(_) => return self.close_locked(state),
            }
        }
        self.settle(state);
    }

    /// All is sent (or thrown away): gives back what answered requests held.
    fn settle(&self, state: &mut State) {
        state.out.clear();
        self.memory.give(state.holds.settle());
        // Who waits for room, or for the last reply, may have been told of the answer before.
        if state.waiting {
            self.changed.notify_all();
        }
    }

    /// Sends what was gathered; what the socket does not take now, the drainer will.
    pub fn send(self: &Arc<Self>) {
        let mut state = self.lock();
        if state.socket == Socket::Open && !state.out.is_empty() {
            self.send_gathered(&mut state);
        }
        if state.socket == Socket::Full {
            state.socket = Socket::Watched;
            drop(state);
            self.drainer.adopt(self);
        }
    }

    /// The drainer's call: the socket has room. How many bytes it took, and whether all is sent:
    /// whoever finishes a request sends again by himself from then on, and nothing that he adds
    /// stays behind.
    pub(super) fn drain(&self) -> (usize, bool) {
        let mut state = self.lock();
        let before = state.out.len();
        if state.socket == Socket::Watched {
            self.send_gathered(&mut state);
        }
        let is_sent = state.out.is_empty();
        if is_sent && state.socket == Socket::Watched {
            state.socket = Socket::Open;
        }
        if is_sent {
            self.changed.notify_all();
        }
        (before - state.out.len(), is_sent)
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

    /// Waits until every request is answered and every reply sent, at most for `limit`. Returns how
    /// many requests are still open.
    pub fn wait_until_idle(&self, limit: Duration) -> usize {
        let mut state = self.lock();
        let is_busy = |state: &State| {
            state.holds.open_count > 0 || (!state.out.is_empty() && state.socket != Socket::Closed)
        };
        state.waiting = true;
        let waited = self.changed.wait_timeout_while(state, limit, |state| is_busy(state));
        state = waited.unwrap_or_else(PoisonError::into_inner).0;
        state.waiting = false;
        state.holds.open_count
    }

    /// Ends the connection in both directions; replies that come later are thrown away.
    pub fn close(&self) {
        self.close_locked(&mut self.lock());
    }

    fn close_locked(&self, state: &mut State) {
        state.socket = Socket::Closed;
        self.settle(state);
        let _ = rustix::net::shutdown(&self.socket, Shutdown::Both);
        self.changed.notify_all();
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
    }
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Connection({})", self.number)
    }
}

#[cfg(test)]
mod tests;
