//! Completions and man pages, from the one definition of the command line.

use crate::cli::{Cli, Shell};
use crate::output::{Failure, print};
use clap::CommandFactory;
use std::fs;
use std::path::Path;

/// Prints the completions for a shell.
///
/// # Errors
/// Standard output cannot be written.
pub fn completions(shell: Shell) -> Result<(), Failure> {
    let shell = match shell {
        Shell::Bash => clap_complete::Shell::Bash,
        Shell::Zsh => clap_complete::Shell::Zsh,
        Shell::Fish => clap_complete::Shell::Fish,
    };
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "iopace", &mut text);
    print(&String::from_utf8_lossy(&text))
}

/// Writes a page for every command into `dir`.
///
/// # Errors
/// The directory or a page cannot be written.
pub fn man(dir: &Path) -> Result<(), Failure> {
    let failed = |error: std::io::Error| {
        Failure::new(format!("man pages cannot be written into {}: {error}", dir.display()))
    };
    fs::create_dir_all(dir).map_err(failed)?;
    clap_mangen::generate_to(Cli::command(), dir).map_err(failed)
}
