//! `iopace cluster`: the hosts that share a volume, and what each has of their common limits.

use crate::cli::{ClusterCommand, DaemonArgs, ForgetArgs};
use crate::output::{Failure, Format, finish, note, print, print_json, right, table};
use crate::running::{Sought, daemons};
use crate::units::{self, time};
use comfy_table::Cell;
use iopace_daemon::ClusterError;
use iopace_daemon::api::{ClusterState, ForgetHost, HostPart, SetShared, SharedLimit, VolumeState};
use iopace_daemon::control::Client;
use iopace_daemon::printable;
use std::fmt::Write as _;

/// Carries out a command.
///
/// # Errors
/// No daemon with a part in a cluster, or a refusal, with what would be right.
pub fn run(command: &ClusterCommand) -> Result<(), Failure> {
    match command {
        ClusterCommand::Status(args) => done(args, &member(args)?.1, status),
        ClusterCommand::Hosts(args) => done(args, &member(args)?.1, hosts),
        ClusterCommand::Events(args) => done(args, &member(args)?.1, events),
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

/// A line for each volume, for a narrow place.
pub fn lines(state: &ClusterState) -> Vec<String> {
    let line = |volume: &VolumeState| {
        let there = volume.hosts.iter().filter(|host| host.is_there).count();
        let mut text = format!("{}: {there} of {} hosts", volume.volume, volume.hosts.len());
        if volume.dark.is_some() {
            let dark = time(volume.dark_for_ms.saturating_mul(1_000_000));
            _ = write!(text, ", store not reached for {dark}");
        }
        for limit in &volume.limits {
            let [group, rate] = [&*limit.group, &*limit.rate].map(printable::name);
            let [of_all, here] = [limit.limit, limit.allowed].map(|part| amount(limit, part));
            _ = write!(text, "; {group} {rate} {of_all}, here {here}");
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
    done(daemon, &state, |_| format!("{}: its place is free\n", printable::name(host)))
}

/// An amount per second of a limit.
fn amount(limit: &SharedLimit, amount: u64) -> String {
    match limit.rate.ends_with("bps") {
        true => format!("{}/s", units::size(amount)),
        false => format!("{amount}/s"),
    }
}

fn status(state: &ClusterState) -> String {
    let mut text = format!("host {}, etcd {}\n", state.host, state.etcd.join(" "));
    for volume in &state.volumes {
        let VolumeState { dark, hosts, hosts_max, settings, limits, .. } = volume;
        let there = hosts.iter().filter(|host| host.is_there).count();
        _ = writeln!(
            text,
            "\nvolume {} (device {}): {there} of {} hosts are there, {hosts_max} at most",
            volume.volume,
            volume.device,
            hosts.len()
        );
        if let Some(why) = dark {
            _ = writeln!(
                text,
                "  the store is not reached for {}: {}\n  limits: the last part while the session \
                 lasts, then the static part; weights: as they were",
                time(volume.dark_for_ms.saturating_mul(1_000_000)),
                printable::name(why)
            );
        }
        if !volume.has_slot {
            text.push_str("  this host has no static part: in the dark it has nothing\n");
        }
        if settings.is_empty() {
            text.push_str("  nothing is set for all hosts: 'iopace group set --cluster'\n");
            continue;
        }
        let mut rows = table(["group", "limit of all", "", "this host", "in the dark"]);
        for limit in limits {
            rows.add_row([
                Cell::new(printable::name(&limit.group)),
                Cell::new(printable::name(&limit.rate)),
                right(amount(limit, limit.limit)),
                right(amount(limit, limit.allowed)),
                right(amount(limit, limit.in_the_dark)),
            ]);
        }
        if !limits.is_empty() {
            text.push_str(&finish(&rows, 2));
        }
        for set in settings.iter().filter(|set| set.file != "io.max") {
            let lines = set.lines.trim().replace('\n', "; ");
            let words = [&*set.group, &*set.file, &*lines].map(printable::name);
            _ = writeln!(text, "  {} {} {}", words[0], words[1], words[2]);
        }
    }
    text
}

fn hosts(state: &ClusterState) -> String {
    let mut rows = table(["volume", "host", "", "group", "limit", "granted", "would use", "uses"]);
    for volume in &state.volumes {
        for host in &volume.hosts {
            let standing = match (host.is_there, host.has_slot) {
                (true, true) => "",
                (true, false) => "no slot",
                (false, _) => "away",
            };
            let first = [&*volume.volume, &*host.host, standing].map(printable::name);
            let of_host = |limit: &SharedLimit| -> Option<HostPart> {
                limit.parts.iter().find(|part| part.host == host.host).cloned()
            };
            let parts = volume.limits.iter().filter_map(|limit| Some((limit, of_host(limit)?)));
            let parts: Vec<(&SharedLimit, HostPart)> = parts.collect();
            if parts.is_empty() {
                rows.add_row(first.clone().map(Cell::new));
            }
            for (limit, part) in parts {
                let amounts = [part.granted, part.wanted, part.used];
                let names =
                    [&*limit.group, &*limit.rate].map(|name| Cell::new(printable::name(name)));
                let first = first.clone().map(Cell::new).into_iter();
                let amounts = amounts.map(|part| right(amount(limit, part)));
                rows.add_row(first.chain(names).chain(amounts));
            }
        }
    }
    finish(&rows, 0)
}

fn events(state: &ClusterState) -> String {
    if state.events.is_empty() {
        return "nothing has happened\n".into();
    }
    let mut rows = table(["ago", "volume", "what"]);
    for event in &state.events {
        rows.add_row([
            right(time(event.ago_ms.saturating_mul(1_000_000))),
            Cell::new(&event.volume),
            Cell::new(printable::name(&event.text)),
        ]);
    }
    finish(&rows, 0)
}
