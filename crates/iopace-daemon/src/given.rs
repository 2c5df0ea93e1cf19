//! Listening sockets that a service manager has made: `LISTEN_FDS` of systemd (sd_listen_fds(3)).
//!
//! They stay when the daemon ends: whoever connects meanwhile waits for the next one.

use rustix::net::sockopt::{socket_acceptconn, socket_type};
use rustix::net::{SocketType, getsockname};
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// The name of the control socket among them (`FileDescriptorName=` of a unit); all others are for
/// NBD clients.
pub const CONTROL_NAME: &str = "control";

/// A listening socket that was given.
#[derive(Clone, Debug)]
pub struct GivenSocket {
    /// Its name, as the unit has it.
    pub name: String,
    /// Where it listens.
    pub at: GivenAddress,
    fd: Arc<OwnedFd>,
}

/// Where a socket listens that was given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GivenAddress {
    /// A Unix socket; without a path (in the abstract space) none can be told to anybody.
    Unix(Option<PathBuf>),
    /// A TCP socket.
    Tcp(SocketAddr),
}

impl PartialEq for GivenSocket {
    fn eq(&self, other: &GivenSocket) -> bool {
        (&self.name, &self.at) == (&other.name, &other.at)
    }
}

impl Eq for GivenSocket {}

impl GivenSocket {
    /// Takes all that were given to this process: once, as they are the caller's then.
    ///
    /// # Errors
    /// The variables are wrong, or one of them is no listening socket, with its number and name.
    pub fn take_all() -> io::Result<Vec<GivenSocket>> {
        static TAKEN: AtomicBool = AtomicBool::new(false);
        if TAKEN.swap(true, Relaxed) {
            return Ok(Vec::new());
        }
        let wrong = |error: io::Error| io::Error::new(error.kind(), format!("LISTEN_FDS: {error}"));
        let given = sd_notify::listen_fds_with_names().map_err(wrong)?;
        let mut all = Vec::new();
        for (number, name) in given {
            // SAFETY: it is open, as it could be set to be closed in children; the service manager
            // has opened it for this process alone, which asks once.
            let fd = unsafe { OwnedFd::from_raw_fd(number) };
            let socket = GivenSocket::new(name, fd);
            all.push(socket.map_err(|error| {
                io::Error::new(error.kind(), format!("LISTEN_FDS: descriptor {number}: {error}"))
            })?);
        }
        Ok(all)
    }

    /// A socket of that name.
    ///
    /// # Errors
    /// It is none on which clients can be accepted.
    fn new(name: String, fd: OwnedFd) -> io::Result<GivenSocket> {
        let wrong =
            |why: &str| io::Error::new(io::ErrorKind::InvalidInput, format!("{name} {why}"));
        let is_stream = socket_type(&fd).map_err(|_| wrong("is no socket"))? == SocketType::STREAM;
        if !is_stream || !socket_acceptconn(&fd)? {
            return Err(wrong("is no listening stream socket: say ListenStream=, and Accept=no"));
        }
        let address = getsockname(&fd)?;
        let at = match rustix::net::SocketAddrUnix::try_from(address.clone()) {
            Ok(unix) => GivenAddress::Unix(
                unix.path_bytes().map(|path| PathBuf::from(std::ffi::OsStr::from_bytes(path))),
            ),
            Err(_) => GivenAddress::Tcp(
                SocketAddr::try_from(address).map_err(|_| wrong("is neither Unix nor TCP"))?,
            ),
        };
        Ok(GivenSocket { name, at, fd: Arc::new(fd) })
    }

    /// Whether it is to be the control socket.
    pub fn is_control(&self) -> bool {
        self.name == CONTROL_NAME
    }

    /// Its descriptor once more, which blocks.
    pub(crate) fn open(&self) -> io::Result<OwnedFd> {
        let fd = self.fd.as_fd().try_clone_to_owned()?;
        rustix::io::ioctl_fionbio(&fd, false)?;
        Ok(fd)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;
    use std::os::unix::net::{UnixDatagram, UnixListener, UnixStream};

    #[test]
    fn a_listening_socket_is_known_by_its_address() {
        let place = tempfile::tempdir().expect("a directory");
        let path = place.path().join("s");
        let unix = UnixListener::bind(&path).expect("bound");
        let given = GivenSocket::new("nbd".into(), unix.into()).expect("right");
        assert_eq!(given.at, GivenAddress::Unix(Some(path)));
        assert!(!given.is_control());
        let tcp = TcpListener::bind("127.0.0.1:0").expect("bound");
        let address = tcp.local_addr().expect("there");
        let given = GivenSocket::new(CONTROL_NAME.into(), tcp.into()).expect("right");
        assert_eq!(given.at, GivenAddress::Tcp(address));
        assert!(given.is_control());
    }

    #[test]
    fn what_cannot_be_listened_to_is_refused() {
        let (one, _other) = UnixStream::pair().expect("a pair");
        let datagram = UnixDatagram::unbound().expect("made");
        let file = tempfile::tempfile().expect("made");
        for fd in [OwnedFd::from(one), datagram.into(), file.into()] {
            let refused = GivenSocket::new("x".into(), fd).expect_err("refused");
            assert!(refused.to_string().starts_with("x is no "), "{refused}");
        }
    }
}
