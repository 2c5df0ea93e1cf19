//! What `iopace calibrate` prints.

use super::Found;
use crate::output::{finish, right, table};
use crate::units;
use iopace_disk::calibrate::{Nature, Row, Unit, mean_error};
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::path::Path;

/// For people: figures, then parameters.
pub(super) fn text(found: &Found, out: Option<&Path>) -> String {
    let mut text = String::from("\n");
    let mut figures = table(["step", "real", "model", "error"]);
    for row in &found.rows {
        figures.add_row([
            right(row.real.step).set_alignment(comfy_table::CellAlignment::Left),
            right(figure(row, row.real.value)),
            right(figure(row, row.modelled)),
            right(percent(row.error_permille)),
        ]);
    }
    text.push_str(&finish(&figures, 0));
    let error = i64::try_from(mean_error(&found.rows)).unwrap_or(i64::MAX);
    let _ =
        writeln!(text, "mean error {}, without signs\n", percent(error).trim_start_matches('+'));
    let _ = writeln!(text, "model {} ({})", found.file.model.kind().name, nature(found.nature));
    let mut parameters = table(["parameter", "value", "source"]);
    let specs = found.file.model.kind().specs.iter();
    for (spec, value) in specs.zip(found.file.model.values()) {
        let source = found.file.sources.get(spec.name).map_or("", String::as_str);
        parameters.add_row([spec.name, &spec.unit.text(value), source]);
    }
    text.push_str(&finish(&parameters, 2));
    for note in &found.notes {
        let _ = writeln!(text, "note: {note}");
    }
    if let Some(out) = out {
        let _ = writeln!(text, "written: {0}\nnext: iopace serve --emulate {0}", out.display());
    }
    text
}

fn nature(nature: Nature) -> &'static str {
    match nature {
        Nature::Rotational => "with a head",
        Nature::Flash => "without a head",
    }
}

fn figure(row: &Row, value: u64) -> String {
    match row.real.step.unit() {
        Unit::BytesPerSec => format!("{}.{} MB/s", value / 1_000_000, value / 100_000 % 10),
        Unit::PerSecond => format!("{value} /s"),
        Unit::Nanos => units::time(value),
    }
}

fn percent(permille: i64) -> String {
    let sign = if permille < 0 { "-" } else { "+" };
    let part = permille.unsigned_abs();
    format!("{sign}{}.{} %", part / 10, part % 10)
}

/// For programs.
pub(super) fn json(found: &Found) -> Value {
    let figures: Vec<Value> = found
        .rows
        .iter()
        .map(|row| {
            json!({
                "step": row.real.step.to_string(),
                "unit": row.real.step.unit().name(),
                "real": row.real.value,
                "model": row.modelled,
                "error_permille": row.error_permille,
                "requests": row.real.requests_count,
                "low_ns": row.real.low.0,
                "high_ns": row.real.high.0,
            })
        })
        .collect();
    let specs = found.file.model.kind().specs.iter().zip(found.file.model.values());
    let parameters: Vec<Value> = specs
        .map(|(spec, value)| {
            let (unit, source) = (spec.unit.word(), found.file.sources.get(spec.name));
            json!({ "name": spec.name, "value": value, "unit": unit, "source": source })
        })
        .collect();
    json!({
        "model": found.file.model.kind().name,
        "rotational": found.nature == Nature::Rotational,
        "mean_error_permille": mean_error(&found.rows),
        "parameters": parameters,
        "figures": figures,
        "notes": found.notes,
    })
}
