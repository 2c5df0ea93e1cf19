//! One volume of a host: its part, what its groups want, and what holds for them on the device.

use super::kept::KeptVolume;
use super::member::{Allowed, StoreContact, VolumeMember};
use super::records::{Keys, LimitKey, TermsRecord, VolumeRecord};
use super::setting;
use super::store::{Store, StoreChange, StoreError, StoreOutcome};
use super::view::VolumeView;
use super::weighing::Weighing;
use super::wishes::Wishes;
use crate::api::{HostPart, HostState, SharedLimit, SharedSetting, VolumeState};
use crate::clock;
use crate::config::ClusterConfig;
use crate::groups::{ClusterSettings, Groups};
use iopace_core::cluster::Allowance;
use iopace_core::group::Weight;
use iopace_core::time::{Instant, Nanos};
use std::collections::BTreeMap;
use std::num::NonZeroU64;
use std::path::PathBuf;

/// So often a host reads all that a volume has, with few hosts.
const PERIOD: Nanos = Nanos::from_millis(250);

/// With many, each reads so much more rarely for each of them: a record is some 250 bytes, so that
/// no host reads more than 32 KiB/s, whatever their number.
const PERIOD_OF_HOST: Nanos = Nanos::from_millis(8);

/// A session lasts for several looks, however many hosts there are.
const PERIOD_MAX: Nanos = Nanos::from_millis(1_500);

/// The volume.
pub(super) struct Volume {
    pub(super) name: String,
    pub(super) device: String,
    host: String,
    state: PathBuf,
    keys: Keys,
    pub(super) member: VolumeMember,
    wishes: Wishes,
    weighing: Weighing,
    /// What was last kept.
    kept: KeptVolume,
    is_unkept: bool,
    /// Groups that cannot be made here.
    refused: Vec<String>,
    /// What is said of it in the list of events, if it changes.
    said: Option<String>,
}

impl Volume {
    /// As it was last kept, if it was.
    pub(super) fn new(config: &ClusterConfig, name: &str, device: &str) -> Volume {
        let keys = Keys::new(&config.prefix, name);
        let target_ns = config.target.map(|target| target.0);
        let terms = VolumeRecord { hosts_max: config.hosts_max, target_ns };
        let mut member = VolumeMember::new(keys.clone(), &config.host, terms);
        let kept = KeptVolume::read(&config.state, name, &config.host).unwrap_or_default();
        let terms = kept.limits.iter();
        let terms = terms.filter_map(|(key, record)| Some((key.clone(), record.terms()?)));
        member.remember(kept.slot, terms.collect());
        let set = kept.set.iter().cloned();
        member.view.set = set.map(|(group, file, lines)| ((group, file), lines)).collect();
        Volume {
            name: name.to_owned(),
            device: device.to_owned(),
            host: config.host.clone(),
            state: config.state.clone(),
            keys,
            member,
            wishes: Wishes::default(),
            weighing: Weighing::new(config.target),
            kept,
            is_unkept: false,
            refused: Vec::new(),
            said: None,
        }
    }

    /// Whether anything is known of it from before.
    pub(super) fn is_kept(&self) -> bool {
        self.kept.host == self.host
    }

    /// The time between two turns.
    pub(super) fn period(&self) -> Nanos {
        let hosts = self.member.view.hosts.len() as u64;
        PERIOD.max(Nanos(PERIOD_OF_HOST.0 * hosts)).min(PERIOD_MAX)
    }

    /// A turn; returns what has happened, in words.
    pub(super) fn turn(&mut self, store: &mut dyn Store, groups: &Groups) -> Option<String> {
        let now = clock::now();
        let allowed = self.member.allowed(now).into_iter();
        let allowed: Vec<(LimitKey, (u64, u64))> =
            allowed.map(|(key, part)| (key, (part.now.0, part.limit.0))).collect();
        let device = groups.device_table().find(&self.device)?;
        let mut wishes = self.wishes.look(now, (groups, &*device), &allowed).clone();
        let set = self.set_weights();
        let is_capped = |group: &str| self.wishes.is_pressed(group);
        self.weighing.look(now, (groups, &*device), (&set, &is_capped), &mut wishes);
        self.member.turn(store, &wishes);
        if self.member.standing == StoreContact::Joined {
            let look = self.period();
            self.weighing.tell((&self.member.view, &self.host), look, &*device);
        }
        self.tell(groups);
        self.keep();
        self.news()
    }

