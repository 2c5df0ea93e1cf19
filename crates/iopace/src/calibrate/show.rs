//! What `iopace calibrate` prints.

use super::Found;
use crate::output::{finish, right, table};
use crate::units;
use iopace_disk::calibrate::{FigureUnit, MEAN_ERROR_MAX, Nature, PlanStep, Row, WORST_ERROR_MAX};
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
    let error = i64::try_from(found.fitness.mean_permille).unwrap_or(i64::MAX);
    let _ = writeln!(text, "mean error {}, without signs", percent(error).trim_start_matches('+'));
    let _ = writeln!(text, "{}\n", found.fitness);
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
    if !found.missing.is_empty() {
        let _ = writeln!(text, "not measured: {}", names(&found.missing).join(", "));
    }
    if let Some(out) = out {
        let out = out.display();
        let _ = writeln!(text, "written: {out}");
        let _ = match found.fitness.is_fit() {
            true => writeln!(text, "next: iopace serve --emulate {out}"),
            false => writeln!(
                text,
                "next: measure longer (--time) on a quiet machine; 'iopace serve --emulate {out}' \
                 shows policies at work, and predicts nothing of the real disk"
            ),
        };
    }
    text
}

fn names(steps: &[PlanStep]) -> Vec<String> {
    steps.iter().map(PlanStep::to_string).collect()
}

fn nature(nature: Nature) -> &'static str {
    match nature {
        Nature::Rotational => "with a head",
        Nature::Flash => "without a head",
    }
}

fn figure(row: &Row, value: u64) -> String {
    match row.real.step.unit() {
        FigureUnit::BytesPerSec => format!("{}.{} MB/s", value / 1_000_000, value / 100_000 % 10),
        FigureUnit::PerSecond => format!("{value} /s"),
        FigureUnit::Nanos => units::time(value),
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
        "mean_error_permille": found.fitness.mean_permille,
        "mean_error_permille_max": MEAN_ERROR_MAX,
        "worst_error_permille_max": WORST_ERROR_MAX,
        "fit_for_prediction": found.fitness.is_fit(),
        "fitness": found.fitness.to_string(),
        "stopped": !found.missing.is_empty(),
        "missing": names(&found.missing),
        "parameters": parameters,
        "figures": figures,
        "notes": found.notes,
    })
}
