//! How a volume stands, for whoever asks.

use super::member::StoreContact;
use super::records::{LimitKey, RateKind};
use super::setting;
use super::store::StoreError;
use super::volume::Volume;
use crate::api::{
    HostPart, HostState, SharedGuarantee, SharedLimit, SharedSetting, SharedWeight, VolumeState,
};
use crate::clock;
use crate::config::HOSTS_DEFAULT;
use crate::groups::{ClusterSettings, Groups, SharedDevice};
use iopace_core::time::{Instant, Nanos};
use std::collections::BTreeMap;
use std::num::NonZeroU64;

const NANOS_PER_MS: u64 = 1_000_000;

impl Volume {
    /// How it stands.
    pub(super) fn state(&self) -> VolumeState {
        let now = clock::now();
        let view = &self.member.view;
        let (dark, since) = match &self.member.standing {
            StoreContact::Joined => (None, now),
            StoreContact::Dark(error, since) => (Some(error), *since),
        };
        let mut hosts: Vec<&String> = view.hosts.keys().chain(view.slots.values()).collect();
        hosts.sort();
        hosts.dedup();
        let host = |host: &String| HostState {
            host: host.clone(),
            is_there: view.hosts.contains_key(host),
            has_slot: view.slot_of(host).is_some(),
        };
        let set = view.set.iter();
        VolumeState {
            volume: self.name.clone(),
            device: self.device.clone(),
            dark: dark.map(ToString::to_string),
            is_refused: dark.is_some_and(|error| !matches!(error, StoreError::Unreachable(_))),
            dark_for_ms: now.since(since).0 / NANOS_PER_MS,
            session_left_ms: self.member.session_left(now).0 / NANOS_PER_MS,
            seen_ago_ms: self.member.seen.map(|seen| now.since(seen).0 / NANOS_PER_MS),
            has_slot: self.member.slot.is_some(),
            hosts_max: view.volume.map_or(0, |volume| volume.hosts_max),
            hosts_max_configured: Some(self.wanted.hosts_max).filter(|of| *of != HOSTS_DEFAULT),
            target_ns: view.volume.and_then(|volume| volume.target_ns),
            target_ns_configured: self.wanted.target_ns,
            hosts: hosts.into_iter().map(host).collect(),
            limits: self.limits(now),
            weights: self.weights(),
            guarantees: self.guarantees(),
            settings: set
                .map(|((group, file), lines)| SharedSetting {
                    group: group.clone(),
                    file: file.clone(),
                    lines: lines.clone(),
                })
                .collect(),
        }
    }

    fn limits(&self, now: Instant) -> Vec<SharedLimit> {
        let view = &self.member.view;
        let part = |key: &LimitKey, host: &String| {
            let seen = view.hosts.get(host).map(|host| &host.record);
            let of = |amounts: Option<&BTreeMap<LimitKey, u64>>| {
                amounts.and_then(|amounts| amounts.get(key)).copied().unwrap_or(0)
            };
            let grants = view.limits.get(key).map(|limit| &limit.grants);
            HostPart {
                host: host.clone(),
                granted: grants
                    .and_then(|grants| grants.get(host))
                    .map_or(0, |record| record.grant.0),
                wanted: of(seen.map(|record| &record.wanted)),
                used: of(seen.map(|record| &record.used)),
            }
        };
        let terms: BTreeMap<LimitKey, _> = self.member.terms().into_iter().collect();
        // A host without a place has no static part.
        let has_slot = self.member.slot.is_some();
        let in_the_dark = |key: &LimitKey| {
            terms.get(key).filter(|_| has_slot).map_or(0, |terms| terms.static_part().0)
        };
        let mut all: Vec<_> = self.member.allowed(now);
        all.sort_by(|(one, _), (other, _)| (&one.group, one.rate).cmp(&(&other.group, other.rate)));
        all.into_iter()
            .map(|(key, allowed)| SharedLimit {
                group: key.group.clone(),
                rate: key.rate.name().into(),
                limit: allowed.limit.0,
                allowed: allowed.now.0,
                in_the_dark: in_the_dark(&key),
                parts: view.hosts.keys().map(|host| part(&key, host)).collect(),
            })
            .collect()
    }

    /// The weights that are set for all hosts, with what this host's groups have of them.
    fn weights(&self) -> Vec<SharedWeight> {
        let weight = |(group, weight): (String, iopace_core::group::Weight)| {
            let here = self.parts.get(&group).and_then(|part| part.weight);
            SharedWeight { group, weight: weight.get(), here: here.unwrap_or(weight).get() }
        };
        self.set_weights().into_iter().map(weight).collect()
    }

    /// The guarantees that are set for all hosts, with this host's part of each.
    fn guarantees(&self) -> Vec<SharedGuarantee> {
        let view = &self.member.view;
        let mut all = Vec::new();
        for (group, _) in view.set.keys().filter(|(_, file)| file == "io.min") {
            let Some(set) = setting::settings(view, (&self.name, group)) else { continue };
            let part = self.parts.get(group).map(|part| part.min).unwrap_or_default();
            for rate in RateKind::all() {
                let Some(of_all) = rate.of(&set.min) else { continue };
                all.push(SharedGuarantee {
                    group: group.clone(),
                    rate: rate.name().into(),
                    guarantee: of_all.get(),
                    here: rate.of(&part).map_or(0, NonZeroU64::get),
                });
            }
        }
        all
    }

    /// What is said of the device beside the parts of its groups.
    pub(super) fn shared(
        &self,
        groups: &Groups,
        parts: &BTreeMap<String, ClusterSettings>,
    ) -> SharedDevice {
        let dark_for = match &self.member.standing {
            StoreContact::Joined => None,
            StoreContact::Dark(_, since) => Some(Nanos(clock::now().since(*since).0)),
        };
        let tops = groups.top_groups(&self.device).into_iter();
        let mut weights: BTreeMap<_, _> = tops.map(|(path, _, weight)| (path, weight)).collect();
        weights.extend(self.set_weights());
        let limits = parts.iter().filter(|(_, part)| part.max != Default::default());
        SharedDevice {
            volume: self.name.clone(),
            dark_for,
            weights,
            limits: limits.map(|(path, part)| (path.clone(), part.max)).collect(),
            values: setting::values(&self.member.view, &self.name),
        }
    }
}
