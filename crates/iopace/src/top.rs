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
    check(&machine, args.device.as_deref())?;
    let mut app = App::default();
    (app.device, app.view) = (args.device.clone(), args.view());
    (app.is_flat, app.sort) = (args.flat, args.sort);
    let delay = Duration::from_nanos(args.delay.0);
    if is_batch {
        return batch::run(&machine, &app, Batch { format, count: args.count, delay });
    }
    screen::run(&machine, app, delay, args.count)
}

/// Whether the daemons are there and have the device: before the terminal is taken.
fn check(machine: &Machine, device: Option<&str>) -> Result<(), Failure> {
    let devices = machine.device_names().map_err(Failure::new)?;
    let Some(name) = device else { return Ok(()) };
    let known = || devices.iter().map(|device| &**device);
    if known().any(|known| known == name || known.ends_with(&format!(":{name}"))) {
        return Ok(());
    }
    let remedy = match nearest(name, known()) {
        Some(meant) => format!("did you mean '{meant}'?"),
        None => format!("there are: {}", known().collect::<Vec<_>>().join(", ")),
    };
    Err(Failure::new(format!("there is no device '{name}'; {remedy}")))
}
