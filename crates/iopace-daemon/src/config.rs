//! What a daemon is told at its start. Plain values: the command line and the configuration file
//! are both turned into this, so both have the same words and the same defaults.

mod cluster;
mod notes;

pub use cluster::{ClusterConfig, EtcdUser, HOSTS_DEFAULT, HOSTS_MAX, NAME_LEN_MAX, wrong_name};
pub use notes::Notes;

use crate::api::RecommendChange;
use crate::given::GivenSocket;
use crate::limits;
use crate::nbd_uri::NbdUri;
use crate::rules::Rules;
use crate::tls::TlsSettings;
use iopace_core::time::Nanos;
use iopace_core::units::Bytes;
use iopace_core::{pace, window};
use rustix::mount::MountFlags;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

/// Everything a daemon serves and where.
#[derive(Clone, Debug)]
pub struct DaemonConfig {
    /// The policies that are loaded, by whoever read this: before the devices, which may name them.
    pub policies: Vec<PolicyConfig>,
    /// The devices, each with its own engine.
    pub devices: Vec<DeviceConfig>,
    /// The directories to be mounted, each with a device of its own beside those above.
    pub mounts: Vec<MountConfig>,
    /// Where it is recorded what is mounted, for `iopace unmount`; `None`: nowhere.
    pub runtime: Option<PathBuf>,
    /// The configuration file that this was read from, if it was.
    pub file: Option<PathBuf>,
    /// The file that the log goes to, if it goes to one.
    pub log: Option<PathBuf>,
    /// The listener that is told at once what delays the start, or is good to know at it.
    pub notes: Notes,
    /// What clients see. Empty: one export per device, of the same name.
    pub exports: Vec<ExportConfig>,
    /// The directory below which each export is shown as a file, for loop devices.
    pub fuse: Option<PathBuf>,
    /// Groups to be made at the start, with what is set for them.
    pub groups: Vec<GroupConfig>,
    /// Where NBD clients connect.
    pub listen: Vec<Listen>,
    /// How NBD clients may, or must, encrypt.
    pub tls: TlsSettings,
    /// Who pays for NBD clients that show a certificate; where no rule fits, their export's group.
    pub client_rules: Rules,
    /// The mode and group of Unix sockets of these, and of those of virtual machines.
    pub socket_access: SocketAccess,
    /// The control socket (mode 0600); `None`: no control.
    pub control: Option<PathBuf>,
    /// How real disks are read and written.
    pub io_engine: IoEngineChoice,
    /// The part in a cluster, if there is one.
    pub cluster: Option<ClusterConfig>,
    /// Most NBD connections at once; more are closed at once.
    pub connections_max: usize,
    /// Most bytes of requests and replies held for all clients together.
    pub memory_max: Bytes,
}

impl Default for DaemonConfig {
    fn default() -> DaemonConfig {
        DaemonConfig {
            policies: Vec::new(),
            devices: Vec::new(),
            mounts: Vec::new(),
            runtime: None,
            file: None,
            log: None,
            notes: Notes::default(),
            exports: Vec::new(),
            fuse: None,
            groups: Vec::new(),
            listen: Vec::new(),
            tls: TlsSettings::default(),
            client_rules: Rules::default(),
            socket_access: SocketAccess::default(),
            control: None,
            io_engine: IoEngineChoice::Auto,
            cluster: None,
            connections_max: limits::CONNECTIONS_DEFAULT,
            memory_max: limits::MEMORY_DEFAULT,
        }
    }
}

impl DaemonConfig {
    /// The devices, and those of the mounts.
    pub(crate) fn all_devices(&self) -> impl Iterator<Item = &DeviceConfig> {
        self.devices.iter().chain(self.mounts.iter().map(|mount| &mount.device))
    }
}

/// A policy that the configuration names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyConfig {
    /// Its file.
    pub path: PathBuf,
    /// The name that it has by its own description.
    pub name: String,
}

