//! The flusher as a list of pages: slow, and plain enough to be checked by reading.

use super::*;
use std::collections::BTreeSet;

/// A page that became dirty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Mud {
    /// Unlike any other dirtying of any page.
    pub(super) id: u64,
    /// When it really became dirty.
    pub(super) at: Instant,
    pub(super) number: u64,
    pub(super) since: Instant,
    pub(super) owner: Owner,
    pub(super) is_asked: bool,
    pub(super) is_urgent: bool,
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Cell {
    pub(super) dirty: Option<Mud>,
    pub(super) writing: Option<Mud>,
}

/// Pages of a space: the list has several, one behind the other.
pub(super) const SPACE_PAGES: u64 = 100;

/// Those pages as the flusher knows them, which are of one space.
pub(super) fn area_of(range: &Range<u64>) -> Area {
    let space = Space((range.start / SPACE_PAGES) as u32 * 3);
    area(space, range.start % SPACE_PAGES, range.end - range.start)
}

/// The other way round.
pub(super) fn pages_of(Area { space, extent }: Area) -> Range<u64> {
    let first = u64::from(space.0 / 3) * SPACE_PAGES + extent.offset().get() / PAGE;
    first..first + extent.len().get() / PAGE
}

/// Situations that a test wants to have seen.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Seen {
    pub(super) again: u64,
    pub(super) passed: u64,
    pub(super) used: u64,
    pub(super) full: u64,
    pub(super) new_first: u64,
    pub(super) behind: u64,
    pub(super) asked: u64,
    pub(super) turns: u64,
    pub(super) urgent: u64,
    pub(super) held_back: u64,
}

#[derive(Debug, Default)]
pub(super) struct Naive {
    pub(super) cells: Vec<Cell>,
    pub(super) promised: BTreeMap<GroupId, u64>,
    pub(super) in_line: Vec<(u64, Run)>,
    pub(super) stats: FlushStats,
    pub(super) seen: Seen,
    pub(super) chunk: u64,
    marked: u64,
    sync_until: u64,
    numbers: u64,
    ids: u64,
    taken: u64,
    latest: u64,
    allowances: BTreeMap<GroupId, usize>,
    turn: (GroupId, Instant, u64),
    positions: BTreeMap<GroupId, (Owner, u64, u64)>,
    served: BTreeSet<GroupId>,
    pub(super) held_back: BTreeSet<GroupId>,
}

/// So many pages of a space, or what there is of them.
fn most_of(first: u64, most: u64) -> Range<u64> {
    first..(first + most).min((first / SPACE_PAGES + 1) * SPACE_PAGES)
}

impl Naive {
    pub(super) fn new(pages: usize) -> Naive {
        Naive { cells: vec![Cell::default(); pages], chunk: 1024, ..Naive::default() }
    }

    pub(super) fn fresh(&self, range: Range<u64>) -> u64 {
        range.filter(|&page| self.cells[page as usize].dirty.is_none()).count() as u64
    }

    pub(super) fn write(&mut self, now: Instant, owner: Owner, range: Range<u64>) -> u64 {
        let mut fresh = 0;
        for page in range.map(|page| page as usize) {
            if self.cells[page].dirty.is_some() {
                self.stats.rewritten_pages += 1;
                continue;
            }
            let before = page.checked_sub(1).and_then(|before| self.cells[before].dirty);
            let before = before.filter(|_| !(page as u64).is_multiple_of(SPACE_PAGES));
            let before = before.filter(|mud| mud.owner == owner && mud.number >= self.marked);
            let before = before.filter(|mud| mud.since + Nanos::from_secs(1) >= now);
            let (number, since) = before.map_or((self.numbers, now), |mud| (mud.number, mud.since));
            self.numbers += u64::from(before.is_none());
            let id = self.ids;
            self.ids += 1;
            let mud = Mud { id, at: now, number, since, owner, is_asked: false, is_urgent: false };
            let again = u64::from(self.cells[page].writing.is_some());
            self.cells[page].dirty = Some(mud);
            self.stats.dirtied_pages += 1;
            self.stats.dirtied_again_pages += again;
            self.seen.again += again;
            fresh += 1;
        }
        self.forget_served();
        fresh
    }

