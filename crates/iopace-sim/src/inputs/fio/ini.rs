//! The form of a job file: sections, `name=value` or `name`, comments.

use super::Mistake;
use super::options::canonical;
use std::collections::BTreeMap;

/// Most jobs, before clones: as many as a scenario has tasks.
const JOBS_MAX: usize = crate::scenario::TASKS_MAX;

/// An option's value and its line. A flag has an empty value.
pub(super) type Options = BTreeMap<String, (String, u64)>;

/// A job with the options of the `[global]` sections above it.
#[derive(Debug)]
pub(super) struct Section {
    pub(super) name: String,
    pub(super) line: u64,
    pub(super) options: Options,
}

/// Reads the jobs.
pub(super) fn parse(text: &str) -> Result<Vec<Section>, Mistake> {
    let mut global = Options::new();
    let mut sections: Vec<Section> = Vec::new();
    let mut is_global = None;
    for (number, line) in (1..).zip(text.lines()) {
        let line = line.trim();
        if line.is_empty() || line.starts_with([';', '#']) {
            continue;
        }
        if line.chars().any(char::is_control) {
            return Err((number, "a control character: this is no job file".into()));
        }
        if let Some(name) = line.strip_prefix('[') {
            let Some(name) = name.strip_suffix(']').filter(|name| !name.is_empty()) else {
                return Err((number, "a section is [NAME]".into()));
            };
            is_global = Some(name == "global");
            if name != "global" {
                if sections.len() == JOBS_MAX {
                    return Err((number, format!("at most {JOBS_MAX} jobs")));
                }
                let (name, options) = (name.into(), global.clone());
                sections.push(Section { name, line: number, options });
            }
            continue;
        }
        if line == "include" || line.starts_with("include ") {
            let message = "'include' is not followed: put the text of that file here";
            return Err((number, message.into()));
        }
        let (name, value) = line.split_once('=').unwrap_or((line, ""));
        let (name, value) = (canonical(name.trim()), value.trim());
        if value.contains("${") || value.contains('`') || value.contains("$jobn") {
            let message = format!("'{value}' would be expanded by fio: write what it stands for");
            return Err((number, message));
        }
        let options = match is_global {
            None => {
                return Err((number, "an option before any section: begin with [global]".into()));
            }
            Some(true) => &mut global,
            Some(false) => &mut sections.last_mut().expect("one has begun").options,
        };
        options.insert(name.into(), (value.into(), number));
    }
    if sections.is_empty() {
        return Err((0, "there is no job in it: add a section [NAME]".into()));
    }
    Ok(sections)
}
