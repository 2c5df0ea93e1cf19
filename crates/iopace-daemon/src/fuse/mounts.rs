//! The mounts of a daemon: what is checked before, and who notices when they end.
//!
//! A mount over a directory hides from us what we need ourselves if it lies in there: what would
//! make us wait for our own answer is refused before anything is mounted.

mod ending;

pub(crate) use ending::ForgetDevice;
use ending::ended_outside;

use super::backing::Backing;
use super::claiming::claim;
use super::closing;
use super::filesystem::filesystem;
use super::in_use;
use super::mounting::claim::Claim;
use super::mounting::region::Region;
use super::mounting::walk::OpenDirectory;
use super::mounting::{MountError, inherited_flags};
use super::record::{self, Record};
use super::session::{Ended, Found, Options, Place, Session, clear};
use super::tree::Tree;
use super::tree::credentials::respect_quotas;
use super::tree::trim::raise_descriptors;
use super::who::Who;
use crate::api::MountReport;
use crate::clock;
use crate::config::{DaemonConfig, DeviceConfig, IoEngineChoice, Listen, MountConfig};
use crate::device::Device;
use crate::groups::Groups;
use crate::mount_table;
use crate::rules::Rules;
use crate::runtime_files::Kept;
use crate::start_error::StartError;
use crate::timer::Timers;
use iopace_groups::tree::TreeError;
use rustix::fs::{Mode, OFlags, openat};
use rustix::mount::MountFlags;
use rustix::process::geteuid;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;
use tokio::sync::watch;

/// The kernel's own directories: under a mount, neither FUSE nor `/proc` could be reached by us.
const KERNEL: [&str; 3] = ["/dev", "/proc", "/sys"];

/// A directory that is open and ours, not yet mounted.
pub(crate) struct Prepared {
    pub(super) config: MountConfig,
    directory: PathBuf,
    mountpoint: OpenDirectory,
    root: OwnedFd,
    claim: Claim,
    region: Region,
    flags: MountFlags,
    backing: Option<Backing>,
}

/// The mounts of a daemon.
#[derive(Debug)]
pub struct Mounts {
    all: Mutex<Vec<Mount>>,
    /// How many are mounted; none if there was none yet.
    live: watch::Sender<Option<usize>>,
    /// Held while one that has ended closes its files: the daemon does not end before its record.
    closing: Mutex<()>,
}

#[derive(Debug)]
struct Mount {
    place: Place,
    device: String,
    /// `None` once it is ending.
    session: Option<Session>,
    /// Looks after it as long as it is there.
    backing: Backing,
    tree: Arc<Tree>,
    /// The callers, each with the group that pays.
    who: Arc<Who>,
    /// Nobody else mounts the directory as long as this is open.
    claim: Claim,
    /// Removed when all is durable and closed: dropped last, as who unmounts waits for it and may
    /// mount the directory again at once, or unmount the file system below.
    record: Option<Kept>,
}

impl Default for Mounts {
    fn default() -> Mounts {
        Mounts { live: watch::Sender::new(None), all: Mutex::default(), closing: Mutex::default() }
    }
}

/// Looks at every directory that is to be mounted and opens it, before there is anything to undo.
pub(crate) fn prepare(config: &DaemonConfig) -> Result<Vec<Prepared>, StartError> {
    if !config.mounts.is_empty() {
        // Before there is any other thread, so that it holds for all of them.
        if let Err(error) = raise_descriptors().and_then(|_| respect_quotas()) {
            tracing::warn!(%error, "limits of this process stay as they are");
        }
    }
    let mut all: Vec<Prepared> = Vec::new();
    for mount in &config.mounts {
        let prepared = Prepared::open(mount, config)?;
        let at = &prepared.mountpoint.path;
        if all.iter().any(|other| other.mountpoint.path == *at) {
            return Err(MountError::TwoMounts(at.clone()).into());
        }
        all.push(prepared);
    }
    Ok(all)
}

impl Prepared {
    fn open(mount: &MountConfig, config: &DaemonConfig) -> Result<Prepared, MountError> {
        let directory = place(&mount.directory)?;
        let mountpoint = mount.mountpoint.as_deref().map_or(Ok(directory.clone()), place)?;
        let found = clear(&mountpoint)?;
        if found == Found::Recovered {
            let shown = mountpoint.display();
            tracing::warn!("{shown}: the mount of a daemon that was killed is cleared away");
        }
        let table = mount_table::read().map_err(MountError::Table)?;
        if let Some(over) = mount_table::covering(&table, &directory).filter(|over| over.is_ours())
        {
            if over.mountpoint == directory {
                return Err(MountError::Mounted(directory));
            }
            return Err(MountError::Inside(directory, over.mountpoint.clone()));
        }
        if mountpoint != directory && mountpoint.starts_with(&directory) {
            return Err(MountError::Itself(mountpoint));
        }
        check_own(&mountpoint, config)?;
        let opened = open_at(&mount.directory, &directory)?;
        let failed = |error| MountError::Open(directory.clone(), error);
        let root = opened.fd.try_clone().map_err(failed)?;
        let mountpoint = match &mount.mountpoint {
            Some(path) => open_at(path, &mountpoint)?,
            None => opened,
        };
        let wanted = (mount.in_use, clock::now());
        let claim = claim(&root, &directory, wanted, config)?;
        let mut region = Region::of(&root).map_err(failed)?;
        in_use::settle(&mut region, &directory, wanted, &config.notes)?;
        let flags = inherited_flags(&root);
        let flags = flags.map_err(|error| MountError::Open(directory.clone(), error))?;
        let inside = std::fs::read_dir(&mountpoint.path);
        let mut inside =
            inside.map_err(|error| MountError::open(mountpoint.path.clone(), error))?;
        if mountpoint.path != directory && inside.next().is_some() {
            let shown = mountpoint.path.display();
            tracing::warn!("{shown} is not empty: what is in it is hidden while it is mounted");
        }
        let (config, backing) = (mount.clone(), None);
        Ok(Prepared { config, directory, mountpoint, root, claim, region, flags, backing })
    }

