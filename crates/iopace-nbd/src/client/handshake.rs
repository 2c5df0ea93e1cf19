//! Opens an export, one answer at a time.
//!
//! ```text
//!  ExpectGreeting ─► ExpectReply ─► ExpectReplyData ─► (the next option) ... GO ─► Opened
//!                        ▲──────────────────┘
//! ```

use crate::wire;
use std::fmt;

/// Longest answer to an option in bytes that is looked at: a name and a description of the longest
/// kind are shorter.
const REPLY_LEN_MAX: u32 = 16 * 1024;

/// What the client would like to have, if the server knows it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    /// Structured replies.
    pub structured: bool,
    /// The meta context `base:allocation`; implies structured replies.
    pub block_status: bool,
}

/// What was agreed on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Session {
    /// Size of the export in bytes.
    pub size_bytes: u64,
    /// Its transmission flags, see [`wire`].
    pub flags: u16,
    /// Structured replies were agreed on.
    pub structured: bool,
    /// The number of `base:allocation`, if that was agreed on.
    pub allocation_context: Option<u32>,
    /// Smallest, best and largest request in bytes, if the server said so.
    pub block_sizes: Option<[u32; 3]>,
}

/// How it goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Send [`Handshake::take_output`], receive [`Handshake::needs`] bytes, feed them.
    GoOn,
    /// The export is open.
    Opened(Session),
}

/// Why an export cannot be opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HandshakeError {
    /// The server does not keep to the protocol.
    Broken(&'static str),
    /// The server refused the export.
    Refused {
        /// The kind of its reply, `REP_ERR_` of [`wire`].
        kind: u32,
        /// What it has to say.
        message: String,
    },
}

impl fmt::Display for HandshakeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            HandshakeError::Broken(what) => write!(f, "not an NBD server that we know: {what}"),
            HandshakeError::Refused { kind, message } => {
                write!(f, "the server refused the export ({kind:#x}): {message}")
            }
        }
    }
}

impl std::error::Error for HandshakeError {}

/// What must come next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum HandshakeState {
    /// The server's greeting.
    ExpectGreeting,
    /// The header of a reply to that option.
    ExpectReply { option: u32 },
    /// The data of that reply.
    ExpectReplyData { option: u32, kind: u32, len: u32 },
    /// Nothing any more.
    Over,
}

/// The machine.
#[derive(Debug)]
pub struct Handshake {
    state: HandshakeState,
    export: String,
    wanted: Wanted,
    session: Session,
    /// Whether GO told the size of the export.
    has_size: bool,
    output: Vec<u8>,
}

impl Handshake {
    /// A new connection.
    pub fn new(export: &str, wanted: Wanted) -> Handshake {
        Handshake {
            state: HandshakeState::ExpectGreeting,
            export: export.to_owned(),
            wanted,
            session: Session::default(),
            has_size: false,
            output: Vec::new(),
        }
    }

    /// How many bytes [`Handshake::feed`] wants next, at most 16 KiB; zero when it is over.
    pub fn needs(&self) -> usize {
        match self.state {
            HandshakeState::ExpectGreeting => 18,
            HandshakeState::ExpectReply { .. } => 20,
            HandshakeState::ExpectReplyData { len, .. } => len as usize,
            HandshakeState::Over => 0,
        }
    }

