//! Model files: the parameters of one disk as TOML, read and written.
//!
//! ```toml
//! version = 1                         # of this format
//! kind = "ssd"                        # which model; see `docs/models.md`
//! name = "scratch"                    # optional: what reports call it
//! summary = "the disk under /scratch" # optional
//!
//! [parameters]                        # each one of the kind, with its unit
//! capacity = "1TB"
//! read_time = "75us"
//! depth = 31
//!
//! [sources]                           # optional: where a value comes from
//! read_time = "measured: reads of 4 KiB at depth 1"
//!
//! [figures]                           # optional: what `iopace calibrate` has measured
//! read-random-4k-x1 = { unit = "1/s", real = 9991, model = 9991, error_permille = 0 }
//! ```
//!
//! [`ModelFile::parse`] refuses what is unknown, missing or out of bounds, with its line;
//! [`ModelFile`]'s `Display` writes every value exactly, so that reading gives back the same.
//! [`change`] and [`complete`] read the same keys out of another file, for example a scenario.

use crate::model::{KINDS, Model, ModelError, ModelKind, Spec};
use crate::units::{Rate, Size, Time};
use core::fmt;
use core::ops::Range;
use serde::Deserialize;
use std::collections::BTreeMap;
use toml::{Spanned, Value};

/// The version of the format that is written; others are refused.
pub const VERSION: u32 = 1;

/// Parameters as they stand in a file, with their places.
pub type Given = BTreeMap<Spanned<String>, Spanned<Value>>;

/// A message and the bytes of the file that it is about.
pub type Mistake = (Range<usize>, String);

/// A model with its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelFile {
    /// What reports call it.
    pub name: Option<String>,
    /// What it is, in one sentence.
    pub summary: Option<String>,
    /// The disk.
    pub model: Model,
    /// Where values come from, by parameter.
    pub sources: BTreeMap<String, String>,
    /// What was measured and what the model gives there, by step.
    pub figures: BTreeMap<String, ModelFigure>,
}

/// A figure of a real disk, and of its model.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelFigure {
    /// `B/s`, `1/s` or `ns`.
    pub unit: String,
    /// What was measured.
    pub real: u64,
    /// What the model gives.
    pub model: u64,
    /// The difference, in thousandths of what was measured.
    pub error_permille: i64,
}

/// A mistake in a model file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelFileError {
    /// The file, as it was named.
    pub file: String,
    /// Line, from 1.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
    /// What is wrong and what would be right.
    pub message: String,
}

impl fmt::Display for ModelFileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}: {}", self.file, self.line, self.column, self.message)
    }
}

impl std::error::Error for ModelFileError {}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    version: Spanned<u32>,
    kind: Spanned<String>,
    name: Option<String>,
    summary: Option<String>,
    parameters: Given,
    #[serde(default)]
    sources: BTreeMap<Spanned<String>, String>,
    #[serde(default)]
    figures: BTreeMap<String, ModelFigure>,
}

impl ModelFile {
    /// Reads the text of a model file; `file` is its name in messages.
    ///
    /// # Errors
    /// The first mistake, with its place.
    pub fn parse(file: &str, text: &str) -> Result<ModelFile, ModelFileError> {
        let fail = |(span, message): Mistake| {
            let before = &text[..span.start.min(text.len())];
            let line_start = before.rfind('\n').map_or(0, |at| at + 1);
            ModelFileError {
                file: file.into(),
                line: before.matches('\n').count() + 1,
                column: before[line_start..].chars().count() + 1,
                message,
            }
        };
        let parsed: File = toml::from_str(text).map_err(|error| {
            fail((error.span().unwrap_or(0..0), error.message().trim_end().into()))
        })?;
        resolve(parsed).map_err(fail)
    }
}

fn resolve(file: File) -> Result<ModelFile, Mistake> {
    if *file.version.get_ref() != VERSION {
        let message = format!("this iopace reads version {VERSION} of model files");
        return Err((file.version.span(), message));
    }
    let model = complete(&file.kind, &file.parameters)?;
    let mut sources = BTreeMap::new();
    for (name, source) in file.sources {
        spec(model.kind(), &name)?;
        sources.insert(name.into_inner(), source);
    }
    Ok(ModelFile { name: file.name, summary: file.summary, model, sources, figures: file.figures })
}

/// The kind of that name.
///
/// # Errors
/// There is none; the message says which there are.
pub fn kind(name: &Spanned<String>) -> Result<&'static ModelKind, Mistake> {
    KINDS.iter().find(|kind| kind.name == name.get_ref()).ok_or_else(|| {
        let names: Vec<&str> = KINDS.iter().map(|kind| kind.name).collect();
        let message = format!("no model '{}'; there are: {}", name.get_ref(), names.join(", "));
        (name.span(), message)
    })
}

