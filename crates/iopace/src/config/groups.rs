//! The `[group."/vms/web"]` tables: the names of a group's files, each with a line, or with a list
//! of lines.

use super::Mistake;
use crate::output::nearest;
use iopace_daemon::below::Below;
use iopace_daemon::config::{Backend, DeviceConfig, GroupConfig};
use iopace_daemon::groups::{GroupError, Misconfigured, by_name, configured};
use iopace_groups::tree::Tree;
use serde::de::{Error, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;
use toml::Spanned;

/// A table: the files by name.
pub(super) type GroupTable = BTreeMap<Spanned<String>, Spanned<Lines>>;

/// What stands for a file: each line with its place, if it is one of a list.
#[derive(Debug)]
pub(super) struct Lines(Vec<(Option<Range<usize>>, String)>);

/// A line: text, or a number alone as in `"io.weight" = 200`.
struct Line(String);

struct LinesVisitor;
struct LineVisitor;

impl<'de> Deserialize<'de> for Lines {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Lines, D::Error> {
        deserializer.deserialize_any(LinesVisitor)
    }
}

impl<'de> Deserialize<'de> for Line {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Line, D::Error> {
        deserializer.deserialize_any(LineVisitor)
    }
}

impl Visitor<'_> for LineVisitor {
    type Value = Line;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a line as \"disk rbps=10M\", or a number")
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Line, E> {
        Ok(Line(value.to_string()))
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Line, E> {
        Ok(Line(value.to_owned()))
    }
}

impl<'de> Visitor<'de> for LinesVisitor {
    type Value = Lines;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a line as \"disk rbps=10M\", a number, or a list of lines")
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Lines, E> {
        Ok(Lines(vec![(None, value.to_string())]))
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Lines, E> {
        Ok(Lines(vec![(None, value.to_owned())]))
    }

    /// What TOML makes of `io.weight = 200`.
    fn visit_map<A: MapAccess<'de>>(self, _: A) -> Result<Lines, A::Error> {
        Err(A::Error::custom("the name of a file stands in quotes, as \"io.weight\" = 200"))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut all: A) -> Result<Lines, A::Error> {
        let mut lines = Vec::new();
        while let Some(line) = all.next_element::<Spanned<Line>>()? {
            lines.push((Some(line.span()), line.into_inner().0));
        }
        Ok(Lines(lines))
    }
}

/// Where a file stands: its name, all of its value, and the place of each line of it.
struct Place {
    name: Range<usize>,
    value: Range<usize>,
    lines: Vec<Range<usize>>,
}

/// The groups, and the tree that they make.
pub(super) fn resolve(
    tables: BTreeMap<Spanned<String>, GroupTable>,
    devices: &[DeviceConfig],
) -> Result<(Vec<GroupConfig>, Tree), Mistake> {
    let (mut groups, mut places) = (Vec::new(), Vec::new());
    for (path, table) in tables {
        let (mut files, mut file_places) = (Vec::new(), Vec::new());
        for (name, value) in table {
            let (name_place, place) = (name.span(), value.span());
            let (mut texts, mut lines) = (Vec::new(), Vec::new());
            for (line_place, text) in value.into_inner().0 {
                let line_place = line_place.unwrap_or_else(|| place.clone());
                lines.extend(text.lines().map(|_| line_place.clone()));
                texts.push(text);
            }
            files.push((name.into_inner(), texts.join("\n")));
            file_places.push(Place { name: name_place, value: place, lines });
        }
        name_devices(&mut files, &file_places, devices)?;
        places.push((path.span(), file_places));
        groups.push(GroupConfig { path: path.into_inner(), files });
    }
    let named = devices.iter().map(|device| (device.name.clone(), device.nr_group_requests));
    match configured(&groups, &named.collect::<Vec<_>>(), &[]) {
        Ok(tree) => Ok((groups, tree)),
        Err(wrong) => Err(mistake(&wrong, &places)),
    }
}

/// Puts the names of devices in the place of the kernel's numbers of the disks that they are on.
fn name_devices(
    files: &mut [(String, String)],
    places: &[Place],
    devices: &[DeviceConfig],
) -> Result<(), Mistake> {
    let on = |number: &str| -> Vec<String> {
        let is_on = |device: &&DeviceConfig| {
            let below = match &device.backend {
                Backend::Path(path) | Backend::Directory { path, model: None, .. } => {
                    Below::lowest(path)
                }
                _ => None,
            };
            below.is_some_and(|below| below.has_number(number))
        };
        devices.iter().filter(is_on).map(|device| device.name.clone()).collect()
    };
    for ((_, text), place) in files.iter_mut().zip(places) {
        let named = by_name(text, on).map_err(|error| (place.value.clone(), error.to_string()))?;
        *text = named.into_owned();
    }
    Ok(())
}

fn mistake(wrong: &Misconfigured, places: &[(Range<usize>, Vec<Place>)]) -> Mistake {
    let (path, files) = &places[wrong.group];
    let Some(place) = wrong.file.map(|file| &files[file]) else {
        return (path.clone(), wrong.error.to_string());
    };
    let GroupError::File(error) = &wrong.error else {
        return (place.name.clone(), wrong.error.to_string());
    };
    let span = match error.line {
        Some(line) => place.lines.get(line - 1).unwrap_or(&place.value),
        None => &place.name,
    };
    // The place is shown: the words need not say it again.
    (span.clone(), error.text.clone())
}

/// The group of an export.
pub(super) fn checked(group: Spanned<String>, tree: &Tree) -> Result<String, Mistake> {
    let asked = group.get_ref();
    if let Err(error) = tree.find(asked) {
        let paths: Vec<String> = tree.iter().map(|id| tree.path(id)).collect();
        let message = match nearest(asked, paths.iter().map(String::as_str)) {
            Some(meant) if meant != "/" => {
                format!("there is no group '{asked}': did you mean '{meant}'?")
            }
            _ => format!("{error}: a table [group.\"{asked}\"] makes it"),
        };
        return Err((group.span(), message));
    }
    Ok(group.into_inner())
}
