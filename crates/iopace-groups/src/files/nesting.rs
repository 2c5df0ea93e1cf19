//! Whether a setting agrees with the groups above and below.
//!
//! A limit is at most that of the nearest group above that has one, on each device. The guarantees
//! of the children of a group add up to at most its own, if it has one. Both hold for the whole
//! tree before a write, so it is enough to look at what the write changes.

use super::value::{Figures, Value};
use crate::own::Table;
use crate::tree::Tree;
use iopace_core::request::GroupId;
use std::collections::BTreeSet;

/// The device (`None`: those without a line) where a write disagrees, and how.
type Disagreement = (Option<String>, String);

/// Whether `new` may take the place of what is set for a group.
pub(super) fn check<T: Value>(
    tree: &Tree,
    id: GroupId,
    new: &Table<T>,
    devices: &[&str],
) -> Result<(), Disagreement> {
    for device in concerned(tree, id, new, devices) {
        let (old, new) = (of::<T>(tree, id, device), new.held(tree, id, device));
        if old == new {
            continue;
        }
        let fail = |text: String| (device.map(String::from), text);
        check_ceilings(tree, id, new, device).map_err(fail)?;
        check_promises(tree, id, new, device).map_err(fail)?;
    }
    Ok(())
}

/// The devices on which the groups above and below may differ from each other.
fn concerned<'a, T: Value>(
    tree: &'a Tree,
    id: GroupId,
    new: &'a Table<T>,
    devices: &[&'a str],
) -> BTreeSet<Option<&'a str>> {
    let old = T::table(tree.own(id));
    let mut names: BTreeSet<Option<&str>> = old.devices().chain(new.devices()).map(Some).collect();
    if old.effective(None) != new.effective(None) {
        names.insert(None);
        names.extend(devices.iter().map(|device| Some(*device)));
        // Siblings count because guarantees are added up.
        let around = tree
            .ancestors(id)
            .chain(tree.parent(id).map(|id| tree.children(id)).into_iter().flatten());
        for group in around.chain(tree.subtree(id)) {
            names.extend(T::table(tree.own(group)).devices().map(Some));
        }
    }
    names
}

/// The limits of a group against those above and below it.
fn check_ceilings<T: Value>(
    tree: &Tree,
    id: GroupId,
    new: T,
    device: Option<&str>,
) -> Result<(), String> {
    let ceilings = new.ceilings();
    for (index, limit) in figures(ceilings) {
        let above = |id| Some((id, of::<T>(tree, id, device).ceilings()[index]?));
        if let Some((ancestor, bound)) = tree.ancestors(id).find_map(above)
            && limit > bound
        {
            return Err(format!(
                "{}{} is above the {} of {}, which holds for all groups below it; at most that, \
                 or raise it first",
                T::figure(index, limit),
                on(device),
                T::figure(index, bound),
                tree.path(ancestor)
            ));
        }
    }
    if ceilings == Figures::default() {
        return Ok(());
    }
    for below in tree.subtree(id).skip(1) {
        // The device's value for every group is nobody's wish: it gives way to the groups above.
        let theirs = T::table(tree.own(below)).effective(device).ceilings();
        for (index, limit) in figures(ceilings) {
            if let Some(figure) = theirs[index]
                && figure > limit
            {
                return Err(format!(
                    "{}{} is below the {} of {}; at least that, or lower it first",
                    T::figure(index, limit),
                    on(device),
                    T::figure(index, figure),
                    tree.path(below)
                ));
            }
        }
    }
    Ok(())
}

/// The guarantees of a group against its parent's, and its children's against its own.
fn check_promises<T: Value>(
    tree: &Tree,
    id: GroupId,
    new: T,
    device: Option<&str>,
) -> Result<(), String> {
    let promised = |parent: GroupId, index: usize| -> u64 {
        let children = tree.children(parent).filter(|child| *child != id);
        let each = children.filter_map(|child| of::<T>(tree, child, device).promises()[index]);
        each.fold(0, u64::saturating_add)
    };
    for (index, figure) in figures(new.promises()) {
        if let Some(parent) = tree.parent(id)
            && let Some(bound) = of::<T>(tree, parent, device).promises()[index]
        {
            let others = promised(parent, index);
            let sum = figure.saturating_add(others);
            if sum > bound {
                return Err(format!(
                    "a guarantee of {}{} makes {} with the other groups in {}, which has only {} \
                     itself",
                    T::figure(index, figure),
                    on(device),
                    T::figure(index, sum),
                    tree.path(parent),
                    T::figure(index, bound)
                ));
            }
        }
        let sum = promised(id, index);
        if sum > figure {
            return Err(format!(
                "a guarantee of {}{} is below the {} that the groups in {} have together; lower \
                 theirs first",
                T::figure(index, figure),
                on(device),
                T::figure(index, sum),
                tree.path(id)
            ));
        }
    }
    Ok(())
}

/// The device in a message; nothing for those without a line.
fn on(device: Option<&str>) -> String {
    device.map_or(String::new(), |device| format!(" on {device}"))
}

/// What holds for a group on a device.
fn of<T: Value>(tree: &Tree, id: GroupId, device: Option<&str>) -> T {
    T::table(tree.own(id)).held(tree, id, device)
}

/// The figures that there are, with their places.
fn figures(figures: Figures) -> impl Iterator<Item = (usize, u64)> {
    figures.into_iter().enumerate().filter_map(|(index, figure)| Some((index, figure?)))
}
