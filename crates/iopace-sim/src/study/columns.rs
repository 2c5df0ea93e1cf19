//! A study as columns: what CSV and Parquet files hold. A row for each variant and task, and one
//! for each whole run, whose task is `(all)`.

use super::print::WHOLE;
use super::summary::{Summary, TaskRow, WholeRow};
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

/// A row: a task of a variant, or the whole of it.
type Row<'a> = (&'a Summary, Option<&'a TaskRow>);

fn figure(
    rows: &[Row<'_>],
    name: &str,
    of_task: fn(&TaskRow) -> Option<Milli>,
    of_whole: fn(&WholeRow) -> Option<Milli>,
) -> Column {
    let cells = rows.iter().map(|(summary, task)| match task {
        Some(task) => of_task(task),
        None => of_whole(&summary.whole),
    });
    Column { name: name.into(), cells: Cells::Figure(cells.collect()) }
}

fn count(
    rows: &[Row<'_>],
    name: &str,
    of_task: fn(&TaskRow) -> Option<u64>,
    of_whole: fn(&WholeRow) -> Option<u64>,
) -> Column {
    let cells = rows.iter().map(|(summary, task)| match task {
        Some(task) => of_task(task),
        None => of_whole(&summary.whole),
    });
    Column { name: name.into(), cells: Cells::Count(cells.collect()) }
}

fn text(rows: &[Row<'_>], name: &str, of: impl Fn(&Row<'_>) -> Option<String>) -> Column {
    Column { name: name.into(), cells: Cells::Text(rows.iter().map(of).collect()) }
}

/// The columns of a study. What was set in the variants has a column for each key.
pub fn columns(all: &[Summary]) -> Vec<Column> {
    let mut rows: Vec<Row<'_>> = Vec::new();
    for summary in all {
        rows.extend(summary.tasks.iter().map(|task| (summary, Some(task))));
        rows.push((summary, None));
    }
    let rows = &rows[..];
    let mut columns = vec![text(rows, "variant", |(summary, _)| Some(summary.variant.clone()))];
    for setting in all.iter().flat_map(|summary| &summary.settings) {
        if columns.iter().any(|column| column.name == setting.key) {
            continue;
        }
        columns.push(text(rows, &setting.key, |(summary, _)| {
            let found = summary.settings.iter().find(|other| other.key == setting.key);
            found.map(|setting| setting.value.clone())
        }));
    }
    let of_task =
        |value: fn(&TaskRow) -> &String| move |row: &Row<'_>| row.1.map(|task| value(task).clone());
    let name = |row: &Row<'_>| Some(row.1.map_or(WHOLE.into(), |task| task.task.clone()));
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
    columns
}