    /// Has what is allowed hold for the groups.
    pub(super) fn tell(&mut self, groups: &Groups) {
        let now = clock::now();
        let view = &self.member.view;
        let mut all: BTreeMap<String, ClusterSettings> = BTreeMap::new();
        let at = view.hosts.keys().position(|host| *host == self.host);
        let mut set: Vec<&String> = view.set.keys().map(|(group, _)| group).collect();
        set.dedup();
        for group in set {
            let Some(settings) = setting::settings(view, (&self.name, group)) else { continue };
            let part = all.entry(group.clone()).or_default();
            let is_set = |file: &str| view.set.contains_key(&(group.clone(), file.to_owned()));
            part.weight = is_set("io.weight").then_some(settings.weight);
            if let Some(at) = at {
                part.min = setting::guarantees(view, group, &settings.min, at);
            }
        }
        for (key, allowed) in self.member.allowed(now) {
            let part = all.entry(key.group.clone()).or_default();
            limit(part, &key, allowed);
        }
        // One that was removed here meanwhile is not made for its weight.
        let is_there = |path: &str| groups.find(path).is_ok();
        for (path, weight) in self.weighing.weights().iter().filter(|(path, _)| is_there(path)) {
            all.entry(path.clone()).or_default().weight = Some(*weight);
        }
        // Each time: a group may have been removed and made again meanwhile.
        let refused = groups.set_cluster(&self.device, &all);
        if refused != self.refused {
            for group in &refused {
                tracing::warn!(%group, volume = %self.name, "no such group can be made here");
            }
            self.refused = refused;
        }
    }

    /// The weights that are set for all hosts, by group.
    fn set_weights(&self) -> BTreeMap<String, Weight> {
        let view = &self.member.view;
        let set = view.set.keys().filter(|(_, file)| file == "io.weight");
        let of = |(group, _): &(String, String)| {
            let settings = setting::settings(view, (&self.name, group))?;
            Some((group.clone(), settings.weight))
        };
        set.filter_map(of).collect()
    }

    /// Keeps what is to hold in the dark, if it has changed.
    fn keep(&mut self) {
        if self.member.standing != StoreContact::Joined {
            return;
        }
        let limits = self.member.terms().into_iter();
        let set = self.member.view.set.iter();
        let now = KeptVolume {
            host: self.host.clone(),
            slot: self.member.slot,
            limits: limits.map(|(key, terms)| (key, TermsRecord::from(terms))).collect(),
            set: set
                .map(|((group, file), text)| (group.clone(), file.clone(), text.clone()))
                .collect(),
        };
        if now == self.kept {
            return;
        }
        match now.write(&self.state, &self.name) {
            Ok(()) => (self.kept, self.is_unkept) = (now, false),
            Err(error) => {
                if !std::mem::replace(&mut self.is_unkept, true) {
                    let state = self.state.display();
                    tracing::warn!(%error, %state, "what holds in the dark cannot be kept");
                }
            }
        }
    }

    /// What has happened since the last time, in words.
    fn news(&mut self) -> Option<String> {
        let view = &self.member.view;
        let now = match &self.member.standing {
            StoreContact::Dark(why, _) => Some(format!("the store is not reached: {why}")),
            StoreContact::Joined if self.member.slot.is_none() && has_all_taken(view) => {
                Some(format!(
                    "all {} places are taken: in the dark this host has nothing of any limit; \
                 'iopace cluster forget HOST' frees one",
                    view.slots.len()
                ))
            }
            StoreContact::Joined if !view.strange.is_empty() => Some(format!(
                "in the store is what no host of this version writes: {:?}",
                view.strange
            )),
            StoreContact::Joined => None,
        };
        // Why it is not reached may change with each try.
        let kind = |text: &Option<String>| {
            text.as_ref().and_then(|text| text.get(..12).map(str::to_owned))
        };
        let is_new = kind(&now) != kind(&self.said);
        let before = std::mem::replace(&mut self.said, now);
        let text = match (&self.said, before) {
            (Some(text), _) => text.clone(),
            (None, Some(_)) => "all is well again".to_owned(),
            (None, None) => return None,
        };
        is_new.then_some(text)
    }

