//! `iopace mount` and `iopace unmount` as they are asked for.

mod doctor;
mod setup;

pub use doctor::DoctorArgs;
pub use setup::SetupArgs;

use super::serve::{DeviceArgs, LogFormat, depth, slots};
use super::{DiskParser, FormatArgs, PortArgs, pace_policies, window_policies};
use crate::scheduler_words::scheduler_names;
use crate::units;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{ArgAction, Args, ValueEnum, ValueHint};
use iopace_core::time::Nanos;
use iopace_core::units::Bytes;
use iopace_daemon::config::InUse;
use iopace_daemon::{CgroupLimits, Rule};
use rustix::mount::MountFlags;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

const MOUNT_EXAMPLES: &str = "\
Examples:
  iopace mount /srv
      Whatever is done in /srv is scheduled and paced from here on; paths do not change.
  iopace mount /srv /mnt/srv --sched fair
      The same files at another place; /srv itself stays as it is.
  iopace mount --config iopace.toml
      The [[mount]] tables of a file, by one daemon.
  iopace mount
      What is mounted.
  iopace unmount /srv
      Ends it when everything is durable.

It becomes a daemon, unless --foreground is said; its log goes to a file beside its sockets, in
$XDG_RUNTIME_DIR/iopace, else /run/iopace (root), else /tmp/iopace-UID. SIGTERM and SIGINT end it
in order; a second signal ends it at once (status 130). Neither leaves a dead mount behind.";

/// `iopace mount`
#[derive(Debug, Args)]
#[command(after_help = MOUNT_EXAMPLES)]
pub struct MountArgs {
    /// The directory; without it, what is mounted is listed
    #[arg(value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub dir: Option<PathBuf>,

    /// Where to mount it [default: over DIR itself]
    #[arg(value_hint = ValueHint::DirPath)]
    pub mountpoint: Option<PathBuf>,

    /// Show what is mounted
    #[arg(long, conflicts_with_all = ["dir", "config"])]
    pub list: bool,

    /// Read the settings from a TOML file instead
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, conflicts_with_all =
        ["dir", "name", "rule", "group", "cgroup_limits", "allow_other", "private", "emulate",
         "cache", "read_only", "while_in_use", "while_written", "wait", "flag", "sched", "set",
         "nr_requests", "window", "window_policy", "pace", "pause_target", "dirty_limit",
         "dirty_background"])]
    pub config: Option<PathBuf>,

    /// Name of its device [default: the last part of DIR]
    #[arg(long, requires = "dir")]
    pub name: Option<String>,

    /// Who pays, as program=rsync:/backup: the first rule that fits; see docs/mount.md
    #[arg(long, value_name = "RULE", requires = "dir")]
    pub rule: Vec<Rule>,

    /// Who pays where no rule fits, as /vms; made if it is missing [default: /]
    #[arg(long, value_name = "GROUP", requires = "dir")]
    pub group: Option<String>,

    /// Whether groups of map=cgroup have the limits that the kernel has for their cgroups: follow
    /// (the default) or ignore
    #[arg(long, value_name = "WHETHER", requires = "dir", value_parser = cgroup_limits())]
    pub cgroup_limits: Option<CgroupLimits>,

    /// Let other users see the mount [default for root]
    #[arg(long, requires = "dir", conflicts_with = "private")]
    pub allow_other: bool,

    /// Let nobody else see it [default for everybody but root]
    #[arg(long, requires = "dir")]
    pub private: bool,

    /// Mount though others have files of DIR open for reading, or work in it: they go on past it
    #[arg(long, requires = "dir")]
    pub while_in_use: bool,

    /// Mount though others write in DIR: they go on past it. A file that programs on both sides
    /// write or map, or change without locks, can be destroyed: never with a database
    #[arg(long, requires = "dir")]
    pub while_written: bool,

    /// Wait until nobody uses DIR, at most so many seconds [default: without end]
    #[arg(long, value_name = "SECONDS", requires = "dir", num_args = 0..=1)]
    #[arg(require_equals = true, default_missing_value = "", value_parser = patience)]
    pub wait: Option<Duration>,

    /// A flag of the mount, as 'mount -o' has it; beside those of the file system of DIR
    #[arg(long, value_name = "FLAG", requires = "dir")]
    pub flag: Vec<MountFlag>,

    /// Stay in the foreground, with the log on standard error
    #[arg(long)]
    pub foreground: bool,

    /// How to print the list
    #[command(flatten)]
    pub format: FormatArgs,

    /// The disk below
    #[command(flatten)]
    pub device: MountDeviceArgs,

    /// Unix socket for NBD clients of devices in the configuration file
    #[arg(long, value_name = "PATH", value_hint = ValueHint::FilePath, help_heading = "Sockets")]
    #[arg(requires = "config")]
    pub socket: Option<PathBuf>,

    /// TCP address for NBD clients of devices in the configuration file
    #[arg(long, value_name = "ADDR", value_parser = units::parse_address)]
    #[arg(help_heading = "Sockets", requires = "config")]
    pub listen: Vec<SocketAddr>,

    /// Control socket for 'iopace sched' [default: iopace.ctl where sockets are made]
    #[arg(long, value_name = "PATH", value_hint = ValueHint::FilePath, help_heading = "Sockets")]
    pub control: Option<PathBuf>,

    /// No control socket
    #[arg(long, conflicts_with = "control", help_heading = "Sockets")]
    pub no_control: bool,

    /// Ports for browsers and for what scrapes
    #[command(flatten, next_help_heading = "Sockets")]
    pub ports: PortArgs,

    /// File for the log [default: beside the sockets, named after the device]
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, help_heading = "Log")]
    #[arg(conflicts_with = "foreground")]
    pub log: Option<PathBuf>,

    /// How the log looks
    #[arg(long, value_name = "FORMAT", help_heading = "Log")]
    pub log_format: Option<LogFormat>,

    /// Say more; twice: everything
    #[arg(short, long, action = ArgAction::Count, help_heading = "Log")]
    pub verbose: u8,

    /// Say warnings only; twice: errors only
    #[arg(short, long, action = ArgAction::Count, conflicts_with = "verbose", help_heading = "Log")]
    pub quiet: u8,
}

