//! The keys of a scenario as a page of the manual.

use crate::scenario::keys::{self, Key, Registry, Type};
use crate::task::TaskKind;
use iopace_disk::model;
use std::fmt::Write as _;

/// The tables of a file, in the order in which they are written.
const TABLES: [(&str, &[Key]); 9] = [
    ("The file", keys::FILE),
    ("`[disk]`", keys::DISK),
    ("`faults` of `[disk]`", keys::FAULTS),
    ("`[memory]`", keys::MEMORY),
    ("`[scheduler]`", keys::SCHEDULER),
    ("`[[task]]`", keys::TASK),
    ("`[[step]]`: one thing each", keys::STEP),
    ("`memory` of `[[step]]`", keys::THRESHOLDS),
    ("`[[check]]`", keys::CHECK),
];

/// The page, as Markdown.
pub fn page() -> String {
    let mut text = String::from(
        "# The keys of a scenario\n\
         Made from the table that the parser is held to; `iopace sim schema` prints the same for \
         editors. What they are\nfor, with examples: [simulator.md](simulator.md). Sizes, times \
         and rates are whole numbers with a unit, in quotes.\n",
    );
    for (title, all) in TABLES {
        let _ = writeln!(text, "\n## {title}\n| key | holds | without it | |\n|---|---|---|---|");
        for key in all {
            let Key { name, holds, default, doc } = key;
            let of = if std::ptr::eq(all, keys::TASK) { of(name) } else { String::new() };
            let _ = writeln!(text, "| `{name}` | {} | {default} | {doc}{of} |", holder(*holds));
        }
    }
    let _ = writeln!(text, "\n## Parameters of a disk, `set` of `[disk]`");
    for kind in model::KINDS {
        let _ = writeln!(text, "\n### kind `{}`\n| parameter | bounds | |", kind.name);
        let _ = writeln!(text, "|---|---|---|");
        for spec in kind.specs {
            let _ = writeln!(text, "| `{}` | {} | {} |", spec.name, spec.bounds(), spec.summary);
        }
    }
    text
}

/// Which kinds of task take a setting, if not all do.
fn of(setting: &str) -> String {
    let kinds = TaskKind::ALL.iter().filter(|(kind, ..)| kind.settings().contains(&setting));
    let names: Vec<String> = kinds.map(|(_, name, _)| format!("`{name}`")).collect();
    if names.is_empty() { String::new() } else { format!(" ({})", names.join(", ")) }
}

/// What a key holds, in words.
fn holder(holds: Type) -> String {
    match holds {
        Type::Text => "text".into(),
        Type::Flag => "true or false".into(),
        Type::Size => "a size".into(),
        Type::Time => "a time".into(),
        Type::Rate => "a rate".into(),
        Type::PerSecond => "requests or bytes per time".into(),
        Type::Whole(min, max) if max > u64::from(u32::MAX) => format!("a number from {min} on"),
        Type::Whole(min, max) => format!("{min} to {max}"),
        Type::Decimal => "a number".into(),
        Type::Words(words) => list(words.iter().copied()),
        Type::Of(Registry::Presets) => "a disk of `iopace models`".into(),
        Type::Of(registry) => {
            let words = list(super::entries(registry).into_iter().map(|(name, _)| name));
            let file = if registry.has_files() { ", or a file: `./mine.wasm`" } else { "" };
            format!("{words}{file}")
        }
        Type::Parameters => "parameters by name".into(),
        Type::Model => "parameters of the disk, below".into(),
        Type::Files => "files by name".into(),
        Type::Groups => "tables by path".into(),
        Type::Table(_) => "a table".into(),
        Type::Tables(_) => "tables".into(),
    }
}

fn list(words: impl IntoIterator<Item = &'static str>) -> String {
    let all: Vec<String> = words.into_iter().map(|word| format!("`{word}`")).collect();
    all.join(" ")
}
