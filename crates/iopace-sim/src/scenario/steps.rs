//! The timeline of a scenario file: what changes while it runs.
//!
//! ```toml
//! [[step]]
//! at = "30s"
//! configure = "as"                        # or insert = "NAME", destroy = true: the scheduler
//! ```
//! | keys beside `at` | what they do |
//! |---|---|
//! | `start = "TASK"` | the task begins, or goes on; before its first step it did not run |
//! | `stop = "TASK"` | the task submits nothing more, until a later `start` |
//! | `group = "/a"`, `write = { "io.weight" = "50" }` | files of a group are written |
//! | `move = "TASK"`, `to = "/a"` | from now on another group pays for the task |
//! | `pace = "rate"`, `window = "latency"` | the policy of the stage is exchanged |
//! | `depth = 4` | most requests at the disk |
//! | `memory = { dirty_limit = "50MiB" }` | the thresholds of dirty memory |
//! | `slow = 10` | the disk is so many times slower than it is; 1: as it is |
//! | `stall = "2s"` | the disk does nothing for so long |

use super::disk;
use super::error::Mistake;
use super::groups;
use super::memory;
use super::scheduler::choose;
use super::shape::StepTable;
use super::{Change, DEVICE, Memory, Step};
use crate::spelling;
use crate::task::Task;
use iopace_core::limits::WINDOW_DEPTH_MAX;
use iopace_core::pace::Thresholds;
use iopace_core::request::GroupId;
use iopace_core::time::{Instant, Nanos};
use iopace_disk::slowed::FACTOR_MAX;
use iopace_groups::tree::Tree;
use toml::Spanned;

const REMEDY: &str = "a step does one thing: insert, configure or destroy a scheduler, start \
                      or stop a task, group with write, move with to, pace, window, depth, \
                      memory, slow or stall";

/// What a step may refer to.
struct Scene<'a> {
    duration: Nanos,
    tasks: &'a mut [Task],
    /// The groups as they are at the time of the step.
    groups: Tree,
    /// The memory as it is then.
    memory: Option<Memory>,
    /// Whether a step has started or stopped the task.
    is_touched: Vec<bool>,
}

/// Resolves the tables, in the order of time.
pub(super) fn resolve(
    tables: &[Spanned<StepTable>],
    duration: Nanos,
    tasks: &mut [Task],
    groups: &Tree,
    memory: Option<Memory>,
) -> Result<Vec<Step>, Mistake> {
    let mut tables: Vec<&Spanned<StepTable>> = tables.iter().collect();
    tables.sort_by_key(|table| table.get_ref().at.get_ref().0);
    let is_touched = vec![false; tasks.len()];
    let mut scene = Scene { duration, tasks, groups: groups.clone(), memory, is_touched };
    tables.iter().map(|table| scene.step(table)).collect()
}

/// The keys of a step that say what it does.
fn words(given: &StepTable) -> Vec<&'static str> {
    let words = [
        ("insert", given.insert.is_some()),
        ("configure", given.configure.is_some()),
        ("destroy", given.destroy.is_some()),
        ("start", given.start.is_some()),
        ("stop", given.stop.is_some()),
        ("group", given.group.is_some()),
        ("move", given.moved.is_some()),
        ("pace", given.pace.is_some()),
        ("window", given.window.is_some()),
        ("depth", given.depth.is_some()),
        ("memory", given.memory.is_some()),
        ("slow", given.slow.is_some()),
        ("stall", given.stall.is_some()),
    ];
    words.into_iter().filter(|(_, is_given)| *is_given).map(|(word, _)| word).collect()
}

/// Refuses keys that belong to another kind of step.
fn refuse_strays(word: &str, step: &Spanned<StepTable>) -> Result<(), Mistake> {
    let given = step.get_ref();
    let strays = [
        ("set", !given.set.is_empty(), ["insert", "configure"].contains(&word)),
        ("write", given.write.is_some(), word == "group"),
        ("to", given.to.is_some(), word == "move"),
    ];
    let stray = strays.iter().find(|(_, is_given, is_ours)| *is_given && !is_ours);
    match stray {
        Some((name, ..)) => {
            Err((step.span(), format!("a step with `{word}` takes no `{name}`; {REMEDY}")))
        }
        None => Ok(()),
    }
}

