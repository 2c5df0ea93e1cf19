//! Replies of the transmission phase. A [`Replies`] is a small value: any thread that finishes a
//! request may hold a copy and write the reply's header; data follows it on the wire.

use crate::Error;
use crate::wire;

/// Most pieces in one answer to BLOCK_STATUS: 64 KiB on the wire. A client that wants more asks
/// again from where the answer ends, as the protocol lets it.
pub const BLOCK_STATUS_PIECES_MAX: usize = 8192;

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

    /// The answer to BLOCK_STATUS. Pieces after the first [`BLOCK_STATUS_PIECES_MAX`] are left out.
    /// The protocol wants at least one, and none that is empty: if that cannot be had, the answer
    /// is [`Error::Io`]. If only one was asked for ([`req_one`](crate::Request::req_one)), the
    /// caller gives one, no longer than the request.
    pub fn block_status(&self, out: &mut Vec<u8>, cookie: u64, pieces: &[BlockStatus]) {
        let pieces = &pieces[..pieces.len().min(BLOCK_STATUS_PIECES_MAX)];
        let count = pieces.iter().filter(|piece| piece.len > 0).count();
        if count == 0 {
            return self.error(out, cookie, Error::Io);
        }
        chunk(out, wire::REPLY_TYPE_BLOCK_STATUS, cookie, 4 + 8 * count as u32);
        out.extend_from_slice(&BASE_ALLOCATION_ID.to_be_bytes());
        for piece in pieces.iter().filter(|piece| piece.len > 0) {
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

#[cfg(test)]
mod tests {
    use super::*;

    const SIMPLE: Replies = Replies { structured: false };
    const STRUCTURED: Replies = Replies { structured: true };
    const COOKIE: u64 = 0x0102_0304_0506_0708;

    fn written(write: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
        let mut out = b"before".to_vec();
        write(&mut out);
        out.strip_prefix(b"before").expect("replies are appended").to_vec()
    }

    /// Bytes of a simple reply.
    fn simple_reply(error: u8) -> Vec<u8> {
        [0x67, 0x44, 0x66, 0x98, 0, 0, 0, error, 1, 2, 3, 4, 5, 6, 7, 8].to_vec()
    }

    /// Bytes of a chunk that is the whole reply.
    fn whole_chunk(kind: [u8; 2], payload: &[u8]) -> Vec<u8> {
        let mut bytes = vec![0x66, 0x8e, 0x33, 0xef, 0, 1, kind[0], kind[1]];
        bytes.extend([1, 2, 3, 4, 5, 6, 7, 8]);
        bytes.extend((payload.len() as u32).to_be_bytes());
        bytes.extend(payload);
        bytes
    }

    #[test]
    fn a_read_is_a_simple_reply_or_one_chunk_of_data() {
        let out = written(|out| SIMPLE.read(out, COOKIE, 4096, 512));
        assert_eq!(out, simple_reply(0));
        let out = written(|out| STRUCTURED.read(out, COOKIE, 4096, 512));
        let mut expected = whole_chunk([0, 1], &[0, 0, 0, 0, 0, 0, 16, 0]);
        expected[16..20].copy_from_slice(&520u32.to_be_bytes());
        assert_eq!(out, expected, "the length counts the data that follows");
        let out = written(|out| STRUCTURED.read(out, COOKIE, 4096, 0));
        assert_eq!(out, whole_chunk([0, 0], &[]), "a chunk of data must not be empty");
    }

    #[test]
    fn success_without_data_is_a_simple_reply_on_either() {
        assert_eq!(written(|out| SIMPLE.done(out, COOKIE)), simple_reply(0));
        assert_eq!(written(|out| STRUCTURED.done(out, COOKIE)), simple_reply(0));
    }

    #[test]
    fn errors_carry_a_message_where_they_can() {
        let out = written(|out| SIMPLE.error(out, COOKIE, Error::NoSpace));
        assert_eq!(out, simple_reply(28));
        let out = written(|out| STRUCTURED.error(out, COOKIE, Error::Shutdown));
        let payload = [b"\0\0\0\x6c\0\x18".as_slice(), b"the server is going away"].concat();
        assert_eq!(out, whole_chunk([0x80, 1], &payload));
    }

    #[test]
    fn block_status_is_one_chunk_of_pieces() {
        let pieces = [(4096, true), (0, false), (512, false)]
            .map(|(len, is_hole)| BlockStatus { len, is_hole });
        let out = written(|out| STRUCTURED.block_status(out, COOKIE, &pieces));
        let payload = [0, 0, 0, 1, 0, 0, 16, 0, 0, 0, 0, 3, 0, 0, 2, 0, 0, 0, 0, 0];
        assert_eq!(out, whole_chunk([0, 5], &payload), "the empty piece is left out");
    }

    #[test]
    fn block_status_is_never_empty_and_never_endless() {
        let empty = written(|out| STRUCTURED.block_status(out, COOKIE, &[]));
        assert_eq!(empty, written(|out| STRUCTURED.error(out, COOKIE, Error::Io)));
        let pieces = vec![BlockStatus { len: 512, is_hole: false }; BLOCK_STATUS_PIECES_MAX + 1];
        let out = written(|out| STRUCTURED.block_status(out, COOKIE, &pieces));
        assert_eq!(out.len(), 20 + 4 + 8 * BLOCK_STATUS_PIECES_MAX);
    }
}