/// One device.
#[derive(Clone, Debug)]
pub struct DeviceConfig {
    /// Its name on the command line and in the control API.
    pub name: String,
    /// What stands behind it.
    pub backend: Backend,
    /// Refuse writes.
    pub read_only: bool,
    /// Serve an image of a format of its own (qcow2) as the bytes that it is.
    pub raw: bool,
    /// Bypass the page cache (the kernel's, or the modelled one of an emulated disk).
    pub direct: bool,
    /// A scheduler to insert at the start, with settings by name. `None`, or
    /// [`iopace_core::sched::AUTO`] without settings: the recommended one is the device's own.
    pub scheduler: Option<(String, Vec<(String, u64)>)>,
    /// Slots of the device; `None`: [`iopace_core::limits::NR_REQUESTS_DEFAULT`].
    pub nr_requests: Option<u32>,
    /// Most slots of each group below the root that has no `io.nr_group_requests` of its own for
    /// this device; `None`: as many as the device.
    pub nr_group_requests: Option<u32>,
    /// Most requests at the disk; `None`: 32 for files and block devices, the model's own depth for
    /// emulated disks.
    pub window_depth: Option<u32>,
    /// Who decides how many requests the disk holds, up to that depth.
    pub window: &'static window::WindowPolicy,
    /// How writers of buffered data are paced.
    pub pace: &'static pace::PacePolicy,
    /// The pause that writers are to have at a time, where the policy aims at one; `None`:
    /// [`iopace_core::limits::PAUSE_TARGET_DEFAULT`] ms.
    pub pause_target: Option<Nanos>,
    /// Most dirty memory. `None`: for files and block devices, what the kernel leaves, divided
    /// among them; for emulated disks, a fifth of their page cache.
    pub dirty_limit: Option<Bytes>,
    /// Dirty memory above which write-back begins; `None`: half of the limit.
    pub dirty_background: Option<Bytes>,
    /// Whether time is accounted for. No setting of users: only for measuring what it costs (the
    /// example `null_device`); everything that tells of waits is wrong without.
    pub accounting: bool,
    /// Settings to be tried beside these from the start.
    pub recommend: Option<RecommendChange>,
    /// The volume of several hosts that it is a part of.
    pub volume: Option<String>,
}

/// The policy of stage pace where none is named: smooth, and fair to tasks and groups.
pub const PACE_DEFAULT: &str = "rate";

/// The policy of stage window where none is named: write-back that readers do not notice.
pub const WINDOW_DEFAULT: &str = "latency";

impl DeviceConfig {
    /// A device with all defaults.
    pub fn new(name: impl Into<String>, backend: Backend) -> DeviceConfig {
        DeviceConfig {
            name: name.into(),
            backend,
            read_only: false,
            raw: false,
            direct: false,
            scheduler: None,
            nr_requests: None,
            nr_group_requests: None,
            window_depth: None,
            window: window::find(WINDOW_DEFAULT).expect("one of the registry"),
            pace: pace::find(PACE_DEFAULT).expect("one of the registry"),
            pause_target: None,
            dirty_limit: None,
            dirty_background: None,
            accounting: true,
            recommend: None,
            volume: None,
        }
    }
}

/// Whether settings of dirty memory are possible, each for itself and together.
///
/// # Errors
/// What is wrong, and what would be right.
pub fn check_dirty(limit: Option<Bytes>, background: Option<Bytes>) -> Result<(), String> {
    let least = limits::DIRTY_LIMIT_MIN;
    if let Some(limit) = limit.filter(|limit| *limit < least) {
        return Err(format!("a dirty limit of {limit} is too small: it is at least {least}"));
    }
    match (limit, background) {
        (Some(limit), Some(background)) if background >= limit => Err(format!(
            "the dirty background, {background}, is not below the dirty limit, {limit}: write-back \
             begins at the one and writers stop at the other"
        )),
        _ => Ok(()),
    }
}

/// What stands behind a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Backend {
    /// An image file or a block device.
    Path(PathBuf),
    /// A disk model in real time.
    Emulated {
        /// A preset's name, see `iopace models`.
        model: String,
        /// Where its data is kept: a sparse file (made if missing), or memory.
        store: Option<PathBuf>,
        /// Its size; `None`: the model's capacity, or the size of an existing store.
        size: Option<Bytes>,
        /// Size of the modelled page cache (unless `direct`); `None`: 256 MiB.
        cache: Option<Bytes>,
    },
    /// An export of another NBD server.
    Remote {
        /// Its address.
        uri: NbdUri,
        /// How long requests wait without a connection until they fail; `None`: for ever.
        patience: Option<Nanos>,
    },
    /// The files of a directory that is mounted.
    Directory {
        /// The directory.
        path: PathBuf,
        /// The disk that is modelled, if one is: a preset's name, see `iopace models`.
        model: Option<String>,
        /// Size of its modelled page cache; `None`: 256 MiB.
        cache: Option<Bytes>,
    },
}