    /// Puts a device before the directory. Held writes may take so many bytes.
    pub(crate) fn open_device(
        &mut self,
        choice: (IoEngineChoice, u64),
        timers: &Arc<Timers>,
    ) -> Result<Arc<dyn Device>, StartError> {
        // Opened anew: the lock goes with the claim, and the device stays until the daemon ends.
        let flags = OFlags::DIRECTORY | OFlags::CLOEXEC;
        let directory = openat(self.claim.directory(), ".", flags, Mode::empty());
        let directory =
            directory.map_err(|error| MountError::Open(self.directory.clone(), error.into()))?;
        let backing = Backing::open(&self.config, directory, choice, timers)?;
        let device = Arc::clone(&backing.device);
        self.backing = Some(backing);
        Ok(device)
    }

    pub(crate) fn device_config(&self) -> &DeviceConfig {
        &self.config.device
    }
}

/// A path in full; what is mounted there need not answer.
pub(super) fn place(path: &Path) -> Result<PathBuf, MountError> {
    let table = mount_table::read().map_err(MountError::Table)?;
    mount_table::resolve(path, &table).map_err(|error| MountError::open(path.to_owned(), error))
}

/// What we need ourselves must not lie under the mount.
pub(super) fn check_own(mountpoint: &Path, config: &DaemonConfig) -> Result<(), MountError> {
    let under = |path: &Path| {
        // The last part need not exist yet.
        let parent = path.parent().and_then(|parent| parent.canonicalize().ok());
        let full = parent.zip(path.file_name()).map(|(parent, name)| parent.join(name));
        full.unwrap_or_else(|| path.to_owned()).starts_with(mountpoint)
    };
    let refuse = |path: &Path, remedy| {
        Err(MountError::OwnPath(mountpoint.to_owned(), path.display().to_string(), remedy))
    };
    if let Some(path) = KERNEL.iter().map(Path::new).find(|path| under(path)) {
        return refuse(path, "name a directory further below, or another mount point");
    }
    if let Some(path) = config.runtime.iter().find(|path| under(path)) {
        return refuse(path, "set XDG_RUNTIME_DIR to a directory outside");
    }
    if let Some(path) = config.log.iter().find(|path| under(path)) {
        return refuse(path, "name another place with --log");
    }
    if let Some(path) = config.control.iter().find(|path| under(path)) {
        return refuse(path, "name another place with --control");
    }
    let mut unix = config.listen.iter().filter_map(Listen::own_path);
    match unix.find(|path| under(path)) {
        Some(path) => refuse(path, "name another place with --socket"),
        None => Ok(()),
    }
}

/// Opens a directory that was found at `full`: where that is was checked, and it is to stay so.
fn open_at(path: &Path, full: &Path) -> Result<OpenDirectory, MountError> {
    let opened = OpenDirectory::open(path)?;
    if opened.path != full {
        return Err(MountError::Moved(full.to_owned()));
    }
    Ok(opened)
}