    pub(super) fn discard(&mut self, range: Range<u64>) -> BTreeMap<GroupId, u64> {
        let mut spared = BTreeMap::new();
        for page in range {
            if let Some(mud) = self.cells[page as usize].dirty.take() {
                *spared.entry(mud.owner.group).or_default() += 1;
                self.stats.discarded_pages += 1;
            }
        }
        self.forget_served();
        spared
    }

    /// All that is not written back: the dirtyings that a sync now has to wait for.
    pub(super) fn outstanding(&self, range: Range<u64>) -> BTreeSet<u64> {
        let cells = self.cells[range.start as usize..range.end as usize].iter();
        cells.flat_map(|cell| cell.dirty.iter().chain(&cell.writing)).map(|mud| mud.id).collect()
    }

    pub(super) fn sync(&mut self) {
        (self.marked, self.sync_until) = (self.numbers, self.numbers);
    }

    pub(super) fn sync_extent(&mut self, range: Range<u64>) {
        self.marked = self.numbers;
        let all = (range.end - range.start) - self.fresh(range.clone());
        for page in range {
            if let Some(mud) = &mut self.cells[page as usize].dirty {
                mud.is_asked = true;
                mud.is_urgent |= all * PAGE <= SMALL_SYNC_MAX.get();
            }
        }
    }

    /// Dirty pages and pages on their way, of all or of one group. A frame is one or the other.
    pub(super) fn frames(&self, group: Option<GroupId>) -> (u64, u64) {
        let is = |mud: &Mud| group.is_none_or(|group| mud.owner.group == group);
        let writing = self.cells.iter().filter(|cell| cell.writing.as_ref().is_some_and(is));
        let dirty = self.cells.iter().filter(|cell| cell.writing.is_none());
        let dirty = dirty.filter(|cell| cell.dirty.as_ref().is_some_and(is));
        (dirty.count() as u64, writing.count() as u64)
    }

    pub(super) fn again(&self, group: Option<GroupId>) -> u64 {
        let again = self.cells.iter().filter(|cell| cell.writing.is_some());
        let again = again.filter_map(|cell| cell.dirty);
        again.filter(|mud| group.is_none_or(|group| mud.owner.group == group)).count() as u64
    }

    /// The page if it is dirty and not on its way.
    fn ready(&self, page: u64) -> Option<Mud> {
        let cell = self.cells.get(page as usize)?;
        cell.dirty.filter(|_| cell.writing.is_none())
    }

