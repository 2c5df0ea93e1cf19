//! The running daemon: its devices, its listeners, and an orderly end.

use crate::cluster::Cluster;
use crate::config::{DaemonConfig, ExportConfig, Listen};
use crate::device::Device;
use crate::device_table::DeviceList;
use crate::dirty::Manager;
use crate::exports::{ExportTable, Frontend, Renewal};
use crate::fuse::image::{self, Attached, Images};
use crate::fuse::mounts::{self, ForgetDevice, Mounts};
use crate::fuse::raise_descriptors;
use crate::fuse::session::Ended;
use crate::groups::Groups;
use crate::limits::{DESCRIPTORS_OWN, DRAIN_TIMEOUT, MOUNT_PATIENCE};
use crate::listener::let_in;
use crate::live::Live;
use crate::memory::{Memory, return_what_is_freed};
use crate::nbd::frontend::Nbd;
use crate::opening::{name_exports, open_devices, resolve_exports};
pub use crate::start_error::StartError;
use crate::timer::Timers;
use crate::ublk::{UblkAttached, UblkDisk, UblkWish};
use crate::vhost_user::frontend::Machines;
use std::collections::BTreeSet;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

/// What runs.
pub struct Daemon {
    pub(crate) config: DaemonConfig,
    /// Who pays, and the open devices.
    pub(crate) groups: Arc<Groups>,
    /// What everything does, second by second.
    pub(crate) live: Live,
    exports: Arc<ExportTable>,
    changes: Changes,
    /// The ways by which the exports are reached.
    pub(crate) frontends: Vec<Box<dyn Frontend>>,
    memory: Arc<Memory>,
    pub(crate) timers: Arc<Timers>,
    /// Divides dirty memory among the devices.
    pub(crate) dirty: Manager,
    /// The directories that it is mounted over.
    mounts: Arc<Mounts>,
    /// The exports as files.
    images: Arc<Images>,
    /// The first export as a block device by ublk.
    pub(crate) ublk: UblkDisk,
    /// Its part in a cluster.
    cluster: Option<Cluster>,
    /// Sees changes of `/etc/subuid`, if something is mounted.
    _subordinates: Option<iopace_fuse::subordinate::Watch>,
}

/// What belongs to changes of exports and devices.
#[derive(Default)]
struct Changes {
    /// Whoever changes which there are has it.
    alone: Mutex<()>,
    /// Devices that were opened since the start: they are closed with their last export.
    added: Mutex<BTreeSet<String>>,
    /// Policies that the configuration has named before and names no more: they are unloaded when
    /// no device has them.
    retired: Mutex<BTreeSet<String>>,
    /// Devices that could not be made durable once. The disk tells that once only.
    unflushed: Mutex<BTreeSet<String>>,
}

/// How a shutdown went.
#[derive(Debug, Default)]
pub struct ShutdownReport {
    /// Connections that had to be cut because their requests did not finish in time.
    pub cut_count: usize,
    /// Devices that could not be flushed, with the error.
    pub unflushed: Vec<(String, io::Error)>,
    /// Each mount point, and how the mount there ended.
    pub mounts: Vec<(PathBuf, Ended)>,
}

impl Daemon {
    /// Opens the devices, inserts their schedulers, binds the sockets and serves.
    ///
    /// # Errors
    /// What was asked, what is wrong and what would be right; nothing is left behind then.
    pub fn start(mut config: DaemonConfig) -> Result<Arc<Daemon>, StartError> {
        look_at_users(&config);
        let mut prepared = mounts::prepare(&config)?;
        let shown = image::prepare(&config)?;
        make_room_for(config.connections_max);
        return_what_is_freed();
        let memory = Arc::new(Memory::beside_the_process(config.memory_max.get()));
        let timers = Timers::start().map_err(StartError::Threads)?;
        let devices = open_devices(&config, &mut prepared, &timers)?;
        name_exports(&mut config);
        let exports = resolve_exports(&config, &devices)?;
        let groups = start_groups(&config, &devices)?;
        // Before anybody is served: what holds for all hosts holds for the first request.
        let cluster = Cluster::start(&config, &groups)?;
        let live = Live::start(Arc::clone(&groups)).map_err(StartError::Threads)?;
        let dirty = Manager::start(config.all_devices(), &devices).map_err(StartError::Threads)?;
        let is_mount = !config.mounts.is_empty();
        let subordinates = is_mount.then(iopace_fuse::subordinate::watch).transpose();
        let subordinates = subordinates.map_err(StartError::Threads)?;
        let exports = Arc::new(ExportTable::new(Arc::clone(&groups), exports));
        let nbd = Nbd::start(Arc::clone(&exports), &config, Arc::clone(&memory))?;
        let mut frontends: Vec<Box<dyn Frontend>> = vec![Box::new(nbd)];
        let machines = Machines::start(Arc::clone(&exports), &memory).map(|machines| {
            frontends.extend(machines.map(|all| Box::new(all) as _));
        });
        let mut sockets = unix_sockets(&config).into_iter();
        let served =
            machines.and_then(|()| sockets.try_for_each(|path| let_in(path, config.socket_access)));
        if let Err(error) = served {
            frontends.iter().for_each(|frontend| frontend.stop_accepting());
            return Err(error);
        }
        let daemon = Arc::new(Daemon {
            config,
            groups,
            live,
            exports,
            changes: Changes::default(),
            frontends,
            memory,
            timers,
            dirty,
            mounts: Arc::default(),
            images: Arc::default(),
            ublk: UblkDisk::default(),
            cluster,
            _subordinates: subordinates,
        });
        let Daemon { config, mounts, images, exports, .. } = &*daemon;
        let show = |place| image::start(images, config, exports, place);
        let started = mounts::start(mounts, config, (&daemon.groups, &forgets(&daemon)), prepared)
            .and_then(|()| shown.map_or(Ok(()), show));
        if let Err(error) = started {
            daemon.shutdown();
            return Err(error);
        }
        Ok(daemon)
    }

