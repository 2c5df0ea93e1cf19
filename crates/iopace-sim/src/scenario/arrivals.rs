//! Tasks of a scenario file whose requests come by the clock, and when tasks end and begin.
//!
//! ```toml
//! [[task]]
//! name = "users"
//! kind = "random"
//! rate = "200/s"                      # open loop: they come whether others are finished or not
//! arrival = "poisson"                 # or "constant", the default
//! ceiling = false                     # true: the rate of a program that waits, as fio's
//! depth = 64                          # optional: the most that are outstanding, else 4096
//! total = "1GiB"                      # optional: it ends when it has moved so much
//! wave = 1                            # optional: it begins when all of wave 0 have ended
//! ```

use super::error::Mistake;
use super::shape::TaskTable;
use crate::task::{Arrivals, Process, Task};
use iopace_core::units::Bytes;

/// How requests come and end.
pub(super) fn apply(task: &mut Task, given: &TaskTable) -> Result<(), Mistake> {
    let least = |value: &Option<toml::Spanned<u32>>, what: &str| match value {
        Some(n) if *n.get_ref() == 0 => Err((n.span(), format!("{what} is at least 1"))),
        Some(n) => Ok(Some(*n.get_ref())),
        None => Ok(None),
    };
    task.think_every = least(&given.think_every, "think_every")?.unwrap_or(1);
    task.flush_every = least(&given.flush_every, "flush_every")?.unwrap_or(0);
    task.trim = given.trim.as_ref().is_some_and(|trim| *trim.get_ref());
    task.wave = given.wave.unwrap_or(0);
    if let Some(total) = &given.total {
        if total.get_ref().0 == Bytes::ZERO {
            return Err((total.span(), "a total is above 0: leave it out for no end".into()));
        }
        task.total = Some(total.get_ref().0);
    }
    let Some(rate) = &given.rate else {
        let foreign = given.arrival.as_ref().map(toml::Spanned::span);
        let foreign = foreign.or(given.ceiling.as_ref().map(toml::Spanned::span));
        return match foreign {
            Some(span) => Err((span, "it belongs to a rate: add rate = \"200/s\"".into())),
            None => Ok(()),
        };
    };
    if given.blocking.is_some() || given.think.is_some() {
        let message = "requests that come by the clock do not wait: leave `think` and `blocking` \
                       out";
        return Err((rate.span(), message.into()));
    }
    let process = match given.arrival.as_ref().map(|word| (word.get_ref().as_str(), word.span())) {
        None | Some(("constant", _)) => Process::Constant,
        Some(("poisson", _)) => Process::Poisson,
        Some((other, span)) => {
            return Err((span, format!("arrivals are 'constant' or 'poisson', not '{other}'")));
        }
    };
    let is_ceiling = given.ceiling.as_ref().is_some_and(|ceiling| *ceiling.get_ref());
    let (requests, time) = rate.get_ref().over(task.block);
    task.arrivals = Some(Arrivals { requests, time, process, is_ceiling });
    Ok(())
}
