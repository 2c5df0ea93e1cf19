//! What stands in the table: groups as a tree or a list, or tasks; sorted and filtered.

use super::reasons::Shares;
use crate::cli::{Sort, View};
use iopace_daemon::api::{Activity, LiveDevice, LiveGroup, LiveTask};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

impl Sort {
    /// All of them, as they stand in the table.
    pub const ALL: [Sort; 11] = [
        Sort::Name,
        Sort::Weight,
        Sort::Total,
        Sort::Read,
        Sort::Write,
        Sort::Buffered,
        Sort::Ops,
        Sort::P99,
        Sort::Slots,
        Sort::Dirty,
        Sort::Waited,
    ];

    /// Those that a view has something for.
    pub fn of(view: View) -> impl DoubleEndedIterator<Item = Sort> + Clone {
        let is_there = move |sort: &Sort| match view {
            View::Groups => true,
            View::Tasks => !matches!(sort, Sort::Weight | Sort::Slots | Sort::Dirty),
        };
        Sort::ALL.into_iter().filter(is_there)
    }

    /// What it is called.
    pub fn word(self) -> &'static str {
        match self {
            Sort::Name => "name",
            Sort::Weight => "weight",
            Sort::Total => "total bytes/s",
            Sort::Read => "read/s",
            Sort::Write => "write/s",
            Sort::Buffered => "buffered/s",
            Sort::Ops => "ops/s",
            Sort::P99 => "p99",
            Sort::Slots => "slots",
            Sort::Dirty => "dirty",
            Sort::Waited => "time waited",
        }
    }
}

/// How rows are chosen and put in order.
#[derive(Clone, Copy, Debug)]
pub struct Order<'a> {
    /// What comes first.
    pub sort: Sort,
    /// The other way around.
    pub is_reversed: bool,
    /// Groups as a list.
    pub is_flat: bool,
    /// Only names with this text in them, in either case; with what is above them in a tree.
    pub filter: &'a str,
}

/// A row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// What it is known by from report to report.
    pub key: String,
    /// How deep it stands in the tree.
    pub depth: usize,
    /// What is shown for it.
    pub name: String,
    /// The group; of a task, the one that pays for it.
    pub group: String,
    /// `rt`, `be` or `idle`; empty for a task.
    pub class: String,
    /// Weight; none for a task and for the root, which has nobody beside it.
    pub weight: Option<u32>,
    /// Whether a limit holds for it itself.
    pub limited: bool,
    /// Bytes read per second.
    pub read_bytes_s: u64,
    /// Bytes per second that were written to the disk.
    pub write_bytes_s: u64,
    /// Bytes per second of buffered writes that went into the page cache.
    pub buffered_bytes_s: u64,
    /// Requests per second, in thousandths.
    pub ops_milli_s: u64,
    /// 99th percentile; none if nothing finished.
    pub p99_ns: Option<u64>,
    /// Slots taken.
    pub slots_count: u32,
    /// Dirty memory, with that of groups below.
    pub dirty_bytes: u64,
    /// Why it waits.
    pub shares: Shares,
    /// It is there only for those below it.
    pub is_aside: bool,
}

impl Row {
    fn new(key: String, name: String, group: String, activity: &Activity) -> Row {
        let Activity { read, write, buffered, latency, .. } = activity;
        Row {
            key,
            depth: 0,
            name,
            group,
            class: String::new(),
            weight: None,
            limited: false,
            read_bytes_s: read.bytes_s,
            write_bytes_s: write.bytes_s,
            buffered_bytes_s: buffered.bytes_s,
            ops_milli_s: read.ops_milli_s.saturating_add(write.ops_milli_s),
            p99_ns: (latency.count > 0).then_some(latency.p99_ns),
            slots_count: 0,
            dirty_bytes: 0,
            shares: Shares::of(activity),
            is_aside: false,
        }
    }

    fn group(group: &LiveGroup, dirty: &BTreeMap<&str, u64>) -> Row {
        let path = &group.group;
        let mut row = Row::new(path.clone(), path.clone(), path.clone(), &group.activity);
        row.class.clone_from(&group.class);
        row.weight = (path != "/").then_some(group.weight);
        row.limited = group.limited;
        row.slots_count = group.slots_taken_count;
        row.dirty_bytes = dirty.get(&**path).copied().unwrap_or_default();
        row
    }

    fn task(task: &LiveTask) -> Row {
        // Names of programs may have blanks in them, but no tab.
        let key = format!("{}\t{}", task.task, task.group);
        Row::new(key, task.task.clone(), task.group.clone(), &task.activity)
    }

