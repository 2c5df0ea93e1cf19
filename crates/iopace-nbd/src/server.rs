//! The server's side of one connection.
//!
//! ```text
//!  ExpectClientFlags ─► ExpectOption ─► ExpectOptionData ─┐      ┌─► ExpectRequest ─► ExpectPayload
//!                           ▲  └──► SkipOptionData ──┐     │      │        ▲  └─► SkipPayload │
//!                           └────────────────────────┴─────┴─ GO ─┘        └──────────┴───────┘
//! ```
//! Every length is checked before anything is allocated: an option's data is held only up to
//! [`ServerConfig::option_len_max`], a payload never.

use crate::export::{ExportInfo, Exports};
use crate::options::{self, Negotiated, Verdict};
use crate::replies::Replies;
use crate::{Error, MAX_REQUEST_LEN, wire};
use std::fmt;

/// Bytes received at once: about three hundred pipelined 4 KiB reads, or 15 writes of 4 KiB.
const INPUT_BYTES: usize = 64 * 1024;

/// Bounds of the handshake.
#[derive(Clone, Copy, Debug)]
pub struct ServerConfig {
    /// Longest option that is looked at. Longer ones are skipped and refused.
    pub option_len_max: u32,
    /// Longest option that is skipped. Longer ones end the connection.
    pub option_skip_max: u32,
    /// Most options before GO.
    pub options_max: u32,
}

impl Default for ServerConfig {
    /// An export name has at most 4096 bytes; a client that needs more than 16 KiB for one option,
    /// or a hundred options, is not one that wants to be served.
    fn default() -> ServerConfig {
        ServerConfig { option_len_max: 16 * 1024, option_skip_max: 1 << 20, options_max: 128 }
    }
}

/// What happened, or what is needed.
#[derive(Debug, PartialEq, Eq)]
pub enum Event {
    /// All that was received is used up: fill [`Server::recv_space`].
    NeedInput,
    /// Bytes of the handshake are in [`Server::take_output`].
    Send,
    /// The handshake is over; the rest of its bytes are in [`Server::take_output`].
    Opened(Opened),
    /// A request without payload, checked against the export.
    Request(Request),
    /// A write, checked against the export. Its payload of `len` bytes must be taken by
    /// [`Server::payload_buffered`] and [`Server::payload_received`] before the next poll.
    Write(Request),
    /// A request that must be answered by this error.
    Reject {
        /// Whose.
        cookie: u64,
        /// The answer.
        error: Error,
    },
    /// The connection is over: send what is in [`Server::take_output`], then close.
    Close(CloseReason),
}

/// What was agreed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Opened {
    /// The export's id, as [`Exports`] gave it.
    pub export: u64,
    /// How replies look.
    pub replies: Replies,
    /// Whether `base:allocation` may be asked for.
    pub block_status: bool,
}

/// What a request asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    /// Read data.
    Read,
    /// Write data.
    Write,
    /// Orderly end; has its own event.
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

/// A request, checked: it lies within the export, which can do what it asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// The client's name for it.
    pub cookie: u64,
    /// What to do.
    pub command: Command,
    /// Where.
    pub offset: u64,
    /// How much.
    pub len: u32,
    /// Durable before it is answered.
    pub fua: bool,
    /// WRITE_ZEROES: no hole, please.
    pub no_hole: bool,
    /// BLOCK_STATUS: one piece is enough.
    pub req_one: bool,
}

/// Why a connection is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CloseReason {
    /// The client said DISC.
    Disconnected,
    /// The client said ABORT.
    Aborted,
    /// Client flags that no client sends.
    UnknownClientFlags(u32),
    /// Not an option where one must stand.
    BadOptionMagic(u64),
    /// Not a request where one must stand.
    BadRequestMagic(u32),
    /// An option too long even to be skipped.
    OptionTooLong(u32),
    /// Options without end.
    TooManyOptions,
    /// EXPORT_NAME of an export that does not exist; the protocol knows no other answer.
    UnknownExport,
    /// A write whose payload is too long to be skipped.
    PayloadTooLong(u32),
}

impl CloseReason {
    /// Whether it is an ordinary end.
    pub const fn is_orderly(self) -> bool {
        matches!(self, CloseReason::Disconnected | CloseReason::Aborted)
    }
}

