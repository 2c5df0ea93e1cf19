//! What `iopace cluster` prints for people.

use super::amount;
use crate::output::{finish, right, table};
use crate::units::time;
use comfy_table::Cell;
use iopace_daemon::api::{ClusterState, HostPart, SharedLimit, VolumeState};
use iopace_daemon::printable;
use std::fmt::Write as _;

/// How each volume stands, with its limits, guarantees and weights, and this host's part.
pub fn status(state: &ClusterState) -> String {
    let mut text = format!("host {}, etcd {}\n", state.host, state.etcd.join(" "));
    for volume in &state.volumes {
        text.push('\n');
        text.push_str(&head(volume));
        if volume.settings.is_empty() && volume.limits.is_empty() {
            text.push_str("  nothing is set for all hosts: 'iopace group set --cluster'\n");
            continue;
        }
        if !volume.limits.is_empty() {
            text.push_str(&limits(volume));
        }
        if !volume.guarantees.is_empty() {
            text.push_str(&guarantees(volume));
        }
        if !volume.weights.is_empty() {
            text.push_str(&weights(volume));
        }
    }
    text
}

/// The lines about the volume itself.
fn head(volume: &VolumeState) -> String {
    let VolumeState { hosts, hosts_max, .. } = volume;
    let there = hosts.iter().filter(|host| host.is_there).count();
    let mut text = format!("volume {} (device {}): ", volume.volume, volume.device);
    _ = match (&volume.dark, volume.seen_ago_ms) {
        (Some(_), None) => write!(text, "{} hosts are known from before", hosts.len()),
        (Some(_), Some(ago)) => {
            let ago = milliseconds(ago);
            write!(text, "{there} of {} hosts were there, {ago} ago", hosts.len())
        }
        (None, _) => write!(text, "{there} of {} hosts are there", hosts.len()),
    };
    _ = match hosts_max {
        0 => writeln!(text),
        count => writeln!(text, ", {count} have places"),
    };
    let target = |target: Option<u64>| target.map_or("learnt".to_owned(), time);
    _ = writeln!(text, "  target: {}", target(volume.target_ns));
    let is_known = volume.dark.is_none();
    let hosts_here = volume.hosts_max_configured.filter(|here| here != hosts_max);
    if let Some(hosts_here) = hosts_here.filter(|_| is_known) {
        _ = writeln!(
            text,
            "  `hosts` of this host's configuration is {hosts_here}: the volume's {hosts_max} hold"
        );
    }
    let target_here = volume.target_ns_configured;
    if is_known && target_here.is_some() && target_here != volume.target_ns {
        _ = writeln!(
            text,
            "  `target` of this host's configuration is {}: that of the volume holds",
            target(target_here)
        );
    }
    if let Some(why) = &volume.dark {
        text.push_str(&dark(volume, why));
    }
    if !volume.has_slot {
        text.push_str("  this host has no place, and no static part: in the dark it has nothing\n");
    }
    text
}

/// What holds without the store, and why it is without.
fn dark(volume: &VolumeState, why: &str) -> String {
    let what = match volume.is_refused {
        true => "this host is not in the cluster, and was not",
        false => "the store is not reached",
    };
    let since = milliseconds(volume.dark_for_ms);
    let limits = match (volume.session_left_ms, volume.has_slot) {
        (0, true) => "the static part".to_owned(),
        (0, false) => "nothing".to_owned(),
        (left, _) => format!("as granted for {} more, then the static part", milliseconds(left)),
    };
    format!(
        "  {what} for {since}: {}\n  limits: {limits}; weights and guarantees: {}\n",
        printable::name(why),
        match volume.seen_ago_ms {
            Some(_) => "as they were, not exact",
            None => "those of this host alone, until the store is reached",
        }
    )
}

fn milliseconds(ms: u64) -> String {
    time(ms.saturating_mul(1_000_000))
}

fn limits(volume: &VolumeState) -> String {
    let mut rows = table(["group", "limit of all", "", "this host", "in the dark"]);
    for limit in &volume.limits {
        rows.add_row([
            Cell::new(printable::name(&limit.group)),
            Cell::new(printable::name(&limit.rate)),
            right(amount(&limit.rate, limit.limit)),
            right(amount(&limit.rate, limit.allowed)),
            right(amount(&limit.rate, limit.in_the_dark)),
        ]);
    }
    finish(&rows, 2)
}

fn guarantees(volume: &VolumeState) -> String {
    let mut rows = table(["group", "guarantee of all", "", "this host"]);
    for one in &volume.guarantees {
        rows.add_row([
            Cell::new(printable::name(&one.group)),
            Cell::new(printable::name(&one.rate)),
            right(amount(&one.rate, one.guarantee)),
            right(amount(&one.rate, one.here)),
        ]);
    }
    finish(&rows, 2)
}

fn weights(volume: &VolumeState) -> String {
    let mut rows = table(["group", "weight of all", "in this host's scheduler"]);
    for one in &volume.weights {
        rows.add_row([Cell::new(printable::name(&one.group)), right(one.weight), right(one.here)]);
    }
    finish(&rows, 2)
}

