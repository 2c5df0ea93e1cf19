//! `iopace sim sweep`: a scenario over values of its own keys, or one of the built-in curves.

use super::scenario_text;
use crate::cli::SweepArgs;
use crate::output::{Failure, note, print};
use crate::study_output::{ProgressLine, Study, prepare, put};
use iopace_sim::scenario::Scenario;
use iopace_sim::study::sweep::{Axis, SEED, Store, SweepPoint, hash, points};
use iopace_sim::study::{StudyVariant, VariantOutcome, carry_out};
use iopace_sim::sweep;
use iopace_sim::tables::slots;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Mutex;

/// The file in the directory of `--out` that remembers what has been run.
const STORE: &str = "points.jsonl";

/// Carries out the command.
///
/// # Errors
/// A wrong scenario, key or value, or a file that cannot be written.
pub(super) fn run(args: &SweepArgs) -> Result<(), Failure> {
    let is_curve = ["geom", slots::TABLE].iter().any(|name| args.file == Path::new(name));
    if args.set.is_empty() {
        if is_curve {
            return curve(args);
        }
        return Err(Failure::usage(
            "there is nothing to sweep over: name a key of the scenario and its values, as --set \
             disk.depth=1..64*2; for several seeds of it as it is: iopace sim run FILE --seeds 10",
        ));
    }
    let axes = args.set.iter().map(|text| Axis::parse(text)).collect::<Result<Vec<Axis>, String>>();
    let mut axes = axes.map_err(Failure::usage)?;
    if let Some(seed) = args.seed {
        axes.insert(0, Axis { path: SEED.into(), values: vec![seed.to_string()] });
    }
    let (file, text) = scenario_text(&args.file)?;
    let build = match &args.output.out {
        Some(_) => build()?,
        None => String::new(),
    };
    let points = points(&file, &text, &axes, args.seeds, &build).map_err(Failure::usage)?;
    let scenario = Scenario::parse(&file, &text).map_err(Failure::usage)?;
    prepare("sweep", args.output.out.as_deref(), args.output.files(), &[&args.file])?;
    let path = args.output.out.as_ref().map(|directory| directory.join(STORE));
    let outcomes = carry_out_points(&points, path.as_deref())?;
    let swept: Vec<String> =
        axes.into_iter().filter(|axis| axis.values.len() > 1).map(|axis| axis.path).collect();
    let study = Study { name: "sweep", file: &file, scenario: &scenario, swept: &swept };
    put(&study, &outcomes, &args.output)
}

/// What carries out the points: a hash of this very executable. Anything that changes what comes
/// out of a run (code, models, a library that is built in) changes its bytes; a version number or a
/// list of source files would have to be thought of. Another build of the same sources may have
/// other bytes; then points are run again that need not be.
fn build() -> Result<String, Failure> {
    // The file that runs, even if another one has taken its place since.
    let path = "/proc/self/exe";
    let bytes = std::fs::read(path).map_err(|error| {
        let remedy = "without --out nothing is remembered, and it is not needed";
        Failure::new(format!(
            "{path}, by which points are known, cannot be read: {error}; {remedy}"
        ))
    })?;
    Ok(hash(&bytes))
}

/// One of the curves that are published with iopace.
fn curve(args: &SweepArgs) -> Result<(), Failure> {
    let Some(out) = &args.output.out else {
        return Err(Failure::usage("say where the curves go: --out DIR"));
    };
    let seed = args.seed.unwrap_or(1);
    let files = match args.file == Path::new(slots::TABLE) {
        true => sweep::slots::write(&sweep::slots::group_requests(seed), out),
        false => sweep::write(&sweep::quantum_wait(seed, sweep::DURATION), out),
    };
    let files = files.map_err(Failure::new)?;
    let names: Vec<String> = files.iter().map(|file| file.display().to_string()).collect();
    print(&format!("{}\n", names.join("\n")))
}

/// Carries out the points that the store does not know yet, and remembers each as soon as it is
/// done: whenever the program is ended, only what was being run is lost.
fn carry_out_points(
    points: &[SweepPoint],
    path: Option<&Path>,
) -> Result<Vec<VariantOutcome>, Failure> {
    let failed = |error: std::io::Error| {
        let name = path.map(|path| path.display().to_string()).unwrap_or_default();
        Failure::new(format!("{name} cannot be read or written: {error}"))
    };
    let (store, known) = match path.map(Store::open).transpose().map_err(failed)? {
        Some((store, known)) => (Some(store), known),
        None => (None, BTreeMap::new()),
    };
    let missing: Vec<&SweepPoint> =
        points.iter().filter(|point| !known.contains_key(&point.key)).collect();
    if missing.len() < points.len() {
        let done = points.len() - missing.len();
        let all = points.len();
        note(format_args!("{done} of {all} points are there already, from an earlier run"));
    }
    let variants: Vec<StudyVariant> = missing.iter().map(|point| point.variant.clone()).collect();
    let made = Mutex::new((store, known, None));
    let line = ProgressLine::begin();
    carry_out(&variants, &|done, all| line.show(done, all), &|place, runs| {
        let outcome = VariantOutcome::of(&variants[place], &runs);
        let key = &missing[place].key;
        let mut made = made.lock().expect("no holder panics");
        let (store, known, error) = &mut *made;
        if let Some(store) = store {
            *error = error.take().or(store.append(key, &outcome).err());
        }
        known.insert(key.clone(), outcome);
    });
    line.end();
    let (_, known, error) = made.into_inner().expect("no holder panicked");
    match error {
        Some(error) => Err(failed(error)),
        None => Ok(points.iter().map(|point| known[&point.key].clone()).collect()),
    }
}
