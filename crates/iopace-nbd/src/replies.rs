//! Replies of the transmission phase. A [`Replies`] is a small value: any thread that finishes a
//! request may hold a copy and write the reply's header; data follows it on the wire.

use crate::Error;
use crate::wire;

/// How replies look on one connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Replies {
    /// Structured replies were negotiated.
    pub structured: bool,
}

/// One piece of `base:allocation`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockStatus {
    /// Its length in bytes.
    pub len: u32,
    /// Whether it is a hole that reads as zeroes.
    pub is_hole: bool,
}

/// The id under which `base:allocation` is known on every connection.
pub const BASE_ALLOCATION_ID: u32 = 1;

impl Replies {
    /// The header of a read of `len` bytes at `offset` that succeeded; the data follows it.
    pub fn read(&self, out: &mut Vec<u8>, cookie: u64, offset: u64, len: u32) {
        if !self.structured {
            return self.done(out, cookie);
        }
        if len == 0 {
            return chunk(out, wire::REPLY_TYPE_NONE, cookie, 0);
        }
        chunk(out, wire::REPLY_TYPE_OFFSET_DATA, cookie, 8 + len);
        out.extend_from_slice(&offset.to_be_bytes());
    }

    /// Success of a request without data. Always a simple reply, which the protocol allows for all
    /// commands but READ (and BLOCK_STATUS).
    pub fn done(&self, out: &mut Vec<u8>, cookie: u64) {
        simple(out, 0, cookie);
    }

    /// Failure of any request.
    pub fn error(&self, out: &mut Vec<u8>, cookie: u64, error: Error) {
        if !self.structured {
            return simple(out, error.code(), cookie);
        }
        let message = error.to_string();
        let len = u16::try_from(message.len()).expect("messages are short");
        chunk(out, wire::REPLY_TYPE_ERROR, cookie, 6 + u32::from(len));
        out.extend_from_slice(&error.code().to_be_bytes());
        out.extend_from_slice(&len.to_be_bytes());
        out.extend_from_slice(message.as_bytes());
    }

    /// The answer to BLOCK_STATUS: at least one piece.
    pub fn block_status(&self, out: &mut Vec<u8>, cookie: u64, pieces: &[BlockStatus]) {
        let len = u32::try_from(4 + 8 * pieces.len()).expect("the caller bounds the pieces");
        chunk(out, wire::REPLY_TYPE_BLOCK_STATUS, cookie, len);
        out.extend_from_slice(&BASE_ALLOCATION_ID.to_be_bytes());
        for piece in pieces {
            let flags = if piece.is_hole { wire::STATE_HOLE | wire::STATE_ZERO } else { 0 };
            out.extend_from_slice(&piece.len.to_be_bytes());
            out.extend_from_slice(&flags.to_be_bytes());
        }
    }
}

fn simple(out: &mut Vec<u8>, error: u32, cookie: u64) {
    out.extend_from_slice(&wire::SIMPLE_REPLY_MAGIC.to_be_bytes());
    out.extend_from_slice(&error.to_be_bytes());
    out.extend_from_slice(&cookie.to_be_bytes());
}

/// A structured reply of one chunk.
fn chunk(out: &mut Vec<u8>, kind: u16, cookie: u64, len: u32) {
    out.extend_from_slice(&wire::STRUCTURED_REPLY_MAGIC.to_be_bytes());
    out.extend_from_slice(&wire::REPLY_FLAG_DONE.to_be_bytes());
    out.extend_from_slice(&kind.to_be_bytes());
    out.extend_from_slice(&cookie.to_be_bytes());
    out.extend_from_slice(&len.to_be_bytes());
}
