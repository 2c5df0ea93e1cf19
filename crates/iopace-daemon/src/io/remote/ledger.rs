//! The requests at another server: which are to be sent, which wait for an answer, and which were
//! answered and may be forgotten by the server still. No socket, no clock and no thread.
//!
//! ```text
//!  submit ─► unsent ─► gather ─► sent ─► replied ─► finished
//!              ▲                   │         │
//!              └─────── lost ◄─────┘         └─► unflushed, until a flush covers it
//! ```
//!
//! # Properties
//! 1. Each request is finished exactly once, whatever becomes of connections.
//! 2. A change of bytes that another one changes is sent when that is finished. So the order of the
//!    acknowledgements is the order in which they were done, and repeating them in it ends in the
//!    same.
//! 3. After a connection is lost, all changes that no flush has covered are repeated, and answered,
//!    before anything else is sent. Then requests without an answer are sent again, all of each.
//! 4. A change that was acknowledged is durable when a flush that was asked for later succeeds, or
//!    that flush fails.

mod answers;
mod coverage;
mod tracked;

use super::abilities::{Abilities, Piece, ZEROES_BYTES};
use super::unflushed::Unflushed;
use crate::buffer::Buffer;
use crate::io::{IoDone, IoRequest};
use crate::limits::{REMOTE_BATCH_BYTES, REMOTE_COPIED_MAX};
use coverage::Coverage;
use iopace_core::request::{Extent, Op};
use iopace_nbd::client::{Room, encode_request};
use iopace_nbd::{Error, wire};
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::sync::mpsc::SyncSender;
use tracked::{RemoteRequest, RequestOwner, changes};

/// The origin of a piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PieceOrigin {
    /// A request, by its number.
    Request(u64),
    /// A change that is repeated, by its number.
    Repeated(u64),
    /// A flush that nobody has asked for.
    OwnFlush,
}

/// A piece without an answer.
#[derive(Debug)]
struct Sent {
    origin: PieceOrigin,
    piece: Piece,
    /// A flush covers the changes before that number.
    covers: u64,
    read: Coverage,
    failed: Option<Error>,
}

/// Data that is sent behind the header of a write, by a thread without the lock.
#[derive(Debug)]
pub(super) enum Payload {
    /// None, or it is copied already.
    Nothing,
    /// Of a request, which has its buffer back afterwards.
    Own(u64, Buffer, Range<usize>),
    /// Of a change that is repeated, or zeroes.
    Shared(Arc<Buffer>, Range<usize>),
}

impl Payload {
    /// The bytes to be sent.
    pub(super) fn bytes(&self) -> &[u8] {
        match self {
            Payload::Nothing => &[],
            Payload::Own(_, buffer, range) => &buffer.as_slice()[range.clone()],
            Payload::Shared(buffer, range) => &buffer.as_slice()[range.clone()],
        }
    }
}

/// The memory for the data of a read, while it is received without the lock.
#[derive(Debug)]
pub(super) struct ReadRoom {
    number: u64,
    buffer: Buffer,
    range: Range<usize>,
    offset: u64,
}

impl ReadRoom {
    /// The memory, with its place in the export.
    pub(super) fn room(&mut self) -> Room<'_> {
        let data = &mut self.buffer.as_mut_slice()[self.range.clone()];
        Room { offset: self.offset, data }
    }
}

/// The requests.
#[derive(Debug)]
pub(super) struct Ledger {
    abilities: Abilities,
    /// Those that are not finished, in the order of arrival.
    requests: BTreeMap<u64, RemoteRequest>,
    arrived_count: u64,
    /// Those of which something is to be sent.
    unsent: VecDeque<u64>,
    /// Pieces without an answer by their cookies, which never come twice.
    sent: BTreeMap<u64, Sent>,
    cookie: u64,
    unflushed: Unflushed,
    /// Changes to be repeated before anything else, with the bytes of which requests were sent.
    repeats: VecDeque<(u64, u64)>,
    /// The piece whose data a thread sends now, and the answer to it if that came already.
    sending: Option<(u64, Option<Sent>)>,
    finished: Vec<IoDone>,
    /// Acknowledged changes were lost, and no flush has told of it.
    has_lost: bool,
    /// Requests fail at once.
    refuses: bool,
    zeroes: Arc<Buffer>,
}

