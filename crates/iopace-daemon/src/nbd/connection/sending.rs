//! Replies on their way into the socket.
//!
//! The thread that answers a request sends the reply without blocking. Bytes that the socket does
//! not take are left to the drainer. If the connection's own thread answers and has nothing to
//! read, it sends them itself: no other thread may wait for the client.

use super::{Connection, Data, Socket, State};
use crate::clock;
use crate::held::Held;
use crate::nbd::drainer::{Slow, Taking, warn_of_stuck};
use crate::nbd::outbox::{Outbox, PIECES_MAX};
use iopace_core::time::Instant;
use rustix::io::{Errno, pread};
use rustix::net::{SendAncillaryBuffer, SendFlags, sendmsg};
use std::io::IoSlice;
use std::ops::Range;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// Room for the header of a reply, of which the longest (structured, with an offset) has 28 bytes.
const HEADER_BYTES: usize = 32;

/// Bytes of a file that are read at once to be encrypted: as much as TLS takes.
const ENCRYPTED_BYTES: usize = 64 << 10;

impl Connection {
    /// Sends the gathered replies; the drainer sends what the socket does not take now.
    pub fn send(self: &Arc<Self>) {
        self.send_now(false);
    }

    /// The same, but if this thread may wait for the client, the rest stays with the connection:
    /// this thread sends it by [`Connection::send_and_wait`].
    pub(in crate::nbd) fn send_some(self: &Arc<Self>) {
        self.send_now(self.is_patient());
    }

    fn send_now(self: &Arc<Self>, leaves_rest: bool) {
        let mut state = self.lock();
        if state.socket == Socket::Open && !state.out.is_empty() {
            self.send_gathered(&mut state);
        }
        // Also where nothing is sent yet: requests that are answered make room for others.
        self.wake(&mut state);
        if state.socket == Socket::Full && !leaves_rest {
            state.socket = Socket::Watched;
            drop(state);
            self.drainer.adopt(Arc::<Connection>::clone(self), Taking::new(clock::now()));
        }
    }

    /// The connection's own thread sends the gathered replies and waits while the client takes
    /// them, so no other thread has to be woken. A client that takes nothing for [`SEND_LOOK`] is
    /// left to the drainer, with the time since when it has taken nothing.
    ///
    /// [`SEND_LOOK`]: crate::limits::SEND_LOOK
    pub(in crate::nbd) fn send_and_wait(self: &Arc<Self>) {
        self.is_own_patient.store(false, Relaxed);
        let mut state = self.lock();
        if state.socket == Socket::Open && !state.out.is_empty() {
            self.send_gathered(&mut state);
        }
        while state.socket == Socket::Full {
            state.socket = Socket::Owned;
            let mut out = std::mem::take(&mut state.out);
            state.in_flight_bytes = out.len();
            drop(state);
            let mut taking = Taking::new(clock::now());
            let sent = self.send_out(&mut out, &mut taking);
            state = self.lock();
            state.in_flight_bytes = 0;
            // Other threads have added replies meanwhile.
            out.append(std::mem::take(&mut state.out));
            state.out = out;
            if state.socket == Socket::Closed {
                return self.settle(&mut state);
            }
            state.socket = Socket::Open;
            match sent {
                Ok(()) => self.send_gathered(&mut state),
                Err(Errno::AGAIN) => {
                    state.socket = Socket::Watched;
                    drop(state);
                    return self.drainer.adopt(Arc::<Connection>::clone(self), taking);
                }
                Err(_) => return self.close_locked(&mut state),
            }
        }
    }

