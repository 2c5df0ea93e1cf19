//! What is set for a group on all hosts of a volume: lines as for one device, all or none.

use super::records::{Keys, LimitKey, RateKind, TermsRecord};
use super::store::{Condition, StoreChange, StorePut};
use super::view::VolumeView;
use crate::figures::size;
use iopace_core::cluster::{Allowance, Terms};
use iopace_core::group::{Rates, Settings, Weight};
use iopace_groups::files::{FileError, FileProblem};
use iopace_groups::tree::Tree;
use std::collections::BTreeMap;
use std::num::NonZeroU64;

/// Files that hold for all hosts together.
pub(super) const FILES: [&str; 3] = ["io.weight", "io.max", "io.min"];

/// A tree with what is set for one group.
fn tree(view: &VolumeView, (volume, group): (&str, &str)) -> Result<Tree, String> {
    let mut tree = Tree::new();
    let id = tree.create_all(group).map_err(|error| error.to_string())?;
    for ((of, file), lines) in view.set.iter().filter(|((of, _), _)| of == group) {
        tree.write(id, file, lines, &[volume])
            .map_err(|error| format!("what is set for '{of}' as {file}: {error}"))?;
    }
    Ok(tree)
}

/// What is set for a group, without what comes of it.
pub(super) fn settings(view: &VolumeView, place: (&str, &str)) -> Option<Settings> {
    let tree = tree(view, place).ok()?;
    let id = tree.find(place.1).ok()?;
    Some(tree.effective(id, place.0))
}

/// The change of the store that lines for a file of a group are.
///
/// # Errors
/// Which line is wrong and what would be right, or why it cannot hold for several hosts.
pub(super) fn change(
    (keys, view): (&Keys, &VolumeView),
    (volume, group): (&str, &str),
    (file, text): (&str, &str),
) -> Result<StoreChange, String> {
    if !FILES.contains(&file) {
        return Err(format!(
            "{file} cannot hold for several hosts: these can: {}; leave --cluster out to set it \
             on this host",
            FILES.join(", ")
        ));
    }
    if view.volume.is_none() {
        return Err("no host of the volume has joined yet: say it again in a second".into());
    }
    let mut tree = tree(view, (volume, group))?;
    let id = tree.find(group).map_err(|error| error.to_string())?;
    tree.write(id, file, text, &[volume]).map_err(|error| wrong_line(&error, text, volume))?;
    if file == "io.weight" && text.trim() == format!("{volume} default") {
        // A volume has one line: what is set for all devices is set for it.
        let default = format!("default {}", Weight::DEFAULT.get());
        tree.write(id, file, &default, &[volume]).map_err(|error| error.to_string())?;
    }
    let settings = tree.effective(id, volume);
    let max = settings.max;
    check_weight(group, settings.weight)?;
    check_nesting(view, (volume, group), (file, text))?;
    if file == "io.max" && (max.burst != Rates::default() || max.iops_size.is_some()) {
        return Err("a burst and iops-size cannot hold for several hosts: leave them out".into());
    }
    let lines = match is_default(&settings, file) {
        // Nothing is left of it in the store.
        true => String::new(),
        false => tree.read(id, file).map_err(|error| error.to_string())?,
    };
    let key = keys.set(group, file);
    let below_set = format!("{}set/", keys.root);
    let mut change = StoreChange {
        // Another one may set something meanwhile, of which the view knows nothing.
        conditions: vec![Condition::NoneAfter(below_set, view.at)],
        ..StoreChange::default()
    };
    if lines.trim().is_empty() {
        change.removes.push(key);
    } else {
        change.puts.push(put(key, lines.into_bytes()));
    }
    if file == "io.max" {
        change_limits((keys, view), group, &max.sustained, &mut change)?;
    }
    Ok(change)
}

fn put(key: String, value: Vec<u8>) -> StorePut {
    StorePut { key, value, session: None }
}

/// Adds the terms of the limits that come of `io.max`.
fn change_limits(
    (keys, view): (&Keys, &VolumeView),
    group: &str,
    limits: &Rates,
    change: &mut StoreChange,
) -> Result<(), String> {
    let hosts_max = view.volume.map_or(0, |volume| volume.hosts_max);
    for rate in RateKind::all() {
        let limit = LimitKey { rate, group: group.to_owned() };
        let before = view.limits.get(&limit).map(|limit| limit.terms);
        match (before, rate.of(limits).map(NonZeroU64::get)) {
            (None, None) => {}
            (Some(_), None) => change.removes.push(keys.terms(&limit)),
            (before, Some(now)) => {
                let terms = match before {
                    Some(before) => before.changed(Allowance(now)),
                    None => Terms::new(Allowance(now), hosts_max, view.at),
                };
                let terms = terms.ok_or_else(|| too_low(&limit, before, hosts_max))?;
                let value = serde_json::to_vec(&TermsRecord::from(terms)).expect("numbers");
                change.puts.push(put(keys.terms(&limit), value));
            }
        }
    }
    Ok(())
}

