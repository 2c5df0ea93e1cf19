//! A study as columns: what CSV and Parquet files hold. A row for each variant and task, and one
//! for each whole run, whose task is `(all)`. With several seeds these are means, whose `seed` is
//! empty and whose intervals are in the columns `*_ci95`; the same rows of each seed follow.

use super::summary::{Summary, TaskInterval, TaskRow, WHOLE, WholeInterval, WholeRow};
use crate::milli::Milli;

/// The cells of a column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cells {
    /// Words.
    Text(Vec<Option<String>>),
    /// Counts.
    Count(Vec<Option<u64>>),
    /// Figures.
    Figure(Vec<Option<Milli>>),
}

impl Cells {
    /// How many there are.
    pub fn len(&self) -> usize {
        match self {
            Cells::Text(cells) => cells.len(),
            Cells::Count(cells) => cells.len(),
            Cells::Figure(cells) => cells.len(),
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// One of them as it is printed; `None` where there is no value.
    pub fn text(&self, row: usize) -> Option<String> {
        match self {
            Cells::Text(cells) => cells[row].clone(),
            Cells::Count(cells) => cells[row].map(|count| count.to_string()),
            Cells::Figure(cells) => cells[row].map(|figure| figure.to_string()),
        }
    }
}

/// A column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    /// Its name, with the unit last.
    pub name: String,
    /// Its cells, from the first row on.
    pub cells: Cells,
}

/// A row: a task of a variant, or the whole of it; of one seed, or of all.
#[derive(Clone, Copy)]
struct StudyRow<'a> {
    summary: &'a Summary,
    seed: Option<u64>,
    task: Option<&'a TaskRow>,
    whole: &'a WholeRow,
}