/// The hosts of each volume, and what each has of each limit.
pub fn hosts(state: &ClusterState) -> String {
    let mut text = String::new();
    for volume in &state.volumes {
        if volume.dark.is_some() {
            let seen = match volume.seen_ago_ms {
                Some(ago) => format!("as last seen {} ago", milliseconds(ago)),
                None => "not seen since this daemon was started; places as they were kept".into(),
            };
            _ = writeln!(text, "volume {}: {seen}: etcd is not reached", volume.volume);
        }
    }
    let mut rows = table(["volume", "host", "", "group", "limit", "granted", "would use", "uses"]);
    for volume in &state.volumes {
        volume_hosts(volume, &mut rows);
    }
    text.push_str(&finish(&rows, 0));
    text
}

fn volume_hosts(volume: &VolumeState, rows: &mut comfy_table::Table) {
    let is_dark = volume.dark.is_some();
    for host in &volume.hosts {
        let standing = match (host.is_there, host.has_slot) {
            (true, true) => "",
            (true, false) => "no place",
            (false, _) if is_dark => "not seen",
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
            let names = [&*limit.group, &*limit.rate].map(|name| Cell::new(printable::name(name)));
            let first = first.clone().map(Cell::new).into_iter();
            let amounts = amounts.map(|part| right(amount(&limit.rate, part)));
            rows.add_row(first.chain(names).chain(amounts));
        }
    }
}

/// What has happened between the host, the store and the other hosts.
pub fn events(state: &ClusterState) -> String {
    if state.events.is_empty() {
        return "nothing has happened\n".into();
    }
    let mut rows = table(["ago", "volume", "what"]);
    for event in &state.events {
        rows.add_row([
            right(milliseconds(event.ago_ms)),
            Cell::new(&event.volume),
            Cell::new(printable::name(&event.text)),
        ]);
    }
    finish(&rows, 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use iopace_daemon::api::{HostState, SharedWeight};

    fn volume() -> VolumeState {
        let host = |host: &str, is_there| HostState { host: host.into(), is_there, has_slot: true };
        let limit = SharedLimit {
            group: "/backup".into(),
            rate: "bps".into(),
            limit: 20 << 20,
            allowed: 5 << 20,
            in_the_dark: 256 << 10,
            parts: vec![HostPart { host: "a".into(), ..HostPart::default() }],
        };
        VolumeState {
            volume: "pool".into(),
            device: "disk".into(),
            seen_ago_ms: Some(200),
            has_slot: true,
            hosts_max: 4,
            hosts_max_configured: Some(4),
            hosts: vec![host("a", true), host("b", false)],
            limits: vec![limit],
            weights: vec![SharedWeight { group: "/vms".into(), weight: 400, here: 10_000 }],
            ..VolumeState::default()
        }
    }

    fn state(volume: VolumeState) -> ClusterState {
        ClusterState { host: "a".into(), volumes: vec![volume], ..ClusterState::default() }
    }

    #[test]
    fn in_the_dark_its_phase_is_told() {
        let told = |session_left_ms, seen_ago_ms| {
            let dark = Some("no answer".to_owned());
            let volume = VolumeState { dark, session_left_ms, seen_ago_ms, ..volume() };
            (status(&state(volume.clone())), hosts(&state(volume)))
        };
        let (granted, seen) = told(3_000, Some(2_000));
        assert!(granted.contains("as granted for 3.0 s more, then the static part"), "{granted}");
        assert!(seen.contains("as last seen 2.0 s ago"), "{seen}");
        let (later, _) = told(0, Some(9_000));
        assert!(later.contains("limits: the static part;"), "{later}");
        let (anew, seen) = told(0, None);
        assert!(anew.contains("2 hosts are known from before, 4 have places"), "{anew}");
        assert!(anew.contains("those of this host alone"), "{anew}");
        assert!(seen.contains("not seen since this daemon was started"), "{seen}");
    }

    #[test]
    fn a_configuration_that_does_not_hold_is_beside_that_of_the_volume() {
        let target_ns_configured = Some(9_000_000);
        let other = VolumeState { hosts_max_configured: Some(9), target_ns_configured, ..volume() };
        let told = status(&state(other));
        assert!(told.contains("configuration is 9: the volume's 4 hold"), "{told}");
        assert!(told.contains("`target` of this host's configuration is 9.0 ms"), "{told}");
        let told = status(&state(volume()));
        assert!(!told.contains("configuration"), "{told}");
        assert!(told.contains("400") && told.contains("10000"), "{told}");
    }

    #[test]
    fn the_decisive_is_within_80_columns_of_top() {
        let dark = Some("no answer".to_owned());
        let volume = VolumeState { dark, dark_for_ms: 7_000, ..volume() };
        let lines = super::super::lines(&state(volume));
        let words = "pool: etcd not reached for 7.0 s; /backup bps here 5 MiB/s of 20 MiB/s";
        assert_eq!(lines, [words]);
        // `volume` and a space are before it.
        assert!(words.len() + 7 <= 80);
    }
}
