//! The files of a replay: report, pictures, Parquet.

use super::show;
use crate::cli::{OutputArgs, TableFormat};
use crate::output::Failure;
use crate::study_output::{columns, write};
use iopace_sim::report::ReplayReport;
use iopace_sim::study::summary::Summary;
use iopace_sim::study::{VariantOutcome, html, plot, replay as study};
use iopace_sim::trace::png;

/// What the files are called in the directory of `--out`.
pub(super) const NAME: &str = "replay";

/// Writes all files that are asked for; `title` and `setup` say what was replayed, and how.
///
/// # Errors
/// A file cannot be written.
pub(super) fn put(
    title: &str,
    setup: &str,
    reports: &[ReplayReport],
    outcomes: &[VariantOutcome],
    output: &OutputArgs,
) -> Result<(), Failure> {
    let page = || html::replay_page(title, setup, outcomes);
    let columns = || columns(NAME, &study::columns(reports));
    let picture = || {
        let summaries: Vec<Summary> = outcomes.iter().map(|one| one.summary.clone()).collect();
        plot::svg(title, &study::with_whole(&summaries))
    };
    let pixels = |svg: &str| png::png(svg).map_err(Failure::new);
    if let Some(path) = &output.html {
        write(path, page())?;
    }
    if let Some(path) = &output.svg {
        write(path, picture())?;
    }
    if let Some(path) = &output.png {
        write(path, pixels(&picture())?)?;
    }
    if let Some(path) = &output.parquet {
        write(path, columns()?)?;
    }
    let Some(directory) = &output.out else { return Ok(()) };
    let path = |ending: &str| directory.join(format!("{NAME}.{ending}"));
    write(&path("txt"), show::text(reports, TableFormat::Table))?;
    write(&path("json"), show::text(reports, TableFormat::Json))?;
    write(&path("csv"), show::text(reports, TableFormat::Csv))?;
    write(&path("parquet"), columns()?)?;
    write(&path("html"), page())?;
    let picture = picture();
    write(&path("svg"), &picture)?;
    write(&path("png"), pixels(&picture)?)
}