impl fmt::Display for CloseReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CloseReason::Disconnected => write!(f, "the client disconnected"),
            CloseReason::Aborted => write!(f, "the client ended the handshake"),
            CloseReason::UnknownClientFlags(flags) => write!(f, "unknown client flags {flags:#x}"),
            CloseReason::BadOptionMagic(magic) => write!(f, "bad option magic {magic:#x}"),
            CloseReason::BadRequestMagic(magic) => write!(f, "bad request magic {magic:#x}"),
            CloseReason::OptionTooLong(len) => write!(f, "an option of {len} bytes"),
            CloseReason::TooManyOptions => write!(f, "too many options"),
            CloseReason::UnknownExport => write!(f, "the export does not exist"),
            CloseReason::PayloadTooLong(len) => write!(f, "a write of {len} bytes"),
        }
    }
}

/// What must come next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// The client's four bytes of flags.
    ExpectClientFlags,
    /// The header of an option.
    ExpectOption,
    /// The data of an option that is short enough to be looked at.
    ExpectOptionData { option: u32, len: u32 },
    /// The data of an option that is refused unread.
    SkipOptionData { option: u32, left: u32 },
    /// The header of a request.
    ExpectRequest,
    /// The payload of a write, taken by the caller.
    ExpectPayload { left: u32 },
    /// The payload of a write that is refused.
    SkipPayload { cookie: u64, error: Error, left: u32 },
    /// Nothing any more.
    Closed(CloseReason),
}

/// The machine.
#[derive(Debug)]
pub struct Server {
    config: ServerConfig,
    state: State,
    input: Vec<u8>,
    /// The received and unused part of `input`.
    filled: std::ops::Range<usize>,
    output: Vec<u8>,
    options_seen: u32,
    negotiated: Negotiated,
    export: Option<ExportInfo>,
}

impl Server {
    /// A new connection; the greeting is ready to be sent.
    pub fn new(config: ServerConfig) -> Server {
        let mut output = Vec::new();
        output.extend_from_slice(&wire::NBDMAGIC.to_be_bytes());
        output.extend_from_slice(&wire::IHAVEOPT.to_be_bytes());
        let flags = wire::FLAG_FIXED_NEWSTYLE | wire::FLAG_NO_ZEROES;
        output.extend_from_slice(&flags.to_be_bytes());
        Server {
            config,
            state: State::ExpectClientFlags,
            input: vec![0; INPUT_BYTES],
            filled: 0..0,
            output,
            options_seen: 0,
            negotiated: Negotiated::default(),
            export: None,
        }
    }

    /// Whether no export is open yet.
    pub fn in_handshake(&self) -> bool {
        self.export.is_none()
    }

    /// Where the next received bytes go. Never empty after [`Event::NeedInput`].
    pub fn recv_space(&mut self) -> &mut [u8] {
        if self.filled.start > 0 {
            self.input.copy_within(self.filled.clone(), 0);
            self.filled = 0..self.filled.len();
        }
        &mut self.input[self.filled.end..]
    }

    /// `count` bytes were received there.
    pub fn received(&mut self, count: usize) {
        self.filled.end += count;
        assert!(self.filled.end <= self.input.len(), "more was received than there was room for");
    }

