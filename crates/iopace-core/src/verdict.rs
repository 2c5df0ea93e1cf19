//! What a stage answers. A wait cannot be expressed without a [`Reason`].

use crate::time::Instant;

/// Why a request is not further yet. Each stage has its own reasons.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reason {
    /// Nothing is waiting.
    Idle,
    /// Stage pace: memory is dirtied faster than the device cleans it; the task has its rate.
    Dirty,
    /// Stage pace: as much is dirty as may be; the write waits for room.
    Memory,
    /// Stage admit: all request slots of the device, or as many as the group may have, are taken.
    Slot,
    /// Stage admit: a limit of the group or of an ancestor is used up for the moment.
    Budget,
    /// Stage sched: another task or request has its turn.
    Turn,
    /// Stage sched: the disk is kept idle because the next request of the task in service is
    /// expected shortly and near by.
    Anticipation,
    /// Stage window: the device holds as many requests as it may.
    Window,
    /// The device is working; nothing else holds anything up.
    Disk,
}

impl Reason {
    /// All of them, in the order of the stages.
    pub const ALL: [Reason; 9] = [
        Reason::Idle,
        Reason::Dirty,
        Reason::Memory,
        Reason::Slot,
        Reason::Budget,
        Reason::Turn,
        Reason::Anticipation,
        Reason::Window,
        Reason::Disk,
    ];

    /// The one with that word.
    pub fn find(name: &str) -> Option<Reason> {
        Reason::ALL.into_iter().find(|reason| reason.name() == name)
    }

    /// The word for it in traces, tables and on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Reason::Idle => "idle",
            Reason::Dirty => "dirty",
            Reason::Memory => "memory",
            Reason::Slot => "slot",
            Reason::Budget => "budget",
            Reason::Turn => "turn",
            Reason::Anticipation => "anticipation",
            Reason::Window => "window",
            Reason::Disk => "disk",
        }
    }
}

/// The answer of a stage that charges (pace, admit).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Charged and passed.
    Pass,
    /// Nothing was changed. Ask again at the instant ([`Instant::NEVER`]: after an input).
    Wait(Instant, Reason),
}
