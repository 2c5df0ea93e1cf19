//! `iopace cluster`: the hosts that share a volume, and what each has of their common limits.

use crate::cli::{ClusterCommand, DaemonArgs, ForgetArgs};
use crate::machine::Machine;
use crate::output::{Failure, Format, note, print, print_json};
use crate::running::{Sought, daemons};
use crate::units::{self, time};
use iopace_daemon::ClusterError;
use iopace_daemon::api::{ClusterState, ForgetHost, SetShared, VolumeState};
use iopace_daemon::control::Client;
use iopace_daemon::printable;
use std::fmt::Write as _;

mod show;

/// Carries out a command.
///
/// # Errors
/// No daemon with a part in a cluster, or a refusal, with what would be right.
pub fn run(command: &ClusterCommand) -> Result<(), Failure> {
    match command {
        ClusterCommand::Status(args) => done(args, &member(args)?.1, show::status),
        ClusterCommand::Hosts(args) => done(args, &member(args)?.1, show::hosts),
        ClusterCommand::Events(args) => done(args, &member(args)?.1, show::events),
        ClusterCommand::Forget(args) => forget(args),
    }
}

/// Sets lines for a group on all hosts.
///
/// # Errors
/// Which line is wrong and what would be right, or that the store does not answer.
pub fn set(daemon: &DaemonArgs, set: &SetShared) -> Result<(), Failure> {
    let (client, _) = member(daemon)?;
    let state = client.set_shared(set).map_err(Failure::new)?;
    let (group, file) = (&set.group, &set.file);
    for volume in &state.volumes {
        if set.volume.as_ref().is_some_and(|meant| *meant != volume.volume) {
            continue;
        }
        let away = volume.hosts.iter().filter(|host| host.has_slot && !host.is_there);
        let away: Vec<_> = away.map(|host| printable::name(&host.host)).collect();
        if !away.is_empty() {
            note(format_args!(
                "warning: it does not hold on {} before it reaches the store again",
                away.join(", ")
            ));
        }
    }
    done(daemon, &state, |_| format!("{group}: {file} is set for all hosts\n"))
}

/// A line for each volume that a daemon shares with other hosts.
pub fn volumes(machine: &Machine) -> Vec<String> {
    let states = machine.members().iter().filter_map(|member| member.client.cluster().ok());
    states.flat_map(|state| lines(&state)).collect()
}

/// A line for each volume, for a narrow place: the decisive first.
pub fn lines(state: &ClusterState) -> Vec<String> {
    let line = |volume: &VolumeState| {
        let there = volume.hosts.iter().filter(|host| host.is_there).count();
        let mut text = volume.volume.clone();
        if volume.dark.is_some() {
            let dark = time(volume.dark_for_ms.saturating_mul(1_000_000));
            let why = if volume.is_refused { "not in the cluster" } else { "etcd not reached" };
            _ = write!(text, ": {why} for {dark}");
        } else {
            _ = write!(text, ": {there} of {} hosts", volume.hosts.len());
        }
        for limit in &volume.limits {
            let [group, rate] = [&*limit.group, &*limit.rate].map(printable::name);
            let [of_all, here] = [limit.limit, limit.allowed].map(|part| amount(&limit.rate, part));
            _ = write!(text, "; {group} {rate} here {here} of {of_all}");
        }
        text
    };
    state.volumes.iter().map(line).collect()
}

/// What is set for a group on all hosts, as lines; nothing where there is no cluster.
pub fn set_for_all(client: &Client, group: &str) -> String {
    let mut text = String::new();
    for volume in client.cluster().map_or_else(|_| Vec::new(), |state| state.volumes) {
        for set in volume.settings.iter().filter(|set| set.group == group) {
            let lines = set.lines.trim().replace('\n', "; ");
            let (file, lines) = (printable::name(&set.file), printable::name(&lines));
            _ = writeln!(text, "for all hosts of volume {}: {file} {lines}", volume.volume);
        }
    }
    text
}

/// The daemon that has a part in a cluster, and how that stands.
fn member(args: &DaemonArgs) -> Result<(Client, ClusterState), Failure> {
    let all = daemons(args.control.as_deref(), Sought::default())?;
    let (mut found, mut refused) = (Vec::new(), None);
    for (client, _) in all {
        match client.cluster() {
            Ok(state) if state.volumes.is_empty() => {}
            Ok(state) => found.push((client, state)),
            Err(error) => refused = Some(error),
        }
    }
    if found.len() > 1 {
        let paths = found.iter().map(|(client, _)| client.path().display().to_string());
        let paths: Vec<String> = paths.collect();
        return Err(Failure::usage(format!(
            "several daemons have a part in a cluster: say --control with one of {}",
            paths.join(", ")
        )));
    }
    found.pop().ok_or_else(|| match refused {
        Some(error) => Failure::new(error),
        None => Failure::new(ClusterError::NoCluster),
    })
}

fn done(
    args: &DaemonArgs,
    state: &ClusterState,
    text: impl FnOnce(&ClusterState) -> String,
) -> Result<(), Failure> {
    match args.format.format {
        Format::Json => print_json(state),
        Format::Table => print(&text(state)),
    }
}

fn forget(args: &ForgetArgs) -> Result<(), Failure> {
    let ForgetArgs { host, volume, daemon } = args;
    let (client, _) = member(daemon)?;
    let asked = ForgetHost { volume: volume.clone(), host: host.clone() };
    let state = client.forget_host(&asked).map_err(Failure::new)?;
    done(daemon, &state, |_| {
        let host = printable::name(host);
        format!(
            "{host}: its place is free\nIf its daemon still runs and is only cut off, it keeps its \
             static part: end it, and remove cluster-VOLUME.json of its `state`.\n"
        )
    })
}

/// An amount per second of a rate.
fn amount(rate: &str, amount: u64) -> String {
    match rate.ends_with("bps") {
        true => format!("{}/s", units::size(amount)),
        false => format!("{amount}/s"),
    }
}
