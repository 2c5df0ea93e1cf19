//! A request that is not finished.

use crate::buffer::Buffer;
use crate::io::IoRequest;
use crate::io::remote::abilities::{Abilities, Piece};
use iopace_core::request::{Extent, Op};
use iopace_nbd::{Error, wire};
use std::io;
use std::sync::mpsc::SyncSender;

/// The one that a request is finished to.
#[derive(Debug)]
pub(super) enum RequestOwner {
    Device(IoRequest),
    /// A thread that waits for a flush.
    Caller(SyncSender<io::Result<()>>),
}

/// A request that is not finished.
#[derive(Debug)]
pub(super) struct RemoteRequest {
    pub(super) owner: RequestOwner,
    pub(super) op: Op,
    pub(super) extent: Extent,
    pub(super) fua: bool,
    /// Bytes for which requests were sent.
    sent_bytes: u64,
    /// The state of its flush, if it is one or needs one behind it.
    pub(super) flush: FlushState,
    /// Its pieces that wait for an answer.
    pub(super) waiting_count: u32,
    pub(super) failed: Option<Error>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FlushState {
    None,
    Due,
    Sent,
}

impl RemoteRequest {
    /// One of which nothing is sent.
    pub(super) fn new(owner: RequestOwner, (op, extent, fua): (Op, Extent, bool)) -> RemoteRequest {
        let mut tracked = RemoteRequest {
            owner,
            op,
            extent,
            fua,
            sent_bytes: 0,
            flush: FlushState::None,
            waiting_count: 0,
            failed: None,
        };
        tracked.reset();
        tracked
    }

    /// Nothing of it is sent.
    pub(super) fn reset(&mut self) {
        self.sent_bytes = 0;
        self.waiting_count = 0;
        self.failed = None;
        self.flush = if self.op == Op::Flush { FlushState::Due } else { FlushState::None };
    }

    /// Its buffer, if it is the device's.
    pub(super) fn buffer(&mut self) -> Option<&mut Buffer> {
        match &mut self.owner {
            RequestOwner::Device(request) => Some(&mut request.buffer),
            RequestOwner::Caller(_) => None,
        }
    }

    pub(super) fn is_all_sent(&self) -> bool {
        self.sent_bytes == self.extent.len().get() && self.flush != FlushState::Due
    }

    /// Its next piece; `None` if all were sent, or the rest is given up.
    pub(super) fn next_piece(&self, abilities: &Abilities) -> Option<Piece> {
        match self.flush {
            _ if self.failed.is_some() => None,
            FlushState::Due => Some(Piece::FLUSH),
            _ if self.is_all_sent() => None,
            _ => Some(abilities.piece(self.op, self.extent, self.sent_bytes, self.fua)),
        }
    }

    pub(super) fn sent(&mut self, piece: &Piece) {
        self.waiting_count += 1;
        match piece.kind {
            wire::CMD_FLUSH => self.flush = FlushState::Sent,
            _ => self.sent_bytes += u64::from(piece.len),
        }
    }
}

/// Whether such requests change the export.
pub(super) fn changes(op: Op) -> bool {
    matches!(op, Op::Write | Op::Trim | Op::WriteZeroes)
}
