//! The command line, defined once: parsing, help, completions and man pages all come from here.

use crate::output::Format;
use crate::units;
use clap::builder::PossibleValuesParser;
use clap::{ArgAction, Args, Parser, Subcommand, ValueEnum, ValueHint};
use iopace_core::units::Bytes;
use std::net::SocketAddr;
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  iopace serve disk.img                      serve an image file over NBD
  iopace sched insert -a rr disk             put a scheduler in, under load if need be
  iopace sched status                        what it does
  iopace serve --emulate hdd-sata-250g       a slow disk on any machine
  iopace sim tables geom                     know the outcome before trying

Exit status: 0 done, 1 failed, 2 wrongly asked.";

/// Paces writers and schedules disks, in user space.
#[derive(Debug, Parser)]
#[command(name = "iopace", version, after_help = EXAMPLES, max_term_width = 100)]
#[command(disable_help_subcommand = true, arg_required_else_help = true)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Serve disks over NBD
    Serve(Box<ServeArgs>),
    /// See and exchange the schedulers of a running daemon
    #[command(subcommand)]
    Sched(SchedCommand),
    /// Show the disk models with every parameter and its source
    Models(ModelsArgs),
    /// Run scenarios in virtual time
    #[command(subcommand)]
    Sim(SimCommand),
    /// Print completions for a shell
    Completions {
        /// The shell
        shell: Shell,
    },
    /// Write man pages into a directory
    Man {
        /// The directory; made if it is missing
        #[arg(value_hint = ValueHint::DirPath)]
        dir: PathBuf,
    },
}

const SERVE_EXAMPLES: &str = "\
Examples:
  iopace serve disk.img
      One device and one export named 'disk'. The URI is printed, ready to paste:
      nbd+unix:///disk?socket=/run/iopace/disk.sock
  iopace serve a.img b.img --sched rr --set wait_ms=5
      Two exports on one socket, both with scheduler rr.
  iopace serve --emulate hdd-sata-250g --size 4GiB
      A disk of 2009 in memory, in real time. With a FILE, its data are kept there.
  iopace serve --config iopace.toml
      The same words in a file, with [[device]] and [[export]] tables.

Sockets are made in $XDG_RUNTIME_DIR/iopace, else /run/iopace (root), else /tmp/iopace-UID.
SIGTERM and SIGINT end it: requests are answered, everything is made durable, the sockets are
removed. A second signal ends it at once (status 130).";

/// `iopace serve`
#[derive(Debug, Args)]
#[command(after_help = SERVE_EXAMPLES)]
pub struct ServeArgs {
    /// Image files or block devices; with --emulate, the sparse file that keeps the data
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub files: Vec<PathBuf>,

    /// Read the settings from a TOML file instead
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, conflicts_with_all =
        ["files", "emulate", "size", "cache", "read_only", "direct", "sched", "set", "nr_requests",
         "window"])]
    pub config: Option<PathBuf>,

    /// The disk itself
    #[command(flatten)]
    pub device: DeviceArgs,

    /// Where clients connect
    #[command(flatten)]
    pub sockets: SocketArgs,

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
#[derive(Debug, Args)]
#[command(next_help_heading = "Disk")]
pub struct DeviceArgs {
    /// Serve a modelled disk in real time; see 'iopace models'
    #[arg(long, value_name = "MODEL", value_parser = models(), hide_possible_values = true)]
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

    /// Bypass the page cache
    #[arg(long)]
    pub direct: bool,

    /// Insert this scheduler at the start; see 'iopace sched list'
    #[arg(long, value_name = "NAME", value_parser = schedulers())]
    pub sched: Option<String>,

    /// Set a parameter of that scheduler, as wait_ms=5
    #[arg(long, value_name = "NAME=VALUE", requires = "sched", value_parser = units::parse_setting)]
    pub set: Vec<(String, u64)>,

    /// Request slots of the device [default: 128]
    #[arg(long, value_name = "COUNT", value_parser = slots())]
    pub nr_requests: Option<u32>,

    /// Most requests at the disk [default: 32, or the model's own]
    #[arg(long, value_name = "DEPTH", value_parser = depth())]
    pub window: Option<u32>,
}

