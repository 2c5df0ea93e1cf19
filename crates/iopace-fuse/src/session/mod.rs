//! A file system that is served.

mod dispatch;
mod users;
mod worker;

use crate::device::Device;
use crate::errno::Errno;
use crate::filesystem::Filesystem;
use crate::init::{KernelConfig, OLDEST, OUR_VERSION};
use crate::limits::{BUFFER_BYTES_MIN, HEAD_BYTES};
use crate::mount::{self, Config};
use crate::notify::Notifier;
use crate::parse::{Init, Layout, Operation, Parsed, parse};
use crate::reply::Raw;
use crate::request::Request;
use crate::wire::input::InHeader;
use crate::wire::output::InitOut;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use users::Users;
use zerocopy::FromBytes;

/// The state that the threads of a session share.
struct Shared<F> {
    filesystem: F,
    device: Arc<Device>,
    users: Arc<Users>,
    live: Arc<Live>,
    layout: Layout,
    buffer_bytes: usize,
    /// It was said that there is no further thread.
    has_warned: AtomicBool,
}

impl<F> Shared<F> {
    /// The connection has ended: nobody waits for what is parked.
    fn drop_parked(&self) {
        give_up(self.users.end());
    }
}

/// Answers requests that never began with `EINTR`.
fn give_up(parked: Vec<users::Parked>) -> usize {
    let count = parked.len();
    for one in parked {
        Raw::new(&one.device, one.unique).error(Errno::EINTR);
    }
    count
}

/// The threads that have not ended, and with what the first ended that failed.
#[derive(Debug, Default)]
struct Live {
    state: Mutex<(usize, Option<io::Error>)>,
    none: Condvar,
}

impl Live {
    fn state(&self) -> MutexGuard<'_, (usize, Option<io::Error>)> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self) {
        self.state().0 += 1;
    }

    fn remove(&self, result: io::Result<()>) {
        let mut state = self.state();
        state.0 -= 1;
        state.1 = state.1.take().or(result.err());
        self.none.notify_all();
    }

    /// Waits until there is none.
    fn wait(&self) -> io::Result<()> {
        let waited = self.none.wait_while(self.state(), |state| state.0 > 0);
        let error = waited.unwrap_or_else(PoisonError::into_inner).1.take();
        error.map_or(Ok(()), Err)
    }
}

/// A file system whose kernel side has begun to ask.
pub struct Session<F: Filesystem> {
    shared: Shared<F>,
    /// Where it was mounted here.
    mountpoint: Option<PathBuf>,
}

impl<F: Filesystem> std::fmt::Debug for Session<F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Session").field("mountpoint", &self.mountpoint).finish_non_exhaustive()
    }
}

/// A handle on a session for other threads.
#[derive(Clone, Debug)]
pub struct Control {
    device: Arc<Device>,
    users: Arc<Users>,
}

impl Control {
    /// Answers requests with `EINTR` that wait for a thread, whose caller was interrupted, and of
    /// which `ends` says so. How many.
    pub fn give_up_queued(&self, ends: impl Fn(&Request) -> bool) -> usize {
        let picks = |parked: &users::Parked| {
            let header = InHeader::read_from_prefix(&parked.bytes);
            self.device.interrupts.contains(parked.unique)
                && header.is_ok_and(|(header, _)| ends(&Request::new(header)))
        };
        give_up(self.users.take(picks))
    }

    /// How many threads there are, and how many requests wait for one.
    pub fn counts(&self) -> (usize, usize) {
        self.users.counts()
    }

    /// Has `told` called when the caller of whatever request was interrupted, by a thread that
    /// receives requests. The first that asks stays.
    pub fn on_interrupt(&self, told: impl Fn() + Send + Sync + 'static) {
        self.device.interrupts.tell(Box::new(told));
    }
}

impl<F: Filesystem> Session<F> {
    /// Mounts `filesystem` at a directory, as root, and agrees with the kernel.
    ///
    /// # Errors
    /// It cannot be mounted, or the kernel is too old.
    pub fn new(filesystem: F, mountpoint: impl AsRef<Path>, config: &Config) -> io::Result<Self> {
        let mountpoint = mountpoint.as_ref();
        let fd = mount::mount(mountpoint, config)?;
        let mut session = Session::from_fd(filesystem, fd).inspect_err(|_| {
            let _ = mount::unmount(mountpoint);
        })?;
        session.mountpoint = Some(mountpoint.to_owned());
        Ok(session)
    }

    /// Serves a connection that was mounted already.
    ///
    /// # Errors
    /// The kernel is too old, or the connection has ended.
    pub fn from_fd(mut filesystem: F, fd: OwnedFd) -> io::Result<Self> {
        let device = Arc::new(Device::new(fd));
        let config = handshake(&mut filesystem, &device)?;
        let shared = Shared {
            filesystem,
            device,
            users: Arc::new(Users::new(config.max_background())),
            live: Arc::default(),
            layout: config.layout(),
            buffer_bytes: (config.max_write() + HEAD_BYTES).max(BUFFER_BYTES_MIN),
            has_warned: AtomicBool::new(false),
        };
        Ok(Session { shared, mountpoint: None })
    }

