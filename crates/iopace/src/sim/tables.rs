//! `iopace sim tables`: the outcome tables, one or all.

use crate::cli::{TableFormat, TablesArgs};
use crate::output::{Failure, print};
use crate::study_output::write;
use iopace_sim::tables::{all, format, geom, page, targets};

/// Carries out the command.
///
/// # Errors
/// Standard output or the page cannot be written.
pub(super) fn run(args: &TablesArgs) -> Result<(), Failure> {
    if args.table == targets::TABLE {
        return of_sources(args);
    }
    if args.page.is_some() {
        return Err(Failure::usage("--page is the page of 'iopace sim tables targets'"));
    }
    let is_one = args.table != all::ALL;
    let names = all::TABLES.into_iter().filter(|name| !is_one || *name == args.table);
    let mut rows = Vec::new();
    for name in names {
        let duration = args.duration.unwrap_or(geom::DURATION);
        let made = all::rows(name, args.seed, duration);
        let made = made.ok_or_else(|| Failure::usage(format!("no table '{name}'")))?;
        // Each as soon as it is there: the long ones take a minute.
        if args.format == TableFormat::Table {
            let heading = if is_one { String::new() } else { heading(name) };
            print(&format!("{heading}{}", format::table(&made)))?;
        }
        rows.extend(made);
    }
    if let Some(path) = &args.html {
        write(path, page::page(&rows, args.seed))?;
    }
    match args.format {
        TableFormat::Table if is_one => Ok(()),
        TableFormat::Table => print(&format!("\n# summary\n\n{}", all::summary(&rows))),
        TableFormat::Json => print(&format::json(&rows)),
        TableFormat::Csv => print(&format::csv(&rows)),
    }
}

/// Every figure that a source states, beside ours.
fn of_sources(args: &TablesArgs) -> Result<(), Failure> {
    if args.html.is_some() {
        return Err(Failure::usage("--html is for the tables: 'targets' has --page"));
    }
    let mut rows = Vec::new();
    for (table, _) in targets::SOURCES {
        let made = all::rows(table, args.seed, args.duration.unwrap_or(geom::DURATION));
        rows.extend(made.ok_or_else(|| Failure::usage(format!("no table '{table}'")))?);
    }
    if let Some(path) = &args.page {
        write(path, targets::page(&rows))?;
    }
    let entries = targets::entries(&rows);
    print(&match args.format {
        TableFormat::Table => targets::text(&entries),
        TableFormat::Json => targets::json(&entries),
        TableFormat::Csv => targets::csv(&entries),
    })
}

fn heading(name: &str) -> String {
    let gap = if name == all::TABLES[0] { "" } else { "\n" };
    format!("{gap}# {name}: {}\n\n", all::subject(name))
}