impl Ledger {
    pub(super) fn new(abilities: Abilities) -> Ledger {
        Ledger {
            abilities,
            requests: BTreeMap::new(),
            arrived_count: 0,
            unsent: VecDeque::new(),
            sent: BTreeMap::new(),
            cookie: 0,
            unflushed: Unflushed::default(),
            repeats: VecDeque::new(),
            sending: None,
            finished: Vec::new(),
            has_lost: false,
            refuses: false,
            zeroes: Arc::new(Buffer::new(0)),
        }
    }

    /// A request of the device.
    pub(super) fn submit(&mut self, request: IoRequest) {
        let IoRequest { op, extent, fua, .. } = request;
        self.track(RequestOwner::Device(request), (op, extent, fua));
    }

    /// A flush that a thread waits for.
    pub(super) fn flush_for(&mut self, caller: SyncSender<io::Result<()>>) {
        self.track(RequestOwner::Caller(caller), (Op::Flush, Extent::EMPTY, false));
    }

    fn track(&mut self, owner: RequestOwner, (op, extent, fua): (Op, Extent, bool)) {
        let is_nothing = extent.is_empty() && op != Op::Flush;
        if self.refuses {
            return self.finish(owner, Err(unreachable_error()));
        }
        if is_nothing || self.abilities.has_nothing_to_do(op) {
            return self.finish(owner, Ok(()));
        }
        let tracked = RemoteRequest::new(owner, (op, extent, fua));
        self.requests.insert(self.arrived_count, tracked);
        self.unsent.push_back(self.arrived_count);
        self.arrived_count += 1;
    }

    fn finish(&mut self, owner: RequestOwner, result: io::Result<()>) {
        match owner {
            RequestOwner::Device(request) => {
                self.finished.push(IoDone { request, written: 0, result });
            }
            // A caller that has waited long enough is gone.
            RequestOwner::Caller(caller) => drop(caller.try_send(result)),
        }
    }

    /// The requests that have come to their end since the last call.
    pub(super) fn take_finished(&mut self) -> Vec<IoDone> {
        std::mem::take(&mut self.finished)
    }

    /// Requests that are not finished.
    pub(super) fn waiting_count(&self) -> usize {
        self.requests.len()
    }

    /// Bytes of acknowledged changes that no flush has covered.
    pub(super) fn unflushed_bytes(&self) -> u64 {
        self.unflushed.bytes()
    }

    /// Whether all that was acknowledged is durable.
    pub(super) fn is_durable(&self) -> bool {
        self.unflushed.is_empty() && !self.has_lost
    }

    /// Whether there is something that could be sent, unless it waits for answers.
    pub(super) fn has_unsent(&self) -> bool {
        !self.unsent.is_empty() || !self.repeats.is_empty() || self.is_flush_due()
    }

    /// Whether a thread has the data of a request.
    pub(super) fn is_sending(&self) -> bool {
        self.sending.is_some()
    }

    fn is_flush_due(&self) -> bool {
        let is_own = |sent: &Sent| sent.origin == PieceOrigin::OwnFlush;
        self.unflushed.is_half_full() && !self.sent.values().any(is_own)
    }

    /// Puts headers and small data of requests into `out`, and returns the data that is sent behind
    /// all of it.
    pub(super) fn gather(&mut self, out: &mut Vec<u8>) -> Payload {
        while out.len() < REMOTE_BATCH_BYTES && self.sending.is_none() {
            let Some((origin, piece)) = self.next_piece() else { break };
            let payload = self.send(origin, piece, out);
            if !matches!(payload, Payload::Nothing) {
                return payload;
            }
        }
        Payload::Nothing
    }

    /// The next piece that may be sent now.
    fn next_piece(&mut self) -> Option<(PieceOrigin, Piece)> {
        let is_repeated = |sent: &Sent| matches!(sent.origin, PieceOrigin::Repeated(_));
        if let Some(next) = self.next_repeat() {
            return Some(next);
        }
        if !self.repeats.is_empty() || self.sent.values().any(is_repeated) {
            return None;
        }
        if self.is_flush_due() {
            return Some((PieceOrigin::OwnFlush, Piece::FLUSH));
        }
        loop {
            let number = *self.unsent.front()?;
            let Some(tracked) = self.requests.get_mut(&number) else {
                self.unsent.pop_front();
                continue;
            };
            let Some(piece) = tracked.next_piece(&self.abilities) else {
                self.unsent.pop_front();
                continue;
            };
            if piece.changes() && (self.unflushed.is_full() || self.is_busy(number, &piece)) {
                return None;
            }
            self.requests.get_mut(&number).expect("it was there").sent(&piece);
            return Some((PieceOrigin::Request(number), piece));
        }
    }

