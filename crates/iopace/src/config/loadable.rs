//! The policies that the file names. They are loaded while it is read: devices name them.

use super::{DeviceTable, File, Mistake};
use iopace_core::sched::{self, REGISTRY};
use iopace_daemon::config::PolicyConfig;
use iopace_daemon::loadable;
use std::ops::Range;
use std::path::{Path, PathBuf};
use toml::Spanned;

/// Loads the policies, and those that stand as files where a scheduler is named: their names stand
/// there afterwards.
pub(super) fn resolve(file: &mut File, base: &Path) -> Result<Vec<PolicyConfig>, Mistake> {
    let mut policies = Vec::new();
    for path in std::mem::take(&mut file.policies) {
        load(&mut policies, base.join(path.get_ref()), path.span())?;
    }
    for table in &mut file.device {
        let span = table.span();
        let DeviceTable { sched, recommend, .. } = table.get_mut();
        named(&mut policies, sched, base)?;
        if let Some(word) = recommend.as_mut().and_then(|table| table.get_mut().sched.take()) {
            let mut word = Some(Spanned::new(span, word));
            named(&mut policies, &mut word, base)?;
            if let Some(table) = recommend {
                table.get_mut().sched = word.map(Spanned::into_inner);
            }
        }
    }
    for table in &mut file.mount {
        named(&mut policies, table.get_mut().sched_mut(), base)?;
    }
    Ok(policies)
}

/// Loads the policy where a file is named, and has its name stand there.
fn named(
    policies: &mut Vec<PolicyConfig>,
    sched: &mut Option<Spanned<String>>,
    base: &Path,
) -> Result<(), Mistake> {
    let Some(word) = sched else { return Ok(()) };
    let (span, name) = (word.span(), word.get_ref());
    if loadable::is_file(name) {
        let name = load(policies, base.join(name), span.clone())?;
        *word = Spanned::new(span, name);
        return Ok(());
    }
    let is_known = |known: &PolicyConfig| known.name == *name;
    let is_built_in = REGISTRY.iter().any(|algorithm| algorithm.name == name);
    if !is_built_in && sched::find(name).is_some() && !policies.iter().any(is_known) {
        let message = format!(
            "policy '{name}' is loaded now, but not by this file: name its file, as policies = \
             [\"/etc/iopace/{name}.wasm\"] above all tables"
        );
        return Err((span, message));
    }
    Ok(())
}

fn load(
    policies: &mut Vec<PolicyConfig>,
    path: PathBuf,
    span: Range<usize>,
) -> Result<String, Mistake> {
    let loaded = loadable::load(&path).map_err(|error| (span, error.to_string()))?;
    let name = loaded.name;
    if policies.iter().all(|known| known.name != name) {
        policies.push(PolicyConfig { path, name: name.clone() });
    }
    Ok(name)
}
