//! An encrypted connection: TLS between a socket and the bytes that are sent and received.
//!
//! [`Encryption::send`] and [`Encryption::recv`] count as `sendmsg` and `recv` do, in bytes before
//! encryption, with the same flags and errors; so what is above them does not know of it.
//!
//! # What is sent
//!
//! Encrypted bytes that the socket does not take are kept. So that none of them is forgotten, the
//! last byte before encryption counts as sent only when all of them are gone: until then the caller
//! hands over the same bytes again, and is told how many of them are gone by now.

use crate::tls::common_name;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send};
use rustls::ServerConnection;
use std::fmt;
use std::io::{self, IoSlice, Read, Write};
use std::ops::Range;
use std::os::fd::BorrowedFd;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Encrypted bytes received at once: four records of the largest kind.
const INPUT_BYTES: usize = 64 << 10;

/// The memory that encryption takes of a connection: [`INPUT_BYTES`], as much to be sent (TLS takes
/// 64 KiB at once, see `DEFAULT_BUFFER_LIMIT` of rustls) as it is and copied, and records.
pub(super) const ENCRYPTION_BYTES: u64 = 224 << 10;

/// TLS of one connection, past its handshake.
pub(super) struct Encryption {
    outgoing: Mutex<Outgoing>,
    incoming: Mutex<Incoming>,
    /// The common name in the certificate of the client, if it had to show one.
    peer: Option<String>,
}

struct Outgoing {
    tls: ServerConnection,
    /// Encrypted bytes, of which so many are sent.
    cipher: Vec<u8>,
    sent: usize,
    /// Bytes before encryption that they stand for, of which so many were reported as sent.
    plain_len: usize,
    reported: usize,
    /// The client was told that nothing more comes.
    is_ended: bool,
}

/// Encrypted bytes that were received, of which those in the range are not decrypted yet.
struct Incoming {
    bytes: Vec<u8>,
    filled: Range<usize>,
}

impl Encryption {
    /// What is left to do after the handshake.
    pub(super) fn new(tls: ServerConnection) -> Encryption {
        let peer = tls.peer_certificates().and_then(<[_]>::first);
        let peer = peer.and_then(common_name);
        let outgoing = Outgoing {
            tls,
            cipher: Vec::new(),
            sent: 0,
            plain_len: 0,
            reported: 0,
            is_ended: false,
        };
        let incoming = Incoming { bytes: vec![0; INPUT_BYTES], filled: 0..0 };
        Encryption { outgoing: Mutex::new(outgoing), incoming: Mutex::new(incoming), peer }
    }

    /// The name of the client, as its certificate says it.
    pub(super) fn peer(&self) -> Option<&str> {
        self.peer.as_deref()
    }

    fn outgoing(&self) -> MutexGuard<'_, Outgoing> {
        self.outgoing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends some of these bytes (there must be some); how many of them are gone, at least one.
    /// After less than all, or `AGAIN`, the next call must begin with the rest. `PIPE` after the
    /// end.
    pub(super) fn send(
        &self,
        socket: BorrowedFd<'_>,
        pieces: &[IoSlice<'_>],
        flags: SendFlags,
    ) -> Result<usize, Errno> {
        let mut outgoing = self.outgoing();
        if outgoing.is_ended {
            return Err(Errno::PIPE);
        }
        if outgoing.sent == outgoing.cipher.len() {
            outgoing.encrypt(pieces).map_err(|_| Errno::PROTO)?;
        }
        // TLS takes nothing any more once its keys are worn out (TLS 1.2).
        if outgoing.cipher.is_empty() {
            return Err(Errno::PIPE);
        }
        loop {
            let count = send(socket, &outgoing.cipher[outgoing.sent..], flags)?;
            outgoing.sent += count;
            let gone = outgoing.newly_gone();
            if gone > 0 {
                return Ok(gone);
            }
        }
    }

    /// Receives decrypted bytes: zero at the end. `INTR` if something has come, and none of it are
    /// bytes of the connection, as before the end of a record.
    pub(super) fn recv(
        &self,
        socket: BorrowedFd<'_>,
        space: &mut [u8],
        flags: RecvFlags,
    ) -> Result<usize, Errno> {
        let mut incoming = self.incoming.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = incoming.take(&mut self.outgoing().tls, space)? {
            return Ok(count);
        }
        let (count, _) = recv(socket, &mut incoming.bytes[..], flags - RecvFlags::WAITALL)?;
        if count == 0 {
            return Ok(0);
        }
        incoming.filled = 0..count;
        incoming.take(&mut self.outgoing().tls, space)?.ok_or(Errno::INTR)
    }

    /// Tells the client that nothing more comes, if it has taken all before and has room for it.
    pub(super) fn say_end(&self, socket: BorrowedFd<'_>) {
        let mut outgoing = self.outgoing();
        if outgoing.sent < outgoing.cipher.len() {
            return;
        }
        outgoing.is_ended = true;
        outgoing.tls.send_close_notify();
        let mut last = Vec::new();
        if outgoing.tls.write_tls(&mut last).is_ok() {
            let _ = send(socket, &last, SendFlags::DONTWAIT | SendFlags::NOSIGNAL);
        }
    }
}

impl Outgoing {
    /// Encrypts as much as TLS takes at once.
    fn encrypt(&mut self, pieces: &[IoSlice<'_>]) -> io::Result<()> {
        self.cipher.clear();
        (self.sent, self.reported) = (0, 0);
        self.plain_len = self.tls.writer().write_vectored(pieces)?;
        while self.tls.wants_write() {
            self.tls.write_tls(&mut self.cipher)?;
        }
        Ok(())
    }

    /// How many bytes before encryption are gone and not reported yet: in proportion, so that a
    /// slow client is seen to take something, and the last of them with the last encrypted byte.
    fn newly_gone(&mut self) -> usize {
        let part = self.plain_len as u64 * self.sent as u64 / self.cipher.len().max(1) as u64;
        let newly = part as usize - self.reported;
        self.reported += newly;
        newly
    }
}

impl Incoming {
    /// Decrypted bytes, as soon as there are some; `None` if more must be received first.
    fn take(
        &mut self,
        tls: &mut ServerConnection,
        space: &mut [u8],
    ) -> Result<Option<usize>, Errno> {
        loop {
            match tls.reader().read(space) {
                Ok(count) => return Ok(Some(count)),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(_) => return Err(Errno::PROTO),
            }
            if self.filled.is_empty() {
                return Ok(None);
            }
            let count = tls.read_tls(&mut &self.bytes[self.filled.clone()]);
            self.filled.start += count.map_err(|_| Errno::PROTO)?;
            tls.process_new_packets().map_err(|error| {
                tracing::debug!(%error, "an encrypted connection is broken");
                Errno::PROTO
            })?;
        }
    }
}

impl fmt::Debug for Encryption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Encryption").field(&self.peer).finish()
    }
}

#[cfg(test)]
mod tests;
