//! `iopace models`: the disk models with every parameter and its source.

use crate::cli::ModelsArgs;
use crate::output::{Failure, Format, finish, print, print_json, table};
use iopace_disk::presets::{PRESETS, Preset};
use serde::Serialize;
use std::fmt::Write as _;

/// A model as JSON.
#[derive(Debug, Serialize)]
struct ModelReport {
    name: &'static str,
    model: &'static str,
    summary: &'static str,
    parameters: Vec<ParameterReport>,
}

/// A parameter as JSON.
#[derive(Debug, Serialize)]
struct ParameterReport {
    name: &'static str,
    value: u64,
    unit: &'static str,
    source: &'static str,
}

/// Prints the models.
///
/// # Errors
/// Standard output cannot be written.
pub fn run(args: &ModelsArgs) -> Result<(), Failure> {
    let wanted = |preset: &&Preset| args.name.as_deref().is_none_or(|name| name == preset.name);
    let chosen = PRESETS.iter().copied().filter(wanted);
    match args.format.format {
        Format::Json => print_json(&chosen.map(report).collect::<Vec<_>>()),
        Format::Table => {
            let texts: Vec<String> = chosen.map(text).collect();
            print(&texts.join("\n"))
        }
    }
}

fn report(preset: &Preset) -> ModelReport {
    let parameters = preset.parameters.iter().map(|parameter| ParameterReport {
        name: parameter.name,
        value: parameter.value,
        unit: parameter.unit,
        source: parameter.source,
    });
    ModelReport {
        name: preset.name,
        model: preset.model,
        summary: preset.summary,
        parameters: parameters.collect(),
    }
}

fn text(preset: &Preset) -> String {
    let mut text = String::new();
    let _ = writeln!(text, "{} ({}): {}", preset.name, preset.model, preset.summary);
    let mut parameters = table(["parameter", "value", "source"]);
    for parameter in preset.parameters {
        parameters.add_row([parameter.name, &parameter.text(), parameter.source]);
    }
    text.push_str(&finish(&parameters, 2));
    text
}
