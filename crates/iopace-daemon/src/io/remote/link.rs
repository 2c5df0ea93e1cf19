//! The connection to another server: a socket on which a silent peer is found out.

use crate::limits::{REMOTE_CONNECT_TIMEOUT, REMOTE_LOOK, REMOTE_SILENCE};
use crate::nbd_uri::NbdPlace;
use rustix::net::{RecvFlags, SendFlags, Shutdown, sockopt};
use std::io::{self, ErrorKind};
use std::mem;
use std::net::{TcpStream, ToSocketAddrs};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

/// An idle connection is asked after whether the peer lives after so long, again at such intervals,
/// and given up after so many without an answer: in [`REMOTE_SILENCE`], as one with requests.
const KEEP_ALIVE: (Duration, Duration, u32) = (Duration::from_secs(4), Duration::from_secs(2), 3);

/// A peer that takes no data is asked for room, at growing intervals; so many questions in a row
/// that its kernel does not answer are the same silence.
const PROBES_MAX: u8 = 6;

/// A connected socket. It may be used by two threads, one that sends and one that receives.
#[derive(Debug)]
pub(super) struct RemoteLink {
    socket: OwnedFd,
    is_tcp: bool,
}

impl RemoteLink {
    /// Connects; receiving returns `WouldBlock` each [`REMOTE_LOOK`].
    ///
    /// # Errors
    /// The name is not known, or the error of the last address of that name.
    pub(super) fn connect(place: &NbdPlace) -> io::Result<RemoteLink> {
        let link = match place {
            NbdPlace::Unix(path) => {
                RemoteLink { socket: UnixStream::connect(path)?.into(), is_tcp: false }
            }
            NbdPlace::Tcp(host, port) => {
                let mut failed = io::Error::new(ErrorKind::NotFound, "the name has no address");
                let mut connected = None;
                for address in (host.as_str(), *port).to_socket_addrs()? {
                    match TcpStream::connect_timeout(&address, REMOTE_CONNECT_TIMEOUT) {
                        Ok(stream) => {
                            connected = Some(stream);
                            break;
                        }
                        Err(error) => failed = error,
                    }
                }
                RemoteLink { socket: watched(connected.ok_or(failed)?)?.into(), is_tcp: true }
            }
        };
        sockopt::set_socket_timeout(&link.socket, sockopt::Timeout::Recv, Some(REMOTE_LOOK))?;
        Ok(link)
    }

    /// Sends all of it.
    ///
    /// # Errors
    /// The error of the system call.
    pub(super) fn send(&self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let sent = rustix::io::retry_on_intr(|| {
                rustix::net::send(&self.socket, bytes, SendFlags::NOSIGNAL)
            })?;
            bytes = &bytes[sent..];
        }
        Ok(())
    }

    /// Receives some bytes, none at the end of the connection.
    ///
    /// # Errors
    /// The error of the system call; `WouldBlock` from time to time.
    pub(super) fn receive(&self, into: &mut [u8]) -> io::Result<usize> {
        let got = rustix::io::retry_on_intr(|| {
            rustix::net::recv(&self.socket, &mut *into, RecvFlags::empty())
        })?;
        Ok(got.0)
    }

    /// Ends the connection for whoever sends and receives.
    pub(super) fn shut_down(&self) {
        // It may have ended by itself.
        let _ = rustix::net::shutdown(&self.socket, Shutdown::Both);
    }

    /// Whether the peer's kernel has acknowledged nothing for [`REMOTE_SILENCE`] of what it was
    /// sent. TCP_USER_TIMEOUT would do nearly that, but also ends the connection to a slow server
    /// that takes no more data for a while.
    pub(super) fn is_silent(&self) -> bool {
        if !self.is_tcp {
            return false;
        }
        // SAFETY: all of its fields are integers, for which zero is a value.
        let mut info: libc::tcp_info = unsafe { mem::zeroed() };
        let mut len = mem::size_of::<libc::tcp_info>() as libc::socklen_t;
        let (socket, to) = (self.socket.as_raw_fd(), (&raw mut info).cast());
        // SAFETY: the socket is open as long as `self`; the kernel writes at most `len` bytes to
        // `info`, which is as long.
        let done = unsafe {
            libc::getsockopt(socket, libc::IPPROTO_TCP, libc::TCP_INFO, to, &raw mut len)
        };
        let since = Duration::from_millis(u64::from(info.tcpi_last_ack_recv));
        let is_unanswered = info.tcpi_unacked > 0 && since > REMOTE_SILENCE;
        done == 0 && (is_unanswered || info.tcpi_probes >= PROBES_MAX)
    }
}

/// Small requests are not held back, and an idle connection ends when the peer is gone.
fn watched(stream: TcpStream) -> io::Result<TcpStream> {
    stream.set_nodelay(true)?;
    let (idle, interval, count) = KEEP_ALIVE;
    sockopt::set_socket_keepalive(&stream, true)?;
    sockopt::set_tcp_keepidle(&stream, idle)?;
    sockopt::set_tcp_keepintvl(&stream, interval)?;
    sockopt::set_tcp_keepcnt(&stream, count)?;
    Ok(stream)
}
