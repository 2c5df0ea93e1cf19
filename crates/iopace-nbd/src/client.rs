//! The client's side, as far as load generators and tests need it: opens an export with GO, writes
//! requests, reads replies. Works on anything that reads and writes.

use crate::wire;
use crate::{Error, MAX_REQUEST_LEN};
use std::io::{self, Read, Write};

/// What was agreed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Session {
    /// Size of the export in bytes.
    pub size_bytes: u64,
    /// Its transmission flags, see [`wire`].
    pub flags: u16,
    /// Structured replies were agreed on.
    pub structured: bool,
}

/// A reply, its data aside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reply {
    /// Whose.
    pub cookie: u64,
    /// How it went.
    pub result: Result<(), Error>,
}

fn broken(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what.to_owned())
}

fn read_array<const N: usize>(stream: &mut impl Read) -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    stream.read_exact(&mut bytes)?;
    Ok(bytes)
}

fn read_u16(stream: &mut impl Read) -> io::Result<u16> {
    Ok(u16::from_be_bytes(read_array(stream)?))
}

fn read_u32(stream: &mut impl Read) -> io::Result<u32> {
    Ok(u32::from_be_bytes(read_array(stream)?))
}

fn read_u64(stream: &mut impl Read) -> io::Result<u64> {
    Ok(u64::from_be_bytes(read_array(stream)?))
}

fn send_option(stream: &mut impl Write, option: u32, data: &[u8]) -> io::Result<()> {
    let mut bytes = wire::IHAVEOPT.to_be_bytes().to_vec();
    bytes.extend_from_slice(&option.to_be_bytes());
    bytes.extend_from_slice(&(data.len() as u32).to_be_bytes());
    bytes.extend_from_slice(data);
    stream.write_all(&bytes)
}

/// One reply to an option: its kind and data.
fn read_option_reply(stream: &mut impl Read, option: u32) -> io::Result<(u32, Vec<u8>)> {
    if read_u64(stream)? != wire::REPLY_MAGIC || read_u32(stream)? != option {
        return Err(broken("not a reply to the option that was sent"));
    }
    let kind = read_u32(stream)?;
    let len = read_u32(stream)?;
    if len > MAX_REQUEST_LEN {
        return Err(broken("a reply to an option that is too long"));
    }
    let mut data = vec![0; len as usize];
    stream.read_exact(&mut data)?;
    Ok((kind, data))
}

/// Shakes hands and opens the export.
///
/// # Errors
/// What the stream said; `InvalidData` if the server does not speak the protocol; `NotFound` if it
/// has no such export.
pub fn open(
    stream: &mut (impl Read + Write),
    export: &str,
    want_structured: bool,
) -> io::Result<Session> {
    if read_u64(stream)? != wire::NBDMAGIC || read_u64(stream)? != wire::IHAVEOPT {
        return Err(broken("not a newstyle NBD server"));
    }
    let flags = read_u16(stream)?;
    let wanted = wire::FLAG_FIXED_NEWSTYLE | wire::FLAG_NO_ZEROES;
    stream.write_all(&u32::from(flags & wanted).to_be_bytes())?;
    let mut structured = false;
    if want_structured {
        send_option(stream, wire::OPT_STRUCTURED_REPLY, &[])?;
        let (kind, _) = read_option_reply(stream, wire::OPT_STRUCTURED_REPLY)?;
        structured = kind == wire::REP_ACK;
    }
    let mut data = (export.len() as u32).to_be_bytes().to_vec();
    data.extend_from_slice(export.as_bytes());
    data.extend_from_slice(&0u16.to_be_bytes());
    send_option(stream, wire::OPT_GO, &data)?;
    let (mut size_bytes, mut flags) = (0, 0);
    loop {
        let (kind, data) = read_option_reply(stream, wire::OPT_GO)?;
        match kind {
            wire::REP_ACK => {
                return Ok(Session { size_bytes, flags, structured });
            }
            wire::REP_INFO if data.len() == 12 && data[..2] == [0, 0] => {
                size_bytes = u64::from_be_bytes(data[2..10].try_into().expect("eight bytes"));
                flags = u16::from_be_bytes(data[10..].try_into().expect("two bytes"));
            }
            wire::REP_INFO => {}
            _ => {
                let why = format!("no export '{export}': {}", String::from_utf8_lossy(&data));
                return Err(io::Error::new(io::ErrorKind::NotFound, why));
            }
        }
    }
}

/// Appends a request's header; the payload of a write follows it.
pub fn request(out: &mut Vec<u8>, kind: u16, flags: u16, cookie: u64, offset: u64, len: u32) {
    out.extend_from_slice(&wire::REQUEST_MAGIC.to_be_bytes());
    out.extend_from_slice(&flags.to_be_bytes());
    out.extend_from_slice(&kind.to_be_bytes());
    out.extend_from_slice(&cookie.to_be_bytes());
    out.extend_from_slice(&offset.to_be_bytes());
    out.extend_from_slice(&len.to_be_bytes());
}

/// Reads one reply. `room` names the memory for the data of the read with that cookie, empty for
/// other requests.
///
/// # Errors
/// What the stream said; `InvalidData` if it is not a reply, or its data does not fit the room.
pub fn reply<'a>(
    stream: &mut impl Read,
    room: impl FnOnce(u64) -> &'a mut [u8],
) -> io::Result<Reply> {
    match read_u32(stream)? {
        wire::SIMPLE_REPLY_MAGIC => {
            let error = read_u32(stream)?;
            let cookie = read_u64(stream)?;
            if error != 0 {
                return Ok(Reply { cookie, result: Err(Error::from_code(error)) });
            }
            stream.read_exact(room(cookie))?;
            Ok(Reply { cookie, result: Ok(()) })
        }
        wire::STRUCTURED_REPLY_MAGIC => structured(stream, room),
        _ => Err(broken("not a reply")),
    }
}

/// A structured reply of one chunk, as our server sends them.
fn structured<'a>(
    stream: &mut impl Read,
    room: impl FnOnce(u64) -> &'a mut [u8],
) -> io::Result<Reply> {
    let (flags, kind) = (read_u16(stream)?, read_u16(stream)?);
    let (cookie, len) = (read_u64(stream)?, read_u32(stream)?);
    if flags & wire::REPLY_FLAG_DONE == 0 {
        return Err(broken("a reply of several chunks"));
    }
    match (kind, len) {
        (wire::REPLY_TYPE_NONE, 0) => Ok(Reply { cookie, result: Ok(()) }),
        (wire::REPLY_TYPE_OFFSET_DATA, 9..) => {
            read_u64(stream)?;
            let into = room(cookie);
            if into.len() != len as usize - 8 {
                return Err(broken("data of another length than was asked for"));
            }
            stream.read_exact(into)?;
            Ok(Reply { cookie, result: Ok(()) })
        }
        (wire::REPLY_TYPE_ERROR | wire::REPLY_TYPE_ERROR_OFFSET, 6..=65_536) => {
            let code = read_u32(stream)?;
            io::copy(&mut stream.take(u64::from(len) - 4), &mut io::sink())?;
            Ok(Reply { cookie, result: Err(Error::from_code(code)) })
        }
        _ => Err(broken("a chunk of unknown kind or length")),
    }
}
