//! A host's part in a volume by the weights of its groups: what it tells the others of them, and
//! what comes of what all have told ([`iopace_core::cluster::own_part`]).
//!
//! Weights are shared among the groups directly below the root, and the tasks of the root itself;
//! what is below them shares on each host what the group has there.

use super::records::{GroupValue, HostValue, PartOf, QueueValue};
use super::view::VolumeView;
use super::wishes::Wishes;
use crate::device::Device;
use crate::groups::Groups;
use iopace_core::cluster::{
    Allowance, ClusterGroup, DemandMeter, GroupDemand, GroupUse, HostGroup, HostRecord, OwnPart,
    QueueTerms, own_part,
};
use iopace_core::engine::{Control, Engine};
use iopace_core::group::Weight;
use iopace_core::request::GroupId;
use iopace_core::stats::TaskAccount;
use iopace_core::time::{Instant, Nanos};
use iopace_core::window::{HostShare, QueueTotals, WindowSize};
use std::collections::{BTreeMap, BTreeSet};

/// Groups of a host that it tells of: some 80 bytes each in every answer of the store.
const GROUPS_MAX: usize = 64;

/// A task is counted for so long after its last request.
const LATELY: Nanos = Nanos::from_secs(1);

/// A weight that differs by less than this part stays as it was told.
const WORTH_PART: u32 = 16;

/// The path that stands for tasks of the root itself.
const ROOT: &str = "/";

/// What is set for the groups of a host, and what they use of it.
pub(super) struct GroupTerms<'a> {
    /// The weights that hold for all hosts.
    pub(super) weights: &'a BTreeMap<String, Weight>,
    pub(super) wishes: &'a Wishes,
    /// Its guarantees, but for rates with a limit.
    pub(super) guarantees: &'a [PartOf],
}

/// The meter of a host.
#[derive(Debug, Default)]
pub(super) struct Weighing {
    meter: DemandMeter,
    /// The groups of the meter: their places are its numbers.
    names: Vec<String>,
    tasks: Vec<TaskAccount>,
    /// The latency at which the volume's queue is long enough, as it is configured here.
    target: Option<Nanos>,
    /// The weights that hold at present, by path.
    weights: BTreeMap<String, Weight>,
    /// The part of the volume that is due to the host, in thousandths; none: it is not known.
    pub(super) due_permille: Option<u16>,
}

impl Weighing {
    /// With the target of latency that is configured here, if one is.
    pub(super) fn new(target: Option<Nanos>) -> Weighing {
        Weighing { target, ..Weighing::default() }
    }

    /// Looks at the device and adds to what is to be published.
    pub(super) fn look(
        &mut self,
        now: Instant,
        (groups, device): (&Groups, &dyn Device),
        terms: &GroupTerms<'_>,
        into: &mut HostValue,
    ) {
        let mut tops = groups.top_groups(&device.info().name);
        tops.truncate(GROUPS_MAX - 1);
        let ids: Vec<GroupId> = tops.iter().map(|(_, id, _)| *id).chain([GroupId::ROOT]).collect();
        let (queue, uses) = totals(device, now, &ids);
        let Some(queue) = queue else {
            // Until it knows that there are others it counts nothing for them; then it does from
            // the next look on, if its window policy can.
            let alone = HostShare::uncoordinated(Weight::DEFAULT, self.target);
            _ = device.control(Control::HostShare(Some(alone)));
            return;
        };
        let tasks = self.tasks_of(now, groups, device);
        tops.push((ROOT.to_owned(), GroupId::ROOT, Weight::DEFAULT));
        let mut told = Vec::new();
        for ((path, id, weight), since_start) in tops.iter().zip(uses) {
            let weight = terms.weights.get(path).copied().unwrap_or(*weight);
            let tasks_count = tasks.get(id).copied().unwrap_or(0);
            let group = self.number(path);
            let least = Allowance(terms.wishes.guaranteed(path));
            told.push(HostGroup { group, weight, tasks_count, most: None, least, since_start });
        }
        let record = self.meter.look(now, &queue, &told);
        into.queue = Some(QueueValue {
            window: record.window.0,
            in_flight: record.in_flight.0,
            done: record.done.0,
            alone_ns: record.alone.map(|alone| alone.0),
        });
        for group in record.groups {
            let path = &self.names[group.group.0 as usize];
            let used = group.used.0;
            // Who is held back by a limit would not use more if others had less.
            let wanted = if terms.wishes.is_pressed(path) { used } else { group.wanted.0 };
            // Who waits all the time would use all of a guarantee, however little he has of it.
            let owed = terms.guarantees.iter().filter(|(key, _)| key.group == *path);
            for (key, (_, sum)) in owed.filter(|_| wanted == u64::MAX) {
                into.wanted.insert(key.clone(), *sum);
            }
            let (weight, tasks, least) = (group.weight.get(), group.tasks_count, group.least.0);
            into.groups.insert(path.clone(), GroupValue { weight, tasks, used, wanted, least });
        }
    }