    /// By which the kernel is told something.
    pub fn notifier(&self) -> Notifier {
        Notifier::new(Arc::clone(&self.shared.device))
    }

    /// By which it is asked and told something while it runs.
    pub fn control(&self) -> Control {
        let Shared { device, users, .. } = &self.shared;
        Control { device: Arc::clone(device), users: Arc::clone(users) }
    }

    /// Serves until nobody can reach it any more and its threads have ended.
    ///
    /// # Errors
    /// The connection failed, or there is no thread.
    pub fn run(self) -> io::Result<()> {
        let shared = Arc::new(self.shared);
        let live = Arc::clone(&shared.live);
        worker::start(&shared)?;
        let result = live.wait();
        shared.filesystem.destroy();
        result
    }

    /// The same by a thread of its own.
    ///
    /// # Errors
    /// There is no thread.
    pub fn spawn(mut self) -> io::Result<BackgroundSession> {
        let (mountpoint, notifier) = (self.mountpoint.take(), self.notifier());
        let control = self.control();
        let thread = thread::Builder::new().name("fuse".into()).spawn(move || self.run())?;
        Ok(BackgroundSession { thread: Some(thread), notifier, control, mountpoint })
    }
}

/// Mounts and serves.
///
/// # Errors
/// See [`Session::new`].
pub fn spawn_mount<F: Filesystem>(
    filesystem: F,
    mountpoint: impl AsRef<Path>,
    config: &Config,
) -> io::Result<BackgroundSession> {
    Session::new(filesystem, mountpoint, config)?.spawn()
}

/// A session that is served by threads of its own. Unmounted when it is dropped.
#[derive(Debug)]
pub struct BackgroundSession {
    thread: Option<JoinHandle<io::Result<()>>>,
    notifier: Notifier,
    control: Control,
    mountpoint: Option<PathBuf>,
}

impl BackgroundSession {
    /// By which the kernel is told something.
    pub fn notifier(&self) -> Notifier {
        self.notifier.clone()
    }

    /// By which it is asked and told something.
    pub fn control(&self) -> Control {
        self.control.clone()
    }

    /// Waits until it was unmounted, by somebody else, and all its threads have ended.
    ///
    /// # Errors
    /// The connection failed.
    pub fn join(mut self) -> io::Result<()> {
        self.mountpoint = None;
        self.wait()
    }

    /// Unmounts it, and waits until nobody uses it and all its threads have ended.
    ///
    /// # Errors
    /// It cannot be unmounted, or the connection failed.
    pub fn umount_and_join(mut self) -> io::Result<()> {
        if let Some(mountpoint) = self.mountpoint.take() {
            mount::unmount(&mountpoint)?;
        }
        self.wait()
    }

    fn wait(&mut self) -> io::Result<()> {
        let Some(thread) = self.thread.take() else { return Ok(()) };
        thread.join().unwrap_or_else(|_| Err(io::Error::other("a thread has panicked")))
    }
}

impl Drop for BackgroundSession {
    fn drop(&mut self) {
        if let Some(mountpoint) = self.mountpoint.take() {
            let _ = mount::unmount(&mountpoint);
        }
    }
}

/// Answers the kernel's first request.
fn handshake<F: Filesystem>(filesystem: &mut F, device: &Arc<Device>) -> io::Result<KernelConfig> {
    let mut buffer = vec![0; BUFFER_BYTES_MIN];
    loop {
        let len = device.receive(&mut buffer)?;
        let len = len.ok_or_else(|| io::Error::from(io::ErrorKind::NotConnected))?;
        let parsed = parse(&buffer[..len], Layout::default());
        let Ok(Parsed { header, operation: Operation::Init(init) }) = parsed else {
            return Err(io::Error::other("the kernel has begun with something else than INIT"));
        };
        let raw = Raw::new(device, header.unique);
        match agreed(filesystem, &Request::new(header), init) {
            Ok(Some(config)) => {
                raw.value(&config.reply());
                return Ok(config);
            }
            Ok(None) => raw.value(&InitOut {
                major: OUR_VERSION.0,
                minor: OUR_VERSION.1,
                ..InitOut::default()
            }),
            Err(error) => {
                raw.error(error.raw_os_error().map_or(Errno::EPROTO, Errno::from_i32));
                return Err(error);
            }
        }
    }
}

/// The agreement; `None` if the kernel is to ask again with an older major version.
fn agreed<F: Filesystem>(
    filesystem: &mut F,
    from: &Request,
    init: Init,
) -> io::Result<Option<KernelConfig>> {
    if init.version.0 > OUR_VERSION.0 {
        return Ok(None);
    }
    if init.version < OLDEST {
        let (major, minor) = (init.version.0, init.version.1);
        let text = format!("the kernel speaks FUSE {major}.{minor}: 7.23 (Linux 3.15) is needed");
        return Err(io::Error::new(io::ErrorKind::Unsupported, text));
    }
    let mut config = KernelConfig::new(init);
    filesystem.init(from, &mut config)?;
    Ok(Some(config))
}