    fn has(&self, text: &str) -> bool {
        let text = text.to_lowercase();
        [&self.name, &self.group].into_iter().any(|name| name.to_lowercase().contains(&text))
    }

    /// What it is sorted by; the smallest comes first.
    fn rank(&self, sort: Sort) -> Reverse<u64> {
        Reverse(match sort {
            Sort::Name => 0,
            Sort::Weight => self.weight.unwrap_or(0).into(),
            // What is buffered is written once more later.
            Sort::Total => {
                self.read_bytes_s.saturating_add(self.write_bytes_s.max(self.buffered_bytes_s))
            }
            Sort::Read => self.read_bytes_s,
            Sort::Write => self.write_bytes_s,
            Sort::Buffered => self.buffered_bytes_s,
            Sort::Ops => self.ops_milli_s,
            Sort::P99 => self.p99_ns.unwrap_or(0),
            Sort::Slots => self.slots_count.into(),
            Sort::Dirty => self.dirty_bytes,
            Sort::Waited => self.shares.waited_ns(),
        })
    }
}

fn sort(rows: &mut [Row], order: Order<'_>) {
    // By name among equals, so that rows stay where they are.
    rows.sort_by(|a, b| {
        let by_rank = a.rank(order.sort).cmp(&b.rank(order.sort));
        let by_name = || a.name.cmp(&b.name).then_with(|| a.key.cmp(&b.key));
        let ordering = by_rank.then_with(by_name);
        if order.is_reversed { ordering.reverse() } else { ordering }
    });
}

/// The rows of a device.
pub fn rows(device: &LiveDevice, view: View, order: Order<'_>) -> Vec<Row> {
    let mut rows: Vec<Row> = match view {
        View::Groups => {
            let dirty = dirty(device);
            device.groups.iter().map(|group| Row::group(group, &dirty)).collect()
        }
        View::Tasks => device.tasks.iter().map(Row::task).collect(),
    };
    if view == View::Groups && !order.is_flat {
        return tree(rows, order);
    }
    rows.retain(|row| row.has(order.filter));
    sort(&mut rows, order);
    rows
}

/// Dirty memory by group, with what is below it: it is reported of each group alone, unlike all
/// else. The root has all of the device, also of groups that are left out.
fn dirty(device: &LiveDevice) -> BTreeMap<&str, u64> {
    let mut dirty = BTreeMap::new();
    for group in &device.groups {
        for path in std::iter::successors(Some(&*group.group), |path| above(path)) {
            *dirty.entry(path).or_default() += group.dirty_bytes;
        }
    }
    if let Some(pace) = &device.pace {
        dirty.insert("/", pace.picture.dirty_bytes);
    }
    dirty
}

/// The group above; none above the root.
fn above(group: &str) -> Option<&str> {
    let (above, leaf) = group.rsplit_once('/')?;
    match (above, leaf) {
        ("", "") => None,
        ("", _) => Some("/"),
        _ => Some(above),
    }
}

/// Groups below what they are in; siblings are sorted among themselves.
fn tree(rows: Vec<Row>, order: Order<'_>) -> Vec<Row> {
    let mut shown: BTreeMap<String, bool> = BTreeMap::new();
    for row in rows.iter().filter(|row| row.has(order.filter)) {
        let is_aside = shown.entry(row.key.clone()).or_insert(false);
        *is_aside = false;
        let mut at = above(&row.key);
        while let Some(group) = at {
            shown.entry(group.into()).or_insert(true);
            at = above(group);
        }
    }
    let mut below: BTreeMap<Option<String>, Vec<Row>> = BTreeMap::new();
    let known: BTreeSet<String> = rows.iter().map(|row| row.key.clone()).collect();
    for mut row in rows {
        let Some(is_aside) = shown.get(&row.key) else { continue };
        row.is_aside = *is_aside;
        // One whose parent is not there stands at the edge with its whole path.
        let parent = above(&row.key).filter(|above| known.contains(*above));
        let parent = parent.map(str::to_owned);
        if let (Some(_), Some((_, leaf))) = (&parent, row.key.rsplit_once('/')) {
            row.name = leaf.into();
        }
        below.entry(parent).or_default().push(row);
    }
    let mut rows = Vec::new();
    place(None, 0, &mut below, order, &mut rows);
    rows
}