    /// How many tasks of each group had something here lately.
    fn tasks_of(
        &mut self,
        now: Instant,
        groups: &Groups,
        device: &dyn Device,
    ) -> BTreeMap<GroupId, u32> {
        let since = Instant(now.0.saturating_sub(LATELY.0));
        device.tasks(since, &mut self.tasks);
        let of: Vec<GroupId> = self.tasks.iter().map(|task| task.group).collect();
        let mut counts = BTreeMap::new();
        for top in groups.tops_of(&of) {
            *counts.entry(top).or_insert(0) += 1;
        }
        counts
    }

    /// The meter's number of a group.
    fn number(&mut self, path: &str) -> ClusterGroup {
        let found = self.names.iter().position(|known| known == path);
        let at = found.unwrap_or_else(|| {
            self.names.push(path.to_owned());
            self.names.len() - 1
        });
        ClusterGroup(u32::try_from(at).expect("a daemon has no so many groups"))
    }

    /// Tells the device its share of the queue by what all hosts have told, and takes note of the
    /// weights of its groups.
    pub(super) fn tell(
        &mut self,
        (view, host): (&VolumeView, &str),
        look: Nanos,
        device: &dyn Device,
    ) {
        let target = view.volume.and_then(|volume| volume.target_ns).map(Nanos);
        let terms = QueueTerms { target, look };
        let Some((part, names)) = part(view, host, &terms) else { return };
        self.due_permille = Some(part.due_permille);
        // A share is refused by nobody.
        _ = device.control(Control::HostShare(Some(part.share)));
        let is_alone = view.hosts.len() < 2;
        let mut now = BTreeMap::new();
        for own in part.weights.iter().filter(|_| !is_alone) {
            let path = names[own.group.0 as usize];
            if path == ROOT {
                continue;
            }
            let before = self.weights.get(path).copied().unwrap_or(own.weight);
            let differs = before.get().abs_diff(own.weight.get()) > before.get() / WORTH_PART;
            now.insert(path.to_owned(), if differs { own.weight } else { before });
        }
        self.weights = now;
    }

    /// The weights of its groups, by path; none as long as it is the only host.
    pub(super) fn weights(&self) -> &BTreeMap<String, Weight> {
        &self.weights
    }
}

/// The host's part, with the names of the groups by their numbers.
fn part<'a>(
    view: &'a VolumeView,
    host: &str,
    terms: &QueueTerms,
) -> Option<(OwnPart, Vec<&'a str>)> {
    let names = view.hosts.values().flat_map(|host| host.record.groups.keys());
    let names: Vec<&str> = names.map(String::as_str).collect::<BTreeSet<_>>().into_iter().collect();
    let mut hosts = Vec::new();
    let mut own = None;
    for (name, seen) in &view.hosts {
        let Some(queue) = seen.record.queue else { continue };
        if name == host {
            own = Some(hosts.len());
        }
        hosts.push(record(&queue, &seen.record.groups, &names));
    }
    Some((own_part(&hosts, own?, terms), names))
}

/// Whether others have to be told of what has changed since `before` was published.
pub(super) fn is_news(before: &HostValue, now: &HostValue) -> bool {
    let names = before.groups.keys().chain(now.groups.keys());
    let names: Vec<&str> = names.map(String::as_str).collect::<BTreeSet<_>>().into_iter().collect();
    let of = |value: &HostValue| {
        value.queue.map(|queue| record(&queue, &value.groups, &names)).unwrap_or_default()
    };
    before.queue.is_some() != now.queue.is_some() || of(now).is_news(&of(before))
}

fn record(queue: &QueueValue, groups: &BTreeMap<String, GroupValue>, names: &[&str]) -> HostRecord {
    let demand = |(path, value): (&String, &GroupValue)| {
        let at = names.binary_search(&path.as_str()).ok()?;
        Some(GroupDemand {
            group: ClusterGroup(u32::try_from(at).ok()?),
            weight: Weight::new(value.weight).unwrap_or_default(),
            tasks_count: value.tasks,
            used: Allowance(value.used),
            wanted: Allowance(value.wanted),
            least: Allowance(value.least),
        })
    };
    HostRecord {
        window: WindowSize(queue.window),
        in_flight: WindowSize(queue.in_flight),
        done: Allowance(queue.done),
        alone: queue.alone_ns.map(Nanos),
        groups: groups.iter().filter_map(demand).collect(),
    }
}

/// The queue of the device and the use of groups, of which the root is the last: its own is what
/// the others have not had.
fn totals(
    device: &dyn Device,
    now: Instant,
    ids: &[GroupId],
) -> (Option<QueueTotals>, Vec<GroupUse>) {
    let (mut queue, mut uses) = (None, Vec::new());
    device.look(&mut |engine: &Engine, _| {
        queue = engine.queue_totals();
        let of = |id: &GroupId| engine.group_use(now, *id).unwrap_or_default();
        uses = ids.iter().map(of).collect();
    });
    if let Some((root, below)) = uses.split_last_mut() {
        let below: u64 = below.iter().fold(0, |sum, one| sum.saturating_add(one.cost.0));
        let all = root.cost.0;
        root.cost.0 = all.saturating_sub(below);
        // Its requests have waited for their part of the time in which any did.
        let part = u128::from(root.waited.0) * u128::from(root.cost.0) / u128::from(all.max(1));
        root.waited = Nanos(u64::try_from(part).unwrap_or(u64::MAX));
    }
    (queue, uses)
}
