//! Where clients connect: Unix sockets and TCP, one accepting thread each.

use crate::config::Listen;
use crate::start_error::StartError;
use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use std::fs;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// After a failed accept (no descriptors left, for example) the next try waits this long.
const ACCEPT_RETRY: Duration = Duration::from_millis(100);

/// Who binds a socket waits so often for another one that does so in the same directory, and goes
/// on then: the directory may be locked for something else.
const BIND_TRIES_MAX: u32 = 100;

/// Between two looks.
const BIND_RETRY: Duration = Duration::from_millis(10);

/// A bound socket.
#[derive(Debug)]
pub enum Listener {
    /// A Unix socket.
    Unix(UnixListener),
    /// A TCP socket.
    Tcp(TcpListener),
}

impl Listener {
    /// Binds. A Unix socket that nobody serves any more is replaced; a live one is not.
    ///
    /// # Errors
    /// The address with what is wrong and what to do.
    pub fn bind(listen: &Listen) -> Result<Listener, StartError> {
        match listen {
            Listen::Unix(path) => bind_unix(path).map(Listener::Unix),
            Listen::Tcp(address) => TcpListener::bind(address)
                .map(Listener::Tcp)
                .map_err(|error| StartError::bind(&address.to_string(), &error)),
        }
    }

    /// The TCP address really bound (port 0 asks for a free one).
    pub fn address(&self) -> Option<SocketAddr> {
        match self {
            Listener::Unix(_) => None,
            Listener::Tcp(listener) => listener.local_addr().ok(),
        }
    }

    fn fd(&self) -> BorrowedFd<'_> {
        match self {
            Listener::Unix(listener) => listener.as_fd(),
            Listener::Tcp(listener) => listener.as_fd(),
        }
    }

    fn accept(&self) -> io::Result<OwnedFd> {
        match self {
            Listener::Unix(listener) => Ok(listener.accept()?.0.into()),
            Listener::Tcp(listener) => {
                let (stream, _) = listener.accept()?;
                // Replies are gathered by us: the kernel must not hold them back for more.
                stream.set_nodelay(true)?;
                Ok(stream.into())
            }
        }
    }
}

/// Binds a Unix socket with mode 0600, in the place of one that nobody serves any more.
///
/// # Errors
/// The path with what is wrong and what to do.
pub fn bind_unix(path: &Path) -> Result<UnixListener, StartError> {
    let shown = path.display().to_string();
    // Two that find the same dead socket at once would each take the other's away.
    let _alone = alone_in(path.parent());
    if let Ok(found) = fs::symlink_metadata(path) {
        if !found.file_type().is_socket() {
            return Err(StartError::NotASocket(shown));
        }
        match UnixStream::connect(path) {
            // Nobody listens any more: left over from a process that was killed.
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {}
            Err(error) => return Err(StartError::bind(&shown, &error)),
            Ok(_) => return Err(StartError::SocketBusy(shown)),
        }
        fs::remove_file(path).map_err(|error| StartError::bind(&shown, &error))?;
    }
    let listener = UnixListener::bind(path).map_err(|error| StartError::bind(&shown, &error))?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o600))
        .map_err(|error| StartError::bind(&shown, &error))?;
    Ok(listener)
}

/// The lock of a directory, where it can be had: of all who ask for it here one at a time has it.
fn alone_in(folder: Option<&Path>) -> Option<fs::File> {
    let folder = folder.filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let folder = fs::File::open(folder).ok()?;
    for _ in 0..BIND_TRIES_MAX {
        match flock(&folder, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Some(folder),
            Err(Errno::WOULDBLOCK) => thread::sleep(BIND_RETRY),
            Err(_) => break,
        }
    }
    None
}

/// An accepting thread.
#[derive(Debug)]
pub struct Acceptor {
    stop: OwnedFd,
    thread: Option<JoinHandle<()>>,
}

impl Acceptor {
    /// Starts accepting clients: each is given to `serve`, until that says that it takes no more.
    ///
    /// # Errors
    /// No thread or no descriptor.
    pub(crate) fn start(
        listener: Listener,
        serve: impl Fn(OwnedFd) -> bool + Send + 'static,
    ) -> io::Result<Acceptor> {
        let stop = eventfd(0, EventfdFlags::CLOEXEC)?;
        let stopped = stop.try_clone()?;
        let builder = thread::Builder::new().name("accept".into());
        let thread = builder.spawn(move || {
            while wait(&listener, &stopped) {
                match listener.accept() {
                    Ok(socket) => {
                        if !serve(socket) {
                            return;
                        }
                    }
                    Err(error) => {
                        tracing::warn!(%error, "a client could not be accepted");
                        thread::sleep(ACCEPT_RETRY);
                    }
                }
            }
        })?;
        Ok(Acceptor { stop, thread: Some(thread) })
    }
}

impl Drop for Acceptor {
    fn drop(&mut self) {
        let _ = rustix::io::write(&self.stop, &1u64.to_ne_bytes());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Waits for a client; false when it is time to stop. A signal that this thread handles is none of
/// both: to accept then would wait for a client, and nobody could stop that.
fn wait(listener: &Listener, stop: &OwnedFd) -> bool {
    let mut fds =
        [PollFd::from_borrowed_fd(listener.fd(), PollFlags::IN), PollFd::new(stop, PollFlags::IN)];
    loop {
        match poll(&mut fds, None) {
            Ok(_) => return fds[1].revents().is_empty(),
            Err(Errno::INTR) => {}
            Err(_) => return false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::thread::JoinHandleExt;

    extern "C" fn nothing(_: libc::c_int) {}

    #[test]
    fn a_signal_is_no_client() {
        let place = tempfile::tempdir().expect("a directory");
        let listen = Listen::Unix(place.path().join("s"));
        let listener = Listener::bind(&listen).expect("bound");
        let stop = eventfd(0, EventfdFlags::CLOEXEC).expect("there is one");
        let stopped = stop.try_clone().expect("cloned");
        let waiting = thread::spawn(move || wait(&listener, &stopped));
        // SAFETY: the handler does nothing; no other test of this process has this signal.
        unsafe { libc::signal(libc::SIGUSR2, nothing as extern "C" fn(libc::c_int) as usize) };
        for _ in 0..20 {
            // SAFETY: the thread has not been joined.
            unsafe { libc::pthread_kill(waiting.as_pthread_t(), libc::SIGUSR2) };
            // SLEEP: signals come one by one; nothing depends on how fast.
            thread::sleep(Duration::from_millis(5));
        }
        assert!(!waiting.is_finished(), "it would accept now");
        rustix::io::write(&stop, &1u64.to_ne_bytes()).expect("told");
        assert!(!waiting.join().expect("ended"));
    }

    #[test]
    fn one_of_those_that_find_a_dead_socket_has_its_place() {
        let place = tempfile::tempdir().expect("a directory");
        let path = place.path().join("s");
        for _ in 0..20 {
            drop(UnixListener::bind(&path).expect("bound"));
            let bound: Vec<_> = thread::scope(|scope| {
                let all: Vec<_> = (0..4).map(|_| scope.spawn(|| bind_unix(&path))).collect();
                all.into_iter().filter_map(|one| one.join().expect("ended").ok()).collect()
            });
            assert_eq!(bound.len(), 1);
            UnixStream::connect(&path).expect("somebody listens");
            fs::remove_file(&path).expect("removed");
        }
    }
}