    /// Sets lines for a group on all hosts.
    ///
    /// # Errors
    /// Which line is wrong, or that the store does not answer; nothing is changed then.
    pub(super) fn set(
        &mut self,
        store: &mut dyn Store,
        group: &str,
        lines: (&str, &str),
    ) -> Result<(), String> {
        for _ in 0..8 {
            self.refresh(store)?;
            let place = (self.name.as_str(), group);
            let change = setting::change((&self.keys, &self.member.view), place, lines)?;
            if self.carry_out(store, &change)? {
                return Ok(());
            }
        }
        Err("others change settings all the time: say it again".into())
    }

    /// Takes the slot of a host that has no session.
    ///
    /// # Errors
    /// It has one, or is none of the volume, or the store does not answer.
    pub(super) fn forget(&mut self, store: &mut dyn Store, host: &str) -> Result<(), String> {
        self.refresh(store)?;
        let view = &self.member.view;
        if view.hosts.contains_key(host) {
            return Err(format!(
                "'{host}' is there: end its daemon first, and say it again {} s later",
                super::member::SESSION.0 / 1_000_000_000
            ));
        }
        let Some(slot) = view.slot_of(host) else {
            let known: Vec<&str> = view.slots.values().map(String::as_str).collect();
            return Err(format!("'{host}' has no slot; these have: {}", known.join(", ")));
        };
        let removes = vec![self.keys.slot(slot)];
        let absent = super::store::Condition::Absent(self.keys.host(host));
        let change = StoreChange { conditions: vec![absent], removes, ..StoreChange::default() };
        match self.carry_out(store, &change)? {
            true => Ok(()),
            false => Err(format!("'{host}' has come back meanwhile")),
        }
    }

    fn refresh(&mut self, store: &mut dyn Store) -> Result<(), String> {
        let seen = store.read(&self.keys.root).map_err(|error| unreached(&error))?;
        self.member.view = VolumeView::of(&self.keys, &seen);
        Ok(())
    }

    fn carry_out(&self, store: &mut dyn Store, change: &StoreChange) -> Result<bool, String> {
        let outcome = store.change(change).map_err(|error| unreached(&error))?;
        Ok(matches!(outcome, StoreOutcome::Done(_)))
    }

    /// How it stands.
    pub(super) fn state(&self) -> VolumeState {
        let now = clock::now();
        let view = &self.member.view;
        let (dark, since) = match &self.member.standing {
            StoreContact::Joined => (None, now),
            StoreContact::Dark(why, since) => (Some(why.clone()), *since),
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
            dark,
            dark_for_ms: now.since(since).0 / 1_000_000,
            has_slot: self.member.slot.is_some(),
            hosts_max: view.volume.map_or(0, |volume| volume.hosts_max),
            hosts: hosts.into_iter().map(host).collect(),
            limits: self.limits(now),
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
        let all = self.member.allowed(now).into_iter();
        all.map(|(key, allowed)| SharedLimit {
            group: key.group.clone(),
            rate: key.rate.name().into(),
            limit: allowed.limit.0,
            allowed: allowed.now.0,
            in_the_dark: terms.get(&key).map_or(0, |terms| terms.static_part().0),
            parts: view.hosts.keys().map(|host| part(&key, host)).collect(),
        })
        .collect()
    }
}

/// Whether there is no static part for another host.
fn has_all_taken(view: &VolumeView) -> bool {
    view.volume.is_some_and(|volume| view.slots.len() >= volume.hosts_max as usize)
}

/// Has what is allowed hold for one rate of a group.
fn limit(part: &mut ClusterSettings, key: &LimitKey, allowed: Allowed) {
    let rate = |allowance: Allowance| NonZeroU64::new(allowance.0.max(1));
    key.rate.set(&mut part.max, rate(allowed.now));
    let Some((at, then)) = allowed.then else { return };
    // All limits of a volume go with one session.
    let (_, rates) = part.end.get_or_insert((at, iopace_core::group::Rates::default()));
    key.rate.set(rates, rate(then));
}

fn unreached(error: &StoreError) -> String {
    format!("the store does not do it: {error}: see 'iopace cluster status'")
}
