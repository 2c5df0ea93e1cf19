//! Tests of model files: what is written is read, and mistakes are named.

use super::*;
use crate::disk::Command;
use crate::presets::PRESETS;
use crate::testing::scattered;
use iopace_core::request::{Extent, Op};
use iopace_core::time::Instant;
use iopace_core::units::Bytes;

fn file_of(preset: &crate::presets::Preset) -> ModelFile {
    let sources = preset.parameters.iter().map(|p| (p.name.into(), p.source.into()));
    let figure = ModelFigure { unit: "1/s".into(), real: 77, model: 76, error_permille: -12 };
    ModelFile {
        name: Some(format!("a \"{}\"\n", preset.name)),
        summary: Some(preset.summary.into()),
        model: preset.config,
        sources: sources.collect(),
        figures: [("read-random-4k-x1".to_owned(), figure)].into(),
    }
}

#[test]
fn what_is_written_is_read() {
    for preset in PRESETS {
        let file = file_of(preset);
        assert_eq!(ModelFile::parse("x", &file.to_string()), Ok(file));
        let bare = ModelFile {
            name: None,
            summary: None,
            sources: BTreeMap::new(),
            figures: BTreeMap::new(),
            ..file_of(preset)
        };
        assert_eq!(ModelFile::parse("x", &bare.to_string()), Ok(bare));
    }
}

#[test]
fn mistakes_are_named_with_their_line_and_remedy() {
    let named = ModelFile { name: Some("a disk".into()), ..file_of(PRESETS[0]) };
    let text = named.to_string();
    let cases = [
        ("version = 1", "version = 2", 1, "this iopace reads version 1 of model files"),
        ("kind = \"hdd\"", "kind = \"tape\"", 2, "there are: hdd, ssd, nfs, null"),
        ("depth = 1\n", "", 2, "a model 'hdd' also needs depth"),
        ("depth = 1\n", "depth = 5000\n", 22, "depth is 1 to 1024, not 5000"),
        ("depth = 1\n", "depth = \"1\"\n", 22, "depth is a whole number without quotes"),
        ("depth = 1\n", "depths = 1\n", 22, "a model 'hdd' has no parameter 'depths'"),
        ("rotation = \"8333333ns\"", "rotation = \"1us\"", 8, "rotation is 1ms to 1s, not 1us"),
        ("rotation = \"8333333ns\"", "rotation = 8", 8, "a number with its unit in quotes"),
        ("rotation = \"8333333ns\"", "rotation = \"8\"", 8, "one of ns, us, ms, s, min; it is 1ms"),
        ("rate_inner = \"34500kB/s\"", "rate_inner = \"90MB/s\"", 14, "at most rate_outer"),
        ("capacity = \"250GB\"", "capacity = \"1000001B\"", 7, "capacity is 1MiB to"),
        ("capacity = \"250GB\"", "capacity = \"2000001B\"", 7, "a multiple of 512B"),
    ];
    for (from, to, line, message) in cases {
        let wrong = text.replacen(from, to, 1);
        assert_ne!(wrong, text, "{from}");
        let error = ModelFile::parse("disk.toml", &wrong).expect_err(to);
        assert!(error.message.contains(message), "{to}: {error}");
        assert_eq!(error.line, line, "{to}: {error}");
    }
}

/// Any legal parameters make a disk that finishes what it is given.
#[test]
fn every_disk_within_the_bounds_works() {
    for (number, kind) in (0..).zip(KINDS) {
        let mut built = 0;
        for round in 0..300u64 {
            let mut draw = number * 1_000_000 + round * 1_000;
            let values: Vec<u64> = kind
                .specs
                .iter()
                .map(|spec| {
                    draw += 1;
                    let at = scattered(draw);
                    let (min, max) = (spec.min, spec.max);
                    // The bounds themselves, something small, or anything.
                    match at / 4096 % 4 {
                        0 => min,
                        1 => max,
                        2 => (min + at / 4096 % 97).min(max),
                        _ => min + (u128::from(max - min) * u128::from(at % 1_000) / 1_000) as u64,
                    }
                })
                .collect();
            let values = kind.specs.iter().zip(values).map(|(spec, value)| match spec.name {
                "capacity" => value / 512 * 512,
                _ => value,
            });
            let Ok(model) = Model::new(kind, &values.collect::<Vec<u64>>()) else { continue };
            built += 1;
            let mut disk = model.build();
            let mut now = Instant::ZERO;
            let ops = [Op::Write, Op::Read, Op::Flush, Op::Write, Op::Trim, Op::Read];
            for (id, op) in (0..).zip(ops.iter().cycle().take(24)) {
                let len = if id % 5 == 0 { 256 << 10 } else { 4096 };
                let room = disk.capacity().get() - len;
                let offset = Bytes(scattered(draw + id) % room / 512 * 512);
                let extent = Extent::new(offset, Bytes(len)).expect("on the disk");
                let extent = if *op == Op::Flush { Extent::EMPTY } else { extent };
                disk.submit(now, Command { id, op: *op, extent, fua: id % 7 == 0 });
                loop {
                    assert!(!disk.next().is_never(), "{model:?}: {op:?} never ends");
                    now = now.max(disk.next());
                    if disk.poll(now).is_some_and(|done| done.id == id) {
                        break;
                    }
                }
            }
        }
        assert!(built > 20, "{}: {built}", kind.name);
    }
}