fn figure(
    rows: &[StudyRow<'_>],
    name: &str,
    of_task: fn(&TaskRow) -> Option<Milli>,
    of_whole: fn(&WholeRow) -> Option<Milli>,
) -> Column {
    let cells = rows.iter().map(|row| match row.task {
        Some(task) => of_task(task),
        None => of_whole(row.whole),
    });
    Column { name: name.into(), cells: Cells::Figure(cells.collect()) }
}

fn count(
    rows: &[StudyRow<'_>],
    name: &str,
    of_task: fn(&TaskRow) -> Option<u64>,
    of_whole: fn(&WholeRow) -> Option<u64>,
) -> Column {
    let cells = rows.iter().map(|row| match row.task {
        Some(task) => of_task(task),
        None => of_whole(row.whole),
    });
    Column { name: name.into(), cells: Cells::Count(cells.collect()) }
}

fn text(rows: &[StudyRow<'_>], name: &str, of: impl Fn(&StudyRow<'_>) -> Option<String>) -> Column {
    Column { name: name.into(), cells: Cells::Text(rows.iter().map(of).collect()) }
}

/// Half the widths of the intervals of a figure.
fn half(
    rows: &[StudyRow<'_>],
    name: &str,
    of_task: fn(&TaskInterval) -> Option<Milli>,
    of_whole: fn(&WholeInterval) -> Option<Milli>,
) -> Column {
    let cells = rows.iter().map(|row| match row.task {
        Some(task) => task.ci95.as_ref().and_then(of_task),
        None => row.whole.ci95.as_ref().and_then(of_whole),
    });
    Column { name: format!("{name}_ci95"), cells: Cells::Figure(cells.collect()) }
}

/// The rows of a study: of each variant the means, then its seeds.
fn rows(all: &[Summary]) -> Vec<StudyRow<'_>> {
    let mut rows = Vec::new();
    for summary in all {
        let means = (None, &summary.tasks, &summary.whole);
        let seeds = summary.by_seed.iter().map(|one| (Some(one.seed), &one.tasks, &one.whole));
        for (seed, tasks, whole) in std::iter::once(means).chain(seeds) {
            let row = StudyRow { summary, seed, task: None, whole };
            rows.extend(tasks.iter().map(|task| StudyRow { task: Some(task), ..row }));
            rows.push(row);
        }
    }
    rows
}

/// The columns of a study. What was set in the variants has a column for each key.
pub fn columns(all: &[Summary]) -> Vec<Column> {
    let rows = &rows(all)[..];
    let mut columns = vec![text(rows, "variant", |row| Some(row.summary.variant.clone()))];
    for setting in all.iter().flat_map(|summary| &summary.settings) {
        if columns.iter().any(|column| column.name == setting.key) {
            continue;
        }
        columns.push(text(rows, &setting.key, |row| {
            let found = row.summary.settings.iter().find(|other| other.key == setting.key);
            found.map(|setting| setting.value.clone())
        }));
    }
    let of_task = |value: fn(&TaskRow) -> &String| {
        move |row: &StudyRow<'_>| row.task.map(|task| value(task).clone())
    };
    let name = |row: &StudyRow<'_>| Some(row.task.map_or(WHOLE.into(), |task| task.task.clone()));
    columns.push(text(rows, "task", name));
    columns.push(text(rows, "group", of_task(|task| &task.group)));
    columns.push(text(rows, "kind", of_task(|task| &task.kind)));
    columns.extend([
        figure(rows, "mb_s", |task| Some(task.mb_s), |whole| Some(whole.mb_s)),
        figure(rows, "mb_s_min", |task| Some(task.mb_s_min), |_| None),
        figure(rows, "mb_s_max", |task| Some(task.mb_s_max), |_| None),
        figure(rows, "ops_s", |task| Some(task.ops_s), |_| None),
        figure(rows, "mean_ms", |task| Some(task.mean_ms), |_| None),
        figure(rows, "p50_ms", |task| Some(task.p50_ms), |_| None),
        figure(rows, "p90_ms", |task| Some(task.p90_ms), |_| None),
        figure(rows, "p99_ms", |task| Some(task.p99_ms), |_| None),
        figure(rows, "p999_ms", |task| Some(task.p999_ms), |_| None),
        figure(rows, "max_ms", |task| Some(task.max_ms), |_| None),
        figure(rows, "share", |task| task.share, |whole| whole.efficiency),
        count(rows, "ops", |task| Some(task.ops), |_| None),
        count(rows, "failed", |task| Some(task.failed), |_| None),
        figure(rows, "disk_mb_s", |_| None, |whole| Some(whole.disk_mb_s)),
        figure(rows, "disk_busy", |_| None, |whole| Some(whole.disk_busy)),
        count(rows, "checks_held", |_| None, |whole| Some(whole.checks_held)),
        count(rows, "checks", |_| None, |whole| Some(whole.checks)),
        count(rows, "unfinished", |_| None, |whole| Some(whole.unfinished)),
        count(rows, "failed_over", |_| None, |whole| Some(whole.failed_over)),
    ]);
    columns.extend(of_seeds(rows));
    columns
}

/// The columns about seeds. They come last, so that those before them keep their places.
fn of_seeds(rows: &[StudyRow<'_>]) -> [Column; 12] {
    let number = |name: &str, of: &dyn Fn(&StudyRow<'_>) -> Option<u64>| Column {
        name: name.into(),
        cells: Cells::Count(rows.iter().map(of).collect()),
    };
    [
        number("seeds", &|row| Some(row.seed.map_or(row.summary.seeds, |_| 1))),
        number("seed", &|row| row.seed),
        half(rows, "mb_s", |task| Some(task.mb_s), |whole| Some(whole.mb_s)),
        half(rows, "ops_s", |task| Some(task.ops_s), |_| None),
        half(rows, "mean_ms", |task| Some(task.mean_ms), |_| None),
        half(rows, "p50_ms", |task| Some(task.p50_ms), |_| None),
        half(rows, "p90_ms", |task| Some(task.p90_ms), |_| None),
        half(rows, "p99_ms", |task| Some(task.p99_ms), |_| None),
        half(rows, "p999_ms", |task| Some(task.p999_ms), |_| None),
        half(rows, "share", |task| task.share, |whole| whole.efficiency),
        half(rows, "disk_mb_s", |_| None, |whole| Some(whole.disk_mb_s)),
        half(rows, "disk_busy", |_| None, |whole| Some(whole.disk_busy)),
    ]
}
