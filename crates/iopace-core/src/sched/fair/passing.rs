//! The tasks that may go past those that are held back, in order of arrival.

use super::tasks::{FairTask, FairTasks};
use std::collections::VecDeque;

/// Tasks on the list before it is looked through, if not more had something to do then.
const LISTED_MAX: usize = 4_096;

/// See the module.
#[derive(Debug)]
pub(super) struct Passing {
    tasks: VecDeque<u32>,
    len_max: usize,
}

impl Default for Passing {
    fn default() -> Passing {
        Passing { tasks: VecDeque::new(), len_max: LISTED_MAX }
    }
}

impl Passing {
    /// How many are listed.
    pub(super) fn len(&self) -> usize {
        self.tasks.len()
    }

    /// Lists a task that is not listed, and has or gets a request.
    #[inline(never)]
    pub(super) fn push<'a>(&mut self, tasks: &'a mut FairTasks, task: u32) -> &'a mut FairTask {
        if self.tasks.len() >= self.len_max {
            self.drop_idle(tasks);
        }
        tasks[task].line.is_listed = true;
        self.tasks.push_back(task);
        &mut tasks[task]
    }

    /// Takes the first one off.
    pub(super) fn pop(&mut self, tasks: &mut FairTasks) -> Option<u32> {
        let task = self.tasks.pop_front()?;
        tasks[task].line.is_listed = false;
        Some(task)
    }

    /// Takes those that have nothing queued off the list; a number that was given anew may be there
    /// twice.
    #[cold]
    fn drop_idle(&mut self, tasks: &mut FairTasks) {
        let listed = std::mem::take(&mut self.tasks);
        listed.iter().for_each(|task| tasks[*task].line.is_listed = false);
        for task in listed {
            let line = &mut tasks[task].line;
            if !line.is_empty() && !std::mem::replace(&mut line.is_listed, true) {
                self.tasks.push_back(task);
            }
        }
        self.len_max = LISTED_MAX.max(2 * self.tasks.len());
    }
}
