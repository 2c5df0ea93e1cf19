//! Values of the file, each checked by itself.

use super::Mistake;
use crate::output::nearest;
use crate::units::parse_size;
use iopace_core::units::Bytes;
use iopace_daemon::nbd_uri::NbdUri;
use iopace_disk::presets::{self, PRESETS};
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use toml::Spanned;

pub(super) fn checked_size(size: &Spanned<String>) -> Result<Bytes, Mistake> {
    parse_size(size.get_ref()).map_err(|message| (size.span(), message))
}

pub(super) fn checked_model(model: Spanned<String>) -> Result<String, Mistake> {
    if presets::find(model.get_ref()).is_none() && !model.get_ref().ends_with(".toml") {
        let known = PRESETS.iter().map(|preset| preset.name);
        return Err((model.span(), unknown("disk model", model.get_ref(), known)));
    }
    Ok(model.into_inner())
}

pub(super) fn checked_name(name: &Spanned<String>) -> Result<String, Mistake> {
    valid_name(name.get_ref()).map_err(|message| (name.span(), message))?;
    Ok(name.get_ref().clone())
}

/// Whether a device or export can have this name.
///
/// # Errors
/// What would be right.
pub fn valid_name(name: &str) -> Result<(), String> {
    let legal = |c: char| !c.is_control() && c != '/';
    if name.is_empty() || name.len() > 255 || !name.chars().all(legal) {
        return Err("a name has 1 to 255 bytes, no '/' and no control characters".into());
    }
    Ok(())
}

/// A device's name where none is given: the file's, without its ending.
pub(super) fn default_name(file: &Path) -> String {
    file.file_stem().unwrap_or(file.as_os_str()).to_string_lossy().into_owned()
}

pub(super) fn bounded<T: Copy + PartialOrd + std::fmt::Display>(
    value: Option<Spanned<T>>,
    bounds: RangeInclusive<T>,
) -> Result<Option<T>, Mistake> {
    match value {
        Some(value) if !bounds.contains(value.get_ref()) => {
            Err((value.span(), format!("it is {} to {}", bounds.start(), bounds.end())))
        }
        value => Ok(value.map(Spanned::into_inner)),
    }
}

pub(super) fn one_of<T: Copy>(
    word: Option<Spanned<String>>,
    all: &[(&str, T)],
) -> Result<Option<T>, Mistake> {
    let Some(word) = word else { return Ok(None) };
    match all.iter().find(|(name, _)| name == word.get_ref()) {
        Some((_, value)) => Ok(Some(*value)),
        None => {
            let names: Vec<&str> = all.iter().map(|(name, _)| *name).collect();
            Err((word.span(), format!("it is one of: {}", names.join(", "))))
        }
    }
}

pub(super) fn unknown<'a>(
    what: &str,
    asked: &str,
    known: impl Iterator<Item = &'a str> + Clone,
) -> String {
    match nearest(asked, known.clone()) {
        Some(meant) => format!("there is no {what} '{asked}': did you mean '{meant}'?"),
        None => {
            let known: Vec<&str> = known.collect();
            format!("there is no {what} '{asked}'; there are: {}", known.join(", "))
        }
    }
}

/// The name of a device of another server where none is given: the last part of the export's.
pub(super) fn remote_name(uri: &NbdUri) -> String {
    let last = uri.export.rsplit('/').next().unwrap_or_default();
    if last.is_empty() { "remote".to_owned() } else { last.to_owned() }
}

/// The devices of `iopace serve FILE...`: names from the files, or from the exports of URIs.
pub fn names(files: &[PathBuf]) -> Vec<String> {
    let uri = |file: &Path| file.to_str()?.parse().ok();
    let name =
        |file: &PathBuf| uri(file).map_or_else(|| default_name(file), |uri| remote_name(&uri));
    files.iter().map(name).collect()
}
