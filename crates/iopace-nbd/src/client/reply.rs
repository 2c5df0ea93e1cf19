//! Replies of the transmission phase as a client reads them.

use crate::{Error, MAX_REQUEST_LEN, wire};

/// Bytes of a simple reply.
const SIMPLE_LEN: usize = 16;

/// Bytes of the header of a chunk of a structured reply.
const CHUNK_LEN: usize = 20;

/// Longest message of an error in bytes (the protocol's own bound for strings).
const MESSAGE_LEN_MAX: usize = 4096;

/// Most bytes that [`parse_reply`] ever needs: the longest error with an offset.
pub const HEADER_LEN_MAX: usize = CHUNK_LEN + 6 + MESSAGE_LEN_MAX + 8;

/// A reply to a request, or one piece of a structured reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reply {
    /// Whose.
    pub cookie: u64,
    /// What it says.
    pub what: What,
    /// Whether it is the last piece for this cookie.
    pub is_last: bool,
    /// Bytes that it took; what follows on the wire comes behind them.
    pub header_len: usize,
}

/// What a reply says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// Success, in a simple reply: if it answers a READ, its data follows.
    DoneSimple,
    /// Success, or nothing more to come; no data follows.
    Done,
    /// `len` bytes of data follow, which lie at `offset` of the export.
    Data {
        /// Where they lie.
        offset: u64,
        /// How many.
        len: u32,
    },
    /// `len` bytes at `offset` of the export are zero; no data follows.
    Hole {
        /// Where they lie.
        offset: u64,
        /// How many.
        len: u32,
    },
    /// `len` bytes follow, for [`parse_extents`].
    BlockStatus {
        /// The meta context.
        context: u32,
        /// How many bytes.
        len: u32,
    },
    /// Failure; no data follows.
    Error(Error),
}

/// How far it got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parsed {
    /// So many bytes from the start of the reply are needed, more than there are, and at most
    /// [`HEADER_LEN_MAX`].
    Needs(usize),
    /// The reply, or a piece of it.
    Reply(Reply),
}

/// What is wrong with a reply. The connection is of no use any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadReply(pub &'static str);

/// One piece of `base:allocation`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// Its length in bytes.
    pub len: u32,
    /// `STATE_` of [`wire`].
    pub flags: u32,
}

/// Parses the front of what was received: a simple reply, or a chunk up to its data.
///
/// # Errors
/// If it is neither, or does not keep to the protocol.
pub fn parse_reply(bytes: &[u8]) -> Result<Parsed, BadReply> {
    let Some(magic) = bytes.first_chunk() else {
        return Ok(Parsed::Needs(4));
    };
    match u32::from_be_bytes(*magic) {
        wire::SIMPLE_REPLY_MAGIC => Ok(parse_simple(bytes)),
        wire::STRUCTURED_REPLY_MAGIC => parse_chunk(bytes),
        _ => Err(BadReply("no magic where a reply must stand")),
    }
}

fn parse_simple(bytes: &[u8]) -> Parsed {
    let Some(bytes) = bytes.first_chunk::<SIMPLE_LEN>() else {
        return Parsed::Needs(SIMPLE_LEN);
    };
    let what = match u32_at(bytes, 4) {
        0 => What::DoneSimple,
        code => What::Error(Error::from_code(code)),
    };
    let cookie = u64_at(bytes, 8);
    Parsed::Reply(Reply { cookie, what, is_last: true, header_len: SIMPLE_LEN })
}

fn parse_chunk(bytes: &[u8]) -> Result<Parsed, BadReply> {
    if bytes.len() < CHUNK_LEN {
        return Ok(Parsed::Needs(CHUNK_LEN));
    }
    let (flags, kind) = (u16_at(bytes, 4), u16_at(bytes, 6));
    let (cookie, len) = (u64_at(bytes, 8), u32_at(bytes, 16));
    let is_last = flags & wire::REPLY_FLAG_DONE != 0;
    let fixed_len = match (kind, len) {
        (wire::REPLY_TYPE_NONE, 0) if is_last => 0,
        (wire::REPLY_TYPE_OFFSET_DATA, 9..) if len - 8 <= MAX_REQUEST_LEN => 8,
        (wire::REPLY_TYPE_OFFSET_HOLE, 12) => 12,
        (wire::REPLY_TYPE_BLOCK_STATUS, 12..) if len % 8 == 4 && len <= MAX_REQUEST_LEN => 4,
        // Errors, also those of kinds that we do not know, are read whole.
        (0x8000.., 6..) if len as usize <= HEADER_LEN_MAX - CHUNK_LEN => len as usize,
        _ => return Err(BadReply("a chunk of unknown kind or impossible length")),
    };
    let header_len = CHUNK_LEN + fixed_len;
    if bytes.len() < header_len {
        return Ok(Parsed::Needs(header_len));
    }
    let fixed = &bytes[CHUNK_LEN..header_len];
    let what = match kind {
        wire::REPLY_TYPE_NONE => What::Done,
        wire::REPLY_TYPE_OFFSET_DATA => What::Data { offset: u64_at(fixed, 0), len: len - 8 },
        wire::REPLY_TYPE_OFFSET_HOLE => {
            What::Hole { offset: u64_at(fixed, 0), len: u32_at(fixed, 8) }
        }
        wire::REPLY_TYPE_BLOCK_STATUS => {
            What::BlockStatus { context: u32_at(fixed, 0), len: len - 4 }
        }
        _ => {
            if usize::from(u16_at(fixed, 4)) > fixed.len() - 6 {
                return Err(BadReply("a message longer than the error that carries it"));
            }
            What::Error(Error::from_code(u32_at(fixed, 0)))
        }
    };
    Ok(Parsed::Reply(Reply { cookie, what, is_last, header_len }))
}

/// The pieces behind the header of a reply to BLOCK_STATUS. A rest of less than a piece is ignored;
/// [`parse_reply`] announces none.
pub fn parse_extents(bytes: &[u8]) -> Vec<Extent> {
    let pieces = bytes.as_chunks::<8>().0.iter();
    pieces.map(|piece| Extent { len: u32_at(piece, 0), flags: u32_at(piece, 4) }).collect()
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    (u32::from(u16_at(bytes, at)) << 16) | u32::from(u16_at(bytes, at + 2))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    (u64::from(u32_at(bytes, at)) << 32) | u64::from(u32_at(bytes, at + 4))
}
