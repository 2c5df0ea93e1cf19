//! The keys of a volume and their values.
//!
//! ```text
//! PREFIX/VOLUME/volume                      so many hosts have a static part
//! PREFIX/VOLUME/slots/NNN                   the host that has the static part of this number
//! PREFIX/VOLUME/hosts/HOST                  what it wants and has; with its session
//! PREFIX/VOLUME/set/GROUP//FILE             lines of a file of a group, as they were set
//! PREFIX/VOLUME/limits/RATE/GROUP//terms    the limit of the sum
//! PREFIX/VOLUME/limits/RATE/GROUP//grants/HOST    a host's grant; with its session
//! ```
//! A path of a group begins with `/` and has no `//`, so none of these can be taken for another.

use iopace_core::cluster::{Allowance, Cut, Revision, Terms};
use iopace_core::group::Rates;
use iopace_core::stats::OpCounts;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::num::NonZeroU64;

/// One rate of a group that has a limit for all hosts.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub(super) struct LimitKey {
    /// `rbps`, `wbps`, `bps`, `riops`, `wiops` or `iops`.
    pub(super) rate: RateKind,
    /// The group's path.
    pub(super) group: String,
}

/// A rate, with this host's part of it and the sum for all hosts.
pub(super) type PartOf = (LimitKey, (u64, u64));

/// A rate, by its place among those of [`Rates`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct RateKind(usize);

/// The names of rates, as in `io.max`.
const NAMES: [&str; 6] = ["rbps", "wbps", "bps", "riops", "wiops", "iops"];

impl RateKind {
    pub(super) fn all() -> impl Iterator<Item = RateKind> {
        (0..NAMES.len()).map(RateKind)
    }

    pub(super) fn name(self) -> &'static str {
        NAMES[self.0]
    }

    pub(super) fn find(name: &str) -> Option<RateKind> {
        NAMES.iter().position(|known| *known == name).map(RateKind)
    }

    pub(super) fn counts_reads(self) -> bool {
        self.0 % 3 != 1
    }

    pub(super) fn counts_writes(self) -> bool {
        !self.0.is_multiple_of(3)
    }

    /// The amount of it between two looks.
    pub(super) fn amount(self, was: &OpCounts, is: &OpCounts) -> u64 {
        let read = is.read.get().saturating_sub(was.read.get());
        let written = is.written.get().saturating_sub(was.written.get());
        let reads = is.reads_count.saturating_sub(was.reads_count);
        let writes = is.writes_count.saturating_sub(was.writes_count);
        [read, written, read + written, reads, writes, reads + writes][self.0]
    }

    pub(super) fn of(self, rates: &Rates) -> Option<NonZeroU64> {
        let Rates { rbps, wbps, bps, riops, wiops, iops } = *rates;
        [rbps, wbps, bps, riops, wiops, iops][self.0]
    }

    pub(super) fn set(self, rates: &mut Rates, rate: Option<NonZeroU64>) {
        let Rates { rbps, wbps, bps, riops, wiops, iops } = rates;
        *[rbps, wbps, bps, riops, wiops, iops][self.0] = rate;
    }
}

impl fmt::Display for LimitKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.rate.name(), self.group)
    }
}

impl From<LimitKey> for String {
    fn from(key: LimitKey) -> String {
        key.to_string()
    }
}

impl TryFrom<String> for LimitKey {
    type Error = &'static str;

    fn try_from(text: String) -> Result<LimitKey, &'static str> {
        let (rate, group) = text.split_at(text.find('/').ok_or("there is no group")?);
        let rate = RateKind::find(rate).ok_or("there is no such rate")?;
        Ok(LimitKey { rate, group: group.into() })
    }
}

/// The keys of one volume.
#[derive(Clone, Debug)]
pub(super) struct Keys {
    /// With a slash at its end.
    pub(super) root: String,
}

/// What a key stands for, without the root.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum KeyOf<'a> {
    Volume,
    Slot(u32),
    Host(&'a str),
    Set { group: &'a str, file: &'a str },
    Terms(LimitKey),
    Grant(LimitKey, &'a str),
}

impl Keys {
    pub(super) fn new(prefix: &str, volume: &str) -> Keys {
        Keys { root: format!("{prefix}/{volume}/") }
    }

    pub(super) fn volume(&self) -> String {
        format!("{}volume", self.root)
    }

    pub(super) fn slot(&self, number: u32) -> String {
        format!("{}slots/{number:03}", self.root)
    }

    pub(super) fn host(&self, host: &str) -> String {
        format!("{}hosts/{host}", self.root)
    }

    pub(super) fn set(&self, group: &str, file: &str) -> String {
        format!("{}set{group}//{file}", self.root)
    }

    /// Before the terms and the grants of a limit.
    pub(super) fn limit(&self, limit: &LimitKey) -> String {
        format!("{}limits/{limit}//", self.root)
    }

    pub(super) fn terms(&self, limit: &LimitKey) -> String {
        format!("{}terms", self.limit(limit))
    }

    pub(super) fn grant(&self, limit: &LimitKey, host: &str) -> String {
        format!("{}grants/{host}", self.limit(limit))
    }

    /// What a key stands for; `None` if it is none of ours.
    pub(super) fn taken_apart<'a>(&self, key: &'a str) -> Option<KeyOf<'a>> {
        let rest = key.strip_prefix(&self.root)?;
        if rest == "volume" {
            return Some(KeyOf::Volume);
        }
        if let Some(number) = rest.strip_prefix("slots/") {
            return number.parse().ok().map(KeyOf::Slot);
        }
        if let Some(host) = rest.strip_prefix("hosts/") {
            return Some(KeyOf::Host(host));
        }
        if let Some(rest) = rest.strip_prefix("set") {
            let (group, file) = rest.split_at(rest.rfind("//")?);
            return Some(KeyOf::Set { group, file: &file[2..] });
        }
        let rest = rest.strip_prefix("limits/")?;
        let at = rest.rfind("//")?;
        let limit = LimitKey::try_from(rest[..at].to_owned()).ok()?;
        match &rest[at + 2..] {
            "terms" => Some(KeyOf::Terms(limit)),
            other => other.strip_prefix("grants/").map(|host| KeyOf::Grant(limit, host)),
        }
    }
}

