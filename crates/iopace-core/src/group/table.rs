//! The groups of one device: the hierarchy and what is set for each group, in one table.
//!
//! It is the only place that has parents and settings. A stage keeps its own state of a group in a
//! [`Column`], by the number of the group, and is handed the table where it needs more.
//!
//! ```text
//!   number   parent  settings  chains ─────────► the nearest group above with a limit, ...
//!      0       -       ...       -     │ accounts │ pace │ admit │ ...   one column per stage
//!      1       0       ...       0     │          │      │       │
//! ```
//! The groups above a group that matter are few: those with a limit, a guarantee or a target. Each
//! row has the number of the nearest one above it of each kind, so a group without settings, below
//! others without, costs a look at one row. A change of a group is passed on to the groups below it
//! only where it matters to them.

use super::{Class, Settings, Weight};
use crate::request::GroupId;
use core::ops::{Index, IndexMut};

/// A state of a stage for each group, by the number of the group.
#[derive(Clone, Debug, Default)]
pub struct Column<T> {
    cells: Vec<T>,
    /// The state of a group that was never written to.
    vacant: T,
}

impl<T: Default> Column<T> {
    /// Takes the state of a group out; a default one is left.
    pub fn take(&mut self, id: GroupId) -> T {
        self.cells.get_mut(id.0 as usize).map_or_else(T::default, std::mem::take)
    }

    #[cold]
    #[inline(never)]
    fn grow(&mut self, place: usize) -> &mut T {
        self.cells.resize_with(place + 1, T::default);
        &mut self.cells[place]
    }
}

impl<T> Index<GroupId> for Column<T> {
    type Output = T;

    #[inline(always)]
    fn index(&self, id: GroupId) -> &T {
        self.cells.get(id.0 as usize).unwrap_or_else(|| rare(&self.vacant))
    }
}

/// A state that few ask for: that of a group without a row.
#[cold]
#[inline(never)]
fn rare<T>(state: &T) -> &T {
    state
}

impl<T: Default> IndexMut<GroupId> for Column<T> {
    #[inline(always)]
    fn index_mut(&mut self, id: GroupId) -> &mut T {
        let place = id.0 as usize;
        if place < self.cells.len() { &mut self.cells[place] } else { self.grow(place) }
    }
}

/// Groups in order of their numbers: those few of which a stage keeps more than of all.
#[derive(Clone, Debug, Default)]
pub struct GroupSet(Vec<GroupId>);

impl GroupSet {
    /// Puts a group in, or takes it out.
    pub fn set(&mut self, id: GroupId, is_in: bool) {
        match (self.0.binary_search(&id), is_in) {
            (Err(place), true) => self.0.insert(place, id),
            (Ok(place), false) => _ = self.0.remove(place),
            _ => {}
        }
    }

    /// Whether there are none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = GroupId> + '_ {
        self.0.iter().copied()
    }
}

/// A setting that groups below have to respect, and stages have to look for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SettingKind {
    /// `io.max`.
    Limit,
    /// `io.min`.
    Guarantee,
    /// `io.latency`.
    Target,
}

impl SettingKind {
    const ALL: [SettingKind; 3] = [SettingKind::Limit, SettingKind::Guarantee, SettingKind::Target];

    fn is_set(self, settings: &Settings) -> bool {
        match self {
            SettingKind::Limit => settings.max != Settings::default().max,
            SettingKind::Guarantee => settings.min != Settings::default().min,
            SettingKind::Target => settings.latency.is_some(),
        }
    }
}

/// No group.
const NONE: GroupId = GroupId(u32::MAX);

/// How far the device knows a group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum GroupStanding {
    /// Not at all; or no more.
    #[default]
    Unknown,
    /// It has had a request, and nothing was told of it.
    Used,
    /// It was told what holds for it.
    Told,
    /// It was removed, and something of it is left.
    Dying,
}

/// The part of a group that is read at every request: half a cache line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(align(32))]
struct GroupRow {
    parent: GroupId,
    weight: Weight,
    /// Its class and those of the groups above it in one.
    class: Class,
    standing: GroupStanding,
    /// By [`SettingKind`]: itself, if it has such a setting, or else the nearest one above that
    /// has.
    chains: [GroupId; SettingKind::ALL.len()],
    children_count: u32,
}

