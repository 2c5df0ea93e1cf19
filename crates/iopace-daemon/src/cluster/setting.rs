//! What is set for a group on all hosts of a volume: lines as for one device, all or none.

use super::records::{Keys, LimitKey, RateKind, TermsRecord};
use super::store::{Condition, StoreChange, StorePut};
use super::view::VolumeView;
use iopace_core::cluster::{Allowance, Terms};
use iopace_core::group::{Rates, Settings};
use iopace_groups::tree::Tree;
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
        return Err(format!("{file} cannot hold for several hosts: these can: {FILES:?}"));
    }
    let Some(record) = view.volume else {
        return Err("no host of the volume has joined yet: say it again in a second".into());
    };
    let mut tree = tree(view, (volume, group))?;
    let id = tree.find(group).map_err(|error| error.to_string())?;
    tree.write(id, file, text, &[volume]).map_err(|error| error.to_string())?;
    let max = tree.effective(id, volume).max;
    if file == "io.max" && (max.burst != Rates::default() || max.iops_size.is_some()) {
        return Err("a burst and iops-size cannot hold for several hosts: leave them out".into());
    }
    let lines = tree.read(id, file).map_err(|error| error.to_string())?;
    let key = keys.set(group, file);
    let below_set = format!("{}set/", keys.root);
    let mut change = StoreChange {
        // Another one may set something meanwhile, of which the view knows nothing.
        conditions: vec![Condition::NoneAfter(below_set, view.at)],
        ..StoreChange::default()
    };
    let put = |key, value| StorePut { key, value, session: None };
    if lines.trim().is_empty() {
        change.removes.push(key);
    } else {
        change.puts.push(put(key, lines.into_bytes()));
    }
    if file != "io.max" {
        return Ok(change);
    }
    for rate in RateKind::all() {
        let limit = LimitKey { rate, group: group.to_owned() };
        let before = view.limits.get(&limit).map(|limit| limit.terms);
        match (before, rate.of(&max.sustained).map(NonZeroU64::get)) {
            (None, None) => {}
            (Some(_), None) => change.removes.push(keys.terms(&limit)),
            (before, Some(now)) => {
                let terms = match before {
                    Some(before) => before.changed(Allowance(now)),
                    None => Terms::new(Allowance(now), record.hosts_max, view.at),
                };
                let terms = terms.ok_or_else(|| too_low(&limit, before, record.hosts_max))?;
                let value = serde_json::to_vec(&TermsRecord::from(terms)).expect("numbers");
                change.puts.push(put(keys.terms(&limit), value));
            }
        }
    }
    Ok(change)
}

fn too_low(limit: &LimitKey, before: Option<Terms>, hosts_max: u32) -> String {
    let (rate, group) = (limit.rate.name(), &limit.group);
    match before {
        Some(terms) => format!(
            "{rate} of '{group}' cannot be lowered below {}: each of {} hosts may use {} of it \
             without asking anybody, as long as it cannot reach etcd; remove the limit \
             ('{rate}=max'), wait until 'iopace cluster hosts' shows all, and set it anew",
            terms.each.0 * u64::from(terms.hosts_max),
            terms.hosts_max,
            terms.each.0,
        ),
        None => format!(
            "{rate} of '{group}' is too low for {hosts_max} hosts, each of which has at least one \
             of it: set at least {hosts_max}"
        ),
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
