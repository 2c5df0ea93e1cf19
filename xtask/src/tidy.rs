//! `cargo xtask tidy`.

use crate::checks::{self, CHECKS};
use crate::ratchet::{self, Ratchet};
use crate::tree::Tree;
use std::fs;
use std::path::Path;

/// Checks the tree; what is wrong is in the message.
pub fn run(root: &Path) -> Result<(), String> {
    CHECKS.iter().try_for_each(|check| checks::probe(check))?;
    let tree = Tree::read(root)?;
    let findings = checks::run(&tree, &read_ratchet(&tree)?);
    let (warnings, errors): (Vec<_>, Vec<_>) = findings.iter().partition(|found| found.is_warning);
    for finding in warnings.iter().chain(&errors) {
        eprintln!("{finding}");
    }
    if !errors.is_empty() {
        return Err(format!("tidy: {} places to put right, see above", errors.len()));
    }
    println!("tidy: {} checks on {} files, nothing to put right", CHECKS.len(), tree.files.len());
    Ok(())
}

/// Lowers the entries of the ratchet to what is there now.
pub fn tighten(root: &Path) -> Result<(), String> {
    let tree = Tree::read(root)?;
    let tightened = read_ratchet(&tree)?.tighten(|what| checks::excepted_lines(&tree, what));
    let place = root.join(ratchet::PATH);
    fs::write(&place, tightened.text())
        .map_err(|error| format!("cannot write {}: {error}", place.display()))
}

/// Prints the rules.
pub fn print_rules() {
    for check in CHECKS {
        println!("{:16} {}", check.name, check.rule);
    }
}

fn read_ratchet(tree: &Tree) -> Result<Ratchet, String> {
    Ratchet::parse(tree.file(ratchet::PATH).map_or("", |file| file.text.as_str()))
}
