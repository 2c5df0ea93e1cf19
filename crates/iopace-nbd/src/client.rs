//! The client's side, for load generators and tests.
//!
//! Sans-IO parts: [`Handshake`] opens an export, [`encode_request`] writes a request's header,
//! [`parse_reply`] reads a reply's. Each says how many bytes it wants next and never takes more, so
//! that whoever drives them may block, poll or feed them from memory. [`Client`] drives them over
//! anything that reads and writes, one request at a time; [`receive`] is what a pipelining client
//! needs beside [`encode_request`].
//!
//! # Limits
//! Fixed newstyle with GO only; no TLS, no extended headers. What a server sends is believed as
//! little as what a client sends is: lengths are checked before memory is taken.

mod handshake;
mod reply;

pub use handshake::{Handshake, HandshakeError, Session, Step, Wanted};
pub use reply::{
    BadReply, Extent, HEADER_LEN_MAX, Parsed, Reply, What, parse_extents, parse_reply,
};

use crate::{Error, MAX_REQUEST_LEN, wire};
use std::fmt;
use std::io::{self, Read, Write};

/// Appends a request's header; the payload of a write follows it. `kind` and `flags` are
/// `CMD_` and `CMD_FLAG_` of [`wire`].
pub fn encode_request(
    out: &mut Vec<u8>,
    kind: u16,
    flags: u16,
    cookie: u64,
    offset: u64,
    len: u32,
) {
    out.extend_from_slice(&wire::REQUEST_MAGIC.to_be_bytes());
    out.extend_from_slice(&flags.to_be_bytes());
    out.extend_from_slice(&kind.to_be_bytes());
    out.extend_from_slice(&cookie.to_be_bytes());
    out.extend_from_slice(&offset.to_be_bytes());
    out.extend_from_slice(&len.to_be_bytes());
}

/// What went wrong with a request.
#[derive(Debug)]
pub enum Failure {
    /// The server answered with this error; the connection is usable.
    Refused(Error),
    /// The connection failed.
    Io(io::Error),
    /// The server does not keep to the protocol; the connection is of no use any more.
    Broken(&'static str),
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Refused(error) => write!(f, "the server answered: {error}"),
            Failure::Io(error) => write!(f, "the connection failed: {error}"),
            Failure::Broken(what) => write!(f, "the server broke the protocol: {what}"),
        }
    }
}

impl std::error::Error for Failure {}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Failure {
        Failure::Io(error)
    }
}

/// Opens an export over a stream.
///
/// # Errors
/// What the stream said; `NotFound` if the server refused the export, `InvalidData` if it does not
/// speak the protocol; the [`HandshakeError`] is inside.
pub fn open(stream: &mut (impl Read + Write), export: &str, wanted: Wanted) -> io::Result<Session> {
    let mut handshake = Handshake::new(export, wanted);
    loop {
        let mut bytes = vec![0; handshake.needs()];
        stream.read_exact(&mut bytes)?;
        let step = handshake.feed(&bytes);
        let sent = stream.write_all(&handshake.take_output()).and_then(|()| stream.flush());
        match step {
            Ok(Step::GoOn) => sent?,
            Ok(Step::Opened(session)) => return Ok(session),
            // Whether the good-bye arrives does not matter.
            Err(error) => {
                let kind = match error {
                    HandshakeError::Refused { .. } => io::ErrorKind::NotFound,
                    HandshakeError::Broken(_) => io::ErrorKind::InvalidData,
                };
                return Err(io::Error::new(kind, error));
            }
        }
    }
}

/// Where the data of a read goes.
#[derive(Debug)]
pub struct Room<'a> {
    /// The offset that was asked for, in bytes.
    pub offset: u64,
    /// Memory of the length that was asked for.
    pub data: &'a mut [u8],
}

impl Room<'_> {
    /// The part of the memory for that part of the export.
    fn part(&mut self, offset: u64, len: u32) -> Option<&mut [u8]> {
        let start = usize::try_from(offset.checked_sub(self.offset)?).ok()?;
        self.data.get_mut(start..start.checked_add(len as usize)?)
    }
}

