//! Where clients come in.

use std::io;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::UnixStream;

/// Where clients come in.
pub(super) trait Door {
    /// What one brings.
    type Stream: AsyncRead + AsyncWrite + Unpin + Send + 'static;

    /// The next one with its user, if that is known; none if it was turned away.
    async fn next(&self) -> io::Result<Option<(Self::Stream, Option<u32>)>>;
}

impl Door for tokio::net::UnixListener {
    type Stream = UnixStream;

    async fn next(&self) -> io::Result<Option<(UnixStream, Option<u32>)>> {
        let (stream, _) = self.accept().await?;
        if is_ours(&stream) {
            let uid = stream.peer_cred().ok().map(|peer| peer.uid());
            return Ok(Some((stream, uid)));
        }
        tracing::warn!("a control client of another user was turned away");
        Ok(None)
    }
}

/// Whether the client is our own user or root. The socket's mode says the same; this also covers
/// the moment between its making and its mode.
fn is_ours(stream: &UnixStream) -> bool {
    let own = rustix::process::geteuid().as_raw();
    stream.peer_cred().is_ok_and(|peer| peer.uid() == own || peer.uid() == 0)
}