/// Mounts what was prepared. When a mount has ended, the daemon is told to forget its device.
///
/// # Errors
/// The first that could not be mounted; those before it are for [`Mounts::end`].
pub(crate) fn start(
    mounts: &Arc<Mounts>,
    config: &DaemonConfig,
    (groups, forget_device): (&Arc<Groups>, &Arc<ForgetDevice<'static>>),
    prepared: Vec<Prepared>,
) -> Result<(), StartError> {
    for mount in prepared {
        // A wait may have been long: whoever gave it up sees no mount come and go.
        if !config.notes.is_heard() {
            return Err(MountError::GivenUp(mount.directory).into());
        }
        start_one((mounts, config, groups), Arc::clone(forget_device), mount)?;
    }
    Ok(())
}

fn start_one(
    (mounts, whole, groups): (&Arc<Mounts>, &DaemonConfig, &Arc<Groups>),
    forget_device: Arc<ForgetDevice<'static>>,
    mount: Prepared,
) -> Result<(), StartError> {
    let Prepared { config, directory, mountpoint, root, mut claim, mut region, flags, backing } =
        mount;
    let backing = backing.expect("its device is open");
    let is_over_itself = directory == mountpoint.path;
    let flush = closing::matters(&directory);
    let (served, who) = filesystem(groups, (&config, is_over_itself, flush), &backing, root)?;
    let options = Options {
        allow_other: config.allow_other.unwrap_or(geteuid().is_root()),
        read_only: config.device.read_only,
        flags: flags | config.flags,
        ..Options::new(mount_table::source_of(&directory))
    };
    let (this, at) = (Arc::downgrade(mounts), mountpoint.path.clone());
    // Held while it is mounted, so that an end that comes at once finds it in the list.
    let mut all = mounts.all();
    let on_end = move || {
        if let Some(mounts) = this.upgrade() {
            ended_outside(&mounts, &at, &*forget_device);
        }
    };
    let (tree, seen) = (Arc::clone(&served.0), Arc::clone(&served.0));
    let on_start = |notifier, control, place: &Place| {
        backing.mounted_as(place.device);
        let (major, minor) = place.device;
        seen.mounted_as(rustix::fs::makedev(major, minor));
        if let Err(error) = seen.trim_with(notifier, control) {
            tracing::warn!(%error, "the kernel is not asked to forget files");
        }
        backing.hear_interrupts();
    };
    let on_attached = || in_use::settle_again(&mut region, &directory, config.in_use);
    let session =
        Session::start_at(served, (&mountpoint, &options), on_attached, on_start, on_end)?;
    let place = session.place().clone();
    claim.mounted_as(place.connection);
    let record = whole.runtime.as_ref().and_then(|runtime| {
        let record = Record {
            mountpoint: mountpoint.path,
            directory,
            device: config.device.name.clone(),
            pid: std::process::id(),
            control: whole.control.clone(),
            log: whole.log.clone(),
        };
        let kept = record::keep(runtime, place.connection, &record);
        kept.inspect_err(|error| tracing::warn!(%error, "the mount is not recorded")).ok()
    });
    let (device, session) = (config.device.name, Some(session));
    all.push(Mount { place, device, session, backing, tree, who, claim, record });
    mounts.live.send_modify(|live| *live = Some(live.unwrap_or_default() + 1));
    Ok(())
}

impl Mounts {
    fn all(&self) -> MutexGuard<'_, Vec<Mount>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn closing(&self) -> MutexGuard<'_, ()> {
        self.closing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is mounted, and how it stands.
    pub fn reports(&self) -> Vec<MountReport> {
        let all = self.all();
        let reports = all.iter().map(|mount| MountReport {
            mountpoint: mount.place.mountpoint.clone(),
            device: mount.device.clone(),
            rules: mount.who.rules().all().iter().map(ToString::to_string).collect(),
            group: mount.who.rules().default_group().into(),
            cgroup_limits: mount.who.rules().cgroup_limits().word().into(),
            known_count: mount.tree.inodes_known(),
            open_count: mount.tree.files_open(),
            kept_count: mount.backing.kept_count(),
            waiting_count: mount.backing.waiting_count(),
            passed_through_count: mount.backing.passed_count(),
        });
        reports.collect()
    }

    /// Other rules hold for the mount of a device from now on.
    ///
    /// # Errors
    /// A group that cannot be made; nothing is changed then.
    pub(crate) fn rule(&self, device: &str, rules: Rules) -> Result<(), TreeError> {
        let found = self.all().iter().find(|one| one.device == device).map(|one| one.who.clone());
        found.map_or(Ok(()), |who| who.rule(rules))
    }

    /// Resolves when the last mount has ended by somebody else's hand and is durable, also if that
    /// was before; never if there was none.
    pub async fn all_ended(&self) {
        let _ = self.live.subscribe().wait_for(|live| *live == Some(0)).await;
    }

    /// Ends all of them at the same time, each within its patience.
    pub(crate) fn end(&self, patience: Duration) -> Vec<(PathBuf, Ended)> {
        let take =
            |mount: &mut Mount| Some((mount.place.mountpoint.clone(), mount.session.take()?));
        let sessions: Vec<(PathBuf, Session)> = self.all().iter_mut().filter_map(take).collect();
        thread::scope(|scope| {
            let end = |(path, session): (PathBuf, Session)| {
                scope.spawn(move || (path, session.end(patience)))
            };
            let ending: Vec<_> = sessions.into_iter().map(end).collect();
            let ended = ending.into_iter().filter_map(|one| one.join().ok()).collect();
            self.all().iter().for_each(|mount| mount.backing.give_up());
            ended
        })
    }

    /// All is durable: files are closed, the records go, and others may mount the directories.
    pub(crate) fn forget(&self, forget_device: &ForgetDevice<'_>) {
        let _closing = self.closing();
        let ended = std::mem::take(&mut *self.all());
        ended.into_iter().for_each(|mount| mount.close(forget_device));
    }

    /// Takes all of them out of sight and cuts them, when there is no time to end in order.
    pub fn cut(&self) {
        for mount in self.all().iter() {
            mount.place.cut();
        }
    }
}
