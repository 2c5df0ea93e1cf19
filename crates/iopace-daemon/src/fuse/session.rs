//! A mount from its beginning to its end: mounting, serving, unmounting, and at the last cutting
//! the connection, so that nobody ever waits for a file system that is not there any more.

use super::mounting::busy::User;
use super::mounting::detach::MountId;
use super::mounting::probe::{Answer, probe};
use super::mounting::users;
use super::mounting::walk::OpenDirectory;
use super::mounting::{Attached, How, MountError, UnmountError, abort, mount, unless_used};
use crate::limits::{CUT_PATIENCE, PROBE_PATIENCE};
use crate::mount_table::{self, Entry};
use iopace_fuse::{Control, Filesystem, Notifier};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::mount::MountFlags;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::sync::{Arc, Weak};
use std::thread;
use std::time::Duration;

/// How to mount.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    /// What the table of mounts names: the directory's path.
    pub(crate) fs_name: String,
    /// Whether other users than ours may see it.
    pub(crate) allow_other: bool,
    /// Refuse writes.
    pub(crate) read_only: bool,
    /// What the directory's own file system forbids.
    pub(crate) flags: MountFlags,
}

impl Options {
    /// A mount of `fs_name` as root and mount(8) do by default, with nothing forbidden.
    pub(crate) fn new(fs_name: impl Into<String>) -> Options {
        Options {
            fs_name: fs_name.into(),
            allow_other: rustix::process::geteuid().is_root(),
            read_only: false,
            flags: MountFlags::empty(),
        }
    }
}

/// Where a mount is and by what it is known; what it takes to end it from any thread.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    /// Where it was mounted.
    pub(crate) mountpoint: PathBuf,
    /// Device number of its files.
    pub(crate) device: (u32, u32),
    /// Number of its connection.
    pub(crate) connection: u32,
    /// By which it is ended.
    id: MountId,
    /// The open `/dev/fuse`, as long as the session is there.
    link: Weak<OwnedFd>,
}

impl Place {
    fn of(entry: &Entry, id: MountId, link: &Arc<OwnedFd>) -> Place {
        Place {
            mountpoint: entry.mountpoint.clone(),
            device: entry.device,
            connection: entry.connection(),
            id,
            link: Arc::downgrade(link),
        }
    }

    /// Takes it out of sight, wherever it was renamed to: what somebody else has mounted at its
    /// place since, or what is below, is not ours to unmount.
    pub(crate) fn unmount(&self, lazily: bool) -> Result<(), UnmountError> {
        self.id.unmount(lazily)
    }

    /// Out of sight and cut, whatever is under way: no dead mount is left behind.
    pub(crate) fn cut(&self) {
        if self.id.cut().is_ok() {
            return;
        }
        // Out of sight already, or covered. Its number is that of no other while it is connected.
        if self.link.upgrade().is_some_and(|link| !is_disconnected(&link)) {
            let _ = abort::abort(self.connection);
        }
    }

    /// Nobody serves it any more: if it is there still, as its connection was cut or failed,
    /// whoever comes to it gets errors until it is out of sight.
    fn clear(&self) {
        // Before Linux 6.8 another mount may have got its number meanwhile.
        if self.id.is_unique() || probe(&self.mountpoint, PROBE_PATIENCE) == Answer::Dead {
            self.cut();
        }
    }
}

/// Whether a connection has ended: it was unmounted and nobody uses it any more, or it was cut.
fn is_disconnected(device: &OwnedFd) -> bool {
    let mut asked = [PollFd::new(device, PollFlags::empty())];
    poll(&mut asked, Some(&Timespec::default())).is_ok_and(|ready| ready > 0)
}

/// How a mount ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ended {
    /// Who used it when it was to end; it was unmounted lazily then.
    pub users: Option<Vec<User>>,
    /// Requests or users did not end in time, and the connection was cut.
    pub was_cut: bool,
    /// It was unmounted, but its threads did not end even then.
    pub is_stuck: bool,
}

