//! The disk models by their names.

use crate::spelling;
use iopace_disk::Disk;
use iopace_disk::model_file::ModelFile;
use iopace_disk::presets::{self, Preset};
use std::fs;

/// The preset of that name.
///
/// # Errors
/// There is none; the message says which there are.
pub(crate) fn preset(name: &str) -> Result<&'static Preset, String> {
    presets::find(name).ok_or_else(|| {
        let names: Vec<&str> = presets::PRESETS.iter().map(|preset| preset.name).collect();
        spelling::unknown("disk", name, &names)
    })
}

/// The disk of that name, or of the model file of that name (`*.toml`).
///
/// # Errors
/// As [`preset`], or the file is wrong.
pub(crate) fn build(name: &str) -> Result<Box<dyn Disk>, String> {
    if presets::find(name).is_none() && name.ends_with(".toml") {
        let text = fs::read_to_string(name);
        let text = text.map_err(|error| format!("the model {name} cannot be read: {error}"))?;
        let file = ModelFile::parse(name, &text).map_err(|error| error.to_string())?;
        return Ok(file.model.build());
    }
    preset(name).map(|preset| (preset.build)())
}
