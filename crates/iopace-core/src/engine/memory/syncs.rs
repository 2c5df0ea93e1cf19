//! Flushes that wait for write-back of what they cover.

use crate::flush::{AreaMark, Flusher, Mark};
use crate::request::{Cover, GroupId, Submit};
use crate::time::{Instant, Nanos};
use std::collections::VecDeque;

/// A flush that waits for write-back: of everything (`M` is [`Mark`]) or of an area.
#[derive(Debug)]
struct Syncing<M> {
    mark: M,
    submit: Submit,
    since: Instant,
}

/// All of them.
#[derive(Debug, Default)]
pub(super) struct Syncs {
    whole: VecDeque<Syncing<Mark>>,
    parts: Vec<Syncing<AreaMark>>,
}

impl Syncs {
    /// How many there are.
    pub(super) fn count(&self) -> usize {
        self.whole.len() + self.parts.len()
    }

    /// The group that pays for each, and since when it waits.
    pub(super) fn waiting(&self) -> impl Iterator<Item = (GroupId, Instant)> {
        let whole = self.whole.iter().map(|sync| (sync.submit.group, sync.since));
        whole.chain(self.parts.iter().map(|sync| (sync.submit.group, sync.since)))
    }

    /// Whether one waits for more than a small sync does.
    pub(super) fn is_large(&self) -> bool {
        !self.whole.is_empty() || self.parts.iter().any(|part| !part.mark.is_small())
    }

    /// A flush comes and covers so much of what is dirty now. It waits, or nothing of it is dirty:
    /// then whether write-back has failed that no flush has told yet.
    pub(super) fn begin(
        &mut self,
        (since, submit): (Instant, Submit),
        cover: &Cover,
        flusher: &mut Flusher,
    ) -> Option<bool> {
        match *cover {
            Cover::All => {
                let mark = flusher.sync();
                let waits = !self.whole.is_empty() || !flusher.is_synced(mark);
                self.whole.extend(waits.then_some(Syncing { mark, submit, since }));
                (!waits).then(|| flusher.take_failure())
            }
            Cover::Piece(area) => {
                let mut mark = flusher.sync_area(area);
                let waits = !flusher.is_area_synced(&mut mark);
                self.parts.extend(waits.then_some(Syncing { mark, submit, since }));
                (!waits).then_some(false)
            }
            Cover::Nothing => Some(false),
        }
    }

    /// Those whose write-back is done: how long each has waited for it, and whether it failed.
    pub(super) fn end(
        &mut self,
        now: Instant,
        flusher: &mut Flusher,
    ) -> Vec<(Submit, (Nanos, bool))> {
        let mut ended = Vec::new();
        self.parts.retain_mut(|part| {
            let is_synced = flusher.is_area_synced(&mut part.mark);
            if is_synced {
                // Whether write-back of this area failed is known to who carries the flush out.
                ended.push((part.submit, (now.since(part.since), false)));
            }
            !is_synced
        });
        while self.whole.front().is_some_and(|first| flusher.is_synced(first.mark))
            && let Some(first) = self.whole.pop_front()
        {
            ended.push((first.submit, (now.since(first.since), flusher.take_failure())));
        }
        ended
    }
}
