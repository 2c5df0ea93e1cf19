//! Requests, and what is wrong with those that are refused.
//!
//! Errors follow the protocol's section "Error values": a write to a read-only export is EPERM, a
//! write past the end ENOSPC, and EINVAL is everything else. Where the protocol leaves it open:
//! - empty READ, WRITE, TRIM, CACHE, WRITE_ZEROES and BLOCK_STATUS ("unspecified") are EINVAL;
//! - FLUSH with an offset or a length (both "must be zero") is a flush all the same;
//! - DISC is believed whatever else its header says;
//! - CACHE, TRIM, WRITE_ZEROES and BLOCK_STATUS, which move no data, may be as long as the export
//!   (the protocol lets a server refuse them over the advertised maximum; clients do not all ask).

use crate::export::ExportInfo;
use crate::{CloseReason, Error, MAX_REQUEST_LEN, wire};

/// What a request asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    /// Read data.
    Read,
    /// Write data.
    Write,
    /// Orderly end. Never seen in an event: it is [`CloseReason::Disconnected`].
    Disconnect,
    /// Make finished writes durable.
    Flush,
    /// Data no longer needed.
    Trim,
    /// Read ahead.
    Cache,
    /// Make zero.
    WriteZeroes,
    /// Ask for allocation.
    BlockStatus,
}

/// A request, checked: it lies within the export, is not empty (FLUSH aside), and asks for what the
/// export was said to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// The client's name for it. Clients may use one twice at a time; that is their affair.
    pub cookie: u64,
    /// What to do.
    pub command: Command,
    /// Where, in bytes.
    pub offset: u64,
    /// How much, in bytes; at most [`MAX_REQUEST_LEN`] for READ and WRITE.
    pub len: u32,
    /// Durable before it is answered.
    pub fua: bool,
    /// WRITE_ZEROES: no hole, please.
    pub no_hole: bool,
    /// WRITE_ZEROES: answer [`Error::NotSupported`] if it is no quicker than a write. Only if the
    /// export [can tell](ExportInfo::can_fast_zero).
    pub fast_zero: bool,
    /// BLOCK_STATUS: exactly one piece, no longer than the request.
    pub req_one: bool,
}

/// What requests are checked against.
#[derive(Debug)]
pub(crate) struct Agreed {
    size_bytes: u64,
    block_min: u32,
    len_max: u32,
    /// The transmission flags that the client was told.
    flags: u16,
    block_status: bool,
}

impl Agreed {
    pub(crate) fn new(export: &ExportInfo, structured: bool, block_status: bool) -> Agreed {
        let [block_min, _, len_max] = export.block_sizes();
        let flags = export.flags(structured);
        Agreed { size_bytes: export.size_bytes, block_min, len_max, flags, block_status }
    }

    /// The export reaches at least so far by now, in bytes.
    pub(crate) fn grow_to(&mut self, size_bytes: u64) {
        self.size_bytes = self.size_bytes.max(size_bytes);
    }

    fn told(&self, flag: u16) -> bool {
        self.flags & flag != 0
    }
}

/// What becomes of a request.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Ruling {
    /// It is carried out; a payload follows if it is a write.
    Accept(Request),
    /// It is answered by the error, once that many bytes of payload are skipped.
    Refuse { cookie: u64, error: Error, payload_len: u32 },
    /// The connection ends.
    Close(CloseReason),
}

/// Rules on the header of a request.
pub(crate) fn rule(bytes: &[u8; wire::REQUEST_LEN], agreed: &Agreed) -> Ruling {
    let header = Header::parse(bytes);
    if header.magic != wire::REQUEST_MAGIC {
        return Ruling::Close(CloseReason::BadRequestMagic(header.magic));
    }
    if header.kind == wire::CMD_DISC {
        return Ruling::Close(CloseReason::Disconnected);
    }
    let payload_len = if header.kind == wire::CMD_WRITE { header.len } else { 0 };
    if payload_len > MAX_REQUEST_LEN {
        return Ruling::Close(CloseReason::PayloadTooLong(payload_len));
    }
    match check(&header, agreed) {
        Ok(request) => Ruling::Accept(request),
        Err(error) => Ruling::Refuse { cookie: header.cookie, error, payload_len },
    }
}

