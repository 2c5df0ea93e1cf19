//! `iopace group` as it is asked for.

use super::{FormatArgs, SaveArg};
use crate::units;
use clap::builder::{PossibleValue, PossibleValuesParser};
use clap::{Args, Subcommand, ValueHint};
use iopace_groups::files::FILES;
use std::fmt::Write as _;
use std::path::PathBuf;

const GROUP_EXAMPLES: &str = "\
Examples:
  iopace group create /vms/web -p                 a group, and /vms if it is missing
  iopace group set /vms/web io.weight 200         twice the share of a sibling
  iopace group set /vms/web io.max 'disk rbps=10M wiops=120'
  iopace group set --cluster /vms io.max 'pool rbps=100M'
                                                  for all hosts of a volume together
  iopace group move --export disk /vms/web        its clients pay as the group from now on
  iopace group get /vms/web                       what holds, and where it comes from
  iopace group stat                               what all groups did

A group goes by its path; / is the root, which is always there. All of it works under load.";

const CREATE_EXAMPLES: &str = "\
Examples:
  iopace group create /vms
  iopace group create /vms/web -p                 also /vms, if it is missing";

const REMOVE_EXAMPLES: &str = "\
Examples:
  iopace group remove /vms/web

A group that has groups in it, or that exports, connections or processes pay as, is not removed.
Requests on their way go on under its settings.";

const GET_EXAMPLES: &str = "\
Examples:
  iopace group get /vms/web                       all settings that hold, and where they come from
  iopace group get /vms/web io.max                the lines of a file; they may be written back
  iopace group get /vms/web io.max --device disk  what holds there
  iopace group get / io.pressure";

const MOVE_EXAMPLES: &str = "\
Examples:
  iopace group move --export disk /vms/web        and those of its connections that follow it
  iopace group move --connection 7 /vms/web       'iopace group list --connections' has the numbers
  iopace group move --pid 4711 /backup            a process that uses a mount

It holds from the next request on. What is in flight stays with the group that it came from. A
connection that was moved by itself, or has named its group, follows its export no more. A process
pays as the group until it ends, whatever the rules of the mount say, and so do the children that it
has from then on; those that it has already stay where they are.";

const STAT_EXAMPLES: &str = "\
Examples:
  iopace group stat                               all groups
  iopace group stat /vms                          one, and those below it
  iopace group stat /vms --format json            everything, for a script

Counts are those of a group and of all below it. 'waited' is the share of the last 10 s in which
some request waited in iopace.";

/// `iopace group`
#[derive(Debug, Subcommand)]
#[command(after_help = GROUP_EXAMPLES)]
pub enum GroupCommand {
    /// List groups, who pays as them and what is set
    List(ListGroupsArgs),
    /// Draw the tree of groups
    Tree(GroupPathArgs),
    /// Make a group
    Create(CreateArgs),
    /// Remove a group that nobody pays as
    Remove(RemoveArgs),
    /// Write a file of a group: weight, limits, guarantees, slots
    Set(SetArgs),
    /// Show what is set for a group and what holds
    Get(GetArgs),
    /// Have another group pay for an export, a connection or a process
    Move(MoveArgs),
    /// Show what groups did
    #[command(after_help = STAT_EXAMPLES)]
    Stat(GroupPathArgs),
}

/// A daemon, and how to print what it says.
#[derive(Debug, Args)]
pub struct DaemonArgs {
    /// The daemon's control socket [default: the one in the place where 'serve' puts it]
    #[arg(long, value_name = "PATH", env = "IOPACE_CONTROL", value_hint = ValueHint::FilePath)]
    pub control: Option<PathBuf>,
    /// How to print it
    #[command(flatten)]
    pub format: FormatArgs,
}

/// `iopace group list`
#[derive(Debug, Args)]
pub struct ListGroupsArgs {
    /// Only this group and those below it
    #[arg(default_value = "/", hide_default_value = true)]
    pub group: String,
    /// List the connections with their groups instead
    #[arg(long, conflicts_with = "group")]
    pub connections: bool,
    /// List the processes that use a mount with their groups instead
    #[arg(long, conflicts_with_all = ["group", "connections"])]
    pub processes: bool,
    /// Which daemon
    #[command(flatten)]
    pub daemon: DaemonArgs,
}

/// `iopace group tree`, `iopace group stat`
#[derive(Debug, Args)]
pub struct GroupPathArgs {
    /// Only this group and those below it
    #[arg(default_value = "/", hide_default_value = true)]
    pub group: String,
    /// Which daemon
    #[command(flatten)]
    pub daemon: DaemonArgs,
}

