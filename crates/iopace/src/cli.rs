//! The command line, defined once: parsing, help, completions and man pages all come from here.

mod attach;
mod calibrate;
mod cluster;
mod config;
mod container_hook;
mod export;
mod govern;
mod group;
mod insert;
mod live;
mod mount;
mod nice;
mod output;
mod pace;
mod policy;
mod ports;
mod recommend;
mod record;
mod replay;
mod sched;
mod serve;
mod sim;
mod tls;
mod top;
mod verify;
mod window;

pub use attach::{AttachArgs, DetachArgs};
pub use calibrate::CalibrateArgs;
pub use cluster::{ClusterCommand, ForgetArgs};
pub use config::{ConfigCommand, SaveArg};
pub use container_hook::ContainerHookArgs;
pub use export::{ExportAddArgs, ExportCommand, ExportRemoveArgs, ExportResizeArgs};
pub use govern::GovernArgs;
pub use group::{
    CreateArgs, DaemonArgs, GetArgs, GroupCommand, GroupPathArgs, ListGroupsArgs, MoveArgs,
    RemoveArgs, SetArgs,
};
pub use insert::{InsertVolumeArgs, RemoveVolumeArgs};
pub use live::{EventsArgs, ExplainArgs};
pub use mount::{DoctorArgs, MountArgs, MountFlag, SetupArgs, UnmountArgs};
pub use nice::{Deadline, NiceArgs};
pub use output::{OutputArgs, TableFormat};
pub use pace::{PaceCommand, PaceConfigureArgs, PaceLimitArgs, PaceListArgs, PaceTraceArgs};
pub use policy::PolicyCommand;
#[cfg(feature = "policies")]
pub use policy::{PolicyBenchArgs, PolicyNewArgs, PolicyTestArgs};
pub use ports::PortArgs;
pub use recommend::{ClientsArg, RecommendCommand, RecommendGroupArgs, RecommendSetArgs};
pub use record::RecordArgs;
pub use replay::{FitArg, ReplayArgs};
pub use sched::{ConfigureArgs, DestroyArgs, InsertArgs, ListArgs, LoadArgs};
pub use sched::{SchedCommand, TargetArgs, UnloadArgs};
pub use serve::{DeviceArgs, IoEngine, LogFormat, ServeArgs, SocketArgs};
pub use sim::{CompareArgs, FuzzArgs, NewArgs, RunArgs, ScoreArgs, SimCommand};
pub use sim::{SweepArgs, TablesArgs, TraceFormat};
pub use tls::TlsArgs;
pub use top::{Sort, TopArgs, View};
pub use verify::VerifyArgs;
pub use window::{WindowCommand, WindowConfigureArgs, WindowListArgs};

use crate::output::Format;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::error::{ContextKind, ContextValue};
use clap::{Args, CommandFactory, Parser, Subcommand, ValueEnum, ValueHint};
use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  iopace serve disk.img                      serve an image file over NBD
  iopace mount /srv                          schedule whatever is done in a directory
  iopace sched insert -a rr disk             put a scheduler in, under load if need be
  iopace sched status                        what it does
  iopace pace status                         who is slowed down, and why
  iopace top                                 the same as it happens, for all groups and tasks
  iopace group create /vms/web -p            a group, with limits and a weight of its own
  iopace explain /vms/web                    why does it wait?
  iopace verify /vms/web                     does what was set for it hold?
  iopace nice --by 06:00 restic backup /srv  others keep their latency, and it is done by six
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
    /// Put iopace in front of a directory, or list where it is
    Mount(Box<MountArgs>),
    /// End a mount when all that was written is durable
    #[command(visible_alias = "umount")]
    Unmount(UnmountArgs),
    /// Have a directory behind iopace at every boot, and take that away again
    Setup(SetupArgs),
    /// Find what passes iopace by, what is below it, and what would help
    Doctor(DoctorArgs),
    /// Make a kernel block device (/dev/loopN) of a disk behind iopace, or list them
    Attach(Box<AttachArgs>),
    /// Undo 'iopace attach' when all that was written is durable
    Detach(DetachArgs),
    /// Put iopace in front of a volume of LVM while it is mounted and busy, or list where it is
    Insert(InsertVolumeArgs),
    /// Undo 'iopace insert', just as quietly
    Remove(RemoveVolumeArgs),
    /// See and exchange the schedulers of a running daemon
    #[command(subcommand)]
    Sched(SchedCommand),
    /// See and change how writers are paced: dirty memory, rates, pauses
    #[command(subcommand)]
    Pace(PaceCommand),
    /// See and change how many requests disks may hold
    #[command(subcommand)]
    Window(WindowCommand),
    /// See and change who pays: groups with weights, limits and guarantees
    #[command(subcommand)]
    Group(GroupCommand),
    /// Add and remove exports of a running daemon, and resize them
    #[command(subcommand)]
    Export(ExportCommand),
    /// See the hosts that share a volume, and what each has of their common limits
    #[command(subcommand)]
    Cluster(ClusterCommand),
    /// Check the configuration file, and see it beside what holds
    #[command(subcommand)]
    Config(ConfigCommand),
    /// Run a program so that all others keep their latency, and be done in time
    Nice(Box<NiceArgs>),
    /// Hold cgroups back while others wait for disks, by the kernel alone
    Govern(GovernArgs),
    /// Set what a container's annotations say for its group; runtimes call this
    ContainerHook(ContainerHookArgs),
    /// See what devices, groups and tasks do, as it happens, and why they wait
    Top(TopArgs),
    /// Print the address of a daemon's dashboard, with its token (see 'serve --http')
    Dashboard(DaemonArgs),
    /// Say why requests wait, who holds what, and which setting would change it
    Explain(ExplainArgs),
    /// Show what happened: schedulers exchanged, promises broken, disks that stall
    Events(EventsArgs),
    /// Learn what other settings would delay, before they hold: nothing is delayed
    #[command(subcommand)]
    Recommend(RecommendCommand),
    /// Write each request that a device gets to a file, to be replayed in virtual time
    Record(RecordArgs),
    /// Test whether limits, weights and guarantees hold, and say by how much they are off
    Verify(Box<VerifyArgs>),
    /// See the effect of a scheduler in a minute, on an emulated disk
    Demo(crate::demo::Args),
    /// Measure a file or disk and write a model of it, with its error
    Calibrate(CalibrateArgs),
    /// Show the disk models with every parameter and its source
    Models(ModelsArgs),
    /// Run scenarios in virtual time
    #[command(subcommand)]
    Sim(SimCommand),
    /// Write schedulers of your own, test them and measure them
    #[command(subcommand)]
    Policy(PolicyCommand),
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