    /// The devices as of now, in the order of the configuration, and then as they were opened.
    pub fn devices(&self) -> DeviceList {
        self.groups.device_table().all()
    }

    /// The directories that it is mounted over.
    pub fn mounts(&self) -> &Mounts {
        &self.mounts
    }

    /// The exports as files, if they are shown.
    pub fn images(&self) -> &Images {
        &self.images
    }

    /// Attaches the first export to a loop device, which is detached when the daemon ends. `source`
    /// is what the user calls it; blocks of `block_bytes`, or of what suits the device.
    ///
    /// # Errors
    /// The exports are not shown, or the system gives no loop device.
    pub fn attach(
        &self,
        source: Option<PathBuf>,
        block_bytes: Option<u32>,
    ) -> Result<Attached, StartError> {
        self.images.attach((&self.config, &self.exports), source, block_bytes)
    }

    /// Attaches the first export to a ublk device, which is deleted when the daemon ends, or takes
    /// over the one that a killed daemon has left.
    ///
    /// # Errors
    /// The kernel has no such driver, or gives no device.
    pub fn attach_ublk(&self, wish: UblkWish) -> Result<UblkAttached, StartError> {
        self.ublk.attach((&self.config, &self.exports, &self.memory), wish)
    }

    /// Has all requests for a volume go through its ublk device from now on; past it again when the
    /// daemon ends.
    ///
    /// # Errors
    /// The volume was changed meanwhile, or the kernel refuses: all is as before then.
    pub fn turn_in(&self) -> Result<(), StartError> {
        self.ublk.turn_in()
    }

    /// The ublk device, if there is one.
    pub fn ublk(&self) -> &UblkDisk {
        &self.ublk
    }

    /// Who pays.
    pub fn groups(&self) -> &Arc<Groups> {
        &self.groups
    }

    /// Its part in a cluster, if it has one.
    pub fn cluster(&self) -> Option<&Cluster> {
        self.cluster.as_ref()
    }

    /// What everything does, second by second.
    pub fn live(&self) -> &Live {
        &self.live
    }

    /// The device of that name.
    pub fn device(&self, name: &str) -> Option<Arc<dyn Device>> {
        self.groups.device_table().find(name)
    }

    /// The exports as of now, with the names of their devices.
    pub fn exports(&self) -> Vec<ExportConfig> {
        self.exports.all().iter().map(|export| export.config.clone()).collect()
    }

    pub(crate) fn export_table(&self) -> &Arc<ExportTable> {
        &self.exports
    }

    /// Waits until no other change of exports or devices is under way.
    pub(crate) fn alone(&self) -> MutexGuard<'_, ()> {
        self.changes.alone.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn unflushed(&self) -> MutexGuard<'_, BTreeSet<String>> {
        self.changes.unflushed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn retired(&self) -> MutexGuard<'_, BTreeSet<String>> {
        self.changes.retired.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn added(&self) -> MutexGuard<'_, BTreeSet<String>> {
        self.changes.added.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What it was told at its start, with the default exports filled in.
    pub fn config(&self) -> &DaemonConfig {
        &self.config
    }

    /// A URI for each export on each socket, ready to be pasted.
    pub fn uris(&self) -> Vec<String> {
        self.frontends.iter().flat_map(|frontend| frontend.uris()).collect()
    }

    /// Reads the certificates of NBD clients again, if there are any; what is returned has them
    /// hold for those who come then.
    ///
    /// # Errors
    /// The file with what is wrong and what to do.
    pub(crate) fn renewals(&self) -> Result<Vec<Renewal>, StartError> {
        self.frontends.iter().filter_map(|frontend| frontend.renewal().transpose()).collect()
    }

