//! `iopace`: paces writers and schedules disks, in user space.
//!
//! One module per command; [`cli`] defines all of them. Results go to standard output, everything
//! else to standard error. A failure is one message: what was asked, what is wrong, what would be
//! right.
#![forbid(unsafe_code)]
// They panic where a stream cannot be written: `output` has what does not.
#![warn(clippy::print_stdout, clippy::print_stderr)]

mod address;
mod attach;
mod calibrate;
mod cgroup_limits;
mod cli;
mod cluster;
mod config;
mod configuration;
mod container_hook;
mod demo;
mod doctor;
mod events;
mod explain;
mod export;
mod generate;
mod govern;
mod group;
mod http;
mod insert;
mod log;
mod machine;
mod models;
mod mount;
mod nice;
mod output;
mod pace;
mod pasted;
mod paths;
mod policies;
mod policy;
mod recommend;
mod record;
mod replay;
mod running;
mod sched;
mod scheduler_words;
mod serve;
mod setup;
mod sim;
mod storage;
mod study_output;
mod target;
mod top;
mod units;
mod unmount;
mod verify;
mod window;

use clap::Parser;
use cli::{Cli, Command};
use std::process::ExitCode;

fn main() -> ExitCode {
    let mut words = std::env::args_os();
    let program = words.next();
    if mount::helper::is_asked(program.as_ref()) {
        return mount::helper::run(words);
    }
    if unmount::helper::is_asked(program.as_ref()) {
        return unmount::helper::run(words);
    }
    let cli = match Cli::try_parse_from(cli::words(std::env::args_os())) {
        Ok(cli) => cli,
        Err(told) => return tell(&cli::with_hint(told)),
    };
    iopace_sim::scenario::policies::load_by(scheduler_words::loaded);
    let result = match cli.command {
        Command::Serve(args) => serve::run(&args),
        Command::Mount(args) => mount::run(&args),
        Command::Unmount(args) => unmount::run(&args),
        Command::Setup(args) => setup::run(&args),
        Command::Doctor(args) => match doctor::run(&args) {
            Ok(is_well) => return ExitCode::from(u8::from(!is_well)),
            Err(failure) => Err(failure),
        },
        Command::Attach(args) => attach::run(&args),
        Command::Detach(args) => attach::detach::run(&args),
        Command::Insert(args) => insert::run(&args),
        Command::Remove(args) => insert::remove::run(&args),
        Command::Sched(command) => sched::run(&command),
        Command::Pace(command) => pace::run(&command),
        Command::Recommend(command) => recommend::run(&command),
        Command::Window(command) => window::run(&command),
        Command::Group(command) => group::run(&command),
        Command::Export(command) => export::run(&command),
        Command::Cluster(command) => cluster::run(&command),
        Command::Config(command) => configuration::run(&command),
        Command::Nice(args) => match nice::run(&args) {
            Ok(status) => return ExitCode::from(status),
            Err(failure) => Err(failure),
        },
        Command::Govern(args) => govern::run(&args),
        Command::ContainerHook(args) => container_hook::run(&args),
        Command::Top(args) => top::run(&args),
        Command::Dashboard(args) => http::dashboard(&args),
        Command::Explain(args) => explain::run(&args),
        Command::Events(args) => events::run(&args),
        Command::Record(args) => record::run(&args),
        Command::Verify(args) => verify::run(&args),
        Command::Demo(args) => demo::run(&args).map_err(output::Failure::new),
        Command::Calibrate(args) => calibrate::run(&args),
        Command::Models(args) => models::run(&args),
        Command::Sim(command) => sim::run(&command),
        Command::Policy(command) => policy::run(&command),
        Command::Completions { shell } => generate::completions(shell),
        Command::Man { dir } => generate::man(&dir),
    };
    end(result)
}

/// Help, the version, or what is wrong with the command line.
fn tell(told: &clap::Error) -> ExitCode {
    let printed = told.print();
    match told.use_stderr() {
        // As `clap` has it.
        true => ExitCode::from(2),
        false => end(output::printed(printed).map(|_| ())),
    }
}

fn end(result: Result<(), output::Failure>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            output::note(format_args!("error: {}", failure.message));
            ExitCode::from(failure.status)
        }
    }
}
