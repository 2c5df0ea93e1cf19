//! The scheduler of a scenario file.
//!
//! ```toml
//! [scheduler]                         # without it, or with "none", the plain elevator
//! name = "rr"
//! set = { wait_ms = 5 }               # optional: parameters that differ
//! base = "elevator"                   # optional: where none is inserted
//! ```

use super::error::Mistake;
use super::shape::{SchedulerTable, Settings};
use super::{Chosen, plain_elevator};
use crate::spelling;
use iopace_core::sched::{self, Algorithm};
use toml::Spanned;

fn find_algorithm(name: &Spanned<String>) -> Result<&'static Algorithm, Mistake> {
    sched::find(name.get_ref()).ok_or_else(|| {
        let names: Vec<&str> = sched::all().iter().map(|algorithm| algorithm.name).collect();
        let message = spelling::unknown("scheduler", name.get_ref(), &names);
        (name.span(), message)
    })
}

/// A scheduler by its name, with parameters set.
pub(super) fn choose(name: &Spanned<String>, set: &Settings) -> Result<Chosen, Mistake> {
    let algorithm = find_algorithm(name)?;
    let mut params = algorithm.defaults();
    for (parameter, value) in set {
        let result = params.set(parameter.get_ref(), *value.get_ref());
        result.map_err(|error| (parameter.span(), error.to_string()))?;
    }
    Ok(Chosen { algorithm, params })
}

/// The base, and the scheduler that is inserted at the beginning.
pub(super) fn resolve(
    table: Option<SchedulerTable>,
) -> Result<(&'static Algorithm, Option<Chosen>), Mistake> {
    let Some(table) = table else {
        return Ok((plain_elevator(), None));
    };
    let base = table.base.as_ref().map(find_algorithm).transpose()?;
    let base = base.unwrap_or(plain_elevator());
    if table.name.get_ref() != "none" {
        return Ok((base, Some(choose(&table.name, &table.set)?)));
    }
    match table.set.keys().next() {
        Some(parameter) => {
            Err((parameter.span(), "the scheduler \"none\" has no parameters".into()))
        }
        None => Ok((base, None)),
    }
}
