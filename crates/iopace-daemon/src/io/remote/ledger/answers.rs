//! The answers to requests, and the ends of connections.

use super::tracked::{FlushState, RemoteRequest, changes};
use super::{Ledger, PieceOrigin, ReadRoom, RequestOwner, Sent, unreachable_error};
use crate::io::remote::abilities::{Abilities, Piece};
use iopace_core::request::Op;
use iopace_nbd::client::Received;
use iopace_nbd::{Error, wire};
use std::io;

impl Ledger {
    /// The memory for the data of the read with that cookie; `None` if it is none.
    pub(in crate::io::remote) fn room(&mut self, cookie: u64) -> Option<ReadRoom> {
        let sent = self.sent.get(&cookie)?;
        let PieceOrigin::Request(number) = sent.origin else { return None };
        let Piece { kind, offset, len, .. } = sent.piece;
        let tracked = self.requests.get_mut(&number).filter(|_| kind == wire::CMD_READ)?;
        let start = (offset - tracked.extent.offset().get()) as usize;
        let buffer = std::mem::take(tracked.buffer()?);
        Some(ReadRoom { number, buffer, range: start..start + len as usize, offset })
    }

    /// The data was received, or the connection has failed.
    pub(in crate::io::remote) fn give_back_room(&mut self, room: ReadRoom) {
        if let Some(place) = self.requests.get_mut(&room.number).and_then(RemoteRequest::buffer) {
            *place = room.buffer;
        }
    }

    /// A reply has come, or a piece of one.
    ///
    /// # Errors
    /// Why the server is to be left: it breaks the protocol, or goes away.
    pub(in crate::io::remote) fn replied(&mut self, reply: &Received) -> Result<(), &'static str> {
        let Some(sent) = self.sent.get_mut(&reply.cookie) else {
            return Err("an answer to nothing that was asked");
        };
        if let Err(error) = reply.result {
            sent.failed.get_or_insert(error);
        }
        if reply.len > 0 && !sent.read.add(reply.offset, reply.offset + u64::from(reply.len)) {
            return Err("data of a read that came twice, or in crumbs");
        }
        if !reply.is_last {
            return Ok(());
        }
        let Piece { kind, offset, len, .. } = sent.piece;
        let is_whole = kind != wire::CMD_READ || sent.read.is(offset, offset + u64::from(len));
        match sent.failed {
            Some(Error::Shutdown) => return Err("it says that it is going away"),
            None if !is_whole => return Err("a read of another length"),
            _ => {}
        }
        let sent = self.sent.remove(&reply.cookie).expect("it was there");
        match &mut self.sending {
            // The thread that sends the data still has them: it may just have sent the last.
            Some((cookie, early)) if *cookie == reply.cookie => *early = Some(sent),
            _ => self.answered(sent),
        }
        Ok(())
    }

    pub(super) fn answered(&mut self, sent: Sent) {
        let Sent { origin, piece, covers, failed, .. } = sent;
        if piece.kind == wire::CMD_FLUSH {
            // What a failed flush was to cover is lost, as far as can be known.
            self.unflushed.forget_before(covers);
            // A server tells of it once. Who asked for a flush is told; else the next one is.
            self.has_lost |= failed.is_some() && !self.is_flush_of_device(&origin);
        }
        match origin {
            PieceOrigin::OwnFlush => {}
            PieceOrigin::Repeated(number) if failed.is_some() => {
                self.unflushed.forget(number);
                self.has_lost = true;
            }
            PieceOrigin::Repeated(_) => {}
            PieceOrigin::Request(number) => {
                if let Some(tracked) = self.requests.get_mut(&number) {
                    tracked.waiting_count -= 1;
                    tracked.failed = tracked.failed.or(failed);
                }
                self.finish_if_over(number);
            }
        }
    }

    /// Whether somebody hears of a flush for the clients of the device.
    fn is_flush_of_device(&self, origin: &PieceOrigin) -> bool {
        let PieceOrigin::Request(number) = origin else { return false };
        let of_device = |tracked: &RemoteRequest| {
            tracked.op == Op::Flush && matches!(tracked.owner, RequestOwner::Device(_))
        };
        self.requests.get(number).is_some_and(of_device)
    }

    fn finish_if_over(&mut self, number: u64) {
        let Some(tracked) = self.requests.get_mut(&number) else { return };
        let has_rest = tracked.failed.is_none() && !tracked.is_all_sent();
        if tracked.waiting_count > 0 || has_rest {
            return;
        }
        // Repeated changes come to lie over a durable one: so nothing below it may be repeated.
        let lies_over = tracked.fua && self.unflushed.overlaps(tracked.extent);
        let needs_flush = self.abilities.needs_flush_behind(tracked.fua) || lies_over;
        if needs_flush && tracked.failed.is_none() && tracked.flush == FlushState::None {
            tracked.flush = FlushState::Due;
            return self.unsent.push_front(number);
        }
        let mut tracked = self.requests.remove(&number).expect("it was there");
        let (op, extent, fua) = (tracked.op, tracked.extent, tracked.fua);
        let mut result = tracked.failed.map_or(Ok(()), |error| Err(io_error(error)));
        if result.is_ok() && op == Op::Flush && self.has_lost {
            // Whoever is told of it for the clients takes it away.
            self.has_lost = !matches!(tracked.owner, RequestOwner::Device(_));
            result = Err(io::Error::from_raw_os_error(libc::EIO));
        }
        // Nothing that is trimmed has to be as it was.
        let is_kept = self.abilities.can_flush() && !fua && op != Op::Trim;
        if result.is_ok() && is_kept && changes(op) {
            let data = tracked.buffer().filter(|_| op == Op::Write);
            self.unflushed.add(op, extent, data.map_or(&[], |data| data.as_slice()));
        }
        self.finish(tracked.owner, result);
    }

    /// The connection is lost: everything without an answer is sent again by the next one. No
    /// thread has the data of a request now.
    pub(in crate::io::remote) fn lost(&mut self) {
        debug_assert!(self.sending.is_none(), "the data is here");
        self.sent.clear();
        self.repeats = self.unflushed.numbers().map(|number| (number, 0)).collect();
        self.requests.values_mut().for_each(RemoteRequest::reset);
        self.unsent = self.requests.keys().copied().collect();
    }

    /// There is a new connection, to a server that can do this.
    pub(in crate::io::remote) fn connected(&mut self, abilities: Abilities) {
        self.abilities = abilities;
        self.refuses = false;
    }

    /// Requests fail from now on, those that wait as well, until there is a new connection.
    pub(in crate::io::remote) fn refuse(&mut self) {
        self.refuses = true;
        self.unsent.clear();
        for tracked in std::mem::take(&mut self.requests).into_values() {
            self.finish(tracked.owner, Err(unreachable_error()));
        }
    }
}

fn io_error(error: Error) -> io::Error {
    io::Error::from_raw_os_error(match error {
        Error::NotPermitted => libc::EPERM,
        Error::Io | Error::Shutdown => libc::EIO,
        Error::NoMemory => libc::ENOMEM,
        Error::Invalid => libc::EINVAL,
        Error::NoSpace => libc::ENOSPC,
        Error::Overflow => libc::EOVERFLOW,
        Error::NotSupported => libc::EOPNOTSUPP,
    })
}
