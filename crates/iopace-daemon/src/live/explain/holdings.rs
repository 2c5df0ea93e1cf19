//! Who holds what there is only so much of.

use super::super::span::Span;
use crate::control::api::{Holding, HoldingPart};
use crate::figures::permille;

/// So many holders are told of each.
const PARTS_MAX: usize = 8;

/// What each group holds by itself, the largest first: found once for all that is asked.
pub(super) struct Held<'a> {
    /// Slots, at the end.
    pub(super) slots: Vec<(&'a str, u128)>,
    /// The disk's time.
    pub(super) disk_time: Vec<(&'a str, u128)>,
    /// Dirty memory, at the end.
    pub(super) dirty: Vec<(&'a str, u128)>,
}

impl<'a> Held<'a> {
    pub(super) fn of(span: &Span<'a>) -> Held<'a> {
        let slots = |path: &str| span.now(path).map_or(0, |now| now.slots_taken_count.into());
        Held {
            slots: span.own(slots),
            disk_time: span.own(|path| span.sums(path).disk_ns()),
            dirty: dirty(span),
        }
    }
}

/// Slots, the disk's time and dirty memory; what nobody holds is left out.
pub(super) fn all(span: &Span<'_>, held: &Held<'_>) -> Vec<Holding> {
    let last = span.last;
    let memory = last.pace.as_ref().map_or(0, |pace| pace.picture.limit_bytes);
    let all = [
        ("slots", u64::from(last.queue.nr_requests), &held.slots),
        ("disk time", 0, &held.disk_time),
        ("dirty memory", memory, &held.dirty),
    ];
    let held = all.into_iter().filter(|(.., parts)| !parts.is_empty());
    held.map(|(what, of, parts)| holding(what, of, parts)).collect()
}

fn holding(what: &str, of: u64, parts: &[(&str, u128)]) -> Holding {
    let held: u128 = parts.iter().map(|(_, part)| part).sum();
    let number = |amount: u128| u64::try_from(amount).unwrap_or(u64::MAX);
    let part = |(group, amount): &(&str, u128)| HoldingPart {
        group: (*group).into(),
        held: number(*amount),
        share_permille: permille(*amount, held),
    };
    let parts = parts.iter().take(PARTS_MAX).map(part).collect();
    Holding { what: what.into(), held: number(held), of, parts }
}

/// Dirty memory is counted for each group alone.
fn dirty<'a>(span: &Span<'a>) -> Vec<(&'a str, u128)> {
    let of = |path: &'a str| (path, span.now(path).map_or(0, |now| u128::from(now.dirty_bytes)));
    let mut all: Vec<_> = span.paths().map(of).filter(|(_, part)| *part > 0).collect();
    all.sort_by_key(|(path, part)| (std::cmp::Reverse(*part), *path));
    all
}