/// The words of the command line, where `iopace help sched` is `iopace sched --help`, as with git
/// and cargo.
pub fn words(all: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let mut words: Vec<OsString> = all.collect();
    if words.get(1).is_some_and(|word| word == "help") {
        words.remove(1);
        words.push("--help".into());
    }
    words
}

/// The same mistake with a hint, if it is a command that there is only below others.
pub fn with_hint(mut mistake: clap::Error) -> clap::Error {
    let unknown = match mistake.get(ContextKind::InvalidSubcommand) {
        Some(ContextValue::String(word)) => word.clone(),
        _ => return mistake,
    };
    let program = Cli::command();
    let has = |command: &&clap::Command| command.find_subcommand(&unknown).is_some();
    let below = program.get_subcommands().filter(has);
    let below: Vec<String> =
        below.map(|command| format!("'iopace {} {unknown}'", command.get_name())).collect();
    if below.is_empty() {
        return mistake;
    }
    // The very word beats one that is like it.
    mistake.remove(ContextKind::SuggestedSubcommand);
    let hint = format!(
        "there are {}; 'iopace mount' and 'iopace attach' list what runs",
        below.join(", ")
    );
    mistake.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![hint.into()]));
    mistake
}

fn pace_policies() -> PossibleValuesParser {
    let all = iopace_core::pace::REGISTRY.iter();
    let value = |policy: &&iopace_core::pace::PacePolicy| {
        PossibleValue::new(policy.name).help(policy.summary)
    };
    PossibleValuesParser::new(all.map(value))
}

fn window_policies() -> PossibleValuesParser {
    let all = iopace_core::window::REGISTRY.iter();
    let value = |policy: &&iopace_core::window::WindowPolicy| {
        PossibleValue::new(policy.name).help(policy.summary)
    };
    PossibleValuesParser::new(all.map(value))
}

fn models() -> PossibleValuesParser {
    let presets = iopace_disk::presets::PRESETS.iter();
    PossibleValuesParser::new(presets.map(|one| PossibleValue::new(one.name).help(one.summary)))
}

/// A preset, or the path of a model file; presets are offered in help and completions.
#[derive(Clone, Debug)]
struct DiskParser;

impl TypedValueParser for DiskParser {
    type Value = String;

    fn parse_ref(
        &self,
        cmd: &clap::Command,
        arg: Option<&clap::Arg>,
        value: &OsStr,
    ) -> Result<String, clap::Error> {
        match value.to_str().filter(|text| text.ends_with(".toml")) {
            Some(_) => parse_model_file.parse_ref(cmd, arg, value),
            None => models().parse_ref(cmd, arg, value),
        }
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        let presets = iopace_disk::presets::PRESETS.iter();
        Some(Box::new(presets.map(|one| PossibleValue::new(one.name).help(one.summary))))
    }
}

fn parse_model_file(text: &str) -> Result<String, String> {
    // A scenario takes paths from its own folder: said in full it means the same everywhere.
    let path = std::path::absolute(text).map_err(|error| error.to_string())?;
    path.into_os_string().into_string().map_err(|_| "the path is no UTF-8".into())
}

#[cfg(test)]
mod tests;
