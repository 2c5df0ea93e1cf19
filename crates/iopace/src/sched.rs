//! `iopace sched`: the schedulers of a running daemon.

pub(crate) mod load;
mod show;

use crate::cli::{
    ConfigureArgs, DestroyArgs, InsertArgs, ListArgs, SaveArg, SchedCommand, TargetArgs,
};
use crate::output::{Failure, nearest, warn};
use crate::target::{self, asks_daemon, devices, done, find};
use iopace_core::sched::REGISTRY;
use iopace_daemon::api::{Action, Change, SchedulerWarning};
use iopace_daemon::{loadable, report};
use load::PolicyModule;
use std::path::Path;

/// Carries out a command.
///
/// # Errors
/// No daemon, no such device, or a refusal, with what would be right.
pub fn run(command: &SchedCommand) -> Result<(), Failure> {
    match command {
        SchedCommand::List(args) => list(args),
        SchedCommand::Insert(InsertArgs { algorithm, set, target, keep }) => {
            let set = set.iter().cloned().collect();
            let algorithm = Some(algorithm.clone());
            change((target, *keep), Change { action: Action::Insert, algorithm, set })
        }
        SchedCommand::Configure(ConfigureArgs { algorithm, set, target, keep }) => {
            let (algorithm, set) = (algorithm.clone(), set.iter().cloned().collect());
            change((target, *keep), Change { action: Action::Configure, algorithm, set })
        }
        SchedCommand::Destroy(DestroyArgs { target, keep }) => {
            let change_ =
                Change { action: Action::Destroy, algorithm: None, set: Default::default() };
            change((target, *keep), change_)
        }
        SchedCommand::Status(target) => status(target),
        SchedCommand::Load(args) => load::load(args),
        SchedCommand::Unload(args) => load::unload(args),
    }
}

/// Changes one device and shows what is in force then. A policy that is named by its file is loaded
/// first.
fn change((target, keep): (&TargetArgs, SaveArg), change: Change) -> Result<(), Failure> {
    let module = change.algorithm.as_deref().and_then(PolicyModule::named).transpose()?;
    let asked = change.algorithm.clone();
    let changed = target::change(target, (keep, &["sched"]), |client, name| {
        let Some(module) = module else { return client.change(name, &change) };
        let algorithm = Some(module.load(client)?.name);
        client.change(name, &Change { algorithm, ..change })
    });
    let device = changed.map_err(|failure| wrongly_named(failure, asked.as_deref()))?;
    for SchedulerWarning { groups, groups_count, text, command } in &device.warnings {
        let of = format!("{} on {}", listed(groups, *groups_count), device.name);
        warn(&of, text, command, target.control.as_deref());
    }
    done(target, &device, || show::in_force(&device))
}

/// A name that the daemon does not know is a wrong word, as one that the command line knows is.
pub fn wrongly_named(failure: Failure, name: Option<&str>) -> Failure {
    let is_unknown =
        |name: &&str| failure.message.starts_with(&format!("there is no scheduler '{name}'"));
    let Some(name) = name.filter(is_unknown) else { return failure };
    match nearest(name, REGISTRY.iter().map(|algorithm| algorithm.name)) {
        Some(meant) => Failure::usage(failure.but(&format!("did you mean '{meant}'?")).message),
        None => Failure::usage(failure.message),
    }
}

/// Names, and how many more there are.
pub fn listed(names: &[String], count: usize) -> String {
    let named = names.join(", ");
    match count.saturating_sub(names.len()) {
        0 => named,
        more => format!("{named} and {more} more"),
    }
}

/// The schedulers: those of the daemon if one is named, else those of this program.
fn list(args: &ListArgs) -> Result<(), Failure> {
    let target = &args.target;
    if let Some(file) = args.algorithm.as_deref().filter(|word| loadable::is_file(word)) {
        let loaded = loadable::load(Path::new(file)).map_err(Failure::new)?;
        let mut specs = report::schedulers();
        specs.retain(|spec| spec.name == loaded.name);
        return done(target, &specs, || show::schedulers(&specs, &[]));
    }
    let (mut specs, devices) = if asks_daemon(target) {
        let found = find(target)?;
        let specs = match found.first() {
            Some((client, _)) => client.schedulers().map_err(Failure::new)?,
            None => Vec::new(),
        };
        (specs, found.into_iter().map(|(_, device)| device).collect())
    } else {
        let own = report::schedulers();
        let loaded = load::elsewhere(&own);
        (own.into_iter().chain(loaded).collect(), Vec::new())
    };
    if let Some(name) = &args.algorithm {
        let known: Vec<String> = specs.iter().map(|spec| spec.name.clone()).collect();
        specs.retain(|spec| spec.name == *name);
        if specs.is_empty() {
            let known = known.join(", ");
            let message = format!("there is no scheduler '{name}'; there are: {known}");
            return Err(Failure::usage(message));
        }
    }
    done(target, &specs, || show::schedulers(&specs, &devices))
}

fn status(target: &TargetArgs) -> Result<(), Failure> {
    let devices = devices(target)?;
    done(target, &devices, || {
        let texts: Vec<String> = devices.iter().map(show::device).collect();
        texts.join("\n")
    })
}