fn check(header: &Header, agreed: &Agreed) -> Result<Request, Error> {
    let &Header { flags, cookie, offset, len, .. } = header;
    let command = check_command(header, agreed)?;
    let has = |flag: u16| flags & flag != 0;
    let request = Request {
        cookie,
        command,
        offset,
        len,
        fua: has(wire::CMD_FLAG_FUA),
        no_hole: has(wire::CMD_FLAG_NO_HOLE),
        fast_zero: has(wire::CMD_FLAG_FAST_ZERO),
        req_one: has(wire::CMD_FLAG_REQ_ONE),
    };
    if command == Command::Flush {
        return Ok(Request { offset: 0, len: 0, ..request });
    }
    if matches!(command, Command::Read | Command::Write) && len > agreed.len_max {
        // EOVERFLOW is kept for reads that may not be cut into pieces.
        return Err(if has(wire::CMD_FLAG_DF) { Error::Overflow } else { Error::Invalid });
    }
    if offset.checked_add(u64::from(len)).is_none_or(|end| end > agreed.size_bytes) {
        let grows = matches!(command, Command::Write | Command::WriteZeroes);
        return Err(if grows { Error::NoSpace } else { Error::Invalid });
    }
    let is_aligned = |value: u64| value.is_multiple_of(u64::from(agreed.block_min));
    if len == 0 || !is_aligned(offset) || !is_aligned(u64::from(len)) {
        return Err(Error::Invalid);
    }
    Ok(request)
}

/// The command, if there is such a one, the export can do it, and its flags were offered for it.
fn check_command(header: &Header, agreed: &Agreed) -> Result<Command, Error> {
    let always = true;
    // The flag that a command may carry beside FUA, if the client was told so.
    let (command, is_offered, flags) = match header.kind {
        wire::CMD_READ => (Command::Read, always, wire::CMD_FLAG_DF),
        wire::CMD_WRITE => (Command::Write, always, 0),
        wire::CMD_FLUSH => (Command::Flush, agreed.told(wire::SEND_FLUSH), 0),
        wire::CMD_TRIM => (Command::Trim, agreed.told(wire::SEND_TRIM), 0),
        wire::CMD_CACHE => (Command::Cache, agreed.told(wire::SEND_CACHE), 0),
        wire::CMD_WRITE_ZEROES => {
            let flags = wire::CMD_FLAG_NO_HOLE | wire::CMD_FLAG_FAST_ZERO;
            (Command::WriteZeroes, agreed.told(wire::SEND_WRITE_ZEROES), flags)
        }
        wire::CMD_BLOCK_STATUS => {
            (Command::BlockStatus, agreed.block_status, wire::CMD_FLAG_REQ_ONE)
        }
        _ => return Err(Error::Invalid),
    };
    let writes = matches!(command, Command::Write | Command::Trim | Command::WriteZeroes);
    if writes && agreed.told(wire::READ_ONLY) {
        return Err(Error::NotPermitted);
    }
    let offers = [
        (wire::CMD_FLAG_DF, wire::SEND_DF),
        (wire::CMD_FLAG_FAST_ZERO, wire::SEND_FAST_ZERO),
        (wire::CMD_FLAG_FUA, wire::SEND_FUA),
    ];
    let missing = offers.iter().filter(|(_, offer)| !agreed.told(*offer));
    let missing = missing.fold(0, |all, (flag, _)| all | flag);
    // FUA on a command that writes nothing is allowed and means nothing.
    let known_flags = (flags | wire::CMD_FLAG_FUA) & !missing;
    if !is_offered || header.flags & !known_flags != 0 {
        return Err(Error::Invalid);
    }
    Ok(command)
}

/// A request as it stands on the wire.
struct Header {
    magic: u32,
    flags: u16,
    kind: u16,
    cookie: u64,
    offset: u64,
    len: u32,
}

impl Header {
    fn parse(bytes: &[u8; wire::REQUEST_LEN]) -> Header {
        let u16_at = |at: usize| u16::from_be_bytes([bytes[at], bytes[at + 1]]);
        let u32_at = |at: usize| (u32::from(u16_at(at)) << 16) | u32::from(u16_at(at + 2));
        let u64_at = |at: usize| (u64::from(u32_at(at)) << 32) | u64::from(u32_at(at + 4));
        Header {
            magic: u32_at(0),
            flags: u16_at(4),
            kind: u16_at(6),
            cookie: u64_at(8),
            offset: u64_at(16),
            len: u32_at(24),
        }
    }
}

#[cfg(test)]
mod tests;
