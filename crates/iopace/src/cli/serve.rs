//! `iopace serve` as it is asked for.

use super::{DiskParser, PortArgs, TlsArgs, pace_policies, window_policies};
use crate::scheduler_words::scheduler_names;
use crate::units;
use clap::{ArgAction, Args, ValueEnum, ValueHint};
use iopace_core::limits::{NR_REQUESTS_MAX, NR_REQUESTS_MIN, WINDOW_DEPTH_MAX};
use iopace_core::time::Nanos;
use iopace_core::units::Bytes;
use std::net::SocketAddr;
use std::path::PathBuf;

const SERVE_EXAMPLES: &str = "\
Examples:
  iopace serve disk.img
      One device and one export named 'disk'. The URI is printed, ready to paste:
      nbd+unix:///disk?socket=/run/iopace/disk.sock
  iopace serve a.img b.img --sched rr --set wait_ms=5
      Two exports on one socket, both with scheduler rr.
  iopace serve --emulate hdd-sata-250g --size 4GiB
      A disk of 2009 in memory, in real time. With a FILE, its data are kept there.
  iopace serve nbd://array/volume
      An export of another NBD server, reached again when its connection is lost.
  iopace serve disk.img --pace rate --dirty-limit 256MiB
      Writers are slowed down before 256 MiB of what they wrote are not on the disk.
  iopace serve disk.img --fuse /mnt/images
      Also as the file /mnt/images/disk, for losetup; see also 'iopace attach'.
  iopace serve --config iopace.toml
      The same words in a file, with [[device]] and [[export]] tables.

Sockets are made in $XDG_RUNTIME_DIR/iopace, else /run/iopace (root), else /tmp/iopace-UID.
SIGTERM and SIGINT end it: requests are answered, everything is made durable, the sockets are
removed. A second signal ends it at once (status 130).";

/// `iopace serve`
#[derive(Debug, Args)]
#[command(after_help = SERVE_EXAMPLES)]
pub struct ServeArgs {
    /// Image files, block devices, or exports of other servers (nbd://HOST/EXPORT); with --emulate,
    /// the sparse file that keeps the data
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub files: Vec<PathBuf>,

    /// Read the settings from a TOML file instead
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, conflicts_with_all =
        ["files", "emulate", "size", "cache", "read_only", "raw", "direct", "sched", "set",
         "nr_requests", "window", "window_policy", "pace", "pause_target", "dirty_limit",
         "dirty_background", "vhost_user",
         "reconnect_patience"])]
    pub config: Option<PathBuf>,

    /// Say whether that file is right, and serve nothing; see 'iopace config'
    #[arg(long, requires = "config")]
    pub check: bool,

    /// The disk itself
    #[command(flatten)]
    pub device: DeviceArgs,

    /// Where clients connect
    #[command(flatten)]
    pub sockets: SocketArgs,

    /// Unix socket at which FILE is the disk of a virtual machine (vhost-user-blk); once for each
    /// FILE
    #[arg(long, value_name = "PATH", help_heading = "Sockets", value_hint = ValueHint::FilePath)]
    pub vhost_user: Vec<PathBuf>,

    /// How real disks are read and written
    #[arg(long, value_name = "ENGINE", help_heading = "Disk")]
    pub io_engine: Option<IoEngine>,

    /// How the log looks (it goes to standard error)
    #[arg(long, value_name = "FORMAT", help_heading = "Log")]
    pub log_format: Option<LogFormat>,

    /// Say more; twice: everything
    #[arg(short, long, action = ArgAction::Count, help_heading = "Log")]
    pub verbose: u8,

    /// Say warnings only; twice: errors only
    #[arg(short, long, action = ArgAction::Count, conflicts_with = "verbose", help_heading = "Log")]
    pub quiet: u8,
}

/// Options of each device of `iopace serve`.
#[derive(Debug, Default, Args)]
#[command(next_help_heading = "Disk")]
pub struct DeviceArgs {
    /// Serve a modelled disk in real time; see 'iopace models', or a model file (*.toml)
    #[arg(long, value_name = "MODEL", value_parser = DiskParser, hide_possible_values = true)]
    pub emulate: Option<String>,

