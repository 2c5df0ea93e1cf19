//! One volume of a host: its part, what its groups want, and what holds for them on the device.

use super::kept::KeptVolume;
use super::member::{Allowed, StoreContact, VolumeMember};
use super::news::{ClusterNote, VolumeNews};
use super::records::{Keys, LimitKey, PartOf, RateKind, TermsRecord, VolumeRecord};
use super::setting;
use super::store::{Store, StoreChange, StoreError, StoreOutcome};
use super::view::VolumeView;
use super::weighing::{GroupTerms, Weighing};
use super::wishes::Wishes;
use crate::clock;
use crate::config::ClusterConfig;
use crate::groups::{ClusterSettings, Groups};
use iopace_core::cluster::{Allowance, look_period};
use iopace_core::group::Weight;
use iopace_core::time::Nanos;
use std::collections::BTreeMap;
use std::num::NonZeroU64;
use std::path::PathBuf;

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
    /// What the configuration says of the volume.
    pub(super) wanted: VolumeRecord,
    /// What holds for its groups, by path.
    pub(super) parts: BTreeMap<String, ClusterSettings>,
    is_unkept: bool,
    /// Groups that cannot be made here.
    refused: Vec<String>,
    news: VolumeNews,
    /// Looks in a row in which the window said nothing for other hosts.
    blind_looks: u32,
}

