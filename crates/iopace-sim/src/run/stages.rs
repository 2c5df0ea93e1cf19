//! When tasks begin and end.
//!
//! A task ends at its stop or when it has moved its total. Tasks of one *wave* begin together, when
//! all of the waves before it have ended (`stonewall` of fio); start and stop count from there.

use super::sources::{Feed, RequestSource, SourcePace};
use super::{Due, Lane, World};
use crate::inputs::OUTSTANDING_MAX;
use crate::random::Random;
use crate::task::Clock;
use iopace_core::time::Instant;
use iopace_core::units::Bytes;

impl World<'_> {
    /// Begins the wave after `ended`, or the first one, or later ones if nobody is in those.
    pub(super) fn begin_wave(&mut self) {
        let waves = self.scenario.tasks.iter().zip(&self.alive).filter(|(_, alive)| **alive == 0);
        let Some(wave) = waves
            .filter(|(task, _)| self.wave.is_none_or(|last| task.wave > last))
            .map(|(task, _)| task.wave)
            .min()
        else {
            return;
        };
        self.wave = Some(wave);
        self.wave_begin = self.now;
        let scenario = self.scenario;
        for (index, task) in scenario.tasks.iter().enumerate().filter(|(_, t)| t.wave == wave) {
            let start = self.now + task.start.since(Instant::ZERO);
            self.wave_left += 1;
            self.turns[index].stop = match task.stop {
                Instant::NEVER => Instant::NEVER,
                stop => self.now + stop.since(Instant::ZERO),
            };
            if let Some(arrivals) = task.arrivals {
                self.alive[index] = 1;
                let name = format!("{} arrivals", task.name);
                let clock = Clock::new(arrivals, Random::new(scenario.seed, &name));
                let workload = task.workload(scenario.seed);
                let feed = Feed::Task { task: index, clock, workload, begin: start };
                let (pace, limit) = match arrivals.is_ceiling {
                    true => (SourcePace::Ceiling, task.depth),
                    false if task.depth > 1 => (SourcePace::Open, task.depth),
                    false => (SourcePace::Open, OUTSTANDING_MAX),
                };
                self.attach(RequestSource::new(feed, pace, limit));
                continue;
            }
            self.alive[index] = task.depth;
            for _ in 0..task.depth {
                let action = self.workloads[index].next();
                self.lanes.push(Lane {
                    task: index,
                    action,
                    submitted: None,
                    at_once: Bytes::ZERO,
                });
                self.due.add(start + action.think, Due::Lane(self.lanes.len() - 1));
            }
        }
    }

    /// Whether a task submits nothing more.
    pub(super) fn has_ended(&self, task: usize) -> bool {
        let turn = &self.turns[task];
        self.now >= turn.stop || turn.is_over || turn.left == Some(Bytes::ZERO)
    }

    /// A lane of a task, or its source, is done.
    pub(super) fn lane_ended(&mut self, task: usize) {
        self.alive[task] -= 1;
        if self.alive[task] > 0 {
            return;
        }
        self.wave_left -= 1;
        self.unfinished_count -= 1;
        if self.wave_left == 0 {
            self.begin_wave();
        }
    }

    /// Whether everything that was to be done is done.
    pub(super) fn is_over(&self) -> bool {
        let is_done = self.unfinished_count == 0 && self.waiting_count == 0;
        self.failed.is_some() || (self.scenario.until_done && is_done)
    }

    /// A task or a stream has submitted something.
    pub(super) fn begun(&mut self, tally: usize) {
        self.spans[tally].0.get_or_insert(self.now);
    }
}