    /// Bytes to be sent.
    pub fn take_output(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.output)
    }

    /// Takes the next bytes.
    ///
    /// # Errors
    /// If the server refuses the export (the good-bye is in [`Handshake::take_output`]) or does not
    /// keep to the protocol; the connection is over.
    ///
    /// # Panics
    /// If it is not exactly as much as was [needed](Handshake::needs).
    pub fn feed(&mut self, bytes: &[u8]) -> Result<Step, HandshakeError> {
        assert_eq!(bytes.len(), self.needs(), "feed as much as is needed");
        let state = std::mem::replace(&mut self.state, HandshakeState::Over);
        match state {
            HandshakeState::ExpectGreeting => self.greeting(bytes),
            HandshakeState::ExpectReply { option } => self.reply(option, bytes),
            HandshakeState::ExpectReplyData { option, kind, .. } => self.data(option, kind, bytes),
            HandshakeState::Over => Err(HandshakeError::Broken("the handshake is over")),
        }
    }

    fn greeting(&mut self, bytes: &[u8]) -> Result<Step, HandshakeError> {
        if bytes[..8] != wire::NBDMAGIC.to_be_bytes()
            || bytes[8..16] != wire::IHAVEOPT.to_be_bytes()
        {
            return Err(HandshakeError::Broken("another greeting than newstyle"));
        }
        let flags = u16::from_be_bytes([bytes[16], bytes[17]]);
        if flags & wire::FLAG_FIXED_NEWSTYLE == 0 {
            return Err(HandshakeError::Broken("not fixed newstyle"));
        }
        let known = flags & (wire::FLAG_FIXED_NEWSTYLE | wire::FLAG_NO_ZEROES);
        self.output.extend_from_slice(&u32::from(known).to_be_bytes());
        if self.wanted.structured || self.wanted.block_status {
            self.send(wire::OPT_STRUCTURED_REPLY, &[]);
        } else {
            self.send_go();
        }
        Ok(Step::GoOn)
    }

    fn reply(&mut self, option: u32, bytes: &[u8]) -> Result<Step, HandshakeError> {
        let (magic, fields) = bytes.split_at(8);
        let fields = fields.as_chunks::<4>().0;
        let [replied, kind, len] = [0, 1, 2].map(|at| u32::from_be_bytes(fields[at]));
        if magic != wire::REPLY_MAGIC.to_be_bytes() || replied != option {
            return Err(HandshakeError::Broken("not a reply to the option that was sent"));
        }
        if len > REPLY_LEN_MAX {
            return Err(HandshakeError::Broken("an endless reply to an option"));
        }
        if len == 0 {
            return self.data(option, kind, &[]);
        }
        self.state = HandshakeState::ExpectReplyData { option, kind, len };
        Ok(Step::GoOn)
    }

    fn data(&mut self, option: u32, kind: u32, data: &[u8]) -> Result<Step, HandshakeError> {
        let is_over = kind == wire::REP_ACK || kind & wire::REP_ERR != 0;
        if !is_over {
            match (option, kind) {
                (wire::OPT_SET_META_CONTEXT, wire::REP_META_CONTEXT) => self.context(data)?,
                (wire::OPT_GO, wire::REP_INFO) => self.info(data)?,
                _ => return Err(HandshakeError::Broken("a reply that does not fit the option")),
            }
            self.state = HandshakeState::ExpectReply { option };
            return Ok(Step::GoOn);
        }
        let is_known = kind == wire::REP_ACK;
        match option {
            wire::OPT_STRUCTURED_REPLY => {
                self.session.structured = is_known;
                if is_known && self.wanted.block_status {
                    self.send_set_context();
                } else {
                    self.send_go();
                }
            }
            wire::OPT_SET_META_CONTEXT => {
                if !is_known {
                    self.session.allocation_context = None;
                }
                self.send_go();
            }
            _ if !is_known => {
                let message = String::from_utf8_lossy(data).into_owned();
                // The way to leave that the protocol wants.
                self.send(wire::OPT_ABORT, &[]);
                self.state = HandshakeState::Over;
                return Err(HandshakeError::Refused { kind, message });
            }
            _ if !self.has_size => {
                return Err(HandshakeError::Broken("an export without a size"));
            }
            _ => return Ok(Step::Opened(self.session)),
        }
        Ok(Step::GoOn)
    }

    fn context(&mut self, data: &[u8]) -> Result<(), HandshakeError> {
        let Some((id, name)) = data.split_first_chunk() else {
            return Err(HandshakeError::Broken("a meta context without a number"));
        };
        if name == b"base:allocation" {
            self.session.allocation_context = Some(u32::from_be_bytes(*id));
        }
        Ok(())
    }

    fn info(&mut self, data: &[u8]) -> Result<(), HandshakeError> {
        let broken = Err(HandshakeError::Broken("a piece of information of another length"));
        let Some((kind, data)) = data.split_first_chunk() else {
            return broken;
        };
        match u16::from_be_bytes(*kind) {
            wire::INFO_EXPORT => {
                let Some((size, Ok(flags))) =
                    data.split_first_chunk().map(|(size, flags)| (size, flags.try_into()))
                else {
                    return broken;
                };
                self.session.size_bytes = u64::from_be_bytes(*size);
                self.session.flags = u16::from_be_bytes(flags);
                self.has_size = true;
            }
            wire::INFO_BLOCK_SIZE => {
                let (&[min, preferred, max], []) = data.as_chunks::<4>() else {
                    return broken;
                };
                self.session.block_sizes = Some([min, preferred, max].map(u32::from_be_bytes));
            }
            _ => {}
        }
        Ok(())
    }

    fn send(&mut self, option: u32, data: &[u8]) {
        self.output.extend_from_slice(&wire::IHAVEOPT.to_be_bytes());
        self.output.extend_from_slice(&option.to_be_bytes());
        self.output.extend_from_slice(&(data.len() as u32).to_be_bytes());
        self.output.extend_from_slice(data);
        self.state = HandshakeState::ExpectReply { option };
    }

    fn name_field(&self) -> Vec<u8> {
        let mut data = (self.export.len() as u32).to_be_bytes().to_vec();
        data.extend_from_slice(self.export.as_bytes());
        data
    }

    fn send_set_context(&mut self) {
        let query = b"base:allocation";
        let mut data = self.name_field();
        data.extend_from_slice(&1u32.to_be_bytes());
        data.extend_from_slice(&(query.len() as u32).to_be_bytes());
        data.extend_from_slice(query);
        self.send(wire::OPT_SET_META_CONTEXT, &data);
    }

    fn send_go(&mut self) {
        let mut data = self.name_field();
        data.extend_from_slice(&1u16.to_be_bytes());
        data.extend_from_slice(&wire::INFO_BLOCK_SIZE.to_be_bytes());
        self.send(wire::OPT_GO, &data);
    }
}
