//! The module that a command is about: a file, or what cargo makes of a crate.

use crate::output::{Failure, note};
use iopace_wasm::Loaded;
use serde_json::Value;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const TARGET: &str = "wasm32-unknown-unknown";

/// A policy that is loaded, and the crate that it is from, if it is not from a file.
#[derive(Debug)]
pub(super) struct PolicySubject {
    pub(super) loaded: &'static Loaded,
    pub(super) folder: Option<PathBuf>,
}

/// Loads the policy of a `.wasm` file, or builds a crate and loads what comes of it.
///
/// # Errors
/// It does not build, or is no policy; the message has the remedy.
pub(super) fn load(path: &Path) -> Result<PolicySubject, Failure> {
    let is_crate = path.is_dir();
    let file = if is_crate { build(path)? } else { path.to_owned() };
    let loaded = iopace_wasm::load(&file).map_err(Failure::new)?;
    let is_new = if loaded.was_cached { "compiled before" } else { "compiled" };
    let (name, version, size) = (loaded.algorithm.name, loaded.version, loaded.size);
    note(format_args!("{name} {version}: {}, {size} bytes, {is_new}", file.display()));
    Ok(PolicySubject { loaded, folder: is_crate.then(|| path.to_owned()) })
}

/// The module that cargo makes of the crate; cargo itself tells how far it is.
fn build(folder: &Path) -> Result<PathBuf, Failure> {
    let shown = folder.display();
    if !folder.join("Cargo.toml").is_file() {
        return Err(Failure::usage(format!(
            "{shown} is no crate, it has no Cargo.toml: 'iopace policy new NAME' writes one; or \
             name a .wasm file"
        )));
    }
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let words = ["build", "--release", "--target", TARGET];
    let built = Command::new(&cargo)
        .args(words)
        .arg("--message-format=json-render-diagnostics")
        .current_dir(folder)
        .stderr(Stdio::inherit())
        .output()
        .map_err(|error| without_cargo(&cargo.to_string_lossy(), &error))?;
    if !built.status.success() {
        let words = words.join(" ");
        return Err(Failure::new(match lacks_target(folder) {
            true => format!(
                "{shown}: Rust is there, but not its target {TARGET}: 'rustup target add {TARGET}' \
                 gets it (with Debian's own Rust: apt-get install libstd-rust-dev-wasm32)"
            ),
            false => format!("{shown}: 'cargo {words}' failed, see above"),
        }));
    }
    module_of(&String::from_utf8_lossy(&built.stdout)).ok_or_else(|| {
        Failure::new(format!(
            "{shown}: the crate makes no module: its Cargo.toml needs [lib] crate-type = \
             [\"cdylib\"]"
        ))
    })
}

fn without_cargo(cargo: &str, error: &io::Error) -> Failure {
    Failure::new(match error.kind() {
        io::ErrorKind::NotFound => format!(
            "'{cargo}' is not there: a crate is built by it, get it from https://rustup.rs; or \
             name a .wasm file, which needs none"
        ),
        _ => format!("'{cargo}' cannot be run: {error}"),
    })
}

/// Whether the compiler of that place has no standard library for the target.
fn lacks_target(folder: &Path) -> bool {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let words = ["--print", "target-libdir", "--target", TARGET];
    let told = Command::new(rustc).args(words).current_dir(folder).output();
    told.is_ok_and(|told| {
        let place = String::from_utf8_lossy(&told.stdout).trim().to_owned();
        told.status.success() && !Path::new(&place).is_dir()
    })
}

/// The module among what cargo says that it made, a line of JSON each: the last, as the crate
/// itself comes after what it depends on.
fn module_of(told: &str) -> Option<PathBuf> {
    let made = told.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let files = made.flat_map(|line| match line["filenames"].as_array() {
        Some(files) if line["reason"] == "compiler-artifact" => files.clone(),
        _ => Vec::new(),
    });
    let mut paths = files.filter_map(|file| file.as_str().map(PathBuf::from));
    paths.rfind(|path| path.extension().is_some_and(|ending| ending == "wasm"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_module_is_the_last_that_cargo_made() {
        let told = r#"{"reason":"compiler-artifact","filenames":["/t/liba.rlib"]}
{"reason":"compiler-artifact","filenames":["/t/mine.wasm","/t/libmine.rlib"]}
{"reason":"build-finished","success":true}"#;
        assert_eq!(module_of(told), Some("/t/mine.wasm".into()));
        assert_eq!(module_of(&told.replace(".wasm", ".so")), None);
        assert_eq!(module_of("no JSON\n"), None);
    }

    #[test]
    fn a_folder_without_a_crate_is_told_what_makes_one() {
        let folder = tempfile::tempdir().expect("a folder");
        let failure = load(folder.path()).expect_err("there is nothing");
        assert_eq!(failure.status, 2);
        assert!(failure.message.contains("iopace policy new"), "{}", failure.message);
    }
}
