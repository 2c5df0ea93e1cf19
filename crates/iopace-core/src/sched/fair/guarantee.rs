//! Guarantees (`io.min`): groups that are behind their guaranteed rate go before what weights say.
//!
//! Stage admit sees to it that such a group gets its slots; here it is served. Each such group
//! has a clock per rate, pushed forward by everything that is served in it, whoever decided on it,
//! but by what it has beyond the rate not far ([`GroupRate::serve`]); while the clock is behind the
//! present something is owed.

use crate::group::Rates;
use crate::group::rates::{GroupRate, guarantee_rates, set_rates};
use crate::group::table::{Column, GroupSet};
use crate::request::GroupId;
use crate::table::Request;
use crate::time::{Instant, Nanos};

/// The guaranteed groups of a device.
#[derive(Debug, Default)]
pub(super) struct Guarantees {
    groups: GroupSet,
    states: Column<Option<Box<Guarantee>>>,
}

#[derive(Debug)]
struct Guarantee {
    rates: Vec<GroupRate>,
    /// Not looked at before: what it had queued was not what it is owed.
    again: Instant,
}

/// A group that is owed reads and has writes queued, or the other way round, is looked at again
/// after this long: a hundred requests a second may go first wrongly, no more.
const AGAIN: Nanos = Nanos::from_millis(10);

impl Guarantees {
    /// What a group is guaranteed from now on.
    pub(super) fn set(&mut self, now: Instant, id: GroupId, min: &Rates) {
        if *min == Rates::default() {
            return self.remove(id);
        }
        self.groups.set(id, true);
        let new = || Box::new(Guarantee { rates: Vec::new(), again: now });
        let guarantee = self.states[id].get_or_insert_with(new);
        set_rates(now, &mut guarantee.rates, guarantee_rates(now, min));
    }

    pub(super) fn remove(&mut self, id: GroupId) {
        self.groups.set(id, false);
        self.states.take(id);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }

    /// Groups to which something is owed, the longest first.
    pub(super) fn owed(&self, now: Instant) -> Vec<GroupId> {
        let opens = |id: GroupId| {
            let guarantee = self.states[id].as_deref()?;
            let clocks = guarantee.rates.iter().map(GroupRate::opens);
            Some((clocks.min().unwrap_or(Instant::NEVER).max(guarantee.again), id))
        };
        let all = self.groups.iter().filter_map(opens);
        let mut owed: Vec<(Instant, GroupId)> = all.filter(|(opens, _)| *opens <= now).collect();
        owed.sort_unstable();
        owed.into_iter().map(|(_, id)| id).collect()
    }

    /// A group is behind and this is served for it; a late turn is not lost to it.
    pub(super) fn redeem(&mut self, now: Instant, id: GroupId, request: &Request) {
        let Some(guarantee) = self.states[id].as_deref_mut() else { return };
        guarantee.rates.iter_mut().for_each(GroupRate::wait);
        let is_owed = |rate: &GroupRate| rate.counts(request.counts().0) && rate.opens() <= now;
        if !guarantee.rates.iter().any(is_owed) {
            guarantee.again = now + AGAIN;
        }
    }

    /// Charges a request that is served in a group; `parent` is the group above a group.
    #[inline(never)]
    pub(super) fn serve(
        &mut self,
        now: Instant,
        request: &Request,
        parent: impl Fn(GroupId) -> GroupId,
    ) {
        let (lane, bytes) = request.counts();
        let mut id = request.group();
        while id != GroupId::ROOT {
            if let Some(guarantee) = self.states[id].as_deref_mut() {
                let rates = guarantee.rates.iter_mut();
                rates.for_each(|rate| rate.serve(now, lane, bytes.get()));
            }
            id = parent(id);
        }
    }
}
