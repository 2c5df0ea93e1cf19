//! The server's side of one connection.
//!
//! ```text
//! ExpectClientFlags ─► ExpectOption ─► ExpectOptionData ─┐      ┌─► ExpectRequest ─► ExpectPayload
//!                          ▲  └──► SkipOptionData ──┐     │      │        ▲  └─► SkipPayload │
//!                          └────────────────────────┴─────┴─ GO ─┘        └──────────┴───────┘
//! ```
//! STARTTLS leads to ExpectTls, and [`Server::tls_started`] from there back to ExpectOption.
//! From every state a [`CloseReason`] leads to Closed, where the machine stays.
//!
//! Every length is checked before anything is allocated: an option's data is held only up to
//! [`ServerConfig::option_len_max`], a payload never. So one connection holds its input buffer of
//! 64 KiB and, in the handshake, one option and the answer to it.

use crate::close::CloseReason;
use crate::event::{Event, Opened};
use crate::export::Exports;
use crate::options::{self, Negotiated, Verdict};
use crate::replies::Replies;
use crate::request::{self, Agreed, Command, Ruling};
use crate::tls_mode::TlsMode;
use crate::{Error, wire};

/// Bytes received at once: about 2300 pipelined reads, or 15 writes of 4 KiB. Beyond that a system
/// call more is lost in the noise of the copying.
const INPUT_BYTES: usize = 64 * 1024;

/// Bounds of the handshake.
#[derive(Clone, Copy, Debug)]
pub struct ServerConfig {
    /// Longest option in bytes that is looked at, at most 64 KiB. Longer ones are skipped and
    /// refused. Room for four names of the longest kind.
    pub option_len_max: u32,
    /// Longest option in bytes that is skipped. Longer ones end the connection: skipping 4 GiB for
    /// somebody who has no export open is no service to anybody.
    pub option_skip_max: u32,
    /// Most options before GO. Clients use fewer than ten; scripts that probe a server, dozens.
    pub options_max: u32,
    /// Whether clients may, or must, encrypt the connection.
    pub tls: TlsMode,
}

impl Default for ServerConfig {
    fn default() -> ServerConfig {
        ServerConfig {
            option_len_max: 16 * 1024,
            option_skip_max: 1 << 20,
            options_max: 128,
            tls: TlsMode::Off,
        }
    }
}

/// What must come next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ServerState {
    /// The client's four bytes of flags.
    ExpectClientFlags,
    /// The header of an option.
    ExpectOption,
    /// The data of an option that is short enough to be looked at.
    ExpectOptionData { option: u32, len: u32 },
    /// The data of an option that is refused unread.
    SkipOptionData { option: u32, left: u32 },
    /// The handshake of TLS, by the caller.
    ExpectTls,
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
    state: ServerState,
    input: Vec<u8>,
    /// The received and unused part of `input`.
    filled: std::ops::Range<usize>,
    output: Vec<u8>,
    options_seen: u32,
    negotiated: Negotiated,
    /// What was agreed on when an export was opened.
    agreed: Option<Agreed>,
}

impl Server {
    /// A new connection; the greeting is ready to be sent.
    pub fn new(config: ServerConfig) -> Server {
        let mut output = Vec::new();
        output.extend_from_slice(&wire::NBDMAGIC.to_be_bytes());
        output.extend_from_slice(&wire::IHAVEOPT.to_be_bytes());
        let flags = wire::FLAG_FIXED_NEWSTYLE | wire::FLAG_NO_ZEROES;
        output.extend_from_slice(&flags.to_be_bytes());
        // An option that is looked at must fit the input buffer as a whole.
        let option_len_max = config.option_len_max.min(INPUT_BYTES as u32);
        Server {
            config: ServerConfig { option_len_max, ..config },
            state: ServerState::ExpectClientFlags,
            input: vec![0; INPUT_BYTES],
            filled: 0..0,
            output,
            options_seen: 0,
            negotiated: Negotiated::new(config.tls),
            agreed: None,
        }
    }

    /// Whether no export is open yet. The caller, who has the clock, ends a handshake that lasts.
    pub fn in_handshake(&self) -> bool {
        self.agreed.is_none()
    }

    /// The connection is encrypted from now on: what the client agreed on before is forgotten.
    ///
    /// # Panics
    /// If the last event was another one than [`Event::StartTls`].
    pub fn tls_started(&mut self) {
        assert_eq!(self.state, ServerState::ExpectTls, "nobody asked for it");
        self.negotiated.encrypted();
        self.state = ServerState::ExpectOption;
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
    ///
    /// # Panics
    /// If there was no room for so many.
    pub fn received(&mut self, count: usize) {
        assert!(count <= self.input.len() - self.filled.end, "more received than there was room");
        self.filled.end += count;
    }

    /// Bytes to be sent.
    pub fn take_output(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.output)
    }

