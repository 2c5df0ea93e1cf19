//! `iopace recommend`: settings that are tried beside those that hold, in a running daemon.

mod show;

use crate::cli::{ClientsArg, RecommendCommand, RecommendGroupArgs, RecommendSetArgs, TargetArgs};
use crate::group;
use crate::output::{Failure, Format, print, print_json};
use crate::sched::{load::PolicyModule, wrongly_named};
use crate::target::{done, find, only};
use iopace_daemon::api::{ClientsWord, RecommendChange, RecommendFile, RecommendReport};
use iopace_daemon::control::{Client, ClientError};

/// Carries out a command.
///
/// # Errors
/// No daemon, no such device or group, or a refusal, with what would be right.
pub fn run(command: &RecommendCommand) -> Result<(), Failure> {
    match command {
        RecommendCommand::Set(args) => set(args),
        RecommendCommand::Group(args) => set_group(args),
        RecommendCommand::Report(target) => {
            let reports = each(target, Client::recommended)?;
            done(target, &reports, || show::reports(&reports))
        }
        RecommendCommand::Off(target) => {
            let reports = each(target, Client::end_recommend)?;
            done(target, &reports, || {
                let told = reports.iter().map(|report| match report.active {
                    true => format!("{}: nothing is tried any more\n", report.device),
                    false => format!("{}: nothing was tried\n", report.device),
                });
                told.collect()
            })
        }
    }
}

fn each(
    target: &TargetArgs,
    ask: impl Fn(&Client, &str) -> Result<RecommendReport, ClientError>,
) -> Result<Vec<RecommendReport>, Failure> {
    let found = find(target)?;
    let asked = found.iter().map(|(client, device)| ask(client, &device.name));
    asked.collect::<Result<_, _>>().map_err(Failure::new)
}

fn set(args: &RecommendSetArgs) -> Result<(), Failure> {
    let RecommendSetArgs { sched, set, pace, window_policy, .. } = args;
    let module = sched.as_deref().and_then(PolicyModule::named).transpose()?;
    let mut change = RecommendChange {
        scheduler: sched.clone(),
        set: set.iter().cloned().collect(),
        pace: pace.clone(),
        window: window_policy.clone(),
        depth: args.window,
        nr_requests: args.nr_requests,
        clients: match args.clients {
            ClientsArg::Closed => ClientsWord::Closed,
            ClientsArg::Open => ClientsWord::Open,
        },
    };
    let target = &args.target;
    let (client, device) = only(target.control.as_deref(), target.device.as_deref())?;
    if let Some(module) = module {
        change.scheduler = Some(module.load(&client).map_err(Failure::new)?.name);
    }
    let report = client.recommend(&device.name, &change).map_err(Failure::new);
    let report = report.map_err(|failure| wrongly_named(failure, sched.as_deref()))?;
    done(target, &report, || show::tried(&report))
}

fn set_group(args: &RecommendGroupArgs) -> Result<(), Failure> {
    let text = (!args.off).then(|| args.lines.join("\n"));
    let file = RecommendFile { group: args.group.clone(), file: args.file.clone(), text };
    let reports =
        group::client(&args.daemon, &args.group)?.recommend_group(&file).map_err(Failure::new)?;
    match args.daemon.format.format {
        Format::Json => print_json(&reports),
        Format::Table => {
            let texts: Vec<String> = reports.iter().map(show::tried).collect();
            print(&texts.concat())
        }
    }
}