/// A model with all of its parameters given.
///
/// # Errors
/// One is unknown, missing, without its unit or out of bounds, or they contradict each other.
pub fn complete(kind_name: &Spanned<String>, given: &Given) -> Result<Model, Mistake> {
    let kind = kind(kind_name)?;
    let mut values = read(kind, given)?;
    for (spec, value) in kind.specs.iter().zip(&mut values) {
        *value = value.or(spec.default);
    }
    let missing: Vec<&str> = kind
        .specs
        .iter()
        .zip(&values)
        .filter(|(_, value)| value.is_none())
        .map(|(spec, _)| spec.name)
        .collect();
    if !missing.is_empty() {
        let message = format!("a model '{}' also needs {}", kind.name, missing.join(", "));
        return Err((kind_name.span(), message));
    }
    let values: Vec<u64> = values.into_iter().flatten().collect();
    Model::new(kind, &values).map_err(|error| place(error, given))
}

/// A model with some of its parameters changed.
///
/// # Errors
/// As [`complete`], but for missing ones.
pub fn change(model: &Model, given: &Given) -> Result<Model, Mistake> {
    let kind = model.kind();
    let values = read(kind, given)?.into_iter().zip(model.values());
    let values: Vec<u64> = values.map(|(new, old)| new.unwrap_or(old)).collect();
    Model::new(kind, &values).map_err(|error| place(error, given))
}

/// The place of a mistake: that of its parameter, or of another that was given with it.
fn place(error: ModelError, given: &Given) -> Mistake {
    let named = given.iter().find(|(name, _)| *name.get_ref() == error.name);
    let span = named.or(given.iter().next()).map_or(0..0, |(_, value)| value.span());
    (span, error.message)
}

fn spec(kind: &ModelKind, name: &Spanned<String>) -> Result<usize, Mistake> {
    kind.specs.iter().position(|spec| spec.name == name.get_ref()).ok_or_else(|| {
        let names: Vec<&str> = kind.specs.iter().map(|spec| spec.name).collect();
        let (word, kind) = (name.get_ref(), kind.name);
        let message =
            format!("a model '{kind}' has no parameter '{word}'; there are: {}", names.join(", "));
        (name.span(), message)
    })
}

/// What is given, in the order of the kind's parameters.
fn read(kind: &ModelKind, given: &Given) -> Result<Vec<Option<u64>>, Mistake> {
    let mut values = vec![None; kind.specs.len()];
    for (name, value) in given {
        let at = spec(kind, name)?;
        let number = number(&kind.specs[at], value.get_ref());
        values[at] = Some(number.map_err(|message| (value.span(), message))?);
    }
    Ok(values)
}

fn number(spec: &Spec, value: &Value) -> Result<u64, String> {
    use crate::model::ParameterUnit;
    let (name, bounds) = (spec.name, spec.bounds());
    let wrong = |error: &dyn fmt::Display| format!("{name}: {error}; it is {bounds}");
    match (spec.unit, value) {
        (ParameterUnit::Size, Value::String(text)) => {
            text.parse::<Size>().map(|size| size.0.0).map_err(|error| wrong(&error))
        }
        (ParameterUnit::Time, Value::String(text)) => {
            text.parse::<Time>().map(|time| time.0.0).map_err(|error| wrong(&error))
        }
        (ParameterUnit::Rate, Value::String(text)) => {
            text.parse::<Rate>().map(|rate| rate.0.0).map_err(|error| wrong(&error))
        }
        (ParameterUnit::Permille | ParameterUnit::Count, Value::Integer(number)) => {
            u64::try_from(*number).map_err(|_| format!("{name} is {bounds}, not {number}"))
        }
        (ParameterUnit::Permille | ParameterUnit::Count, _) => {
            Err(format!("{name} is a whole number without quotes, {bounds}"))
        }
        (ParameterUnit::Size | ParameterUnit::Time | ParameterUnit::Rate, _) => Err(format!(
            "{name} is a number with its unit in quotes, \"{}\" to \"{}\"",
            spec.unit.text(spec.min),
            spec.unit.text(spec.max)
        )),
    }
}

impl fmt::Display for ModelFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = self.model.kind();
        writeln!(f, "version = {VERSION}\nkind = \"{}\"", kind.name)?;
        if let Some(name) = &self.name {
            writeln!(f, "name = {}", quoted(name))?;
        }
        if let Some(summary) = &self.summary {
            writeln!(f, "summary = {}", quoted(summary))?;
        }
        writeln!(f, "\n[parameters]")?;
        for (spec, value) in kind.specs.iter().zip(self.model.values()) {
            let text = spec.unit.text(value);
            match spec.unit.words() {
                [] => writeln!(f, "{} = {text}", spec.name)?,
                _ => writeln!(f, "{} = \"{text}\"", spec.name)?,
            }
        }
        if !self.sources.is_empty() {
            writeln!(f, "\n[sources]")?;
        }
        for spec in kind.specs {
            if let Some(source) = self.sources.get(spec.name) {
                writeln!(f, "{} = {}", spec.name, quoted(source))?;
            }
        }
        if !self.figures.is_empty() {
            writeln!(f, "\n[figures]")?;
        }
        for (step, figure) in &self.figures {
            let ModelFigure { unit, real, model, error_permille } = figure;
            let unit = quoted(unit);
            write!(f, "{step} = {{ unit = {unit}, real = {real}, model = {model}, ")?;
            writeln!(f, "error_permille = {error_permille} }}")?;
        }
        Ok(())
    }
}

/// A TOML string.
fn quoted(text: &str) -> String {
    Value::String(text.into()).to_string()
}

#[cfg(test)]
mod tests;