    /// The next event. A closed connection reports its end again and again.
    pub fn poll(&mut self, exports: &dyn Exports) -> Event {
        loop {
            if let ServerState::Closed(reason) = self.state {
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

    /// The export that is open has at least so many bytes by now. The protocol has no word for
    /// that: a client who learns of it in another way may ask for what is there since.
    pub fn grow_to(&mut self, size_bytes: u64) {
        if let Some(agreed) = &mut self.agreed {
            agreed.grow_to(size_bytes);
        }
    }

    /// Bytes of the payload of the last [`Event::Write`] that were not taken yet.
    pub fn payload_left(&self) -> u32 {
        if let ServerState::ExpectPayload { left } = self.state { left } else { 0 }
    }

    /// Takes what is already received of a payload; returns how many bytes that was.
    pub fn payload_buffered(&mut self, into: &mut [u8]) -> usize {
        let count = self.filled.len().min(self.payload_left() as usize).min(into.len());
        into[..count].copy_from_slice(&self.input[self.filled.start..][..count]);
        self.filled.start += count;
        self.payload_received(count);
        count
    }

    /// `count` bytes of a payload were received by the caller itself, into its own memory, after
    /// all those that were buffered.
    ///
    /// # Panics
    /// If so many were not left.
    pub fn payload_received(&mut self, count: usize) {
        let left = (self.payload_left() as usize).checked_sub(count);
        let left = left.expect("more than the payload was received");
        if self.payload_left() > 0 {
            let left = left as u32;
            self.state = if left == 0 {
                ServerState::ExpectRequest
            } else {
                ServerState::ExpectPayload { left }
            };
        }
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

    /// One transition; an event if the caller must hear of it.
    fn step(&mut self, exports: &dyn Exports) -> Option<Event> {
        match self.state {
            ServerState::ExpectClientFlags => self.client_flags(),
            ServerState::ExpectOption => self.option(),
            ServerState::ExpectOptionData { option, len } => self.option_data(exports, option, len),
            ServerState::SkipOptionData { option, left } => self.skip_option(option, left),
            ServerState::ExpectTls => Some(Event::StartTls),
            ServerState::ExpectRequest => self.request(),
            ServerState::ExpectPayload { .. } => Some(Event::NeedInput),
            ServerState::SkipPayload { cookie, error, left } => match self.skip(left) {
                0 => {
                    self.state = ServerState::ExpectRequest;
                    Some(Event::Reject { cookie, error })
                }
                left => {
                    self.state = ServerState::SkipPayload { cookie, error, left };
                    Some(Event::NeedInput)
                }
            },
            ServerState::Closed(reason) => Some(Event::Close(reason)),
        }
    }

    fn close(&mut self, reason: CloseReason) -> Option<Event> {
        self.state = ServerState::Closed(reason);
        None
    }

    /// A client that does not claim fixed newstyle is served all the same, as the protocol allows.
    fn client_flags(&mut self) -> Option<Event> {
        let Some(bytes) = self.take::<4>() else {
            return Some(Event::NeedInput);
        };
        let flags = u32::from_be_bytes(bytes);
        let known = u32::from(wire::FLAG_FIXED_NEWSTYLE | wire::FLAG_NO_ZEROES);
        if flags & !known != 0 {
            return self.close(CloseReason::UnknownClientFlags(flags));
        }
        self.negotiated.no_zeroes = flags & u32::from(wire::FLAG_NO_ZEROES) != 0;
        self.state = ServerState::ExpectOption;
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
            ServerState::SkipOptionData { option, left: len }
        } else {
            ServerState::ExpectOptionData { option, len }
        };
        None
    }

    fn option_data(&mut self, exports: &dyn Exports, option: u32, len: u32) -> Option<Event> {
        if self.filled.len() < len as usize {
            return Some(Event::NeedInput);
        }
        let data = &self.input[self.filled.start..][..len as usize];
        let (output, negotiated) = (&mut self.output, &mut self.negotiated);
        let verdict = options::answer(output, negotiated, exports, option, data);
        self.filled.start += len as usize;
        self.go_on(verdict)
    }

    fn skip_option(&mut self, option: u32, left: u32) -> Option<Event> {
        let left = self.skip(left);
        if left > 0 {
            self.state = ServerState::SkipOptionData { option, left };
            return Some(Event::NeedInput);
        }
        let verdict = options::answer_unread(&mut self.output, &mut self.negotiated, option);
        self.go_on(verdict)
    }

    fn go_on(&mut self, verdict: Verdict) -> Option<Event> {
        match verdict {
            Verdict::GoOn => {
                self.state = ServerState::ExpectOption;
                None
            }
            Verdict::StartTls if self.filled.is_empty() => {
                self.state = ServerState::ExpectTls;
                None
            }
            Verdict::StartTls => {
                self.output.clear();
                self.close(CloseReason::BytesBehindStartTls)
            }
            Verdict::Close(reason) => self.close(reason),
            Verdict::Open(export) => {
                let structured = self.negotiated.structured;
                let block_status = self.negotiated.has_context(&export);
                self.agreed = Some(Agreed::new(&export, structured, block_status));
                self.state = ServerState::ExpectRequest;
                let replies = Replies { structured };
                let (export, size_bytes) = (export.id, export.size_bytes);
                Some(Event::Opened(Opened { export, size_bytes, replies, block_status }))
            }
        }
    }

    fn request(&mut self) -> Option<Event> {
        let Some(bytes) = self.take::<{ wire::REQUEST_LEN }>() else {
            return Some(Event::NeedInput);
        };
        let agreed = self.agreed.as_ref().expect("requests come after an export was opened");
        match request::rule(&bytes, agreed) {
            Ruling::Accept(request) if request.command == Command::Write => {
                self.state = ServerState::ExpectPayload { left: request.len };
                Some(Event::Write(request))
            }
            Ruling::Accept(request) => Some(Event::Request(request)),
            Ruling::Refuse { cookie, error, payload_len } => {
                self.state = ServerState::SkipPayload { cookie, error, left: payload_len };
                None
            }
            Ruling::Close(reason) => self.close(reason),
        }
    }
}

#[cfg(test)]
mod tests;