    /// Bytes to be sent.
    pub fn take_output(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.output)
    }

    /// The next event.
    pub fn poll(&mut self, exports: &dyn Exports) -> Event {
        loop {
            if let State::Closed(reason) = self.state {
                return Event::Close(reason);
            }
            if self.in_handshake() && !self.output.is_empty() {
                return Event::Send;
            }
            if let Some(event) = self.step(exports) {
                return event;
            }
        }
    }

    /// Takes what is already received of a payload; returns how much that was.
    pub fn payload_buffered(&mut self, into: &mut [u8]) -> usize {
        let State::ExpectPayload { left } = self.state else {
            return 0;
        };
        let count = self.filled.len().min(left as usize).min(into.len());
        into[..count].copy_from_slice(&self.input[self.filled.start..][..count]);
        self.filled.start += count;
        self.payload_received(count);
        count
    }

    /// `count` bytes of a payload were received by the caller itself.
    pub fn payload_received(&mut self, count: usize) {
        let State::ExpectPayload { left } = self.state else {
            assert_eq!(count, 0, "no payload is expected");
            return;
        };
        let count = u32::try_from(count).expect("a payload has at most 32 MiB");
        let left = left.checked_sub(count).expect("more than the payload was received");
        self.state = if left == 0 { State::ExpectRequest } else { State::ExpectPayload { left } };
    }

    /// Takes exactly `N` bytes if they are there.
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let bytes = self.input[self.filled.clone()].first_chunk::<N>().copied()?;
        self.filled.start += N;
        Some(bytes)
    }

    /// Throws away up to `left` bytes; returns how many are still to come.
    fn skip(&mut self, left: u32) -> u32 {
        let count = self.filled.len().min(left as usize);
        self.filled.start += count;
        left - count as u32
    }

    fn step(&mut self, exports: &dyn Exports) -> Option<Event> {
        match self.state {
            State::ExpectClientFlags => self.client_flags(),
            State::ExpectOption => self.option(),
            State::ExpectOptionData { option, len } => self.option_data(exports, option, len),
            State::SkipOptionData { option, left } => match self.skip(left) {
                0 => {
                    options::reply(&mut self.output, option, wire::REP_ERR_TOO_BIG, &[]);
                    self.state = State::ExpectOption;
                    None
                }
                left => {
                    self.state = State::SkipOptionData { option, left };
                    Some(Event::NeedInput)
                }
            },
            State::ExpectRequest => self.request(),
            State::ExpectPayload { .. } => Some(Event::NeedInput),
            State::SkipPayload { cookie, error, left } => match self.skip(left) {
                0 => {
                    self.state = State::ExpectRequest;
                    Some(Event::Reject { cookie, error })
                }
                left => {
                    self.state = State::SkipPayload { cookie, error, left };
                    Some(Event::NeedInput)
                }
            },
            State::Closed(reason) => Some(Event::Close(reason)),
        }
    }

    fn close(&mut self, reason: CloseReason) -> Option<Event> {
        self.state = State::Closed(reason);
        None
    }

    fn client_flags(&mut self) -> Option<Event> {
        let Some(bytes) = self.take::<4>() else {
            return Some(Event::NeedInput);
        };
        let flags = u32::from_be_bytes(bytes);
        let known = u32::from(wire::FLAG_FIXED_NEWSTYLE | wire::FLAG_NO_ZEROES);
        if flags & !known != 0 || flags & u32::from(wire::FLAG_FIXED_NEWSTYLE) == 0 {
            return self.close(CloseReason::UnknownClientFlags(flags));
        }
        self.negotiated.no_zeroes = flags & u32::from(wire::FLAG_NO_ZEROES) != 0;
        self.state = State::ExpectOption;
        None
    }

    fn option(&mut self) -> Option<Event> {
        let Some(bytes) = self.take::<{ wire::OPTION_LEN }>() else {
            return Some(Event::NeedInput);
        };
        let magic = u64::from_be_bytes(bytes[..8].try_into().expect("eight bytes"));
        let option = u32::from_be_bytes(bytes[8..12].try_into().expect("four bytes"));
        let len = u32::from_be_bytes(bytes[12..].try_into().expect("four bytes"));
        self.options_seen += 1;
        if magic != wire::IHAVEOPT {
            return self.close(CloseReason::BadOptionMagic(magic));
        }
        if self.options_seen > self.config.options_max {
            return self.close(CloseReason::TooManyOptions);
        }
        if len > self.config.option_skip_max {
            return self.close(CloseReason::OptionTooLong(len));
        }
        self.state = if len > self.config.option_len_max {
            State::SkipOptionData { option, left: len }
        } else {
            State::ExpectOptionData { option, len }
        };
        None
    }

    fn option_data(&mut self, exports: &dyn Exports, option: u32, len: u32) -> Option<Event> {
        if self.filled.len() < len as usize {
            return Some(Event::NeedInput);
        }
        let data = self.input[self.filled.start..][..len as usize].to_vec();
        self.filled.start += len as usize;
        self.state = State::ExpectOption;
        let (output, negotiated) = (&mut self.output, &mut self.negotiated);
        match options::answer(output, negotiated, exports, option, &data) {
            Verdict::GoOn => None,
            Verdict::Close(reason) => self.close(reason),
            Verdict::Open(export) => {
                let replies = Replies { structured: self.negotiated.structured };
                let block_status = self.negotiated.has_context(&export.name);
                self.negotiated.block_status = block_status;
                let opened = Opened { export: export.id, replies, block_status };
                self.export = Some(export);
                self.state = State::ExpectRequest;
                Some(Event::Opened(opened))
            }
        }
    }

    fn request(&mut self) -> Option<Event> {
        let Some(bytes) = self.take::<{ wire::REQUEST_LEN }>() else {
            return Some(Event::NeedInput);
        };
        let header = Header::parse(&bytes);
        if header.magic != wire::REQUEST_MAGIC {
            return self.close(CloseReason::BadRequestMagic(header.magic));
        }
        let (cookie, len) = (header.cookie, header.len);
        match self.check(&header) {
            Ok(Request { command: Command::Disconnect, .. }) => {
                self.close(CloseReason::Disconnected)
            }
            Ok(request @ Request { command: Command::Write, .. }) => {
                self.state = State::ExpectPayload { left: len };
                Some(Event::Write(request))
            }
            Ok(request) => Some(Event::Request(request)),
            Err(_) if header.kind == wire::CMD_WRITE && len > MAX_REQUEST_LEN => {
                self.close(CloseReason::PayloadTooLong(len))
            }
            Err(error) if header.kind == wire::CMD_WRITE && len > 0 => {
                self.state = State::SkipPayload { cookie, error, left: len };
                None
            }
            Err(error) => Some(Event::Reject { cookie, error }),
        }
    }

    /// Checks a request against the export and what was negotiated.
    fn check(&self, header: &Header) -> Result<Request, Error> {
        let export = self.export.as_ref().expect("requests come after an export was opened");
        let &Header { flags, kind, cookie, offset, len, .. } = header;
        let (command, known_flags) = known(kind).ok_or(Error::Invalid)?;
        let request = Request {
            cookie,
            command,
            offset,
            len,
            fua: flags & wire::CMD_FLAG_FUA != 0,
            no_hole: flags & wire::CMD_FLAG_NO_HOLE != 0,
            req_one: flags & wire::CMD_FLAG_REQ_ONE != 0,
        };
        if command == Command::Disconnect {
            return Ok(request);
        }
        if flags & !known_flags != 0
            || (flags & wire::CMD_FLAG_DF != 0 && !self.negotiated.structured)
        {
            return Err(Error::Invalid);
        }
        let writes = matches!(command, Command::Write | Command::Trim | Command::WriteZeroes);
        if writes && export.read_only {
            return Err(Error::NotPermitted);
        }
        if !can(export, command, flags, self.negotiated.block_status) {
            return Err(Error::Invalid);
        }
        if command == Command::Flush {
            // Offset and length must be zero; a client that sends more gets its flush all the same.
            return Ok(Request { offset: 0, len: 0, ..request });
        }
        let past_the_end =
            offset.checked_add(u64::from(len)).is_none_or(|end| end > export.size_bytes);
        let moves_data = matches!(command, Command::Read | Command::Write);
        if moves_data && len > export.block_max.min(MAX_REQUEST_LEN) {
            return Err(Error::Overflow);
        }
        if past_the_end {
            let grows = matches!(command, Command::Write | Command::WriteZeroes);
            return Err(if grows { Error::NoSpace } else { Error::Invalid });
        }
        let unaligned = |value: u64| !value.is_multiple_of(u64::from(export.block_min.max(1)));
        if len == 0 || unaligned(offset) || unaligned(u64::from(len)) {
            // The protocol leaves empty requests undefined; they are refused, as nbdkit does.
            return Err(Error::Invalid);
        }
        Ok(request)
    }
}

