//! `cargo xtask wasm`: the core reaches for nothing outside itself.
//!
//! Its dependencies and its use of std are looked at: on wasm32-unknown-unknown the clocks, files
//! and sockets of std are there and fail when called, so linking alone would not show them. Where
//! the target is installed the core is linked for it as well; the module's import section must be
//! empty.

use crate::tree::Tree;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const TARGET: &str = "wasm32-unknown-unknown";

/// Modules of std that reach outside.
const OUTSIDE: [&str; 7] = ["env", "fs", "io", "net", "process", "thread", "time"];

/// Runs the check.
pub fn run(root: &Path) -> Result<(), String> {
    let tree = Tree::read(root)?;
    let found = outside(&tree);
    if !found.is_empty() {
        return Err(format!("wasm: the core uses what is outside it:\n  {}", found.join("\n  ")));
    }
    let packages =
        cargo(root, &["tree", "-p", "iopace-core", "-e", "normal,build", "--prefix", "none"])?;
    if packages.lines().count() != 1 {
        return Err(format!("wasm: the core has dependencies:\n{packages}"));
    }
    println!("wasm: the core has no dependency and uses no std::{{{}}}", OUTSIDE.join(","));
    if !is_installed() {
        println!("skipped: wasm32 target not installed (rustup target add {TARGET})");
        return Ok(());
    }
    let module = build(root)?;
    let bytes =
        fs::read(&module).map_err(|error| format!("cannot read {}: {error}", module.display()))?;
    let imports = imports(&bytes)
        .ok_or_else(|| format!("wasm: {} is not a wasm module", module.display()))?;
    if !imports.is_empty() {
        return Err(format!("wasm: the core imports {}", imports.join(", ")));
    }
    println!("wasm: {} bytes, no imports", bytes.len());
    Ok(())
}

/// Places where the core's code reaches outside, tests aside.
fn outside(tree: &Tree) -> Vec<String> {
    let mut found = Vec::new();
    for (file, source) in tree.rust() {
        if !file.path.starts_with("crates/iopace-core/src/") || file.is_test() {
            continue;
        }
        for name in OUTSIDE {
            let texts = ["std", ":", ":", name];
            let used = source.find_at(&texts);
            // Whether a panic is under way is the panic's own counter, and no thread.
            for at in used.filter(|&at| !source.matches(at + 4, &[":", ":", "panicking"])) {
                found.push(format!("{}:{}: std::{name}", file.path, source.tokens[at].line));
            }
        }
        for token in source.find(&["std", ":", ":", "{"]) {
            found.push(format!("{}:{}: std::{{...}}: name each module", file.path, token.line));
        }
    }
    found
}

/// Whether the target's standard library is there.
fn is_installed() -> bool {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let output =
        Command::new(rustc).args(["--print", "target-libdir", "--target", TARGET]).output();
    output.is_ok_and(|output| {
        output.status.success()
            && Path::new(String::from_utf8_lossy(&output.stdout).trim()).exists()
    })
}

/// Links the core as a module of its own.
fn build(root: &Path) -> Result<PathBuf, String> {
    cargo(
        root,
        &["rustc", "-p", "iopace-core", "--lib", "--target", TARGET, "--crate-type", "cdylib"],
    )?;
    let target =
        std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
    Ok(root.join(target).join(TARGET).join("debug").join("iopace_core.wasm"))
}

fn cargo(root: &Path, words: &[&str]) -> Result<String, String> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo).current_dir(root).args(words).output();
    let output = output.map_err(|error| format!("cannot run cargo {}: {error}", words[0]))?;
    if !output.status.success() {
        let why = String::from_utf8_lossy(&output.stderr);
        return Err(format!("cargo {} failed:\n{why}", words.join(" ")));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// The imports of a module as `module.name`; `None` if the bytes are no module.
fn imports(bytes: &[u8]) -> Option<Vec<String>> {
    let mut rest = bytes.strip_prefix(b"\0asm\x01\0\0\0")?;
    while let Some((&id, tail)) = rest.split_first() {
        rest = tail;
        let size = number(&mut rest)?;
        let section = rest.get(..size)?;
        rest = &rest[size..];
        if id == 2 {
            return import_section(section);
        }
    }
    Some(Vec::new())
}

/// The names in an import section, up to the first one: its kind is not decoded.
fn import_section(mut section: &[u8]) -> Option<Vec<String>> {
    let count = number(&mut section)?;
    if count == 0 {
        return Some(Vec::new());
    }
    let (module, name) = (name(&mut section)?, name(&mut section)?);
    Some(vec![format!("{module}.{name} (and {} more)", count - 1)])
}

fn name(rest: &mut &[u8]) -> Option<String> {
    let size = number(rest)?;
    let name = String::from_utf8_lossy(rest.get(..size)?).into_owned();
    *rest = &rest[size..];
    Some(name)
}

/// An unsigned LEB128 number.
fn number(rest: &mut &[u8]) -> Option<usize> {
    let mut value = 0;
    for shift in (0..35).step_by(7) {
        let (&byte, tail) = rest.split_first()?;
        *rest = tail;
        value |= usize::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn imports_are_found() {
        let empty = b"\0asm\x01\0\0\0";
        assert_eq!(imports(empty), Some(vec![]));
        // A type section of two bytes, then one import: env.now.
        let module = b"\0asm\x01\0\0\0\x01\x02\0\0\x02\x0b\x01\x03env\x03now\0\0";
        assert_eq!(imports(module), Some(vec!["env.now (and 0 more)".to_string()]));
        assert_eq!(imports(b"not wasm"), None);
        assert_eq!(imports(&module[..20]), None, "cut short");
    }

    #[test]
    fn numbers_of_several_bytes_are_read() {
        assert_eq!(number(&mut &[0xe5, 0x8e, 0x26][..]), Some(624_485));
        assert_eq!(number(&mut &[0xff; 9][..]), None);
    }

    #[test]
    fn what_is_outside_is_seen() {
        let path = "crates/iopace-core/src/a.rs";
        let seen = |text: &str| outside(&Tree::of(&[(path, text.to_string())])).len();
        assert_eq!(seen("use std::time::Instant;"), 1);
        assert_eq!(seen("use std::{fs, fmt};"), 1);
        assert_eq!(seen("fn f() { std::thread::panicking(); }"), 0);
        assert_eq!(seen("use std::collections::BTreeMap; // std::fs"), 0);
        assert_eq!(seen("#[cfg(test)]\nmod tests { use std::fs; }"), 0);
    }
}