/// `iopace group create`
#[derive(Debug, Args)]
#[command(after_help = CREATE_EXAMPLES)]
pub struct CreateArgs {
    /// Its path, as /vms/web
    pub group: String,
    /// Make the groups above it too; no error if it is there already
    #[arg(short, long)]
    pub parents: bool,
    /// Which daemon
    #[command(flatten)]
    pub daemon: DaemonArgs,
    /// Keep it
    #[command(flatten)]
    pub keep: SaveArg,
}

/// `iopace group remove`
#[derive(Debug, Args)]
#[command(after_help = REMOVE_EXAMPLES)]
pub struct RemoveArgs {
    /// Its path
    pub group: String,
    /// Which daemon
    #[command(flatten)]
    pub daemon: DaemonArgs,
    /// Keep it
    #[command(flatten)]
    pub keep: SaveArg,
}

/// `iopace group set`
#[derive(Debug, Args)]
#[command(after_help = set_help())]
pub struct SetArgs {
    /// Which group
    pub group: String,
    /// Which file
    #[arg(value_parser = files(true), hide_possible_values = true)]
    pub file: String,
    /// What to write, as 'disk rbps=10M' or 'default 200'; several lines are written together, '-'
    /// reads them from standard input
    #[arg(required = true, value_name = "LINE")]
    pub lines: Vec<String>,
    /// Make the group if it is missing, and those above it: one of a container, say, before it
    /// starts
    #[arg(short, long)]
    pub parents: bool,
    /// For all hosts of a volume together; the group is made on each of them. In LINE the volume
    /// stands in the place of a device
    #[arg(long, conflicts_with_all = ["parents", "save"])]
    pub cluster: bool,
    /// Which volume, if the daemon has several
    #[arg(long, requires = "cluster")]
    pub volume: Option<String>,
    /// Which daemon
    #[command(flatten)]
    pub daemon: DaemonArgs,
    /// Keep it
    #[command(flatten)]
    pub keep: SaveArg,
}

/// `iopace group get`
#[derive(Debug, Args)]
#[command(after_help = GET_EXAMPLES)]
pub struct GetArgs {
    /// Which group
    pub group: String,
    /// Which file [default: all settings]
    #[arg(value_parser = files(false))]
    pub file: Option<String>,
    /// What holds on this device
    #[arg(long)]
    pub device: Option<String>,
    /// Which daemon
    #[command(flatten)]
    pub daemon: DaemonArgs,
}

/// `iopace group move`
#[derive(Debug, Args)]
#[command(after_help = MOVE_EXAMPLES)]
#[command(group(clap::ArgGroup::new("what").required(true).args(["export", "connection", "pid"])))]
pub struct MoveArgs {
    /// An export
    #[arg(long, value_name = "NAME")]
    pub export: Option<String>,
    /// A connection
    #[arg(long, value_name = "NUMBER", value_parser = units::whole::<u64>(0..=u64::MAX))]
    pub connection: Option<u64>,
    /// A process that uses a mount, by its number in the daemon's eyes
    #[arg(long, value_name = "PID", value_parser = units::whole::<u32>(1..=i32::MAX as u64))]
    pub pid: Option<u32>,
    /// The group that is to pay
    pub group: String,
    /// Which daemon
    #[command(flatten)]
    pub daemon: DaemonArgs,
    /// Keep it
    #[command(flatten)]
    pub keep: SaveArg,
}

pub(super) fn files(writable_only: bool) -> PossibleValuesParser {
    let files = FILES.iter().filter(|spec| spec.writable || !writable_only);
    PossibleValuesParser::new(files.map(|spec| PossibleValue::new(spec.name).help(spec.summary)))
}

/// The files with what may be written to them.
fn set_help() -> String {
    let mut text = String::from("Files:\n");
    for spec in FILES.iter().filter(|spec| spec.writable) {
        let _ = writeln!(text, "  {} '{}'\n      {}", spec.name, spec.example, spec.summary);
    }
    text.push_str(
        "\nA line begins with a device (its name, or the kernel's MAJ:MIN of the disk that it is \
         on), or with 'default' for every device without a line of its own.\n'DEVICE default' \
         takes the line of a device away. All lines are written, or none.\n\
         \nExamples:\n  \
         iopace group set /vms/web io.weight 200\n  \
         iopace group set /vms/web io.max 'disk rbps=10M' 'slow rbps=1M'\n  \
         iopace group get /vms/web io.max | iopace group set /vms/db io.max -",
    );
    text
}
