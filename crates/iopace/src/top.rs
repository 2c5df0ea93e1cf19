//! `iopace top`: what all devices, groups and tasks of all daemons do, as it happens.
//!
//! `app` is what is shown and what keys do, `draw` the picture, `screen` the terminal, `batch` the
//! same as text.

mod app;
mod ask;
mod batch;
mod columns;
mod draw;
mod header;
mod menu;
mod reasons;
mod rows;
#[cfg(test)]
pub mod samples;
mod screen;
#[cfg(test)]
mod tests;
mod theme;

use crate::cli::TopArgs;
use crate::machine::Machine;
use crate::output::{Failure, Format, nearest};
use crate::running::Sought;
use app::App;
use batch::Batch;
use std::io::{IsTerminal, stdout};
use std::time::Duration;

/// Carries out the command.
///
/// # Errors
/// No daemon, no such device, or no terminal, with what would be right.
pub fn run(args: &TopArgs) -> Result<(), Failure> {
    let format = args.format.format;
    let is_batch = args.batch || format == Format::Json;
    if !is_batch && !stdout().is_terminal() {
        return Err(Failure::usage(
            "standard output is no terminal: 'iopace top --batch' prints text, '--format json' \
             a report per line",
        ));
    }
    let sought = Sought { device: args.device.as_deref(), ..Sought::default() };
    let machine = Machine::find(args.control.as_deref(), sought)?;
    let mut app = App::default();
    (app.device, app.view) = (shown(&machine)?, args.view());
    (app.is_flat, app.sort) = (args.flat, args.sort);
    let delay = Duration::from_nanos(args.delay.0);
    if is_batch {
        return batch::run(&machine, &app, Batch { format, count: args.count, delay });
    }
    screen::run(&machine, app, delay, args.count)
}

/// The device that is sought, as it is shown: before the terminal is taken.
///
/// # Errors
/// No daemon, no such device, or several of them, with what would be right.
fn shown(machine: &Machine) -> Result<Option<String>, Failure> {
    let devices = machine.device_names().map_err(Failure::new)?;
    let Some(name) = machine.device() else { return Ok(None) };
    let mut meant: Vec<String> = machine.members().iter().map(|one| one.shown(name)).collect();
    meant.retain(|shown| devices.contains(shown));
    if meant.len() > 1 {
        return Err(Failure::usage(format!(
            "several daemons have a device '{name}', name one of them: {}",
            meant.join(", ")
        )));
    }
    let known = || devices.iter().map(|device| &**device);
    meant.pop().map(Some).ok_or_else(|| {
        let remedy = match nearest(name, known()) {
            Some(meant) => format!("did you mean '{meant}'?"),
            None => format!("there are: {}", known().collect::<Vec<_>>().join(", ")),
        };
        Failure::new(format!("there is no device '{name}'; {remedy}"))
    })
}
