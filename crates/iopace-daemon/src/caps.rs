//! Caps of processes on a device: who may set them, and what has become of those that have one.
//!
//! The engine knows tasks. A process of a mount is one (`TaskId::from`), told apart from others
//! that had its number before by when it was started. So the engine's list is all that is kept, and
//! a process that has by now the number of another one has not its cap.

use crate::device::Device;
use crate::process::{Proc, Process, process_of_task};
use core::num::NonZeroU64;
use iopace_core::engine::Control;
use iopace_core::request::TaskId;

/// A process that has a cap, and runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Capped {
    pub(crate) pid: u32,
    pub(crate) user: u32,
    pub(crate) program: String,
    pub(crate) rate: NonZeroU64,
}

/// Why a process may not be capped by somebody.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NotOwned {
    /// It has ended, or never was.
    Gone,
    /// It belongs to that user.
    Foreign(u32),
}

/// The process of that number, or of the thread of that number, if `caller` may cap it: root, or
/// the user whose it is in every respect (real, effective, saved), so that nobody slows down a
/// program that acts for somebody else; but a cap stays when a process turns into another program.
pub(crate) fn owned(proc: &dyn Proc, pid: u32, caller: Option<u32>) -> Result<Process, NotOwned> {
    let leader = proc.process(pid).ok_or(NotOwned::Gone)?;
    let start = proc.stat(leader).ok_or(NotOwned::Gone)?.start;
    let users = proc.users(leader).ok_or(NotOwned::Gone)?;
    // The number may have gone to another process while this was read.
    proc.stat(leader).filter(|stat| stat.start == start).ok_or(NotOwned::Gone)?;
    let is_allowed = caller.is_some_and(|uid| uid == 0 || users == [uid; 3]);
    if is_allowed { Ok(Process { pid: leader, start }) } else { Err(NotOwned::Foreign(users[1])) }
}

/// Forgets the caps of processes that have ended.
pub(crate) fn forget_ended(device: &dyn Device, proc: &dyn Proc) {
    for (task, _) in caps(device) {
        if has_ended(proc, task) {
            // Lifting a cap is never refused.
            let _ = device.control(Control::TaskCap(task, None));
        }
    }
}

/// The processes that have a cap and run, by number.
pub(crate) fn list(device: &dyn Device, proc: &dyn Proc) -> Vec<Capped> {
    let caps = caps(device).into_iter().filter_map(|(task, rate)| {
        let (pid, program) = running(proc, task)?;
        let user = proc.users(pid)?[1];
        Some(Capped { pid, user, program, rate })
    });
    let mut caps: Vec<Capped> = caps.collect();
    caps.sort_by_key(|capped| capped.pid);
    caps
}

fn caps(device: &dyn Device) -> Vec<(TaskId, NonZeroU64)> {
    let mut caps = Vec::new();
    device.look(&mut |engine, _| caps.extend(engine.task_caps()));
    caps
}

/// Whether the process that a task is runs no more. One that cannot be read may well run.
fn has_ended(proc: &dyn Proc, task: TaskId) -> bool {
    let Some((pid, _)) = process_of_task(task) else { return true };
    match proc.stat(pid) {
        Some(stat) => TaskId::from(Process { pid, start: stat.start }) != task,
        None => proc.is_gone(pid),
    }
}

/// The number and the program of the process that a task is, while it runs.
fn running(proc: &dyn Proc, task: TaskId) -> Option<(u32, String)> {
    let (pid, _) = process_of_task(task)?;
    let stat = proc.stat(pid)?;
    (TaskId::from(Process { pid, start: stat.start }) == task).then_some((pid, stat.comm))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::fake_device;
    use crate::process::fake::Fake;
    use iopace_core::pace;
    use iopace_core::time::Nanos;

    const USER: u32 = 1_000;

    /// Processes 7 of root, 8 of a user, and 9 that the user has begun with root's rights.
    fn processes() -> Fake {
        let proc = Fake::default();
        proc.pass(Nanos::from_secs(5));
        for (pid, users) in [(7, [0; 3]), (8, [USER; 3]), (9, [USER, 0, 0])] {
            proc.start(pid, "writer");
            proc.set(pid, |made| made.users = users);
        }
        proc
    }

    #[test]
    fn only_root_and_the_owner_may_cap_a_process() {
        let proc = processes();
        let pid = |pid, caller| owned(&proc, pid, caller).map(|process| process.pid);
        assert_eq!([7, 8, 9].map(|number| pid(number, Some(0))), [Ok(7), Ok(8), Ok(9)]);
        assert_eq!(pid(8, Some(USER)), Ok(8));
        assert_eq!(pid(7, Some(USER)), Err(NotOwned::Foreign(0)));
        assert_eq!(pid(9, Some(USER)), Err(NotOwned::Foreign(0)), "it acts for root");
        assert_eq!(pid(8, Some(USER + 1)), Err(NotOwned::Foreign(USER)));
        assert_eq!(pid(8, None), Err(NotOwned::Foreign(USER)), "nobody knows whose client it is");
        assert_eq!(pid(10, Some(0)), Err(NotOwned::Gone));
        proc.start(11, "thread");
        proc.set(11, |made| made.process = 8);
        assert_eq!(pid(11, Some(USER)), Ok(8), "a thread is of its process");
    }

    #[test]
    fn a_cap_goes_with_its_process_and_is_not_of_another_one_with_its_number() {
        let (proc, device) = (processes(), fake_device("disk"));
        device.control(Control::Pace(&pace::rate::POLICY)).expect("exchanged");
        let cap = |pid| {
            let process = owned(&proc, pid, Some(0)).expect("it runs");
            let control = Control::TaskCap(process.into(), NonZeroU64::new(1 << 20));
            device.control(control).expect("set");
        };
        let listed = || -> Vec<u32> { list(&*device, &proc).iter().map(|one| one.pid).collect() };
        let kept = || caps(&*device).len();
        cap(8);
        cap(7);
        assert_eq!((listed(), kept()), (vec![7, 8], 2));
        let rate = NonZeroU64::new(1 << 20).expect("more than none");
        let writer = Capped { pid: 8, user: USER, program: "writer".into(), rate };
        assert_eq!(list(&*device, &proc)[1], writer);
        proc.end(7);
        proc.pass(Nanos::from_secs(5));
        proc.start(8, "another");
        assert_eq!((listed(), kept()), (vec![], 2), "neither is told any more");
        forget_ended(&*device, &proc);
        assert_eq!((listed(), kept()), (vec![], 0));
        cap(8);
        forget_ended(&*device, &proc);
        assert_eq!((listed(), kept()), (vec![8], 1), "it runs");
        proc.set(8, |made| made.is_readable = false);
        forget_ended(&*device, &proc);
        assert_eq!(kept(), 1, "it cannot be read, and may well run");
        proc.end(8);
        forget_ended(&*device, &proc);
        assert_eq!(kept(), 0);
    }
}