/// A file system that is mounted and served.
#[derive(Debug)]
pub(crate) struct Session {
    place: Place,
    /// The open `/dev/fuse`: it says at once when the mount has ended, while its numbers may be
    /// those of another mount since.
    device: Arc<OwnedFd>,
    /// Says when the last thread that served has ended.
    ended: Receiver<()>,
    /// The connection is cut by ourselves: its error is none.
    to_cut: Arc<AtomicBool>,
    is_over: bool,
}

impl Session {
    /// Mounts `filesystem` at a directory given in full, and serves it. `on_start` is given what
    /// it takes to notify the kernel, to look at what waits, and the place, before anything is
    /// served; `on_end` is called by a thread of its own when nobody can reach the file system any
    /// more, whoever unmounted it.
    pub(crate) fn start<F: Filesystem>(
        filesystem: F,
        mountpoint: &Path,
        options: &Options,
        on_start: impl FnOnce(Notifier, Control, &Place),
        on_end: impl FnOnce() + Send + 'static,
    ) -> Result<Session, MountError> {
        let mountpoint = OpenDirectory::open(mountpoint)?;
        Session::start_at(filesystem, (&mountpoint, options), || Ok(()), on_start, on_end)
    }

    /// The same at a directory that is open. `on_attached` is called when whoever comes by the path
    /// reaches the mount and waits, as nothing is served yet; if it fails, so does this.
    pub(crate) fn start_at<F: Filesystem>(
        filesystem: F,
        (mountpoint, options): (&OpenDirectory, &Options),
        on_attached: impl FnOnce() -> Result<(), MountError>,
        on_start: impl FnOnce(Notifier, Control, &Place),
        on_end: impl FnOnce() + Send + 'static,
    ) -> Result<Session, MountError> {
        let mut how = How {
            fs_name: options.fs_name.clone(),
            allow_other: options.allow_other,
            flags: options.flags,
        };
        how.flags
            .set(MountFlags::RDONLY, options.read_only || how.flags.contains(MountFlags::RDONLY));
        let Attached { device, entry, id } = mount(mountpoint, &how)?;
        let mountpoint = mountpoint.path.as_path();
        let failed = |error| MountError::Start(mountpoint.to_owned(), error);
        let kept = match device.try_clone() {
            Ok(kept) => Arc::new(kept),
            Err(error) => {
                drop(device);
                let _ = id.unmount(true);
                return Err(failed(error));
            }
        };
        let place = Place::of(&entry, id, &kept);
        let is_in_place = || match place.mountpoint == mountpoint {
            true => Ok(()),
            false => Err(MountError::Moved(mountpoint.to_owned())),
        };
        if let Err(error) = is_in_place().and_then(|()| on_attached()) {
            place.cut();
            return Err(error);
        }
        let (sender, ended) = mpsc::sync_channel(1);
        let to_cut = Arc::new(AtomicBool::new(false));
        let is_cut = Arc::clone(&to_cut);
        let served = iopace_fuse::Session::from_fd(filesystem, device);
        let started = served.and_then(|session| {
            on_start(session.notifier(), session.control(), &place);
            let served = place.clone();
            thread::Builder::new().name("fuse".into()).spawn(move || {
                if let Err(error) = session.run() {
                    say_end(&served.mountpoint, &error, is_cut.load(Relaxed));
                }
                served.clear();
                on_end();
                let _ = sender.send(());
            })
        });
        match started {
            Ok(_) => Ok(Session { place, device: kept, ended, to_cut, is_over: false }),
            Err(error) => {
                place.cut();
                Err(failed(error))
            }
        }
    }

    /// Where it is.
    pub(crate) fn place(&self) -> &Place {
        &self.place
    }

