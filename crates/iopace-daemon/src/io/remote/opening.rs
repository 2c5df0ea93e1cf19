//! Opens an export of another server, and reads from its connection.

use super::abilities::Abilities;
use super::link::RemoteLink;
use crate::clock;
use crate::limits::REMOTE_HANDSHAKE_TIMEOUT;
use crate::nbd_uri::NbdUri;
use iopace_core::time::Instant;
use iopace_nbd::client::{self, Session, Wanted};
use std::io::{self, ErrorKind, Read, Write};
use std::sync::Arc;

/// An open export.
#[derive(Clone, Debug)]
pub(crate) struct OpenedExport {
    pub(super) link: Arc<RemoteLink>,
    /// The terms that were agreed on.
    pub(crate) session: Session,
    pub(super) abilities: Abilities,
}

impl OpenedExport {
    /// Connects and opens the export, unless `is_over` meanwhile.
    ///
    /// # Errors
    /// No connection, or the reason why the server does not open it.
    pub(super) fn open(uri: &NbdUri, is_over: &dyn Fn() -> bool) -> io::Result<OpenedExport> {
        let link = Arc::new(RemoteLink::connect(&uri.place)?);
        let until = Some(clock::now() + REMOTE_HANDSHAKE_TIMEOUT);
        let wanted = Wanted { structured: true, block_status: false };
        let mut stream = LinkReader { link: &link, until, is_over };
        let session = client::open(&mut stream, &uri.export, wanted)?;
        let wrong = |what: &str| io::Error::new(ErrorKind::InvalidData, what);
        let abilities = Abilities::of(&session).map_err(wrong)?;
        if session.size_bytes > i64::MAX.cast_unsigned() {
            return Err(wrong("its size makes no sense"));
        }
        Ok(OpenedExport { link, session, abilities })
    }
}

/// The receiving side of a connection, which ends when the peer is silent.
pub(super) struct LinkReader<'a> {
    pub(super) link: &'a RemoteLink,
    /// It ends then at the latest.
    pub(super) until: Option<Instant>,
    /// Whether nobody wants to receive any more.
    pub(super) is_over: &'a dyn Fn() -> bool,
}

impl Read for LinkReader<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let ended = |text: &str| io::Error::new(ErrorKind::TimedOut, text);
        loop {
            match self.link.receive(into) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                // One that says a byte now and then comes to its end as well.
                Ok(got) if self.until.is_none_or(|until| until > clock::now()) => return Ok(got),
                Ok(_) => {}
                other => return other,
            }
            if (self.is_over)() {
                return Err(ended("the device is at its end"));
            }
            if self.link.is_silent() {
                return Err(ended("its machine does not answer"));
            }
            if self.until.is_some_and(|until| until <= clock::now()) {
                return Err(ended("it takes the connection and says nothing"));
            }
        }
    }
}

impl Write for LinkReader<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.link.send(bytes).map(|()| bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
