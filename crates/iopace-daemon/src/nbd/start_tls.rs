//! The handshake of TLS, after a client has said STARTTLS.

use super::connection::Connection;
use super::encryption::Encryption;
use super::receive::{End, Waits};
use crate::clock;
use iopace_core::time::Instant;
use rustix::net::{RecvFlags, SendFlags, recv, send};
use rustls::{ServerConfig, ServerConnection};
use std::io::{self, Read, Write};
use std::os::fd::BorrowedFd;
use std::sync::Arc;

/// Encrypts a connection, whose client was told that it may begin; it has to be done by `deadline`.
pub(super) fn start_tls(
    connection: &Connection,
    config: Arc<ServerConfig>,
    waits: Waits,
    deadline: Instant,
) -> Result<(), End> {
    // The answer to STARTTLS is the last that is sent as it is.
    if !connection.is_all_sent(clock::until(deadline).unwrap_or_default()) {
        return Err(End::Closed);
    }
    let tls = shake_hands(connection, config, || {
        let left = clock::until(deadline).filter(|left| !left.is_zero());
        let left = left.ok_or_else(|| refused("it took too long"))?;
        waits.handshake(connection, left);
        Ok(())
    })?;
    let encryption = Encryption::new(tls);
    let (number, certificate) = (connection.number(), encryption.peer());
    tracing::debug!(connection = number, certificate, "encrypted");
    connection.encrypt(encryption);
    Ok(())
}

/// The handshake itself; `look` is called before each wait, and says whether there is time.
fn shake_hands(
    connection: &Connection,
    config: Arc<ServerConfig>,
    mut look: impl FnMut() -> Result<(), End>,
) -> Result<ServerConnection, End> {
    let mut socket = Plain(connection.socket());
    let mut tls = ServerConnection::new(config).map_err(refused)?;
    loop {
        while tls.wants_write() {
            look()?;
            moved(tls.write_tls(&mut socket))?;
        }
        if !tls.is_handshaking() {
            return Ok(tls);
        }
        look()?;
        match moved(tls.read_tls(&mut socket))? {
            Some(0) => return Err(End::Closed),
            Some(_) => {}
            None => continue,
        }
        if let Err(error) = tls.process_new_packets() {
            // The client is told why, if it listens.
            let _ = tls.write_tls(&mut socket);
            return Err(refused(error));
        }
    }
}

fn refused(why: impl std::fmt::Display) -> End {
    End::Refused(format!("the handshake of TLS: {why}"))
}

/// How many bytes were moved: `None` if the socket has waited for its time.
fn moved(result: io::Result<usize>) -> Result<Option<usize>, End> {
    match result {
        Ok(count) => Ok(Some(count)),
        Err(error) => match error.kind() {
            io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted => Ok(None),
            io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset => Err(End::Closed),
            _ => Err(refused(error)),
        },
    }
}

/// The bytes of the socket as they are.
struct Plain<'a>(BorrowedFd<'a>);

impl Read for Plain<'_> {
    fn read(&mut self, space: &mut [u8]) -> io::Result<usize> {
        Ok(recv(self.0, space, RecvFlags::empty())?.0)
    }
}

impl Write for Plain<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Ok(send(self.0, bytes, SendFlags::NOSIGNAL)?)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