/// Where `iopace serve` can be reached.
#[derive(Debug, Args)]
#[command(next_help_heading = "Sockets")]
pub struct SocketArgs {
    /// Unix socket for NBD clients
    #[arg(long, value_name = "PATH", value_hint = ValueHint::FilePath)]
    pub socket: Option<PathBuf>,

    /// TCP address for NBD clients, as 127.0.0.1:10809; instead of a Unix socket unless --socket is
    /// given too
    #[arg(long, value_name = "ADDR")]
    pub listen: Vec<SocketAddr>,

    /// Let --listen take addresses that other machines reach; there is no encryption and no password
    #[arg(long)]
    pub allow_remote: bool,

    /// Control socket for 'iopace sched' [default: iopace.ctl where the sockets are made]
    #[arg(long, value_name = "PATH", value_hint = ValueHint::FilePath)]
    pub control: Option<PathBuf>,

    /// No control socket
    #[arg(long, conflicts_with = "control")]
    pub no_control: bool,
}

const SCHED_EXAMPLES: &str = "\
Examples:
  iopace sched list                          the schedulers, their parameters and counters
  iopace sched insert -a rr disk             put rr in
  iopace sched configure --set wait_ms=5     change a parameter; DEVICE may be left out if the
                                             daemon has one only
  iopace sched configure -a deadline disk    exchange it for another
  iopace sched destroy disk                  take it out
  iopace sched status --format json          everything, for a script

All of them work under load; nothing in flight is touched.";

/// `iopace sched`
#[derive(Debug, Subcommand)]
#[command(after_help = SCHED_EXAMPLES)]
pub enum SchedCommand {
    /// List the schedulers with their parameters and counters
    List(ListArgs),
    /// Put a scheduler into a device that has none inserted
    Insert(InsertArgs),
    /// Set parameters of the inserted scheduler, or exchange it for another
    Configure(ConfigureArgs),
    /// Take the inserted scheduler out; the device goes on with its base scheduler
    Destroy(TargetArgs),
    /// Show what devices and their schedulers do
    Status(TargetArgs),
}

/// `iopace sched list`
#[derive(Debug, Args)]
pub struct ListArgs {
    /// Only this scheduler
    #[arg(short = 'a', long = "algorithm", value_name = "ALGO", value_parser = schedulers())]
    pub algorithm: Option<String>,
    /// Where they are at work; without a device and --control, no daemon is asked
    #[command(flatten)]
    pub target: TargetArgs,
}

/// `iopace sched insert`
#[derive(Debug, Args)]
pub struct InsertArgs {
    /// The scheduler
    #[arg(short = 'a', long = "algorithm", value_name = "ALGO", value_parser = schedulers())]
    pub algorithm: String,
    /// Set a parameter, as wait_ms=5; may be given several times
    #[arg(long, value_name = "NAME=VALUE", value_parser = units::parse_setting)]
    pub set: Vec<(String, u64)>,
    /// Which device
    #[command(flatten)]
    pub target: TargetArgs,
}

/// `iopace sched configure`
#[derive(Debug, Args)]
pub struct ConfigureArgs {
    /// The scheduler [default: the one that is inserted]
    #[arg(short = 'a', long = "algorithm", value_name = "ALGO", value_parser = schedulers())]
    #[arg(required_unless_present = "set")]
    pub algorithm: Option<String>,
    /// Set a parameter, as wait_ms=5; may be given several times
    #[arg(long, value_name = "NAME=VALUE", value_parser = units::parse_setting)]
    pub set: Vec<(String, u64)>,
    /// Which device
    #[command(flatten)]
    pub target: TargetArgs,
}

/// A device of a daemon.
#[derive(Debug, Args)]
pub struct TargetArgs {
    /// The device [default: the only one there is]
    pub device: Option<String>,
    /// The daemon's control socket [default: the one in the place where 'serve' puts it]
    #[arg(long, value_name = "PATH", env = "IOPACE_CONTROL", value_hint = ValueHint::FilePath)]
    pub control: Option<PathBuf>,
    /// How to print it
    #[command(flatten)]
    pub format: FormatArgs,
}

/// How to print a result.
#[derive(Clone, Copy, Debug, Args)]
pub struct FormatArgs {
    /// How to print it
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
}

/// `iopace models`
#[derive(Debug, Args)]
pub struct ModelsArgs {
    /// Only this one
    #[arg(value_parser = models())]
    pub name: Option<String>,
    /// How to print it
    #[command(flatten)]
    pub format: FormatArgs,
}

