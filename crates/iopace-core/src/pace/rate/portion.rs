//! One question of one task: whether it still waits, how much it may dirty, what that is charged.

use super::groups::{PacedGroup, States};
use super::pause::{PAGE, Tempo, pause, settled};
use super::task::{PaceWait, PacedTask};
use crate::group::table::{Groups, SettingKind};
use crate::pace::{Grant, Write};
use crate::time::{Instant, Nanos};
use crate::units::{Bytes, scaled};
use crate::verdict::Reason;

/// How a portion passes, without regard to limits.
pub(super) enum Pass {
    /// Below the free-run mark.
    Free,
    /// At a rate.
    Paced(Tempo),
}

/// What a task that waits is told: an answer, or that it may ask anew, and whether its pause is
/// over.
pub(super) fn still_waits(
    task: &mut PacedTask,
    now: Instant,
    generation: u8,
    is_free: bool,
    size: u64,
) -> Result<bool, Grant> {
    let is_due = now >= task.until;
    // Early, it may go on only if what it waits for is void.
    match std::mem::take(&mut task.stand) {
        PaceWait::Free => Ok(false),
        PaceWait::Ticket if task.generation != generation => Ok(is_due),
        PaceWait::Ticket if is_due => Err(Grant::Pass(Bytes(u64::from(task.ticket).min(size)))),
        PaceWait::Rate if is_due || is_free => Ok(is_due),
        stand => {
            task.stand = stand;
            let is_limit = stand == PaceWait::Ticket;
            let reason = if is_limit { Reason::Budget } else { Reason::Dirty };
            Err(Grant::Wait(task.until, reason))
        }
    }
}

/// What a task may dirty now at its rate, or until when it pauses. No more than `room`.
pub(super) fn paced(
    task: &mut PacedTask,
    group: &mut PacedGroup,
    (now, is_due): (Instant, bool),
    tempo: &Tempo,
    room: u64,
) -> Result<u64, Instant> {
    task.clock = settled(task.clock, now);
    let debt = task.clock.since(now).0;
    if !tempo.passes(debt) && (!is_due || tempo.rate == 0) {
        group.waited = true;
        let (until, clock) = match tempo.rate {
            0 => (now + tempo.stop, task.clock.max(now + tempo.stop)),
            _ => pause(task.clock, now),
        };
        (task.clock, task.until, task.stand) = (clock, until, PaceWait::Rate);
        return Err(until);
    }
    if group.is_surging() && task.clock == now {
        // Who begins among many has a page, and time for the others to come.
        task.clock = now + Nanos(tempo.target / 2);
        return Ok(PAGE);
    }
    Ok(tempo.portion(debt).min(room.max(PAGE)))
}

/// A portion passes, now or when the limits of its group let it; it is charged in any case. Says
/// also how much of it is fresh.
pub(super) fn charge(
    (states, groups): (&mut States, &Groups),
    task: &mut PacedTask,
    (now, generation): (Instant, u8),
    write: &Write,
    mut granted: u64,
    pass: &Pass,
) -> (Grant, u64) {
    let (size, limited) = (write.size.0, groups.chain(write.group, SettingKind::Limit));
    let mut at = now;
    for id in limited.clone() {
        granted = granted.min(states.caps(id).portion());
    }
    let portion = Bytes(granted);
    for id in limited.clone() {
        at = at.max(states.caps(id).opens(write.done, portion));
    }
    if at > now
        && let Some(group) = states.get_mut(write.group)
    {
        group.held_above |= at > now.max(group.caps.opens(write.done, portion));
    }
    for id in limited {
        states.caps(id).charge(now, write.done, portion);
    }
    let fresh = part(write.fresh.0, granted, size);
    task.clock = match pass {
        Pass::Free => at,
        Pass::Paced(tempo) => settled(task.clock, at) + Nanos(tempo.cost(fresh)),
    };
    if at > now {
        (task.until, task.stand) = (at, PaceWait::Ticket);
        (task.ticket, task.generation) = (granted as u32, generation);
        return (Grant::Wait(at, Reason::Budget), fresh);
    }
    (Grant::Pass(Bytes(granted)), fresh)
}

/// The part of a write that makes about so many bytes dirty.
pub(super) fn portion_of(write: &Write, fresh: u64) -> u64 {
    if write.fresh.0 <= fresh {
        return write.size.0;
    }
    scaled(write.size.0, fresh, write.fresh.0).max(1)
}

/// `whole x part / of`, rounded up.
fn part(whole: u64, part: u64, of: u64) -> u64 {
    if part == of {
        return whole;
    }
    (u128::from(whole) * u128::from(part)).div_ceil(u128::from(of)) as u64
}