impl Default for GroupRow {
    fn default() -> GroupRow {
        GroupRow {
            parent: GroupId::ROOT,
            weight: Weight::DEFAULT,
            class: Class::default(),
            standing: GroupStanding::default(),
            chains: [NONE; SettingKind::ALL.len()],
            children_count: 0,
        }
    }
}

impl GroupRow {
    /// Whether nothing is known of the group, nor of a group below it.
    fn is_vacant(&self) -> bool {
        self.standing == GroupStanding::Unknown && self.children_count == 0
    }
}

/// All groups of a device. The root is always there.
#[derive(Clone, Debug)]
pub struct Groups {
    rows: Column<GroupRow>,
    settings: Column<Settings>,
    /// How many were removed and are not forgotten yet.
    dying_count: u32,
}

impl Default for Groups {
    fn default() -> Groups {
        let (rows, settings) = (Column::default(), Column::default());
        let mut groups = Groups { rows, settings, dying_count: 0 };
        groups.rows[GroupId::ROOT].standing = GroupStanding::Used;
        groups
    }
}

impl Groups {
    // Rows.

    /// Whether the device knows the group: it was told of it, or has had a request of it.
    pub fn knows(&self, id: GroupId) -> bool {
        self.rows[id].standing != GroupStanding::Unknown
    }

    /// Whether the group was removed and is not forgotten yet.
    #[inline(always)]
    pub fn is_dying(&self, id: GroupId) -> bool {
        self.dying_count > 0 && self.rows[id].standing == GroupStanding::Dying
    }

    /// The group above; the root is above itself.
    #[inline(always)]
    pub fn parent(&self, id: GroupId) -> GroupId {
        self.rows[id].parent
    }

    /// Everything that is set for the group; the defaults if nothing was told.
    pub fn settings(&self, id: GroupId) -> &Settings {
        &self.settings[id]
    }

    /// Its weight among its siblings.
    #[inline(always)]
    pub fn weight(&self, id: GroupId) -> Weight {
        self.rows[id].weight
    }

    /// Its class and those of the groups above it in one.
    #[inline(always)]
    pub fn class(&self, id: GroupId) -> Class {
        self.rows[id].class
    }

    /// The numbers of all groups are below this one.
    pub fn end(&self) -> u32 {
        u32::try_from(self.rows.cells.len()).expect("as many as group numbers")
    }

    // Ways through the hierarchy.