/// The value of `volume`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct VolumeRecord {
    pub(super) hosts_max: u32,
    /// The latency at which the volume's queue is long enough; none: it is learnt.
    #[serde(default)]
    pub(super) target_ns: Option<u64>,
}

/// The value of a slot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct SlotRecord {
    pub(super) host: String,
}

/// The value of terms; of hosts in the dark, see [`Terms`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct TermsRecord {
    pub(super) limit: u64,
    pub(super) each: u64,
    pub(super) hosts_max: u32,
    #[serde(default)]
    pub(super) cut: CutRecord,
    pub(super) set: u64,
}

/// See [`Cut`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct CutRecord {
    pub(super) lowered_count: u32,
    pub(super) kept: u64,
    pub(super) of: u64,
}

impl TermsRecord {
    /// `None` for what no host may have written.
    pub(super) fn terms(self) -> Option<Terms> {
        let TermsRecord { limit, each, hosts_max, cut, set } = self;
        let CutRecord { lowered_count, kept, of } = cut;
        let is_legal = each > 0 && each.checked_mul(hosts_max.into())? <= limit && kept <= of;
        let cut = Cut { lowered_count, kept: Allowance(kept), of: Allowance(of) };
        let (limit, each) = (Allowance(limit), Allowance(each));
        is_legal.then_some(Terms { limit, each, hosts_max, cut, set: Revision(set) })
    }
}

impl From<Terms> for TermsRecord {
    fn from(terms: Terms) -> TermsRecord {
        let Terms { limit, each, hosts_max, cut, set } = terms;
        let Cut { lowered_count, kept, of } = cut;
        let cut = CutRecord { lowered_count, kept: kept.0, of: of.0 };
        TermsRecord { limit: limit.0, each: each.0, hosts_max, cut, set: set.0 }
    }
}

/// The value of a grant: an amount per second.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct GrantValue {
    pub(super) grant: u64,
    /// Of the limit that was set anew then.
    pub(super) set: u64,
}

/// What a host publishes of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct HostValue {
    /// By limit: the amount per second that it would use.
    pub(super) wanted: BTreeMap<LimitKey, u64>,
    /// The amount per second that it uses.
    pub(super) used: BTreeMap<LimitKey, u64>,
    /// Its queue at the volume; none if its window does not know of other hosts.
    pub(super) queue: Option<QueueValue>,
    /// By path: the groups among which weights are shared.
    pub(super) groups: BTreeMap<String, GroupValue>,
}

/// A host's queue, see [`iopace_core::cluster::HostRecord`]. Requests are in 256ths.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct QueueValue {
    pub(super) window: u64,
    pub(super) in_flight: u64,
    pub(super) done: u64,
    pub(super) alone_ns: Option<u64>,
}

/// A group on a host, see [`iopace_core::cluster::GroupDemand`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct GroupValue {
    pub(super) weight: u32,
    pub(super) tasks: u32,
    pub(super) used: u64,
    pub(super) wanted: u64,
    #[serde(default, skip_serializing_if = "is_zero")]
    pub(super) least: u64,
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_is_taken_apart_as_it_was_put_together() {
        let keys = Keys::new("iopace", "pool");
        for group in ["/", "/vms", "/vms/web.1"] {
            let limit =
                LimitKey { rate: RateKind::find("wbps").expect("one"), group: group.into() };
            let (set, grant) = (keys.set(group, "io.max"), keys.grant(&limit, "b-1"));
            assert_eq!(keys.taken_apart(&set), Some(KeyOf::Set { group, file: "io.max" }));
            assert_eq!(keys.taken_apart(&grant), Some(KeyOf::Grant(limit.clone(), "b-1")));
            let terms = keys.terms(&limit);
            assert!(terms.starts_with(&keys.limit(&limit)));
            assert_eq!(keys.taken_apart(&terms), Some(KeyOf::Terms(limit.clone())));
            assert_eq!(LimitKey::try_from(limit.to_string()), Ok(limit));
        }
        assert_eq!(keys.taken_apart(&keys.host("a")), Some(KeyOf::Host("a")));
        assert_eq!(keys.taken_apart(&keys.slot(7)), Some(KeyOf::Slot(7)));
        assert_eq!(keys.taken_apart(&keys.volume()), Some(KeyOf::Volume));
        for odd in ["iopace/pool/limits/x", "iopace/other/volume", "", "iopace/pool/limits//terms"]
        {
            assert_eq!(keys.taken_apart(odd), None, "{odd}");
        }
    }

    #[test]
    fn terms_that_no_host_writes_are_none() {
        let cut = CutRecord::default();
        let record =
            |limit, each, hosts_max| TermsRecord { limit, each, hosts_max, cut, set: 7 }.terms();
        assert!(record(1_000, 10, 10).is_some());
        for (limit, each, hosts_max) in [(99, 10, 10), (5, 0, 10), (9, u64::MAX, 2)] {
            assert_eq!(record(limit, each, hosts_max), None);
        }
    }
}