/// One reply to a request, or one piece of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Received {
    /// Whose.
    pub cookie: u64,
    /// Where the data that came with it lies in the export, in bytes; zero without data.
    pub offset: u64,
    /// Bytes of data that came with it, holes included.
    pub len: u32,
    /// How it went.
    pub result: Result<(), Error>,
    /// Whether the reply is complete.
    pub is_last: bool,
}

/// Receives one reply, or one piece of it. `room` names the memory for the data of the read with
/// that cookie, or `None` for any other request. BLOCK_STATUS needs [`Client::block_status`].
///
/// # Errors
/// What the stream said, or [`Failure::Broken`].
pub fn receive<'a>(
    stream: &mut impl Read,
    room: impl FnOnce(u64) -> Option<Room<'a>>,
) -> Result<Received, Failure> {
    let reply = receive_header(stream)?;
    let (cookie, is_last) = (reply.cookie, reply.is_last);
    let without_data = |result| Ok(Received { cookie, offset: 0, len: 0, result, is_last });
    let with_data = |offset, len| Ok(Received { cookie, offset, len, result: Ok(()), is_last });
    const UNASKED: Failure = Failure::Broken("data that was not asked for");
    match reply.what {
        What::Error(error) => without_data(Err(error)),
        What::Done => without_data(Ok(())),
        What::DoneSimple => {
            let Some(room) = room(reply.cookie) else {
                return without_data(Ok(()));
            };
            stream.read_exact(room.data)?;
            with_data(room.offset, room.data.len() as u32)
        }
        What::Data { offset, len } => {
            let mut room = room(reply.cookie).ok_or(UNASKED)?;
            stream.read_exact(room.part(offset, len).ok_or(UNASKED)?)?;
            with_data(offset, len)
        }
        What::Hole { offset, len } => {
            let mut room = room(reply.cookie).ok_or(UNASKED)?;
            room.part(offset, len).ok_or(UNASKED)?.fill(0);
            with_data(offset, len)
        }
        What::BlockStatus { .. } => Err(UNASKED),
    }
}

fn receive_header(stream: &mut impl Read) -> Result<Reply, Failure> {
    let mut bytes = [0; HEADER_LEN_MAX];
    let mut have = 0;
    loop {
        match parse_reply(&bytes[..have]) {
            Ok(Parsed::Needs(needed)) => {
                stream.read_exact(&mut bytes[have..needed])?;
                have = needed;
            }
            Ok(Parsed::Reply(reply)) => return Ok(reply),
            Err(BadReply(what)) => return Err(Failure::Broken(what)),
        }
    }
}

/// A blocking client that sends one request and waits for its answer.
#[derive(Debug)]
pub struct Client<S> {
    stream: S,
    session: Session,
    cookie: u64,
    out: Vec<u8>,
}

impl<S: Read + Write> Client<S> {
    /// Opens an export.
    ///
    /// # Errors
    /// As [`open`].
    pub fn connect(mut stream: S, export: &str, wanted: Wanted) -> io::Result<Client<S>> {
        let session = open(&mut stream, export, wanted)?;
        Ok(Client { stream, session, cookie: 0, out: Vec::new() })
    }

    /// What was agreed on.
    pub fn session(&self) -> &Session {
        &self.session
    }

    /// The stream, for a client that goes on by itself.
    pub fn into_stream(self) -> S {
        self.stream
    }

    /// Reads.
    ///
    /// # Errors
    /// As the server or the stream says.
    pub fn read(&mut self, offset: u64, into: &mut [u8]) -> Result<(), Failure> {
        let len = request_len(into.len())?;
        let cookie = self.send(wire::CMD_READ, 0, offset, len, &[])?;
        let room = Room { offset, data: into };
        let got = self.wait(cookie, Some(room))?;
        if got == len { Ok(()) } else { Err(Failure::Broken("a read of another length")) }
    }

