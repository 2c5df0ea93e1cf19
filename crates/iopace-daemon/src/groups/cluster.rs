//! What holds for groups on a device that is a part of a volume of several hosts, over what is set
//! for them here.

use super::{Groups, State};
use iopace_core::group::{Limits, LimitsEnd, Rates, Settings, Weight};
use iopace_core::request::GroupId;
use iopace_core::time::Instant;
use std::collections::BTreeMap;
use std::num::NonZeroU64;

/// This host's part of what is set for a group on all hosts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ClusterSettings {
    /// Its weight here.
    pub(crate) weight: Option<Weight>,
    /// This host's part of each limit.
    pub(crate) max: Rates,
    /// From an instant on this is its part.
    pub(crate) end: Option<(Instant, Rates)>,
    /// This host's part of each guarantee.
    pub(crate) min: Rates,
}

/// By device: the parts of its groups.
pub(super) type OfDevices = BTreeMap<String, BTreeMap<GroupId, ClusterSettings>>;

impl Groups {
    /// What holds on a device from now on for the groups of these paths, and for no others.
    /// Groups that are missing are made, so that it holds before their first request.
    ///
    /// Returns the paths of which no group can be made.
    pub(crate) fn set_cluster(
        &self,
        device: &str,
        all: &BTreeMap<String, ClusterSettings>,
    ) -> Vec<String> {
        let mut state = self.lock();
        let (mut new, mut refused) = (BTreeMap::new(), Vec::new());
        for (path, settings) in all {
            let known = state.tree.find(path);
            match known.or_else(|_| self.create_in(&mut state, path, true)) {
                Ok(id) => _ = new.insert(id, *settings),
                Err(_) => refused.push(path.clone()),
            }
        }
        let before = state.of_cluster.insert(device.to_owned(), new).unwrap_or_default();
        let Some(found) = self.devices.find(device) else { return refused };
        let now = &state.of_cluster[device];
        let ids = before.keys().chain(now.keys().filter(|id| !before.contains_key(id)));
        let changed: Vec<GroupId> =
            ids.copied().filter(|id| before.get(id) != now.get(id)).collect();
        for id in changed.into_iter().filter(|id| state.tree.is_live(*id)) {
            Groups::tell(&state, &*found, id);
        }
        refused
    }

    /// The groups directly below the root, with their weights as they are set here.
    pub(crate) fn top_groups(&self, device: &str) -> Vec<(String, GroupId, Weight)> {
        let state = self.lock();
        let all = state.tree.children(GroupId::ROOT);
        all.map(|id| (state.tree.path(id), id, state.tree.effective(id, device).weight)).collect()
    }

    /// For each of these groups the one directly below the root that it is in; the root for itself
    /// and for those that are gone.
    pub(crate) fn tops_of(&self, ids: &[GroupId]) -> Vec<GroupId> {
        let state = self.lock();
        let top = |id: &GroupId| {
            if !state.tree.is_live(*id) {
                return GroupId::ROOT;
            }
            let above = std::iter::once(*id).chain(state.tree.ancestors(*id));
            above.take_while(|id| *id != GroupId::ROOT).last().unwrap_or(GroupId::ROOT)
        };
        ids.iter().map(top).collect()
    }
}

impl State {
    /// What holds for a group on a device.
    pub(super) fn effective(&self, id: GroupId, device: &str) -> Settings {
        let settings = self.tree.effective(id, device);
        let part = self.of_cluster.get(device).and_then(|groups| groups.get(&id));
        part.map_or(settings, |part| part.over(settings))
    }
}

impl ClusterSettings {
    /// The stricter of both for each limit, the larger of each guarantee, and its own weight. What
    /// is given for a time has no burst.
    fn over(&self, mut settings: Settings) -> Settings {
        settings.weight = self.weight.unwrap_or(settings.weight);
        let (mut given, mut then) = (self.max, self.end.map_or(self.max, |(_, then)| then));
        let Limits { sustained, burst, end, .. } = &mut settings.max;
        let places = each(sustained).into_iter().zip(each(burst));
        let parts = each(&mut given).into_iter().zip(each(&mut then));
        for ((rate, burst), (part, then)) in places.zip(parts) {
            let Some(part) = *part else { continue };
            let least = |part: NonZeroU64| rate.map_or(part, |local| local.min(part));
            (*burst, *then) = (None, then.map(least));
            *rate = Some(least(part));
        }
        *end = self.end.map(|(at, _)| LimitsEnd { at, then });
        for (rate, part) in each(&mut settings.min).into_iter().zip(each(&mut { self.min })) {
            *rate = (*rate).max(*part);
        }
        settings
    }
}

fn each(rates: &mut Rates) -> [&mut Option<NonZeroU64>; 6] {
    let Rates { rbps, wbps, bps, riops, wiops, iops } = rates;
    [rbps, wbps, bps, riops, wiops, iops]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stricter_limit_holds_now_and_later() {
        let rate = NonZeroU64::new;
        let mut local = Settings::default();
        local.max.sustained = Rates { rbps: rate(500), wbps: rate(70), ..Rates::default() };
        local.max.burst = Rates { rbps: rate(900), wbps: rate(900), ..Rates::default() };
        let at = Instant(7);
        let part = ClusterSettings {
            weight: Weight::new(33),
            max: Rates { rbps: rate(800), iops: rate(40), ..Rates::default() },
            end: Some((at, Rates { rbps: rate(10), iops: rate(2), ..Rates::default() })),
            min: Rates { bps: rate(5), ..Rates::default() },
        };
        let over = part.over(local);
        let now = Rates { rbps: rate(500), wbps: rate(70), iops: rate(40), ..Rates::default() };
        assert_eq!((over.weight.get(), over.max.sustained), (33, now));
        assert_eq!((over.max.burst.rbps, over.max.burst.wbps), (None, rate(900)));
        let then = Rates { rbps: rate(10), iops: rate(2), ..Rates::default() };
        assert_eq!(over.max.end, Some(LimitsEnd { at, then }));
        assert_eq!(over.min.bps, rate(5));
    }
}
