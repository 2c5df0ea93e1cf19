//! Paths of groups and the names in them.

use super::TreeError;
use crate::limits::GROUP_NAME_BYTES_MAX;

/// The names of a path; none for the root.
pub(super) fn components(path: &str) -> Result<Vec<&str>, TreeError> {
    let bad = |problem| TreeError::BadPath { path: path.into(), problem };
    let Some(names) = path.strip_prefix('/') else {
        return Err(bad("it does not begin with '/'"));
    };
    if names.is_empty() {
        return Ok(Vec::new());
    }
    let parts: Vec<&str> = names.split('/').collect();
    parts.iter().try_for_each(|name| check_name(name)).map_err(bad)?;
    Ok(parts)
}

/// Whether a group may have this name. `@` is kept for users' own rules about who pays.
fn check_name(name: &str) -> Result<(), &'static str> {
    match name {
        "" => Err("a name is empty"),
        "." | ".." => Err("'.' and '..' are no names"),
        _ if name.len() > GROUP_NAME_BYTES_MAX => Err("a name is longer than 255 bytes"),
        _ if name.contains('@') => Err("a name contains '@'"),
        _ if name.chars().any(char::is_control) => Err("a name contains a control character"),
        _ => Ok(()),
    }
}
