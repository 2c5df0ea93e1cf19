//! Where clients connect: Unix sockets and TCP, one accepting thread each.

use crate::config::{Listen, SocketAccess};
use crate::given::GivenAddress;
use crate::printable;
use crate::start_error::{StartError, by};
use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};
use rustix::fs::{FileType, FlockOperation, Mode, OFlags, flock, fstat, open};
use rustix::io::Errno;
use rustix::net::sockopt::socket_peercred;
use std::fs;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
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
            Listen::Given(given) => {
                let fd = given.open().map_err(|error| StartError::bind(&given.name, &error))?;
                Ok(match given.at {
                    GivenAddress::Unix(_) => Listener::Unix(fd.into()),
                    GivenAddress::Tcp(_) => Listener::Tcp(fd.into()),
                })
            }
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
            Ok(server) => {
                // Of the connected end, the kernel tells who listens.
                let pid = socket_peercred(&server).ok().map(|peer| peer.pid.as_raw_nonzero());
                return Err(StartError::SocketBusy(shown, by(pid)));
            }
        }
        fs::remove_file(path).map_err(|error| StartError::bind(&shown, &error))?;
    }
    let listener = UnixListener::bind(path).map_err(|error| StartError::bind(&shown, &error))?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o600))
        .map_err(|error| StartError::bind(&shown, &error))?;
    Ok(listener)
}

/// Lets others connect to a Unix socket of ours.
///
/// # Errors
/// The path with what is wrong and what to do.
pub(crate) fn let_in(path: &Path, access: SocketAccess) -> Result<(), StartError> {
    if access == SocketAccess::default() {
        return Ok(());
    }
    let shown = path.display().to_string();
    let failed = |error: io::Error| StartError::SocketAccess(shown.clone(), error);
    // In a directory of others something else may be there by now, such as a link.
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let socket = open(path, flags, Mode::empty()).map_err(|error| failed(error.into()))?;
    let is_socket = fstat(&socket).map(|found| FileType::from_raw_mode(found.st_mode));
    if is_socket.map_err(|error| failed(error.into()))? != FileType::Socket {
        return Err(StartError::NotASocket(shown));
    }
    let own = format!("/proc/self/fd/{}", socket.as_raw_fd());
    // The group first: what is allowed to a group is not for the former one.
    std::os::unix::fs::chown(&own, None, access.group).map_err(failed)?;
    // A group is named for it to be let in.
    if let Some(mode) = access.mode.or(access.group.map(|_| 0o660)) {
        fs::set_permissions(&own, fs::Permissions::from_mode(mode)).map_err(failed)?;
    }
    let folder = path.parent().and_then(|folder| fs::metadata(folder).ok());
    if folder.is_some_and(|folder| folder.permissions().mode() & 0o011 == 0) {
        tracing::warn!(
            "{}: its directory lets nobody else in; choose another place with --socket",
            printable::name(&shown)
        );
    }
    Ok(())
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
    fn others_are_let_in_to_a_socket_and_to_nothing_else() {
        let place = tempfile::tempdir().expect("a directory");
        let path = place.path().join("s");
        let mode = |path: &Path| fs::metadata(path).expect("there").permissions().mode() & 0o777;
        let _socket = bind_unix(&path).expect("bound");
        assert_eq!(mode(&path), 0o600);
        let group = Some(rustix::process::getegid().as_raw());
        let access = SocketAccess { mode: Some(0o640), group };
        let_in(&path, access).expect("let in");
        assert_eq!(mode(&path), 0o640);
        let access = SocketAccess { mode: None, group };
        let_in(&path, access).expect("let in");
        assert_eq!(mode(&path), 0o660);
        let (file, link) = (place.path().join("file"), place.path().join("link"));
        fs::write(&file, "").expect("written");
        fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).expect("set");
        std::os::unix::fs::symlink(&file, &link).expect("linked");
        for wrong in [&file, &link] {
            let refused = let_in(wrong, access).expect_err("no socket");
            assert!(matches!(refused, StartError::NotASocket(_)), "{refused}");
        }
        assert_eq!(mode(&file), 0o600);
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
