//! `cargo xtask`: the checks that hold the project to its own rules.
//!
//! `tidy` reads the tree and says what breaks a rule of CONTRIBUTING.md; `wasm` checks that the
//! core reaches for nothing outside itself; `instructions` counts what a request costs in it. None
//! needs a dependency or the network.

mod checks;
mod instructions;
mod modules;
mod ratchet;
mod source;
mod tidy;
mod tree;
mod wasm;

use std::path::Path;
use std::process::ExitCode;

const USAGE: &str = "\
usage: cargo xtask COMMAND

  tidy           check the tree against the rules of CONTRIBUTING.md
  tidy --tighten lower the entries of xtask/ratchet.txt to what is there now
  tidy --rules   list the rules
  wasm           check that the core builds for wasm32 and imports nothing
  instructions   count the instructions of a request in the core, against their bounds
  instructions --write
                 write the bounds anew";

fn main() -> ExitCode {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask lies in the root");
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let result = match words.as_slice() {
        ["tidy"] => tidy::run(root),
        ["tidy", "--tighten"] => tidy::tighten(root),
        ["tidy", "--rules"] => {
            tidy::print_rules();
            Ok(())
        }
        ["wasm"] => wasm::run(root),
        ["instructions"] => instructions::run(root),
        ["instructions", "--write"] => instructions::write(root),
        _ => {
            eprintln!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("{message}");
            ExitCode::FAILURE
        }
    }
}