/// A directory that is mounted over itself or elsewhere.
#[derive(Clone, Debug)]
pub struct MountConfig {
    /// Its device; what stands behind it is the directory.
    pub device: DeviceConfig,
    /// The directory.
    pub directory: PathBuf,
    /// Where it is mounted; `None`: over itself.
    pub mountpoint: Option<PathBuf>,
    /// Whether other users than ours may see it; `None`: if we are root.
    pub allow_other: Option<bool>,
    /// Flags of the mount, beside those of the directory's own file system.
    pub flags: MountFlags,
    /// Whether it is mounted though it is in use.
    pub in_use: InUse,
    /// Who pays: rules, the first that fits holds.
    pub rules: Rules,
}

/// The uses by others that a mount of their directory accepts: by default none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InUse {
    /// It is mounted though others read in it, past iopace.
    pub while_in_use: bool,
    /// It is mounted though others write in it, past iopace.
    pub while_written: bool,
    /// Their end is waited for, at most so long.
    pub wait: Option<Duration>,
}

impl MountConfig {
    /// A directory that is mounted over itself with all defaults, its device named after it.
    pub fn new(directory: impl Into<PathBuf>) -> MountConfig {
        let directory: PathBuf = directory.into();
        let name = directory.file_name().unwrap_or("root".as_ref()).to_string_lossy().into_owned();
        let backend = Backend::Directory { path: directory.clone(), model: None, cache: None };
        MountConfig {
            device: DeviceConfig::new(name, backend),
            directory,
            mountpoint: None,
            allow_other: None,
            flags: MountFlags::empty(),
            in_use: InUse::default(),
            rules: Rules::default(),
        }
    }
}

/// A device as clients see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExportConfig {
    /// The name that clients ask for. The first export also answers to the empty name.
    pub name: String,
    /// The device's name.
    pub device: String,
    /// Refuse writes through this export.
    pub read_only: bool,
    /// Show it on encrypted connections only.
    pub needs_tls: bool,
    /// Text for `nbdinfo`.
    pub description: String,
    /// The path of the group that its connections pay as; `/` is the root.
    pub group: String,
    /// The Unix socket at which it is the disk of a virtual machine (vhost-user-blk).
    pub vhost_user: Option<PathBuf>,
}

impl ExportConfig {
    /// An export that may be written, of the root group.
    pub fn new(name: impl Into<String>, device: impl Into<String>) -> ExportConfig {
        ExportConfig {
            name: name.into(),
            device: device.into(),
            read_only: false,
            needs_tls: false,
            description: String::new(),
            group: "/".into(),
            vhost_user: None,
        }
    }
}

/// A group that is there from the start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupConfig {
    /// Its path; groups above it that are not configured are made too.
    pub path: String,
    /// What is written to which of its files, as `io.max` and `disk rbps=10M`.
    pub files: Vec<(String, String)>,
}

impl Listen {
    /// The path of a Unix socket that is ours: one that is given is not.
    pub fn own_path(&self) -> Option<&PathBuf> {
        match self {
            Listen::Unix(path) => Some(path),
            Listen::Tcp(_) | Listen::Given(_) => None,
        }
    }
}

/// The mode and group of a Unix socket: they say who may connect.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SocketAccess {
    /// Its mode, as 0o660; `None`: 0o660 if a group is named, else 0o600.
    pub mode: Option<u32>,
    /// The number of its group of users; `None`: the daemon's own.
    pub group: Option<u32>,
}

/// Where NBD clients connect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Listen {
    /// A Unix socket.
    Unix(PathBuf),
    /// A TCP address.
    Tcp(SocketAddr),
    /// A socket that a service manager has made.
    Given(GivenSocket),
}

/// How real disks are read and written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IoEngineChoice {
    /// io_uring where the kernel allows it, else threads.
    #[default]
    Auto,
    /// io_uring or an error.
    Uring,
    /// A pool of threads.
    Threads,
}