    /// Unmounts and waits for its end, each for at most `patience`. In use, it is unmounted lazily;
    /// what has not ended then is cut, so that nobody hangs.
    pub(crate) fn end(mut self, patience: Duration) -> Ended {
        let mut ended = Ended::default();
        if is_disconnected(&self.device) {
            self.is_over = true;
            ended.is_stuck = !self.wait(patience);
            return ended;
        }
        // Unmounting writes back what was changed through mappings: that takes as long as the disk.
        match unless_used(|| self.unmount_within(false, patience)) {
            None | Some(Ok(()) | Err(UnmountError::NotMounted)) => {}
            Some(Err(UnmountError::Busy)) => {
                let looked = users::users(self.place.device);
                let names = looked.named();
                let mountpoint = self.place.mountpoint.display();
                tracing::warn!("{mountpoint} is in use by {names}: unmounted lazily");
                ended.users = Some(looked.users);
                self.unmount_lazily(patience);
            }
            Some(Err(error)) => {
                let mountpoint = self.place.mountpoint.display();
                tracing::warn!("{mountpoint} is not unmounted in order: {error}");
                self.unmount_lazily(patience);
            }
        }
        if !self.wait(patience) {
            ended.was_cut = true;
            self.cut();
            ended.is_stuck = !self.wait(CUT_PATIENCE);
        }
        self.is_over = true;
        ended
    }

    /// It has ended by somebody else's hand: there is nothing to unmount.
    pub(crate) fn let_go(mut self) {
        self.is_over = true;
    }

    fn cut(&self) {
        self.to_cut.store(true, Relaxed);
        self.place.cut();
    }

    fn unmount_lazily(&self, patience: Duration) {
        if let Some(Err(error)) = self.unmount_within(true, patience) {
            let mountpoint = self.place.mountpoint.display();
            tracing::warn!("{mountpoint} cannot be unmounted lazily: {error}");
        }
    }

    /// `None`: it has not returned in time.
    fn unmount_within(&self, lazily: bool, patience: Duration) -> Option<Result<(), UnmountError>> {
        let (sender, receiver) = mpsc::sync_channel(1);
        let place = self.place.clone();
        let unmounting = thread::Builder::new().name("unmount".into()).spawn(move || {
            let _ = sender.send(place.unmount(lazily));
        });
        match unmounting {
            Ok(_) => receiver.recv_timeout(patience).ok(),
            Err(_) => Some(self.place.unmount(lazily)),
        }
    }

    /// Waits until nobody can reach it any more; false if that takes longer.
    pub(crate) fn wait(&self, patience: Duration) -> bool {
        // Disconnected: it has ended and said so before, or its thread is gone.
        self.ended.recv_timeout(patience) != Err(RecvTimeoutError::Timeout)
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        if !self.is_over && !is_disconnected(&self.device) {
            self.cut();
        }
    }
}

/// Says why requests are received no more. Who cuts a connection has its threads told of an error.
fn say_end(mountpoint: &Path, error: &io::Error, is_cut: bool) {
    let name = mountpoint.display();
    if is_cut {
        tracing::debug!(%error, "the mount at {name} was cut");
    } else if error.raw_os_error() == Some(libc::ECONNABORTED) {
        tracing::warn!("the connection of the mount at {name} was cut by somebody else");
    } else {
        tracing::error!(%error, "the mount at {name} ended");
    }
}

/// What was found where a mount is to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// No mount of ours.
    Free,
    /// A mount whose daemon was killed; it is unmounted now.
    Recovered,
}

/// Sees to it that no mount of ours is at `mountpoint`: one that a killed daemon left behind is
/// unmounted, one that lives is an error.
pub(crate) fn clear(mountpoint: &Path) -> Result<Found, MountError> {
    let mut found = Found::Free;
    // Several may lie over each other: whoever mounted anew by other means.
    loop {
        let table = mount_table::read().map_err(MountError::Table)?;
        let seen = mount_table::at(&table, mountpoint).filter(|entry| entry.is_ours());
        let Some(seen) = seen else { return Ok(found) };
        let id = MountId::of(seen);
        match probe(mountpoint, PROBE_PATIENCE) {
            Answer::Alive => return Err(MountError::Mounted(mountpoint.to_owned())),
            Answer::Silent => return Err(MountError::Silent(mountpoint.to_owned())),
            Answer::Dead => {}
        }
        id.unmount(true)
            .map_err(|error| MountError::Helper(mountpoint.to_owned(), error.to_string()))?;
        found = Found::Recovered;
    }
}

#[cfg(test)]
mod tests;