const SIM_EXAMPLES: &str = "\
Examples:
  iopace sim tables geom                     dd and cvs under every scheduler, beside the source
  iopace sim list                            the stories that come with iopace
  iopace sim run exchange-under-load         one of them
  iopace sim run my.toml --format json       your own
  iopace sim sweep geom --out figures        trade-off curves as CSV and SVG

The same seed gives the same bytes on every machine.";

/// `iopace sim`
#[derive(Debug, Subcommand)]
#[command(after_help = SIM_EXAMPLES)]
pub enum SimCommand {
    /// Print an outcome table beside the figures of its source
    Tables {
        /// The table
        #[arg(value_parser = ["geom"])]
        table: String,
        /// What the randomness is drawn from
        #[arg(long, default_value_t = 1)]
        seed: u64,
        /// Simulated length of each run, as 60s [default: 60s]
        #[arg(long, value_parser = units::parse_time)]
        duration: Option<iopace_core::time::Nanos>,
        /// How to print it
        #[arg(long, value_enum, default_value_t)]
        format: TableFormat,
    },
    /// Run a scenario and its checks; the status is 1 if one does not hold
    Run {
        /// A scenario file, or the name of a story of 'iopace sim list'
        #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
        file: PathBuf,
        /// How to print it
        #[command(flatten)]
        format: FormatArgs,
    },
    /// List the stories that come with iopace
    List {
        /// How to print it
        #[command(flatten)]
        format: FormatArgs,
    },
    /// Draw what a parameter buys and what it costs
    Sweep {
        /// The sweep
        #[arg(value_parser = ["geom"])]
        sweep: String,
        /// Directory for the CSV and SVG files; made if it is missing
        #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
        out: PathBuf,
        /// What the randomness is drawn from
        #[arg(long, default_value_t = 1)]
        seed: u64,
    },
}

/// How to print an outcome table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum TableFormat {
    /// For people
    #[default]
    Table,
    /// One object per figure
    Json,
    /// Comma-separated values
    Csv,
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

/// Shells with completions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Shell {
    /// GNU bash
    Bash,
    /// Z shell
    Zsh,
    /// fish
    Fish,
}

fn schedulers() -> PossibleValuesParser {
    let algorithms = iopace_core::sched::REGISTRY.iter();
    PossibleValuesParser::new(
        algorithms.map(|algorithm| {
            clap::builder::PossibleValue::new(algorithm.name).help(algorithm.summary)
        }),
    )
}

fn models() -> PossibleValuesParser {
    let presets = iopace_disk::presets::PRESETS.iter();
    PossibleValuesParser::new(
        presets.map(|preset| clap::builder::PossibleValue::new(preset.name).help(preset.summary)),
    )
}

fn slots() -> clap::builder::RangedI64ValueParser<u32> {
    use iopace_core::limits::{NR_REQUESTS_MAX, NR_REQUESTS_MIN};
    clap::value_parser!(u32).range(i64::from(NR_REQUESTS_MIN)..=i64::from(NR_REQUESTS_MAX))
}

fn depth() -> clap::builder::RangedI64ValueParser<u32> {
    clap::value_parser!(u32).range(1..=i64::from(iopace_core::limits::WINDOW_DEPTH_MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_definition_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn serve_needs_no_other_word_than_a_file() {
        let cli = Cli::try_parse_from(["iopace", "serve", "disk.img"]).expect("parsed");
        let Command::Serve(serve) = cli.command else { panic!("serve") };
        assert_eq!(serve.files, [PathBuf::from("disk.img")]);
        assert!(serve.device.sched.is_none() && !serve.sockets.allow_remote);
    }

    #[test]
    fn what_does_not_go_together_is_refused() {
        let wrong = [
            "serve --config a.toml disk.img",
            "serve disk.img --size 1GiB",
            "serve disk.img --set wait_ms=5",
            "serve disk.img --nr-requests 3",
            "serve disk.img --control x --no-control",
            "sched insert disk",
            "sched configure disk",
            "sched insert -a cfq",
            "sched insert -a rr --set wait_ms",
        ];
        for line in wrong {
            let words = ["iopace"].into_iter().chain(line.split(' '));
            assert!(Cli::try_parse_from(words).is_err(), "{line}");
        }
    }
}
