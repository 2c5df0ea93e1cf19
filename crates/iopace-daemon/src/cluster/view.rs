//! All that a volume has in the store, as a host last saw it.

use super::records::{
    GrantValue, HostValue, KeyOf, Keys, LimitKey, SlotRecord, TermsRecord, VolumeRecord,
};
use super::store::{StoreEntry, StoreView};
use iopace_core::cluster::{
    Allowance, Demand, GrantRecord, Revision, SeenGrants, SessionId, Terms,
};
use std::collections::{BTreeMap, BTreeSet};

/// One limit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SeenLimit {
    pub(super) terms: Terms,
    /// When the terms were last changed.
    pub(super) changed: Revision,
    /// By host.
    pub(super) grants: BTreeMap<String, GrantRecord>,
}

/// A host that has a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SeenHost {
    pub(super) record: HostValue,
    pub(super) session: Option<SessionId>,
}

/// The volume.
#[derive(Clone, Debug, Default)]
pub(super) struct VolumeView {
    /// No change up to this one is missing.
    pub(super) at: Revision,
    pub(super) volume: Option<VolumeRecord>,
    /// By number: the host that has it.
    pub(super) slots: BTreeMap<u32, String>,
    /// By name.
    pub(super) hosts: BTreeMap<String, SeenHost>,
    /// Lines by group and file, as they were set.
    pub(super) set: BTreeMap<(String, String), String>,
    pub(super) limits: BTreeMap<LimitKey, SeenLimit>,
    /// Limits whose terms cannot be read: those that were known hold on.
    pub(super) unread: BTreeSet<LimitKey>,
    /// Keys whose value is none of ours.
    pub(super) strange: Vec<String>,
}

impl VolumeView {
    /// Takes it apart. What nobody of ours has written is left out, and told of.
    pub(super) fn of(keys: &Keys, view: &StoreView) -> VolumeView {
        let mut seen = VolumeView { at: view.at, ..VolumeView::default() };
        let mut grants = Vec::new();
        for entry in &view.entries {
            let Some(key) = keys.taken_apart(&entry.key) else { continue };
            if let KeyOf::Grant(limit, host) = &key {
                grants.push((limit.clone(), (*host).to_owned(), entry));
            } else if seen.note(key, entry).is_none() {
                seen.strange.push(entry.key.clone());
            }
        }
        for (limit, host, entry) in grants {
            if let Some(limit) = seen.limits.get_mut(&limit) {
                limit.grants.insert(host, grant(entry));
            }
        }
        seen
    }

    fn note(&mut self, key: KeyOf<'_>, entry: &StoreEntry) -> Option<()> {
        match key {
            KeyOf::Volume => self.volume = Some(read(&entry.value)?),
            KeyOf::Slot(number) => {
                _ = self.slots.insert(number, read::<SlotRecord>(&entry.value)?.host);
            }
            KeyOf::Host(name) => {
                // One without a session is no host: it would be there for ever.
                entry.session?;
                let host = SeenHost { record: read(&entry.value)?, session: entry.session };
                self.hosts.insert(name.to_owned(), host);
            }
            KeyOf::Set { group, file } => {
                let lines = String::from_utf8(entry.value.clone()).ok()?;
                self.set.insert((group.to_owned(), file.to_owned()), lines);
            }
            KeyOf::Terms(limit) => {
                let terms = read::<TermsRecord>(&entry.value).and_then(TermsRecord::terms);
                let Some(terms) = terms else {
                    self.unread.insert(limit);
                    return None;
                };
                let grants = BTreeMap::new();
                self.limits.insert(limit, SeenLimit { terms, changed: entry.changed, grants });
            }
            KeyOf::Grant(..) => {}
        }
        Some(())
    }

    /// The slot of a host.
    pub(super) fn slot_of(&self, host: &str) -> Option<u32> {
        self.slots.iter().find(|(_, owner)| *owner == host).map(|(number, _)| *number)
    }

    /// The grants of all hosts but one.
    pub(super) fn others(&self, limit: &SeenLimit, host: &str) -> SeenGrants {
        let others = limit.grants.iter().filter(|(name, _)| *name != host);
        let others = others.fold(0u64, |sum, (_, record)| sum.saturating_add(record.grant.0));
        SeenGrants { at: self.at, others: Allowance(others) }
    }

    /// What the hosts that have a session want of a limit, in the order of their names.
    pub(super) fn demands(&self, limit: &LimitKey) -> Vec<Demand> {
        let wanted = |host: &SeenHost| host.record.wanted.get(limit).copied().unwrap_or(0);
        let all = self.hosts.values();
        all.map(|host| Demand { wanted: Allowance(wanted(host)), weight: 1, ..Demand::default() })
            .collect()
    }
}

/// A grant as others see it. One that cannot be read may be of any size.
fn grant(entry: &StoreEntry) -> GrantRecord {
    let value = read::<GrantValue>(&entry.value).map_or(u64::MAX, |value| value.grant);
    let session = entry.session.unwrap_or(SessionId(0));
    GrantRecord { changed: entry.changed, session, grant: Allowance(value) }
}

pub(super) fn read<T: serde::de::DeserializeOwned>(value: &[u8]) -> Option<T> {
    serde_json::from_slice(value).ok()
}
