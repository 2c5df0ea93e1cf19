//! Holds `docs/models.md` to the presets: its tables of parameters and of reached figures are made
//! here, from what runs. `IOPACE_UPDATE_DOCS=1 cargo test -p iopace-disk models_page` writes them.

use crate::disk::{Command, Disk};
use crate::presets::{PRESETS, Preset};
use crate::testing::{closed_loop, scattered};
use iopace_core::request::{Extent, Op};
use iopace_core::time::Instant;
use iopace_core::units::Bytes;
use std::fmt::Write as _;

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/models.md");
const BEGIN: &str = "<!-- made from the presets: begin -->\n";
const END: &str = "<!-- made from the presets: end -->\n";

/// Commands per figure; in sequence 8 GiB, so that what a cache takes first does
/// not count for much.
const RANDOM: u64 = 5_000;
const SEQUENTIAL: u64 = 65_536;
const BLOCK: u64 = 131_072;

fn figures(preset: &Preset) -> String {
    let reach = |op, len, depth, count, offset: &dyn Fn(u64) -> u64| {
        closed_loop(&mut *(preset.build)(), op, len, depth, count, offset)
    };
    let disk = (preset.build)();
    let (capacity, depth) = (disk.capacity().get(), u64::from(disk.depth()));
    let inner = capacity / BLOCK * BLOCK - (SEQUENTIAL + 64) * BLOCK;
    let anywhere =
        |i: u64| (u128::from(scattered(i)) * u128::from(capacity) / 250_000_000_000) as u64;
    let near = |i: u64| anywhere(i) / 100;
    // A file server is told apart by how much it takes at once.
    let at_once = if preset.model == "nfs" { depth } else { depth.min(16) };
    let in_sequence =
        |op, from: u64| reach(op, BLOCK, at_once, SEQUENTIAL, &|i| from + i * BLOCK).mb_per_second;
    let reads = |depth, offset: &dyn Fn(u64) -> u64| {
        reach(Op::Read, 4096, depth, RANDOM, offset).per_second
    };
    let mut row = format!("| `{}` |", preset.name);
    for figure in [
        in_sequence(Op::Read, 0),
        in_sequence(Op::Read, inner),
        in_sequence(Op::Write, 0),
        reads(1, &anywhere),
        reads(1, &near),
        reads(depth, &anywhere),
    ] {
        write!(row, " {figure} |").expect("to a string");
    }
    let tenths = beside(&mut *(preset.build)());
    write!(row, " {}.{} |", tenths / 10, tenths % 10).expect("to a string");
    row + "\n"
}

/// Tenths of MB/s of a sequential reader whose every request waits for one of a random reader in 32
/// GiB, or in the second half of a smaller disk.
fn beside(disk: &mut dyn Disk) -> u64 {
    let mut now = Instant::ZERO;
    let count = 4_000;
    let far = (disk.capacity().get() / 2 / 4096 * 4096).min(32 << 30);
    for i in 0..count {
        let random = far + scattered(i) % far;
        for (offset, len) in [(i * BLOCK, BLOCK), (random, 8_192)] {
            let extent = Extent::new(Bytes(offset), Bytes(len)).expect("on the disk");
            disk.submit(now, Command { id: i, op: Op::Read, extent, fua: false });
            while disk.poll(now).is_none() {
                now = now.max(disk.next());
            }
        }
    }
    count * BLOCK * 10_000 / (now.0 / 1_000_000) / 1_000_000
}

fn tables() -> String {
    let mut text = String::from(
        "| preset | read, outer | read, inner | written | reads, anywhere | reads, in 1 % | \
         reads, full depth | beside |\n|---|---:|---:|---:|---:|---:|---:|---:|\n",
    );
    for preset in PRESETS.iter().filter(|preset| preset.model != "null") {
        text += &figures(preset);
    }
    for preset in PRESETS.iter() {
        write!(text, "\n### `{}`\n{}.\n\n", preset.name, preset.summary).expect("to a string");
        text += "| parameter | value | source |\n|---|---:|---|\n";
        for parameter in preset.parameters {
            let (name, source) = (parameter.name, parameter.source);
            writeln!(text, "| `{name}` | {} | {source} |", parameter.text()).expect("to a string");
        }
    }
    text
}

#[test]
fn the_page_of_the_models_shows_what_runs() {
    let page = std::fs::read_to_string(PAGE).expect("docs/models.md is there");
    let (before, rest) = page.split_once(BEGIN).expect("the mark where the tables begin");
    let (shown, after) = rest.split_once(END).expect("the mark where the tables end");
    let made = tables();
    if std::env::var_os("IOPACE_UPDATE_DOCS").is_some() {
        std::fs::write(PAGE, format!("{before}{BEGIN}{made}{END}{after}")).expect("written");
        return;
    }
    assert!(
        shown == made,
        "docs/models.md is out of date; see {}. It should say:\n{made}",
        file!()
    );
}
