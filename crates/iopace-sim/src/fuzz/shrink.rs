//! Makes a draft that fails as small as it gets.
//!
//! Greedy: of all simpler drafts the first that fails in the same way is taken, and it begins anew,
//! until none does. Large steps (a task, a group, half of the time) come before small ones.

use super::Plant;
use super::draft::{Draft, TaskDraft};
use super::text::toml;
use super::trial::{Fault, STARVES, put};
use crate::parallel;
use crate::scenario::Scenario;

/// Most trials for one failure.
pub const TRIALS_MAX: usize = 240;

/// Trials at once: so many whatever the number of processors, or their number would show.
const BATCH: usize = 4;

/// No run gets shorter, in milliseconds.
const DURATION_MIN_MS: u64 = 200;

/// What does not hold in a draft.
pub fn fault(draft: &Draft, plant: Plant<'_>) -> Option<Fault> {
    let text = toml(draft, "");
    // A simpler draft may have become illegal: it is none.
    let Ok(mut scenario) = Scenario::parse("draft", &text) else { return None };
    plant(&mut scenario);
    put(&scenario).err()
}

/// The smallest draft that was found to fail as this one does, how, and after how many trials.
pub fn shrink(mut draft: Draft, mut last: Fault, plant: Plant<'_>) -> (Draft, Fault, usize) {
    let mut trials = 0;
    loop {
        let (mut all, mut at, mut has_shrunk) = (simpler(&draft, last.law), 0, false);
        while at < all.len() {
            if trials >= TRIALS_MAX {
                return (draft, last, trials);
            }
            let batch = &all[at..(at + BATCH).min(all.len())];
            trials += batch.len();
            let faults = parallel::map(batch, |one| fault(one, plant));
            let is_same = |fault: &Option<Fault>| fault.as_ref().is_some_and(|f| f.law == last.law);
            let Some(place) = faults.iter().position(is_same) else {
                at += batch.len();
                continue;
            };
            draft = batch[place].clone();
            last = faults.into_iter().nth(place).flatten().expect("it failed");
            // What came before was refused just now: the round goes on from here.
            (all, at, has_shrunk) = (simpler(&draft, last.law), at + place, true);
        }
        if !has_shrunk {
            return (draft, last, trials);
        }
    }
}

/// Everything that is one step simpler, large steps first.
fn simpler(draft: &Draft, law: &str) -> Vec<Draft> {
    let mut all = Vec::new();
    let mut offer = |change: &dyn Fn(&mut Draft)| {
        let mut simple = draft.clone();
        change(&mut simple);
        simple.settle();
        if simple != *draft {
            all.push(simple);
        }
    };
    // First, as it makes all further trials short. Who gets nothing in a very short time need not
    // starve: there the length stays what the draft was drawn with.
    if law != STARVES && draft.duration_ms / 2 >= DURATION_MIN_MS {
        offer(&halve);
    }
    for place in (0..draft.tasks.len()).filter(|_| draft.tasks.len() > 1) {
        offer(&|d| _ = d.tasks.remove(place));
    }
    for place in 0..draft.groups.len() {
        offer(&|d| drop_group(d, place));
    }
    offer(&|d| d.steps.clear());
    for place in 0..draft.steps.len() {
        offer(&|d| _ = d.steps.remove(place));
    }
    offer(&|d| d.faults = [0; 3]);
    for kind in 0..3 {
        offer(&|d| d.faults[kind] = 0);
    }
    offer(&|d| d.scheduler = None);
    offer(&|d| d.window = "fixed");
    offer(&|d| d.pace = "none");
    offer(&|d| (d.depth, d.nr_requests) = (None, None));
    offer(&|d| d.nr_requests = None);
    if draft.tasks.iter().all(|task| !task.needs_memory()) {
        offer(&|d| d.dirty_mib = None);
    }
    for place in 0..draft.groups.len() {
        offer(&|d| d.groups[place].parent = None);
        for line in 0..draft.groups[place].lines.len() {
            offer(&|d| _ = d.groups[place].lines.remove(line));
        }
    }
    for place in 0..draft.tasks.len() {
        for change in TASK_CHANGES {
            offer(&|d| change(&mut d.tasks[place]));
        }
    }
    all
}

/// What makes a task simpler.
const TASK_CHANGES: [fn(&mut TaskDraft); 16] = [
    |task| task.group = None,
    |task| task.start_ms = 0,
    |task| task.rate = None,
    |task| task.total_mib = None,
    |task| task.stop_ms = None,
    |task| task.wave = 0,
    |task| task.blocking = false,
    |task| task.buffered = false,
    |task| task.fua = false,
    |task| task.flush_every = 0,
    |task| task.think_us = 0,
    |task| task.write_percent = if task.write_percent > 50 { 100 } else { 0 },
    |task| task.depth = 1,
    |task| task.depth = task.depth.div_ceil(2),
    |task| task.block_kib = 4,
    |task| task.place_gib = 0,
];

fn halve(draft: &mut Draft) {
    draft.duration_ms /= 2;
    let end = draft.duration_ms;
    for task in &mut draft.tasks {
        task.start_ms /= 2;
        task.stop_ms = task.stop_ms.map(|stop| stop / 2);
    }
    draft.steps.iter_mut().for_each(|(at, _)| *at = (*at / 2).clamp(1, end - 1));
}

fn drop_group(draft: &mut Draft, place: usize) {
    let parent = draft.groups.remove(place).parent;
    for group in &mut draft.groups {
        group.parent = match group.parent {
            Some(group) if group == place => parent,
            Some(group) if group > place => Some(group - 1),
            other => other,
        };
    }
    for task in &mut draft.tasks {
        task.group = match task.group {
            Some(group) if group == place => None,
            Some(group) if group > place => Some(group - 1),
            other => other,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fuzz::draft_of;

    #[test]
    fn simpler_drafts_differ_and_stay_legal() {
        for seed in 0..100 {
            let draft = draft_of(seed);
            for simple in simpler(&draft, "") {
                assert_ne!(simple, draft);
                let text = toml(&simple, "");
                let parsed = Scenario::parse("draft", &text);
                assert!(parsed.is_ok(), "seed {seed}: {parsed:?}\n{text}");
            }
        }
    }
}
