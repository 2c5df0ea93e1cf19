//! Policies that a scenario names by their files, as `name = "./mine.wasm"`: a file has a slash in
//! its name or ends with `.wasm`, and the path is taken from the scenario's folder.

use super::error::Mistake;
use super::shape::ScenarioFile;
use iopace_core::sched::Algorithm;
use std::path::Path;
use std::sync::OnceLock;
use toml::Spanned;

/// Loads a policy from a file, or says why not.
pub type LoadPolicy = fn(&Path) -> Result<&'static Algorithm, String>;

/// The loader of this program: the simulator itself has none.
static LOADER: OnceLock<LoadPolicy> = OnceLock::new();

/// Has policies that scenarios name by their files loaded so from now on; the first that is said
/// holds.
pub fn load_by(loader: LoadPolicy) {
    // Said twice, it is the same program that says it.
    let _ = LOADER.set(loader);
}

/// Loads the policies of a scenario: their names stand afterwards where their files stood.
pub(super) fn load(file: &str, scenario: &mut ScenarioFile) -> Result<(), Mistake> {
    let folder = Path::new(file).parent().unwrap_or(Path::new(""));
    if let Some(table) = &mut scenario.scheduler {
        named(&mut table.name, folder)?;
        table.base.as_mut().map_or(Ok(()), |base| named(base, folder))?;
    }
    for step in scenario.step.iter_mut().map(Spanned::get_mut) {
        for name in [&mut step.insert, &mut step.configure].into_iter().flatten() {
            named(name, folder)?;
        }
    }
    Ok(())
}

fn named(name: &mut Spanned<String>, folder: &Path) -> Result<(), Mistake> {
    let (span, word) = (name.span(), name.get_ref());
    if !word.contains('/') && !word.ends_with(".wasm") {
        return Ok(());
    }
    let loader = LOADER.get().ok_or_else(|| {
        (span.clone(), "this program loads no policies: name a scheduler".to_owned())
    })?;
    let loaded = loader(&folder.join(word)).map_err(|error| (span.clone(), error))?;
    *name = Spanned::new(span, loaded.name.to_owned());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::Scenario;
    use iopace_core::sched::fifo;

    const TEXT: &str = "why = \"a policy\"\nduration = \"1s\"\ndisk = { preset = \"ssd-sata\" }\n\
                        scheduler = { name = \"./mine.wasm\" }\n\
                        [[task]]\nname = \"dd\"\nkind = \"dd-read\"\nsize = \"1GiB\"\n";

    #[test]
    fn a_file_is_loaded_from_the_folder_of_the_scenario() {
        load_by(|path| match path.to_str() {
            Some("stories/./mine.wasm") => Ok(&fifo::ALGORITHM),
            _ => Err(format!("{}: there is no such file", path.display())),
        });
        let read = |file: &str| Scenario::parse(file, TEXT);
        let scenario = read("stories/mine.toml").expect("right");
        assert_eq!(scenario.scheduler.expect("one").algorithm.name, "fifo");
        let error = read("mine.toml").expect_err("elsewhere").to_string();
        assert!(error.contains("./mine.wasm: there is no such file"), "{error}");
    }
}