    /// Writes; with `fua` the answer waits until the data is durable.
    ///
    /// # Errors
    /// As the server or the stream says.
    pub fn write(&mut self, offset: u64, data: &[u8], fua: bool) -> Result<(), Failure> {
        let len = request_len(data.len())?;
        let flags = if fua { wire::CMD_FLAG_FUA } else { 0 };
        let cookie = self.send(wire::CMD_WRITE, flags, offset, len, data)?;
        self.wait(cookie, None).map(drop)
    }

    /// Makes durable what was answered.
    ///
    /// # Errors
    /// As the server or the stream says.
    pub fn flush(&mut self) -> Result<(), Failure> {
        self.command(wire::CMD_FLUSH, 0, 0, 0)
    }

    /// Any request without data in either direction: `CMD_` and `CMD_FLAG_` of [`wire`].
    ///
    /// # Errors
    /// As the server or the stream says.
    pub fn command(&mut self, kind: u16, flags: u16, offset: u64, len: u32) -> Result<(), Failure> {
        let cookie = self.send(kind, flags, offset, len, &[])?;
        self.wait(cookie, None).map(drop)
    }

    /// Asks which parts are holes. The answer may end before or behind `len`.
    ///
    /// # Errors
    /// As the server or the stream says.
    pub fn block_status(&mut self, offset: u64, len: u32) -> Result<Vec<Extent>, Failure> {
        let cookie = self.send(wire::CMD_BLOCK_STATUS, 0, offset, len, &[])?;
        let mut extents = Vec::new();
        loop {
            let reply = receive_header(&mut self.stream)?;
            match reply.what {
                _ if reply.cookie != cookie => return Err(Failure::Broken("another's reply")),
                What::Error(error) => return Err(Failure::Refused(error)),
                What::BlockStatus { context, len } => {
                    let mut bytes = vec![0; len as usize];
                    self.stream.read_exact(&mut bytes)?;
                    if Some(context) == self.session.allocation_context {
                        extents = parse_extents(&bytes);
                    }
                }
                What::Done => {}
                _ => return Err(Failure::Broken("not an answer to BLOCK_STATUS")),
            }
            if reply.is_last {
                return Ok(extents);
            }
        }
    }

    /// Says good-bye; the server answers nothing.
    ///
    /// # Errors
    /// What the stream said.
    pub fn disconnect(mut self) -> Result<(), Failure> {
        self.send(wire::CMD_DISC, 0, 0, 0, &[]).map(drop)
    }

    fn send(
        &mut self,
        kind: u16,
        flags: u16,
        offset: u64,
        len: u32,
        payload: &[u8],
    ) -> Result<u64, Failure> {
        self.cookie += 1;
        self.out.clear();
        encode_request(&mut self.out, kind, flags, self.cookie, offset, len);
        self.stream.write_all(&self.out)?;
        self.stream.write_all(payload)?;
        self.stream.flush()?;
        Ok(self.cookie)
    }

    /// Waits for the whole reply; returns how much data it brought.
    fn wait(&mut self, cookie: u64, mut room: Option<Room<'_>>) -> Result<u32, Failure> {
        let (mut got, mut result) = (0u32, Ok(()));
        loop {
            let received = receive(&mut self.stream, |_| {
                room.as_mut().map(|room| Room { offset: room.offset, data: &mut *room.data })
            })?;
            if received.cookie != cookie {
                return Err(Failure::Broken("another's reply"));
            }
            got = got.saturating_add(received.len);
            result = result.and(received.result);
            if received.is_last {
                return result.map(|()| got).map_err(Failure::Refused);
            }
        }
    }
}

fn request_len(len: usize) -> Result<u32, Failure> {
    let len = u32::try_from(len).ok().filter(|len| *len <= MAX_REQUEST_LEN);
    len.ok_or(Failure::Refused(Error::Overflow))
}

#[cfg(test)]
mod tests;