/// Whether a file says the same as that of a new group.
fn is_default(settings: &Settings, file: &str) -> bool {
    let new = Settings::default();
    match file {
        "io.weight" => settings.weight == new.weight,
        "io.max" => settings.max == new.max,
        _ => settings.min == new.min,
    }
}

/// A line of a user that was not taken, in words: with `--cluster` it begins with the volume.
fn wrong_line(error: &FileError, text: &str, volume: &str) -> String {
    let line = error.line.and_then(|line| text.lines().nth(line.checked_sub(1)?));
    let word = line.and_then(|line| line.split_whitespace().next());
    match (error.problem, word) {
        (FileProblem::UnknownDevice, Some(word)) => format!(
            "there is no volume {word:?}: with --cluster a line begins with the volume, here \
             '{volume}', whatever a host's device is named"
        ),
        _ => error.to_string(),
    }
}

/// Weights are shared by all hosts among the groups directly below the root only.
fn check_weight(group: &str, weight: Weight) -> Result<(), String> {
    let is_first_level = group.matches('/').count() == 1 && group != "/";
    if weight == Weight::DEFAULT || is_first_level {
        return Ok(());
    }
    let first = group[1..].split('/').next().filter(|name| !name.is_empty());
    Err(match first {
        Some(name) => format!(
            "weights hold for all hosts among the groups directly below the root: set it for \
             '/{name}', or without --cluster on each host for '{group}' among the groups beside it"
        ),
        None => "the root has no group beside it: set the weight of a group below it".into(),
    })
}

/// A limit above that of the group above it, or guarantees beyond it, are refused as on one host.
fn check_nesting(
    view: &VolumeView,
    (volume, group): (&str, &str),
    (file, text): (&str, &str),
) -> Result<(), String> {
    let mut tree = Tree::new();
    for ((of, other), lines) in &view.set {
        let Ok(id) = tree.create_all(of) else { continue };
        if other == file {
            // One that is against it already says nothing of this one.
            _ = tree.write(id, other, lines, &[volume]);
        }
    }
    let id = tree.create_all(group).map_err(|error| error.to_string())?;
    tree.write(id, file, text, &[volume]).map(drop).map_err(|error| error.to_string())
}

/// The values that are set for all hosts, by group and file.
pub(super) fn values(view: &VolumeView, volume: &str) -> BTreeMap<(String, &'static str), String> {
    let mut all = BTreeMap::new();
    for (group, set) in view.set.keys() {
        let Some(file) = FILES.into_iter().find(|file| *file == *set) else { continue };
        let Ok(tree) = tree(view, (volume, group)) else { continue };
        let value = tree.find(group).ok().and_then(|id| tree.explain(id, file, volume).ok());
        all.extend(value.map(|explained| ((group.clone(), file), explained.value)));
    }
    all
}

fn too_low(limit: &LimitKey, before: Option<Terms>, hosts_max: u32) -> String {
    let (rate, group) = (limit.rate.name(), &limit.group);
    match before {
        Some(terms) => format!(
            "{rate} of '{group}' cannot be lowered below {}: each of {} hosts may use {} of it \
             without asking anybody, as long as it cannot reach etcd; remove the limit \
             ('{rate}=max'), wait 5 s until all hosts that 'iopace cluster hosts' shows as there \
             have seen that, and set it anew: one that is away keeps its part until it is back",
            amount(limit, terms.each.0 * u64::from(terms.hosts_max)),
            terms.hosts_max,
            amount(limit, terms.each.0),
        ),
        None => format!(
            "{rate} of '{group}' is too low for {hosts_max} hosts, each of which has at least one \
             of it: set at least {hosts_max}"
        ),
    }
}

/// An amount of a limit with its unit.
fn amount(limit: &LimitKey, amount: u64) -> String {
    match limit.rate.name().ends_with("bps") {
        true => format!("{}/s", size(amount)),
        false => format!("{amount}/s"),
    }
}

/// This host's part of each guarantee of a group, by what all hosts want.
pub(super) fn guarantees(view: &VolumeView, group: &str, min: &Rates, at: usize) -> Rates {
    let mut part = Rates::default();
    for rate in RateKind::all() {
        let Some(all) = rate.of(min) else { continue };
        let demands = view.demands(&LimitKey { rate, group: group.to_owned() });
        let shares = iopace_core::cluster::shares(Allowance(all.get()), &demands);
        rate.set(&mut part, shares.get(at).and_then(|share| NonZeroU64::new(share.0)));
    }
    part
}