    pub(super) fn all_ready(&self) -> impl Iterator<Item = (u64, Mud)> + '_ {
        (0..self.cells.len() as u64).filter_map(|page| Some((page, self.ready(page)?)))
    }

    pub(super) fn is_due(&self, now: Instant, mud: &Mud) -> bool {
        mud.is_asked || mud.number < self.sync_until || mud.since + DIRTY_EXPIRE <= now
    }

    /// Stretches of pages in the same state that are not clean.
    pub(super) fn stretches(&self) -> usize {
        let key = |cell: &Cell| {
            let dirty = cell.dirty.map(|mud| Mud { id: 0, at: mud.since, ..mud });
            (dirty, cell.writing.map(|mud| mud.number))
        };
        let spaces = self.cells.chunks(SPACE_PAGES as usize);
        let stretches = spaces.flat_map(|cells| cells.chunk_by(|a, b| key(a) == key(b)));
        stretches.filter(|cells| key(&cells[0]) != (None, None)).count()
    }

    fn runs(&self, group: GroupId) -> Vec<u64> {
        let runs = self.in_line.iter().filter(|(_, run)| !run.is_urgent);
        let runs = runs.filter(|(_, run)| run.owner.group == group);
        runs.map(|(number, _)| *number).collect()
    }

    fn allowance(&self, group: GroupId) -> usize {
        self.allowances.get(&group).copied().unwrap_or(2)
    }

    /// 0 for a newcomer, 1 in general, 2 for who has its allowance in line.
    fn rank(&self, group: GroupId) -> u8 {
        if !self.served.contains(&group) {
            0
        } else if self.runs(group).len() < self.allowance(group) {
            1
        } else {
            2
        }
    }

    /// Whether it has too much in line.
    pub(super) fn is_full(&self, group: GroupId) -> bool {
        self.runs(group).len() >= GROUP_IN_LINE_RUNS as usize
            || self.frames(Some(group)).1 * PAGE >= GROUP_IN_LINE_MAX.get()
    }

    /// Who is next of those that have something to be written back, each with its rank.
    fn next(&mut self, now: Instant, ranks: &BTreeMap<GroupId, u8>) -> Option<GroupId> {
        let best = *ranks.values().min()?;
        let mut ids = ranks.iter().filter(|(_, rank)| **rank == best).map(|(id, _)| *id);
        let (last, since, used) = self.turn;
        let goes_on = used < self.chunk && now.since(since) < TURN_MAX;
        self.seen.used += u64::from(best < 2 && ranks.values().any(|rank| *rank == 2));
        if goes_on && ranks.get(&last) == Some(&best) {
            return Some(last);
        }
        let first = ids.clone().next()?;
        let group = ids.find(|id| *id > last).unwrap_or(first);
        self.seen.new_first += u64::from(best == 0);
        self.seen.turns += u64::from(best == 1 && group != last);
        Some(group)
    }

    pub(super) fn candidate(
        &mut self,
        now: Instant,
        background: u64,
        pressed: bool,
        most: u64,
    ) -> Option<Run> {
        let (dirty, writing) = self.frames(None);
        let is_all = pressed || (dirty + writing) * PAGE > background;
        let wanted: Vec<(u64, Mud)> =
            self.all_ready().filter(|(_, mud)| is_all || self.is_due(now, mud)).collect();
        let groups: BTreeSet<GroupId> = wanted.iter().map(|(_, mud)| mud.owner.group).collect();
        let count = groups.len();
        let free = groups.into_iter().filter(|group| !self.is_full(*group));
        let free = free.filter(|group| !self.held_back.contains(group));
        let ranks: BTreeMap<GroupId, u8> = free.map(|group| (group, self.rank(group))).collect();
        self.seen.full += u64::from(ranks.len() < count);
        self.seen.held_back += u64::from(ranks.len() < count && !self.held_back.is_empty());
        let group = self.next(now, &ranks)?;
        let wanted: BTreeMap<u64, Mud> =
            wanted.into_iter().filter(|(_, mud)| mud.owner.group == group).collect();
        let first = self.first_page(group, &wanted)?;
        let owner = wanted[&first].owner;
        let fits = |page: &u64| wanted.get(page).is_some_and(|mud| mud.owner == owner);
        let count = most_of(first, most).take_while(fits).count() as u64;
        Some(Run { owner, area: area_of(&(first..first + count)), is_urgent: false })
    }

    pub(super) fn urgent(&mut self, most: u64) -> Option<Run> {
        let wanted: BTreeMap<u64, Mud> =
            self.all_ready().filter(|(_, mud)| mud.is_urgent).collect();
        let oldest = wanted.iter().min_by_key(|(page, mud)| (mud.number, **page));
        let (&first, &Mud { owner, .. }) = oldest?;
        self.seen.urgent += 1;
        let fits = |page: &u64| wanted.get(page).is_some_and(|mud| mud.owner == owner);
        let count = most_of(first, most).take_while(fits).count() as u64;
        Some(Run { owner, area: area_of(&(first..first + count)), is_urgent: true })
    }

    fn first_page(&mut self, group: GroupId, wanted: &BTreeMap<u64, Mud>) -> Option<u64> {
        let position = self.positions.get(&group).filter(|(owner, page, used)| {
            // Behind the last page of a space there is none.
            let is_inside = !page.is_multiple_of(SPACE_PAGES);
            is_inside
                && *used < self.chunk
                && wanted.get(page).is_some_and(|mud| mud.owner == *owner)
        });
        if let Some((_, page, _)) = position {
            self.seen.behind += 1;
            return Some(*page);
        }
        let asked = wanted.iter().filter(|(_, mud)| mud.is_asked);
        let asked = asked.min_by_key(|(page, mud)| (mud.number, **page));
        self.seen.asked += u64::from(asked.is_some());
        let oldest = wanted.iter().min_by_key(|(page, mud)| (mud.number, **page));
        asked.or(oldest).map(|(page, _)| *page)
    }

    pub(super) fn take(&mut self, now: Instant, run: &Run) {
        let (range, id) = (pages_of(run.area), run.owner.group);
        let count = range.end - range.start;
        for page in range.clone() {
            let mud = self.ready(page).expect("dirty");
            self.cells[page as usize] = Cell { dirty: None, writing: Some(mud) };
        }
        self.stats.runs_count += 1;
        self.stats.taken_pages += count;
        if run.is_urgent {
            self.in_line.push((0, *run));
            return self.forget_served();
        }
        let (last, since, used) = self.turn;
        let goes_on = used < self.chunk && now.since(since) < TURN_MAX && last == id;
        self.turn = if goes_on { (id, since, used + count) } else { (id, now, count) };
        let before = self.positions.get(&id).filter(|(owner, page, used)| {
            let goes_on = *page == range.start && !page.is_multiple_of(SPACE_PAGES);
            *owner == run.owner && goes_on && *used < self.chunk
        });
        let used = before.map_or(0, |(_, _, used)| *used) + count;
        self.positions.insert(id, (run.owner, range.end, used));
        self.taken += 1;
        self.in_line.push((self.taken, *run));
        self.served.insert(id);
    }

    pub(super) fn done(&mut self, index: usize, ok: bool) -> (Run, u64) {
        let (number, run) = self.in_line.remove(index);
        if !run.is_urgent {
            self.in_time(number, &run);
        }
        let mut clean = 0;
        for page in pages_of(run.area) {
            let cell = &mut self.cells[page as usize];
            cell.writing = None;
            clean += u64::from(cell.dirty.is_none());
            let written =
                if ok { &mut self.stats.written_back_pages } else { &mut self.stats.lost_pages };
            *written += 1;
        }
        self.forget_served();
        (run, clean)
    }

    /// What the end of a run that had its turn says about allowances.
    fn in_time(&mut self, number: u64, run: &Run) {
        self.latest = self.latest.max(number);
        let (id, allowance) = (run.owner.group, self.allowance(run.owner.group));
        if number + PASSED_RUNS >= self.latest && self.runs(id).len() + 1 >= allowance {
            self.allowances.insert(id, (allowance + 1).min(GROUP_IN_LINE_RUNS as usize));
        }
        let late: Vec<(u64, Run)> = self.in_line.iter().copied().chain([(number, *run)]).collect();
        let latest = self.latest;
        let is_late = |(n, run): &(u64, Run)| !run.is_urgent && n + PASSED_RUNS < latest;
        for (_, run) in late.into_iter().filter(is_late) {
            self.seen.passed += u64::from(self.allowances.insert(run.owner.group, 1) != Some(1));
        }
    }

    pub(super) fn remove_group(&mut self, id: GroupId) {
        self.positions.remove(&id);
        self.served.remove(&id);
        self.allowances.remove(&id);
        self.held_back.remove(&id);
    }

    fn forget_served(&mut self) {
        let busy: BTreeSet<GroupId> = self.all_ready().map(|(_, mud)| mud.owner.group).collect();
        let in_line = self.in_line.iter().filter(|(_, run)| !run.is_urgent);
        let in_line = in_line.map(|(_, run)| run.owner.group);
        let keep: BTreeSet<GroupId> = busy.into_iter().chain(in_line).collect();
        self.served.retain(|id| keep.contains(id));
    }
}
