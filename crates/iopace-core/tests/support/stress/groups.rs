//! Groups of a stressed engine: made, changed and removed as the daemon does, and their ids given
//! again.

use super::{GROUPS_MAX, Life, Stress, draw};
use iopace_core::admit::Mode;
use iopace_core::engine::Control;
use iopace_core::group::Settings;
use iopace_core::request::GroupId;

impl Stress {
    pub(super) fn up(&mut self, life: usize, mut each: impl FnMut(&mut Life)) {
        let mut at = Some(life);
        while let Some(place) = at {
            each(&mut self.lives[place]);
            at = self.lives[place].parent;
        }
    }

    /// Groups that are not removed.
    pub(super) fn alive(&self) -> impl Iterator<Item = (u32, usize)> + '_ {
        let all = self.groups.iter().map(|(id, life)| (*id, *life));
        all.filter(|(_, life)| !self.lives[*life].is_dying)
    }

    /// Those that may be removed now.
    pub(super) fn leaves(&self) -> Vec<(u32, usize)> {
        let may = |(id, life): &(u32, usize)| *id > 0 && self.lives[*life].children == 0;
        self.alive().filter(may).collect()
    }

    pub(super) fn enter_group(&mut self, id: u32, parent: Option<usize>) {
        let depth = parent.map_or(0, |parent| self.lives[parent].depth + 1);
        if let Some(parent) = parent {
            self.lives[parent].children += 1;
        }
        self.lives.push(Life {
            parent,
            depth,
            children: 0,
            is_dying: false,
            live: 0,
            settings: Settings::default(),
            allowed: u32::MAX,
            history: Vec::new(),
            admissions: Vec::new(),
        });
        self.groups.insert(id, self.lives.len() - 1);
        self.did.deepest = self.did.deepest.max(depth);
        self.tell(id, Settings::default());
    }

    pub(super) fn tell(&mut self, id: u32, settings: Settings) {
        let life = self.groups[&id];
        let parent = self.lives[life].parent;
        let parent_id = self.groups.iter().find(|(_, life)| Some(**life) == parent);
        let parent_id = parent_id.map_or(GroupId::ROOT, |(id, _)| GroupId(*id));
        let taken = self.engine.group_slots(GroupId(id)).taken_count;
        let life = &mut self.lives[life];
        life.settings = settings;
        life.allowed = allowed(self.mode, taken, settings.slots.max);
        if life.history.last().is_none_or(|(_, limits)| *limits != settings.max) {
            life.history.push((self.now, settings.max));
        }
        self.did.limited += u64::from(settings.max.sustained != Default::default());
        self.did.capped += u64::from(settings.slots.max.is_some());
        let control = Control::SetGroup(GroupId(id), parent_id, settings);
        self.engine.control(self.now, control).expect("a group may always be set");
    }

    pub(super) fn set_some_group(&mut self) {
        let live: Vec<(u32, usize)> = self.alive().collect();
        let (id, life) = live[self.random.below(live.len() as u64) as usize];
        let old = self.lives[life].settings;
        let settings = draw::settings(&mut self.random, old, id == 0);
        self.tell(id, settings);
    }

    pub(super) fn make_group(&mut self) {
        if self.groups.len() >= GROUPS_MAX {
            return;
        }
        let id = (1..).find(|id| !self.groups.contains_key(id)).expect("one is free");
        let mut parents: Vec<usize> = self.alive().map(|(_, life)| life).collect();
        parents.retain(|life| self.lives[*life].depth < 16);
        // Half of them below the youngest, so that some trees are deep.
        parents.sort_unstable();
        let place = match self.random.below(2) {
            0 => parents.len() - 1,
            _ => self.random.below(parents.len() as u64) as usize,
        };
        self.did.reused += u64::from(self.lives.len() > id as usize);
        self.enter_group(id, Some(parents[place]));
        if self.random.below(2) == 0 {
            let settings = draw::settings(&mut self.random, Settings::default(), false);
            self.tell(id, settings);
        }
    }

    /// As the daemon does: not before all below it are forgotten.
    pub(super) fn remove_group(&mut self) {
        let leaves = self.leaves();
        if !leaves.is_empty() {
            let place = self.random.below(leaves.len() as u64) as usize;
            let (id, life) = leaves[place];
            self.lives[life].is_dying = true;
            self.did.removed += 1;
            self.did.removed_busy += u64::from(self.lives[life].live > 0);
            // Nothing of its own holds it up from now on.
            let Life { settings, allowed, history, .. } = &mut self.lives[life];
            let Settings { weight, class, .. } = *settings;
            *settings = Settings { weight, class, ..Settings::default() };
            *allowed = u32::MAX;
            history.push((self.now, settings.max));
            self.remove(id);
        }
    }

    pub(super) fn remove(&mut self, id: u32) {
        let control = Control::RemoveGroup(GroupId(id));
        self.engine.control(self.now, control).expect("a group may always be removed");
    }

    /// Gives ids free that the engine has forgotten.
    pub(super) fn forget(&mut self) {
        let dying = self.groups.iter().filter(|(_, life)| self.lives[**life].is_dying);
        let dying: Vec<(u32, usize)> = dying.map(|(id, life)| (*id, *life)).collect();
        for (id, life) in dying {
            let is_forgotten = self.engine.is_group_forgotten(GroupId(id));
            let is_over = self.lives[life].live == 0;
            self.check(is_forgotten == is_over, "forgotten too early, or not at all");
            if is_forgotten {
                self.groups.remove(&id);
                let parent = self.lives[life].parent.expect("the root is not removed");
                self.lives[parent].children -= 1;
            }
        }
    }
}

/// Slots that a group with `taken` may have from now on: a lower cap revokes none. In plain mode
/// tasks that batch go up to half beyond it, in each of the two pools, and what a child has is not
/// counted.
pub(super) fn allowed(mode: Mode, taken: u32, cap: Option<u32>) -> u32 {
    let Some(cap) = cap else { return u32::MAX };
    match mode {
        Mode::Guaranteed => cap.max(taken),
        Mode::Plain => (cap + cap / 2) + taken.max(cap + cap / 2),
    }
}