fn place(
    parent: Option<String>,
    depth: usize,
    below: &mut BTreeMap<Option<String>, Vec<Row>>,
    order: Order<'_>,
    rows: &mut Vec<Row>,
) {
    let Some(mut siblings) = below.remove(&parent) else { return };
    sort(&mut siblings, order);
    for mut row in siblings {
        row.depth = depth;
        let key = row.key.clone();
        rows.push(row);
        place(Some(key), depth + 1, below, order, rows);
    }
}

#[cfg(test)]
mod tests {
    use super::super::samples;
    use super::*;

    const ORDER: Order<'_> =
        Order { sort: Sort::Name, is_reversed: false, is_flat: false, filter: "" };

    fn names(view: View, order: Order<'_>) -> Vec<String> {
        let report = samples::report();
        let rows = rows(&report.devices[0], view, order);
        rows.iter().map(|row| format!("{}{}", "  ".repeat(row.depth), row.name)).collect()
    }

    #[test]
    fn groups_stand_below_what_they_are_in() {
        let all = ["/", "  backup", "  vms", "    db", "    web", "      a-part"];
        assert_eq!(names(View::Groups, ORDER), all);
        let busiest = Order { sort: Sort::Write, ..ORDER };
        assert_eq!(
            names(View::Groups, busiest),
            ["/", "  backup", "  vms", "    web", "      a-part", "    db"]
        );
        let turned = Order { is_reversed: true, ..ORDER };
        let turned = names(View::Groups, turned);
        assert_eq!(turned, ["/", "  vms", "    web", "      a-part", "    db", "  backup"]);
    }

    #[test]
    fn a_list_of_groups_has_their_paths_in_one_order() {
        let order = Order { sort: Sort::Read, is_flat: true, ..ORDER };
        assert_eq!(
            names(View::Groups, order),
            ["/", "/vms", "/vms/db", "/vms/web", "/vms/web/a-part", "/backup"]
        );
        let order = Order { sort: Sort::Waited, is_flat: true, filter: "vms/", ..ORDER };
        assert_eq!(names(View::Groups, order), ["/vms/web", "/vms/web/a-part", "/vms/db"]);
    }

    #[test]
    fn a_filter_keeps_what_is_above_in_a_tree() {
        let order = Order { filter: "DB", ..ORDER };
        assert_eq!(names(View::Groups, order), ["/", "  vms", "    db"]);
        let report = samples::report();
        let rows = rows(&report.devices[0], View::Groups, order);
        assert_eq!(rows.iter().map(|row| row.is_aside).collect::<Vec<_>>(), [true, true, false]);
        assert!(names(View::Groups, Order { filter: "nobody", ..ORDER }).is_empty());
    }

    #[test]
    fn a_group_whose_parent_is_not_listed_is_not_lost() {
        let mut report = samples::report();
        report.devices[0].groups.retain(|group| group.group != "/vms");
        let rows = rows(&report.devices[0], View::Groups, ORDER);
        let at_edge: Vec<&str> =
            rows.iter().filter(|row| row.depth == 0).map(|row| &*row.name).collect();
        assert_eq!(at_edge, ["/", "/vms/db", "/vms/web"]);
        assert_eq!(rows.len(), 5);
    }

    #[test]
    fn dirty_memory_is_told_with_what_is_below() {
        let mut report = samples::report();
        let device = &mut report.devices[0];
        let of = |device: &LiveDevice, path: &str| {
            let rows = rows(device, View::Groups, ORDER);
            rows.iter().find(|row| row.group == path).expect("listed").dirty_bytes >> 20
        };
        assert_eq!((of(device, "/vms/web/a-part"), of(device, "/vms")), (3, 12));
        assert_eq!(of(device, "/"), 190, "as the device says");
        device.pace = None;
        assert_eq!(of(device, "/"), 3 + 190 + 12);
    }

    #[test]
    fn tasks_are_found_by_their_name_and_group() {
        let order = Order { sort: Sort::P99, ..ORDER };
        assert_eq!(names(View::Tasks, order), ["tar (4711)", "connection 3", "connection 12"]);
        let order = Order { filter: "/VMS", ..ORDER };
        assert_eq!(names(View::Tasks, order), ["connection 12", "connection 3"]);
        let known: Vec<Sort> = Sort::of(View::Tasks).collect();
        assert!(!known.contains(&Sort::Slots) && known.contains(&Sort::Waited));
    }

    #[test]
    fn the_way_up_ends_at_the_root() {
        assert_eq!(above("/a/b"), Some("/a"));
        assert_eq!(above("/a"), Some("/"));
        assert_eq!(above("/"), None);
    }
}