/// Flags of a mount.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum MountFlag {
    /// Set-user-id bits do not hold
    Nosuid,
    /// Devices cannot be opened
    Nodev,
    /// Programs cannot be started
    Noexec,
    /// Times of access stay as they are
    Noatime,
    /// Those of directories do
    Nodiratime,
    /// Every access is noted
    Strictatime,
}

impl MountFlag {
    /// As the kernel has it.
    pub fn flag(self) -> MountFlags {
        match self {
            MountFlag::Nosuid => MountFlags::NOSUID,
            MountFlag::Nodev => MountFlags::NODEV,
            MountFlag::Noexec => MountFlags::NOEXEC,
            MountFlag::Noatime => MountFlags::NOATIME,
            MountFlag::Nodiratime => MountFlags::NODIRATIME,
            MountFlag::Strictatime => MountFlags::STRICTATIME,
        }
    }
}

impl MountArgs {
    /// The flags of the mount.
    pub fn flags(&self) -> MountFlags {
        self.flag.iter().fold(MountFlags::empty(), |all, one| all | one.flag())
    }

    /// Whether it is mounted though it is in use.
    pub fn in_use(&self) -> InUse {
        InUse {
            while_in_use: self.while_in_use,
            while_written: self.while_written,
            wait: self.wait,
        }
    }
}

/// Whether limits of cgroups count.
fn cgroup_limits() -> impl TypedValueParser<Value = CgroupLimits> {
    let words = PossibleValuesParser::new(CgroupLimits::ALL.map(|(word, _)| word));
    words.map(|word| {
        let known = CgroupLimits::ALL.iter().find(|(known, _)| *known == word);
        known.map_or_else(CgroupLimits::default, |(_, limits)| *limits)
    })
}

/// Seconds; without any, no end.
fn patience(text: &str) -> Result<Duration, String> {
    match text {
        "" => Ok(Duration::MAX),
        text => {
            let seconds = units::whole(0..=u64::MAX)(text).map(Duration::from_secs);
            seconds.map_err(|_| "a whole number of seconds is needed".into())
        }
    }
}

