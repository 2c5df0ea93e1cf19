//! `iopace sim new`: a scenario to begin with.

use crate::cli::NewArgs;
use crate::output::{Failure, print};
use iopace_sim::starters::STARTERS;
use std::fs::OpenOptions;
use std::io::{ErrorKind, Write};

/// Writes the scenario.
///
/// # Errors
/// The file exists, or cannot be written.
pub(super) fn run(args: &NewArgs) -> Result<(), Failure> {
    let starter = STARTERS.iter().find(|starter| starter.name == args.kind);
    let starter = starter.expect("the command line takes no other word");
    let file = args.file.display();
    // The examples in the text name the file itself.
    let text = starter.text.replace("THIS", &file.to_string());
    let made = OpenOptions::new().write(true).create_new(true).open(&args.file);
    made.and_then(|mut made| made.write_all(text.as_bytes())).map_err(|error| {
        Failure::new(match error.kind() {
            ErrorKind::AlreadyExists => format!("{file} exists: name another file"),
            _ => format!("{file} cannot be written: {error}"),
        })
    })?;
    print(&format!("{file}: {}\nnow: iopace sim run {file} --html report.html\n", starter.question))
}
