//! Where results of studies go, and which schedulers they are about.

use crate::scheduler_words::{SchedulerParser, schedulers_and};
use clap::builder::PossibleValuesParser;
use clap::{Args, ValueEnum, ValueHint};
use std::path::PathBuf;

/// How to print an outcome table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum TableFormat {
    /// For people
    #[default]
    Table,
    /// One object per figure
    Json,
    /// Comma-separated values
    Csv,
}

/// Where the result of a study goes.
#[derive(Debug, Default, Args)]
pub struct OutputArgs {
    /// How to print it
    #[arg(long, value_enum, default_value_t)]
    pub format: TableFormat,
    /// Write a report with plots that a browser opens without a network
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub html: Option<PathBuf>,
    /// Write the figures as a Parquet file
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub parquet: Option<PathBuf>,
    /// What each task or stream gets in each variant, drawn as SVG
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub svg: Option<PathBuf>,
    /// The same as PNG
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub png: Option<PathBuf>,
    /// Write everything into a directory, which is made if it is missing
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub out: Option<PathBuf>,
}

impl OutputArgs {
    /// The files that are named one by one.
    pub fn files(&self) -> impl Iterator<Item = &PathBuf> {
        [&self.html, &self.parquet, &self.svg, &self.png].into_iter().flatten()
    }

    /// Whether anything but standard output is wanted.
    pub fn has_files(&self) -> bool {
        self.out.is_some() || self.files().next().is_some()
    }
}

/// Schedulers by name or file, and words for several of them.
pub(super) fn schedulers() -> SchedulerParser {
    schedulers_and(&["all", "none"])
}

pub(super) fn words(
    first: &[&'static str],
    names: impl Iterator<Item = &'static str>,
) -> PossibleValuesParser {
    let all: Vec<&'static str> = first.iter().copied().chain(names).collect();
    PossibleValuesParser::new(all)
}