    /// Sends some of these bytes, encrypted if the connection is; how many. What is not sent must
    /// be handed over again before anything else.
    fn transmit(&self, pieces: &[IoSlice<'_>], flags: SendFlags) -> Result<usize, Errno> {
        match self.encryption.get() {
            None => sendmsg(&self.socket, pieces, &mut SendAncillaryBuffer::default(), flags),
            Some(encryption) => encryption.send(self.socket(), pieces, flags),
        }
    }

    /// Sends all of it, waiting for the client. `AGAIN` if the client takes nothing for as long as
    /// the socket waits, or is slow while others wait for memory: the drainer closes such a one.
    pub(super) fn send_out(&self, out: &mut Outbox, taking: &mut Taking) -> Result<(), Errno> {
        while !out.is_empty() {
            let mut pieces = [IoSlice::new(&[]); PIECES_MAX];
            let count = out.slices(&mut pieces);
            let pieces = &pieces[..count];
            match self.transmit(pieces, SendFlags::NOSIGNAL) {
                Ok(count) => {
                    out.advance(count);
                    if !out.is_empty() && !self.goes_on(taking, count, clock::now()) {
                        return Err(Errno::AGAIN);
                    }
                }
                Err(Errno::INTR) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// The client has taken so many bytes, or none for as long as the socket waits. False if it is
    /// stuck or slow while others wait for memory: then the connection must end.
    pub(super) fn goes_on(&self, taking: &mut Taking, count: usize, now: Instant) -> bool {
        if count > 0 {
            taking.takes(count, now);
        }
        !(taking.is_stuck(now) && self.memory.is_wanted())
    }

    /// The connection's own thread answers with data and waits until the client takes it: the data
    /// is not copied, and no other thread has to finish the job.
    pub fn answer_and_wait(
        self: &Arc<Self>,
        held: Held,
        data: Data<'_>,
        head: impl FnOnce(&mut Vec<u8>),
    ) {
        // The gathered replies go first.
        self.send_and_wait();
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
            let taking = &mut Taking::new(clock::now());
            all_sent = match data {
                Data::Memory(data) => self.send_waiting(&first, data, taking),
                Data::File(file, offset, len) => {
                    self.send_waiting(&first, &[], taking)
                        && self.send_file(file, offset, len, taking)
                }
            };
            if !all_sent && taking.is_stuck(clock::now()) {
                warn_of_stuck(self.number);
            }
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
    fn send_file(
        &self,
        file: BorrowedFd<'_>,
        mut offset: u64,
        len: u64,
        taking: &mut Taking,
    ) -> bool {
        let end = offset + len;
        if self.encryption.get().is_some() {
            return self.send_file_encrypted(file, offset..end, taking);
        }
        while offset < end {
            let left = usize::try_from(end - offset).expect("requests are at most 64 MiB");
            match rustix::fs::sendfile(&self.socket, file, Some(&mut offset), left) {
                Ok(0) => return false,
                Ok(count) if offset == end || self.goes_on(taking, count, clock::now()) => {}
                Err(Errno::AGAIN) if self.goes_on(taking, 0, clock::now()) => {}
                Err(Errno::INTR) => {}
                Ok(_) | Err(_) => return false,
            }
        }
        true
    }

    /// The same for an encrypted connection, whose bytes have to be copied.
    fn send_file_encrypted(
        &self,
        file: BorrowedFd<'_>,
        mut left: Range<u64>,
        taking: &mut Taking,
    ) -> bool {
        let mut data = vec![0; ENCRYPTED_BYTES];
        while !left.is_empty() {
            let most = (left.end - left.start).min(ENCRYPTED_BYTES as u64) as usize;
            match pread(file, &mut data[..most], left.start) {
                Ok(count) if count > 0 && self.send_waiting(&[], &data[..count], taking) => {
                    left.start += count as u64;
                }
                Err(Errno::INTR) => {}
                Ok(_) | Err(_) => return false,
            }
        }
        true
    }

    /// Sends both pieces, waiting for the client. False if it is gone, or stuck or slow (see
    /// [`Taking`]) while others wait for memory.
    fn send_waiting(&self, mut head: &[u8], mut data: &[u8], taking: &mut Taking) -> bool {
        while !head.is_empty() || !data.is_empty() {
            let pieces = [IoSlice::new(head), IoSlice::new(data)];
            match self.transmit(&pieces, SendFlags::NOSIGNAL) {
                Ok(count) => {
                    let of_head = count.min(head.len());
                    head = &head[of_head..];
                    data = &data[count - of_head..];
                    let is_sent = head.is_empty() && data.is_empty();
                    if !is_sent && !self.goes_on(taking, count, clock::now()) {
                        return false;
                    }
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) if self.goes_on(taking, 0, clock::now()) => {}
                Err(_) => return false,
            }
        }
        true
    }

    /// Sends as much of the gathered replies as the socket takes.
    pub(super) fn send_gathered(&self, state: &mut State) {
        while !state.out.is_empty() {
            let mut pieces = [IoSlice::new(&[]); PIECES_MAX];
            let count = state.out.slices(&mut pieces);
            let pieces = &pieces[..count];
            let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
            match self.transmit(pieces, flags) {
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
}

impl Slow for Connection {
    fn number(&self) -> u64 {
        self.number
    }

    fn socket(&self) -> BorrowedFd<'_> {
        Connection::socket(self)
    }

    fn drain(&self) -> (usize, bool) {
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
            self.wake(&mut state);
        }
        (before - state.out.len(), is_sent)
    }

    fn close(&self) {
        Connection::close(self);
    }
}
