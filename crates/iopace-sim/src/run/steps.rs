//! The timeline: schedulers and policies are exchanged, tasks stop and go on, groups change, the
//! disk becomes slow.

use super::{Due, World};
use crate::scenario::Change;
use crate::task::{Task, TaskKind};
use iopace_core::engine::Control;
use iopace_core::pace::Budget;
use iopace_core::request::GroupId;
use iopace_core::time::Instant;
use iopace_core::units::Bytes;

/// How a task stands.
#[derive(Debug)]
pub(super) struct Turn {
    /// It was stopped and a later step starts it.
    pub(super) is_halted: bool,
    /// It was stopped for good.
    pub(super) is_over: bool,
    /// Starts of it that are still to come.
    starts_left: usize,
    /// What waits for the start: lanes, or its source.
    parked: Vec<Due>,
    /// When it submits nothing more: known when its wave begins.
    pub(super) stop: Instant,
    /// Bytes that it has still to move.
    pub(super) left: Option<Bytes>,
    /// Who pays.
    pub(super) group: GroupId,
    /// Whether its transactions are counted.
    pub(super) commits: bool,
    /// When the write to the log began that the next flush makes durable.
    pub(super) commit_since: Option<Instant>,
}

impl Turn {
    pub(super) fn of(task: &Task) -> Turn {
        Turn {
            is_halted: task.turns.first() == Some(&(Instant::ZERO, false)),
            is_over: false,
            starts_left: task.turns.iter().filter(|(_, is_on)| *is_on).count(),
            parked: Vec::new(),
            stop: Instant::NEVER,
            left: task.total,
            group: task.group,
            commits: task.kind == TaskKind::Database,
            commit_since: None,
        }
    }
}

impl World<'_> {
    /// Carries out a step.
    pub(super) fn step(&mut self, index: usize) {
        let scenario = self.scenario;
        match &scenario.steps[index].change {
            Change::Insert(chosen) => {
                self.control(Control::Insert(chosen.algorithm, chosen.params.clone()), "insert");
            }
            Change::Configure(chosen) => {
                let control = Control::Configure(Some(chosen.algorithm), chosen.params.changes());
                self.control(control, "configure");
            }
            Change::Destroy => self.control(Control::Destroy, "destroy"),
            Change::Start(task) => self.start(*task),
            Change::Stop(task) => self.stop(*task),
            Change::Groups(all) => {
                for &(id, parent, settings) in all {
                    self.control(Control::SetGroup(id, parent, settings), "group");
                }
            }
            Change::Move(task, group) => self.turns[*task].group = *group,
            Change::Pace(policy) => self.control(Control::Pace(policy), "pace"),
            Change::Window(policy) => self.control(Control::WindowPolicy(policy), "window"),
            Change::Depth(depth) => self.control(Control::Window(*depth), "depth"),
            Change::Memory(device) => {
                self.dirty_limit = device.limit;
                self.control(Control::Memory(Budget::alone(*device)), "memory");
            }
            Change::Slow(factor) => {
                self.brake.iter().for_each(|brake| brake.slow(self.now, *factor));
            }
            Change::Stall(time) => {
                self.brake.iter().for_each(|brake| brake.stall(self.now, *time));
            }
        }
    }

    fn start(&mut self, task: usize) {
        let turn = &mut self.turns[task];
        turn.starts_left -= 1;
        turn.is_halted = false;
        let now = self.now;
        for due in std::mem::take(&mut turn.parked) {
            if let Due::Source(source) = due {
                self.shift(source);
            }
            self.due.add(now, due);
        }
    }

    fn stop(&mut self, task: usize) {
        let turn = &mut self.turns[task];
        (turn.is_halted, turn.is_over) = (turn.starts_left > 0, turn.starts_left == 0);
    }

    /// Whether something of a task is due in vain: it waits for a later step then.
    pub(super) fn parks(&mut self, task: usize, due: Due) -> bool {
        let turn = &mut self.turns[task];
        if turn.is_halted {
            turn.parked.push(due);
        }
        turn.is_halted
    }
}