/// Options of the device of a mount: those of `iopace serve` that a directory has.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Disk")]
pub struct MountDeviceArgs {
    /// As slow as a modelled disk; see 'iopace models', or a model file (*.toml)
    #[arg(long, value_name = "MODEL", value_parser = DiskParser, hide_possible_values = true)]
    #[arg(requires = "dir")]
    pub emulate: Option<String>,

    /// Page cache of the modelled disk [default: 256MiB]
    #[arg(long, value_name = "SIZE", requires = "emulate", value_parser = units::parse_size)]
    pub cache: Option<Bytes>,

    /// Refuse writes
    #[arg(long)]
    pub read_only: bool,

    /// Insert this scheduler at the start; see 'iopace sched list', or the file of a policy
    /// (./mine.wasm) [default: auto]
    #[arg(long, value_name = "NAME", value_parser = scheduler_names())]
    pub sched: Option<String>,

    /// Set a parameter of that scheduler, as wait_ms=5
    #[arg(long, value_name = "NAME=VALUE", requires = "sched", value_parser = units::parse_setting)]
    pub set: Vec<(String, u64)>,

    /// Request slots of the device [default: 16384]
    #[arg(long, value_name = "COUNT", value_parser = slots())]
    pub nr_requests: Option<u32>,

    /// Most requests at the disk [default: 32, or the model's own]
    #[arg(long, value_name = "DEPTH", value_parser = depth())]
    pub window: Option<u32>,

    /// Who decides how many of these the disk holds [default: latency]
    #[arg(long, value_name = "POLICY", value_parser = window_policies())]
    pub window_policy: Option<String>,

    /// How writers of buffered data are paced [default: rate]
    #[arg(long, value_name = "POLICY", value_parser = pace_policies())]
    pub pace: Option<String>,

    /// The pause that such writers are to have at a time, where few write [default: 8ms]
    #[arg(long, value_name = "TIME", value_parser = units::parse_time)]
    pub pause_target: Option<Nanos>,

    /// Most dirty memory, as 256MiB [default: what the kernel leaves]
    #[arg(long, value_name = "SIZE", value_parser = units::parse_size)]
    pub dirty_limit: Option<Bytes>,

    /// Dirty memory above which write-back begins [default: half of the limit]
    #[arg(long, value_name = "SIZE", value_parser = units::parse_size)]
    pub dirty_background: Option<Bytes>,
}

impl MountDeviceArgs {
    /// The same in the words of `iopace serve`.
    pub fn as_device(&self) -> DeviceArgs {
        let args = self.clone();
        DeviceArgs {
            emulate: args.emulate,
            size: None,
            cache: args.cache,
            read_only: args.read_only,
            raw: false,
            direct: false,
            reconnect_patience: None,
            sched: args.sched,
            set: args.set,
            nr_requests: args.nr_requests,
            window: args.window,
            window_policy: args.window_policy,
            pace: args.pace,
            pause_target: args.pause_target,
            dirty_limit: args.dirty_limit,
            dirty_background: args.dirty_background,
        }
    }
}

const UNMOUNT_EXAMPLES: &str = "\
A mount that is in use stays as it is: the processes that use it are named, with their open files,
mappings, locks or working directories. What a killed daemon left behind is cleared away.

Exit status: 0 everything is durable and the daemon has let go (with --lazy: or it is out of sight),
1 in use, not yet, or failed, 2 wrongly asked.";

/// `iopace unmount`
#[derive(Debug, Args)]
#[command(after_help = UNMOUNT_EXAMPLES)]
pub struct UnmountArgs {
    /// Where it is mounted
    #[arg(value_name = "DIR", value_hint = ValueHint::DirPath, required_unless_present = "all")]
    pub dir: Option<PathBuf>,

    /// Unmount all mounts of iopace, the latest first
    #[arg(long, conflicts_with = "dir")]
    pub all: bool,

    /// In use, take it out of sight and return; its daemon ends when its users have closed what
    /// they have
    #[arg(long, conflicts_with = "force")]
    pub lazy: bool,

    /// In use, take it out of sight and cut it from its users: their requests fail
    #[arg(long)]
    pub force: bool,

    /// Seconds to wait until all is durable [default: 60; with --lazy none while it is in use]
    #[arg(long, value_name = "SECONDS", value_parser = units::whole::<u64>(1..=86_400))]
    pub wait: Option<u64>,
}