/// The command of that number and the flags it may carry.
fn known(kind: u16) -> Option<(Command, u16)> {
    let fua = wire::CMD_FLAG_FUA;
    Some(match kind {
        // FUA on a command that writes nothing is allowed and means nothing.
        wire::CMD_READ => (Command::Read, fua | wire::CMD_FLAG_DF),
        wire::CMD_WRITE => (Command::Write, fua),
        wire::CMD_DISC => (Command::Disconnect, 0),
        wire::CMD_FLUSH => (Command::Flush, fua),
        wire::CMD_TRIM => (Command::Trim, fua),
        wire::CMD_CACHE => (Command::Cache, fua),
        wire::CMD_WRITE_ZEROES => {
            let zero = wire::CMD_FLAG_NO_HOLE | wire::CMD_FLAG_FAST_ZERO;
            (Command::WriteZeroes, fua | zero)
        }
        wire::CMD_BLOCK_STATUS => (Command::BlockStatus, fua | wire::CMD_FLAG_REQ_ONE),
        _ => return None,
    })
}

/// Whether the export can do it.
fn can(export: &ExportInfo, command: Command, flags: u16, block_status: bool) -> bool {
    match command {
        Command::Read | Command::Write | Command::Disconnect => true,
        Command::Flush => export.can_flush,
        Command::Trim => export.can_trim,
        Command::Cache => export.can_cache,
        Command::WriteZeroes => {
            let fast = flags & wire::CMD_FLAG_FAST_ZERO != 0;
            export.can_write_zeroes && (export.can_fast_zero || !fast)
        }
        Command::BlockStatus => block_status,
    }
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