    /// The group and all above it, without the root.
    #[inline(always)]
    pub fn up(&self, id: GroupId) -> impl Iterator<Item = GroupId> + '_ {
        let is_group = |id: &GroupId| *id != GroupId::ROOT;
        std::iter::successors(Some(id).filter(is_group), move |id| {
            Some(self.parent(*id)).filter(is_group)
        })
    }

    /// The group and those above it, the root included, that have such a setting.
    #[inline(always)]
    pub fn chain(
        &self,
        id: GroupId,
        kind: SettingKind,
    ) -> impl Iterator<Item = GroupId> + Clone + '_ {
        let next = move |id: GroupId| {
            Some(self.rows[id].chains[kind as usize]).filter(|next| *next != NONE)
        };
        std::iter::successors(next(id), move |id| match *id {
            GroupId::ROOT => None,
            id => next(self.parent(id)),
        })
    }

    /// Whether the group or one above it has a limit.
    pub fn is_limited(&self, id: GroupId) -> bool {
        self.chain(id, SettingKind::Limit).next().is_some()
    }

    /// The groups right below one.
    pub fn children(&self, id: GroupId) -> impl Iterator<Item = GroupId> + '_ {
        let known = (1..self.end()).map(GroupId).filter(|id| self.knows(*id));
        known.filter(move |below| self.parent(*below) == id)
    }

    /// All groups that the device knows, the root first and parents before children.
    pub fn in_order(&self) -> Vec<GroupId> {
        let known = (0..self.end()).map(GroupId).filter(|id| self.knows(*id));
        let mut all: Vec<(usize, GroupId)> = known.map(|id| (self.up(id).count(), id)).collect();
        all.sort_unstable();
        all.into_iter().map(|(_, id)| id).collect()
    }

    /// Whether a group is `above` or below it.
    pub fn is_below(&self, id: GroupId, above: GroupId) -> bool {
        above == GroupId::ROOT || self.up(id).any(|id| id == above)
    }

    // Changes.

    /// Says what holds for a group from now on, and where it is; one that was removed is alive
    /// again. A group that is to go below itself stays where it is. Returns what held until now, if
    /// it was told already, below the same parent.
    pub fn set(&mut self, id: GroupId, parent: GroupId, settings: &Settings) -> Option<Settings> {
        let row = self.rows[id];
        let is_moved = row.parent != parent && id != GroupId::ROOT && !self.is_below(parent, id);
        self.enter(id);
        if is_moved {
            self.rows[row.parent].children_count -= 1;
            self.rows[parent].children_count += 1;
            self.rows[id].parent = parent;
            self.derive(parent);
        }
        self.dying_count -= u32::from(self.is_dying(id));
        let now = &mut self.rows[id];
        now.standing = GroupStanding::Told;
        now.weight = settings.weight;
        let before = std::mem::replace(&mut self.settings[id], *settings);
        self.derive(id);
        (row.standing == GroupStanding::Told && !is_moved).then_some(before)
    }

    /// The group has a request: the device knows it from now on, if only as a child of the root.
    #[inline(always)]
    pub fn enter(&mut self, id: GroupId) {
        if self.rows[id].standing == GroupStanding::Unknown {
            self.make(id);
        }
    }

    #[cold]
    #[inline(never)]
    fn make(&mut self, id: GroupId) {
        self.rows[id].standing = GroupStanding::Used;
        let parent = self.parent(id);
        self.rows[parent].children_count += 1;
        self.derive(id);
    }

    /// The group is removed; it is forgotten with the last that is left of it.
    pub(crate) fn remove(&mut self, id: GroupId) {
        if self.knows(id) {
            self.dying_count += u32::from(!self.is_dying(id));
            self.rows[id].standing = GroupStanding::Dying;
        }
    }

    /// The device knows the group no more.
    pub(crate) fn forget(&mut self, id: GroupId) {
        if id == GroupId::ROOT || !self.knows(id) {
            return;
        }
        let parent = self.parent(id);
        self.rows[parent].children_count -= 1;
        self.dying_count -= u32::from(self.is_dying(id));
        let GroupRow { class, chains, children_count, .. } = self.rows[id];
        self.rows[id] = GroupRow { class, chains, children_count, ..GroupRow::default() };
        self.settings.take(id);
        self.derive(id);
        while self.rows.cells.last().is_some_and(GroupRow::is_vacant) {
            self.rows.cells.pop();
        }
    }

    /// Finds out anew what a group has from those above it, and those below it from the group.
    fn derive(&mut self, id: GroupId) {
        let is_above = self.rows[id].children_count > 0 || id == GroupId::ROOT;
        if self.derive_row(id) && is_above {
            self.pass_on(id);
        }
    }

    /// Finds out anew what a group has from those above it; whether that has changed.
    fn derive_row(&mut self, id: GroupId) -> bool {
        let (row, settings) = (self.rows[id], &self.settings[id]);
        let above = if id == GroupId::ROOT { GroupRow::default() } else { self.rows[row.parent] };
        let class = settings.class.within(above.class);
        let chain = |kind: SettingKind| match kind.is_set(settings) {
            true => id,
            false => above.chains[kind as usize],
        };
        let chains = SettingKind::ALL.map(chain);
        let row = &mut self.rows[id];
        let is_changed = (class, chains) != (row.class, row.chains);
        (row.class, row.chains) = (class, chains);
        is_changed
    }

    /// Groups below a group have something else from it. Time for one list of all groups by parent,
    /// however many levels there are.
    #[cold]
    fn pass_on(&mut self, id: GroupId) {
        let groups = (1..self.end()).map(GroupId);
        let mut all: Vec<(GroupId, GroupId)> = groups.map(|id| (self.parent(id), id)).collect();
        all.sort_unstable();
        let mut changed = vec![id];
        while let Some(parent) = changed.pop() {
            let first = all.partition_point(|(above, _)| *above < parent);
            let below = all[first..].iter().take_while(|(above, _)| *above == parent);
            for (_, id) in below {
                if self.derive_row(*id) {
                    changed.push(*id);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
