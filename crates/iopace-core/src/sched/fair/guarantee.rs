//! Guarantees (`io.min`): groups that are behind their guaranteed rate go before what weights say.
//!
//! Stage admit sees to it that such a group gets its slots; here it is served. Each such group
//! has a clock per rate, pushed forward by everything that is served in it, whoever decided on it;
//! while the clock is behind the present something is owed.

use crate::group::Rates;
use crate::group::rates::{Rate, guarantee_rates, set_rates};
use crate::request::GroupId;
use crate::table::Request;
use crate::time::{Instant, Nanos};
use std::collections::BTreeMap;

/// The guaranteed groups of a device.
#[derive(Debug, Default)]
pub(super) struct Guarantees(BTreeMap<GroupId, Guarantee>);

#[derive(Debug)]
struct Guarantee {
    rates: Vec<Rate>,
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
            self.0.remove(&id);
            return;
        }
        let guarantee = self.0.entry(id).or_insert(Guarantee { rates: Vec::new(), again: now });
        set_rates(now, &mut guarantee.rates, guarantee_rates(now, min));
    }

    pub(super) fn remove(&mut self, id: GroupId) {
        self.0.remove(&id);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Groups to which something is owed, the longest first.
    pub(super) fn owed(&self, now: Instant) -> Vec<GroupId> {
        let opens = |guarantee: &Guarantee| {
            let clocks = guarantee.rates.iter().map(Rate::opens);
            clocks.min().unwrap_or(Instant::NEVER).max(guarantee.again)
        };
        let all = self.0.iter().map(|(id, guarantee)| (opens(guarantee), *id));
        let mut owed: Vec<(Instant, GroupId)> = all.filter(|(opens, _)| *opens <= now).collect();
        owed.sort_unstable();
        owed.into_iter().map(|(_, id)| id).collect()
    }

    /// A group is behind and this is served for it; a late turn is not lost to it.
    pub(super) fn redeem(&mut self, now: Instant, id: GroupId, request: &Request) {
        let Some(guarantee) = self.0.get_mut(&id) else { return };
        guarantee.rates.iter_mut().for_each(Rate::wait);
        let is_owed = |rate: &Rate| rate.counts(request.counts().0) && rate.opens() <= now;
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
            let rates = self.0.get_mut(&id).into_iter().flat_map(|guarantee| &mut guarantee.rates);
            rates.for_each(|rate| _ = rate.charge(now, lane, bytes.get(), None));
            id = parent(id);
        }
    }
}