    /// The same, and has them hold; whether there are any.
    ///
    /// # Errors
    /// The file with what is wrong and what to do; those that held stay.
    pub fn renew_certificates(&self) -> Result<bool, StartError> {
        let renewals = self.renewals()?;
        let has_some = !renewals.is_empty();
        renewals.into_iter().for_each(|renew| renew());
        Ok(has_some)
    }

    /// How many clients are connected.
    pub fn connections_count(&self) -> usize {
        self.frontends.iter().map(|frontend| frontend.connections_count()).sum()
    }

    /// Bytes of requests and replies held for clients beyond what each may hold by itself.
    pub fn memory_used_bytes(&self) -> u64 {
        self.memory.used_bytes()
    }

    /// Accepts nobody any more, answers what was asked, makes everything durable, and removes the
    /// sockets. Takes at most some 20 seconds, and as long again if there are mounts.
    pub fn shutdown(&self) -> ShutdownReport {
        self.frontends.iter().for_each(|frontend| frontend.stop_accepting());
        // A change of exports that is under way ends first, and none comes meanwhile.
        let _alone = self.alone();
        self.ublk.end(MOUNT_PATIENCE);
        // Whoever still uses files of a mount is answered until it ends or is cut.
        let mounts = thread::scope(|scope| {
            let images = scope.spawn(|| self.images.end(MOUNT_PATIENCE));
            let mut mounts = self.mounts.end(MOUNT_PATIENCE);
            mounts.extend(images.join().ok().flatten());
            mounts
        });
        let patience = DRAIN_TIMEOUT + Duration::from_secs(1);
        let cut_count = thread::scope(|scope| {
            let end = |frontend: &'_ dyn Frontend| frontend.end(patience);
            let all = self.frontends.iter();
            let all: Vec<_> = all.map(|frontend| scope.spawn(move || end(&**frontend))).collect();
            all.into_iter().map(|one| one.join().unwrap_or_default()).sum()
        });
        let mut report = ShutdownReport { cut_count, unflushed: Vec::new(), mounts };
        report.unflushed = flush_all(&self.devices());
        self.mounts.forget(&|name| {
            self.forget_device(name);
        });
        self.images.forget();
        self.ublk.forget();
        if let Some(cluster) = &self.cluster {
            cluster.stop();
        }
        self.live.stop();
        self.dirty.stop();
        self.timers.stop();
        report
    }
}

/// Makes all devices durable, beside each other: one may wait for a server that is gone. Those that
/// could not be, each with the error.
fn flush_all(devices: &[Arc<dyn Device>]) -> Vec<(String, io::Error)> {
    let done = thread::scope(|scope| {
        let flush = |device: &Arc<dyn Device>| {
            let device = Arc::clone(device);
            scope.spawn(move || (device.info().name.clone(), device.flush_all()))
        };
        let all: Vec<_> = devices.iter().map(flush).collect();
        all.into_iter().filter_map(|one| one.join().ok()).collect::<Vec<_>>()
    });
    done.into_iter().filter_map(|(name, done)| Some((name, done.err()?))).collect()
}

/// The groups, with what is odd about them in the log.
fn start_groups(
    config: &DaemonConfig,
    devices: &[Arc<dyn Device>],
) -> Result<Arc<Groups>, StartError> {
    let groups = Groups::of_config(config, devices.to_vec())?;
    for warning in groups.all_warnings() {
        tracing::warn!("{warning}");
    }
    Ok(Arc::new(groups))
}

/// Has a daemon, as long as it is there, forget the device of a mount that has ended.
fn forgets(daemon: &Arc<Daemon>) -> Arc<ForgetDevice<'static>> {
    let daemon = Arc::downgrade(daemon);
    Arc::new(move |name| {
        if let Some(daemon) = daemon.upgrade() {
            daemon.forget_device(name);
        }
    })
}

/// Reads who is whose subordinate, before there is a mount, which may be over `/etc`. Without
/// mounts nothing is read there: it may be on a volume that waits for this daemon.
fn look_at_users(config: &DaemonConfig) {
    if !config.mounts.is_empty() || config.fuse.is_some() {
        iopace_fuse::subordinate::look_again();
    }
}

/// The Unix sockets of clients and of virtual machines.
fn unix_sockets(config: &DaemonConfig) -> Vec<&PathBuf> {
    let of_clients = config.listen.iter().filter_map(Listen::own_path);
    of_clients.chain(config.exports.iter().filter_map(|one| one.vhost_user.as_ref())).collect()
}

/// Each client takes two descriptors: its socket, and the file that its flushes go to.
fn make_room_for(connections_max: usize) {
    let most = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    let wanted = 2 * connections_max as u64 + DESCRIPTORS_OWN;
    if most.is_some_and(|most| most < wanted)
        && let Err(error) = raise_descriptors()
    {
        tracing::debug!(%error, "no more descriptors for clients");
    }
}