    fn next_repeat(&mut self) -> Option<(PieceOrigin, Piece)> {
        loop {
            let &(number, done) = self.repeats.front()?;
            let change = self.unflushed.get(number);
            let Some(piece) = change.and_then(|change| change.piece(&self.abilities, done)) else {
                self.repeats.pop_front();
                continue;
            };
            if self.is_repeated(number, &piece) {
                return None;
            }
            self.repeats[0].1 += u64::from(piece.len);
            return Some((PieceOrigin::Repeated(number), piece));
        }
    }

    /// Whether another change of the same bytes that came before it is not finished. A piece of
    /// that may be answered already: all of it is sent again if the connection is lost now.
    fn is_busy(&self, number: u64, piece: &Piece) -> bool {
        let mut earlier = self.requests.range(..number).map(|(_, request)| request);
        earlier.any(|request| changes(request.op) && piece.overlaps(request.extent))
    }

    /// Whether another change of the same bytes is being repeated.
    fn is_repeated(&self, number: u64, piece: &Piece) -> bool {
        let is_other = |sent: &Sent| sent.origin != PieceOrigin::Repeated(number);
        self.sent.values().any(|sent| is_other(sent) && piece.overlaps(sent.piece.extent()))
    }

    fn send(&mut self, origin: PieceOrigin, piece: Piece, out: &mut Vec<u8>) -> Payload {
        self.cookie += 1;
        let (cookie, covers) = (self.cookie, self.unflushed.next);
        let Piece { kind, flags, offset, len, is_zeroes } = piece;
        encode_request(out, kind, flags, cookie, offset, len);
        let (read, failed) = (Coverage::default(), None);
        self.sent.insert(cookie, Sent { origin, piece, covers, read, failed });
        if kind != wire::CMD_WRITE {
            return Payload::Nothing;
        }
        let len = len as usize;
        if is_zeroes {
            if self.zeroes.is_empty() {
                self.zeroes = Arc::new(zeroes());
            }
            return Payload::Shared(Arc::clone(&self.zeroes), 0..len);
        }
        match origin {
            PieceOrigin::OwnFlush => Payload::Nothing,
            PieceOrigin::Repeated(number) => {
                let change = self.unflushed.get(number).expect("kept while it is repeated");
                let start = change.start_of(offset);
                Payload::Shared(Arc::clone(&change.data), start..start + len)
            }
            PieceOrigin::Request(number) => {
                let tracked = self.requests.get_mut(&number).expect("it is not finished");
                let start = (offset - tracked.extent.offset().get()) as usize;
                let buffer = tracked.buffer().expect("a write is the device's");
                if len <= REMOTE_COPIED_MAX {
                    out.extend_from_slice(&buffer.as_slice()[start..start + len]);
                    return Payload::Nothing;
                }
                let buffer = std::mem::take(buffer);
                self.sending = Some((cookie, None));
                Payload::Own(number, buffer, start..start + len)
            }
        }
    }

    /// The data was sent, or the connection has failed.
    pub(super) fn give_back(&mut self, payload: Payload) {
        let Payload::Own(number, buffer, _) = payload else { return };
        if let Some(room) = self.requests.get_mut(&number).and_then(RemoteRequest::buffer) {
            *room = buffer;
        }
        if let Some((_, Some(early))) = self.sending.take() {
            self.answered(early);
        }
    }
}

fn zeroes() -> Buffer {
    // Memory that others have used before may come here.
    let mut buffer = Buffer::new(ZEROES_BYTES as usize);
    buffer.as_mut_slice().fill(0);
    buffer
}

/// The error of a request while the server is given up.
fn unreachable_error() -> io::Error {
    io::Error::from_raw_os_error(libc::EIO)
}

#[cfg(test)]
mod tests;