impl Scene<'_> {
    fn step(&mut self, step: &Spanned<StepTable>) -> Result<Step, Mistake> {
        let given = step.get_ref();
        if given.at.get_ref().0 >= self.duration {
            let message = format!("the run has ended by then: it lasts {}", self.duration);
            return Err((given.at.span(), message));
        }
        let at = Instant::ZERO + given.at.get_ref().0;
        let words = words(given);
        let [word] = words[..] else { return Err((step.span(), REMEDY.into())) };
        refuse_strays(word, step)?;
        Ok(Step { at, change: self.change(step, at)? })
    }

    fn change(&mut self, step: &Spanned<StepTable>, at: Instant) -> Result<Change, Mistake> {
        let given = step.get_ref();
        if let Some(name) = &given.insert {
            return Ok(Change::Insert(choose(name, &given.set)?));
        }
        if let Some(name) = &given.configure {
            return Ok(Change::Configure(choose(name, &given.set)?));
        }
        if let Some(destroy) = &given.destroy {
            let message = "destroy is true, or the step is left out";
            let change = destroy.get_ref().then_some(Change::Destroy);
            return change.ok_or_else(|| (destroy.span(), message.into()));
        }
        if let Some(name) = &given.start {
            return self.start(name, at);
        }
        if let Some(name) = &given.stop {
            return self.stop(name, at);
        }
        if let Some(path) = &given.group {
            return self.write(path, step);
        }
        if let Some(name) = &given.moved {
            let Some(to) = &given.to else {
                return Err((name.span(), "say where to: add to = \"/GROUP\"".into()));
            };
            let task = self.free_task(name)?;
            return Ok(Change::Move(task, groups::find(&self.groups, Some(to))?));
        }
        if let Some(name) = &given.pace {
            return Ok(Change::Pace(disk::pace_policy(name)?));
        }
        if let Some(name) = &given.window {
            return Ok(Change::Window(disk::window_policy(name)?));
        }
        self.numbers(given)
    }

    /// Steps that set a number.
    fn numbers(&mut self, given: &StepTable) -> Result<Change, Mistake> {
        let within = |number: &Spanned<u32>, max: u32, what: &str| match (1..=max)
            .contains(number.get_ref())
        {
            true => Ok(*number.get_ref()),
            false => Err((number.span(), format!("{what} is 1 to {max}"))),
        };
        if let Some(depth) = &given.depth {
            return Ok(Change::Depth(within(depth, WINDOW_DEPTH_MAX, "the depth")?));
        }
        if let Some(factor) = &given.slow {
            let what = "how many times slower the disk is";
            return Ok(Change::Slow(within(factor, FACTOR_MAX, what)?));
        }
        if let Some(time) = &given.stall {
            let length = time.get_ref().0;
            if length == Nanos::ZERO || length > self.duration {
                let message = format!("a stall lasts more than 0 s, at most {}", self.duration);
                return Err((time.span(), message));
            }
            return Ok(Change::Stall(length));
        }
        let table = given.memory.as_ref().expect("the last of the kinds of step");
        let Some(memory) = &mut self.memory else {
            let message = "there is no page cache to limit: add a [memory] table";
            return Err((table.span(), message.into()));
        };
        let wanted = table.get_ref();
        memory.dirty_limit = wanted.dirty_limit.map_or(memory.dirty_limit, |size| size.0);
        memory.dirty_background =
            wanted.dirty_background.map_or(memory.dirty_background, |size| size.0);
        memory::check(memory).map_err(|message| (table.span(), message))?;
        let Memory { dirty_background: background, dirty_limit: limit, .. } = *memory;
        Ok(Change::Memory(Thresholds { background, limit }))
    }

    /// A task that is not bound to its group and to its time.
    fn free_task(&self, name: &Spanned<String>) -> Result<usize, Mistake> {
        let found = self.tasks.iter().position(|task| task.name == *name.get_ref());
        let Some(index) = found else {
            let names: Vec<&str> = self.tasks.iter().map(|task| task.name.as_str()).collect();
            let message = spelling::unknown("task", name.get_ref(), &names);
            return Err((name.span(), message));
        };
        if self.tasks[index].blocking {
            let message = "a blocking task keeps its group and its time: leave `blocking` out";
            return Err((name.span(), message.into()));
        }
        Ok(index)
    }

    fn start(&mut self, name: &Spanned<String>, at: Instant) -> Result<Change, Mistake> {
        let index = self.free_task(name)?;
        let task = &mut self.tasks[index];
        let is_first = !self.is_touched[index];
        if is_first && task.start > Instant::ZERO {
            let message = format!("the step begins '{}': leave its own `start` out", task.name);
            return Err((name.span(), message));
        }
        if is_first {
            task.turns.push((Instant::ZERO, false));
        } else if task.turns.last().is_none_or(|(_, is_on)| *is_on) {
            return Err((name.span(), format!("'{}' has begun already by then", task.name)));
        }
        task.turns.push((at, true));
        self.is_touched[index] = true;
        Ok(Change::Start(index))
    }

    fn stop(&mut self, name: &Spanned<String>, at: Instant) -> Result<Change, Mistake> {
        let index = self.free_task(name)?;
        let task = &mut self.tasks[index];
        if task.turns.last().is_some_and(|(_, is_on)| !is_on) {
            return Err((name.span(), format!("'{}' has stopped already by then", task.name)));
        }
        task.turns.push((at, false));
        self.is_touched[index] = true;
        Ok(Change::Stop(index))
    }

    /// The files of a group; what holds changes for the groups below it, too.
    fn write(
        &mut self,
        path: &Spanned<String>,
        step: &Spanned<StepTable>,
    ) -> Result<Change, Mistake> {
        let files = step.get_ref().write.as_ref().filter(|files| !files.is_empty());
        let Some(files) = files else {
            let message = "say what is written: add write = { \"io.weight\" = \"50\" }";
            return Err((path.span(), message.into()));
        };
        let id = groups::find(&self.groups, Some(path))?;
        for (file, lines) in files {
            let text = lines.get_ref().text();
            let written = self.groups.write(id, file.get_ref(), &text, &[DEVICE]);
            written.map_err(|error| (lines.span(), error.to_string()))?;
        }
        let tree = &self.groups;
        let set = |id| {
            let parent = tree.parent(id).unwrap_or(GroupId::ROOT);
            (id, parent, tree.effective(id, DEVICE))
        };
        Ok(Change::Groups(tree.subtree(id).map(set).collect()))
    }
}