impl Volume {
    /// As it was last kept, if it was.
    pub(super) fn new(config: &ClusterConfig, name: &str, device: &str) -> Volume {
        let keys = Keys::new(&config.prefix, name);
        let target_ns = config.target.map(|target| target.0);
        let wanted = VolumeRecord { hosts_max: config.hosts_max, target_ns };
        let mut member = VolumeMember::new(keys.clone(), &config.host, wanted);
        let kept = KeptVolume::read(&config.state, name, &config.host).unwrap_or_default();
        let terms = kept.limits.iter();
        let terms = terms.filter_map(|(key, record)| Some((key.clone(), record.terms()?)));
        member.remember(kept.slot, terms.collect());
        let set = kept.set.iter().cloned();
        member.view.set = set.map(|(group, file, lines)| ((group, file), lines)).collect();
        if kept.hosts_max > 0 {
            let (hosts_max, places) = (kept.hosts_max, kept.places.clone());
            member.view.volume = Some(VolumeRecord { hosts_max, target_ns: None });
            member.view.slots = places;
        }
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
            news: VolumeNews::new(&config.host, wanted),
            blind_looks: 0,
            wanted,
            parts: BTreeMap::new(),
            is_unkept: false,
            refused: Vec::new(),
        }
    }

    /// Whether anything is known of it from before.
    pub(super) fn is_kept(&self) -> bool {
        self.kept.host == self.host
    }

    /// The time between two turns.
    pub(super) fn period(&self) -> Nanos {
        look_period(self.member.view.hosts.len() as u64)
    }

    /// A turn; returns what has happened.
    pub(super) fn turn(&mut self, store: &mut dyn Store, groups: &Groups) -> Vec<ClusterNote> {
        let now = clock::now();
        let allowed = self.member.allowed(now).into_iter();
        let limits: Vec<PartOf> =
            allowed.map(|(key, part)| (key, (part.now.0, part.limit.0))).collect();
        let mut guarantees = self.own_guarantees();
        guarantees.retain(|(key, _)| limits.iter().all(|(limit, _)| limit != key));
        let Some(device) = groups.device_table().find(&self.device) else { return Vec::new() };
        let parts = (&*limits, &*guarantees);
        let mut wishes = self.wishes.look(now, (groups, &*device), parts).clone();
        let set = self.set_weights();
        let terms = GroupTerms { weights: &set, wishes: &self.wishes, guarantees: &guarantees };
        self.weighing.look(now, (groups, &*device), &terms, &mut wishes);
        // The first look is what tells a window that there are others.
        self.blind_looks = if wishes.queue.is_some() { 0 } else { self.blind_looks + 1 };
        let Volume { member, weighing, name, device: of_device, host, .. } = self;
        let place = (&**name, &**host);
        member.turn(store, &wishes, &mut |member| {
            // Groups that cannot be made are told of at the end of the turn.
            _ = groups.set_cluster(of_device, &held(place, member, weighing, groups));
        });
        if self.member.standing == StoreContact::Joined {
            let look = self.period();
            self.weighing.tell((&self.member.view, &self.host), look, &*device);
        }
        self.tell(groups);
        self.keep();
        let VolumeMember { view, standing, slot, .. } = &self.member;
        let blind = (self.blind_looks > 2).then_some(&*self.device);
        self.news.after(view, (standing, *slot), blind)
    }

    /// Has what is allowed hold for the groups.
    pub(super) fn tell(&mut self, groups: &Groups) {
        let place = (&*self.name, &*self.host);
        let all = held(place, &self.member, &self.weighing, groups);
        // Each time: a group may have been removed and made again meanwhile.
        let refused = groups.set_cluster(&self.device, &all);
        if refused != self.refused {
            for group in &refused {
                tracing::warn!(%group, volume = %self.name, "no such group can be made here");
            }
            self.refused = refused;
        }
        groups.set_shared(&self.device, self.shared(groups, &all));
        self.parts = all;
    }

    /// This host's part of each guarantee.
    fn own_guarantees(&self) -> Vec<PartOf> {
        let view = &self.member.view;
        let at = view.hosts.keys().position(|host| *host == self.host);
        let groups = view.set.keys().filter(|(_, file)| file == "io.min");
        let mut parts = Vec::new();
        for (group, _) in groups {
            let Some(settings) = setting::settings(view, (&self.name, group)) else { continue };
            let own = at.map(|at| setting::guarantees(view, group, &settings.min, at));
            for rate in RateKind::all() {
                let Some(all) = rate.of(&settings.min) else { continue };
                let own = own.as_ref().and_then(|own| rate.of(own)).map_or(0, NonZeroU64::get);
                parts.push((LimitKey { rate, group: group.clone() }, (own, all.get())));
            }
        }
        parts
    }

    /// The weights that are set for all hosts, by group.
    pub(super) fn set_weights(&self) -> BTreeMap<String, Weight> {
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
        let view = &self.member.view;
        let set = view.set.iter();
        let now = KeptVolume {
            host: self.host.clone(),
            slot: self.member.slot,
            hosts_max: view.volume.map_or(0, |volume| volume.hosts_max),
            places: view.slots.clone(),
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
            return Err(format!("'{host}' has no place; these have: {}", known.join(", ")));
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
}

/// All that is to hold for the groups of a volume on a host now.
fn held(
    (volume, host): (&str, &str),
    member: &VolumeMember,
    weighing: &Weighing,
    groups: &Groups,
) -> BTreeMap<String, ClusterSettings> {
    let (now, view) = (clock::now(), &member.view);
    let mut all: BTreeMap<String, ClusterSettings> = BTreeMap::new();
    let at = view.hosts.keys().position(|known| known == host);
    let mut set: Vec<&String> = view.set.keys().map(|(group, _)| group).collect();
    set.dedup();
    for group in set {
        let Some(settings) = setting::settings(view, (volume, group)) else { continue };
        let part = all.entry(group.clone()).or_default();
        let is_set = |file: &str| view.set.contains_key(&(group.clone(), file.to_owned()));
        part.weight = is_set("io.weight").then_some(settings.weight);
        if let Some(at) = at {
            part.min = setting::guarantees(view, group, &settings.min, at);
        }
    }
    for (key, allowed) in member.allowed(now) {
        let part = all.entry(key.group.clone()).or_default();
        limit(part, &key, allowed);
    }
    // One that was removed here meanwhile is not made for its weight.
    let is_there = |path: &str| groups.find(path).is_ok();
    for (path, weight) in weighing.weights().iter().filter(|(path, _)| is_there(path)) {
        all.entry(path.clone()).or_default().weight = Some(*weight);
    }
    all
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
    let told = error.told();
    format!("{told}; it may be done or not: 'iopace cluster status' says how it stands")
}