    /// Size of the emulated disk, as 4GiB [default: the model's, or that of FILE]
    #[arg(long, requires = "emulate", value_parser = units::parse_size)]
    pub size: Option<Bytes>,

    /// Page cache of the emulated disk [default: 256MiB]
    #[arg(long, value_name = "SIZE", requires = "emulate", value_parser = units::parse_size)]
    pub cache: Option<Bytes>,

    /// Refuse writes
    #[arg(long)]
    pub read_only: bool,

    /// Fail requests when another server (nbd://) has not answered for so long, as 30s [default:
    /// they wait]
    #[arg(long, value_name = "TIME", value_parser = units::parse_time)]
    pub reconnect_patience: Option<Nanos>,

    /// Serve an image of a format of its own (qcow2, VMDK, VHDX, VDI) as the bytes that it is
    #[arg(long)]
    pub raw: bool,

    /// Bypass the page cache
    #[arg(long)]
    pub direct: bool,

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
    #[arg(conflicts_with = "direct")]
    pub pace: Option<String>,

    /// The pause that such writers are to have at a time, where few write [default: 8ms]
    #[arg(long, value_name = "TIME", value_parser = units::parse_time, conflicts_with = "direct")]
    pub pause_target: Option<Nanos>,

    /// Most dirty memory, as 256MiB [default: what the kernel leaves; of an emulated disk, a fifth
    /// of its page cache]
    #[arg(long, value_name = "SIZE", value_parser = units::parse_size, conflicts_with = "direct")]
    pub dirty_limit: Option<Bytes>,

    /// Dirty memory above which write-back begins [default: half of the limit]
    #[arg(long, value_name = "SIZE", value_parser = units::parse_size, conflicts_with = "direct")]
    pub dirty_background: Option<Bytes>,
}

/// Where `iopace serve` can be reached.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Sockets")]
pub struct SocketArgs {
    /// Unix socket for NBD clients
    #[arg(long, value_name = "PATH", value_hint = ValueHint::FilePath)]
    pub socket: Option<PathBuf>,

    /// Mode of these sockets, as 0660 [default: 0600, with a group 0660]
    #[arg(long, value_name = "MODE", value_parser = units::parse_mode)]
    pub socket_mode: Option<u32>,

    /// Group of users of these sockets, by name or number
    #[arg(long, value_name = "GROUP", value_parser = units::parse_users)]
    pub socket_group: Option<u32>,

    /// TCP address for NBD clients, as 127.0.0.1:10809; with it, a Unix socket only by --socket
    #[arg(long, value_name = "ADDR", value_parser = units::parse_address)]
    pub listen: Vec<SocketAddr>,

    /// Directory below which each export is shown as a file, for loop devices
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub fuse: Option<PathBuf>,

    /// Control socket for 'iopace sched' [default: iopace.ctl where the sockets are made]
    #[arg(long, value_name = "PATH", value_hint = ValueHint::FilePath)]
    pub control: Option<PathBuf>,

    /// No control socket
    #[arg(long, conflicts_with = "control")]
    pub no_control: bool,

    /// Ports for browsers and for what scrapes
    #[command(flatten)]
    pub ports: PortArgs,

    /// How NBD clients encrypt
    #[command(flatten)]
    pub tls: TlsArgs,
}

/// How real disks are read and written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum IoEngine {
    /// io_uring where the kernel allows it, else threads
    Auto,
    /// io_uring or an error
    Uring,
    /// A pool of threads
    Threads,
}

/// How the log looks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// Lines for people
    #[default]
    Human,
    /// One JSON object per line
    Json,
}

pub(super) fn slots() -> impl Fn(&str) -> Result<u32, String> + Clone {
    units::whole(u64::from(NR_REQUESTS_MIN)..=u64::from(NR_REQUESTS_MAX))
}

pub(super) fn depth() -> impl Fn(&str) -> Result<u32, String> + Clone {
    units::whole(1..=u64::from(WINDOW_DEPTH_MAX))
}
