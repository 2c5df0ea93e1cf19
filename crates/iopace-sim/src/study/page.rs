//! The parts of a report that are text: the table, and what the words mean.

use super::print::{FIGURES, Mark, Marked, mark, mark_among};
use super::print::{checks, interval, meaning, percent, seeds};
use super::summary::{ReplayRow, Summary, TaskRow, WHOLE, WholeRow};
use crate::markup::escaped;
use crate::milli::Milli;
use std::fmt::Write as _;

/// Most streams of a replay in the table for each scheduler, those with the most requests: as many
/// as plots have curves.
const STREAMS_MAX: usize = super::view::CURVES_MAX;

/// The table of a report: a row for each variant and task, and one for each whole run.
pub(super) fn table(all: &[Summary], who: &str) -> String {
    let is_replay = all.iter().any(|one| one.whole.replay.is_some());
    let figures: Vec<&Marked> =
        FIGURES.iter().filter(|figure| !is_replay || figure.heading != "share").collect();
    let mut text = format!(
        "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"Figures\">\n<table>\n\
         <thead><tr><th scope=\"col\">variant</th><th scope=\"col\">{who}</th>"
    );
    let last = if is_replay { ["took", "late"] } else { ["", "checks"] };
    let headings = figures.iter().map(|figure| figure.heading).chain(["disk busy"]);
    for heading in headings.chain(last.into_iter().filter(|word| !word.is_empty())) {
        let _ = write!(text, "<th scope=\"col\">{heading}</th>");
    }
    text.push_str("</tr></thead>\n<tbody>\n");
    for summary in all {
        let variant = escaped(&summary.variant);
        let most = if is_replay { STREAMS_MAX } else { usize::MAX };
        for row in summary.tasks.iter().take(most) {
            let _ = write!(text, "<tr><td>{variant}</td><td>{}</td>", escaped(&row.task));
            cells(&mut text, &figures, row, |figure| mark(all, figure, row));
            text.push_str(if is_replay { "<td></td>" } else { "" });
            text.push_str("<td></td><td></td></tr>\n");
        }
        match &summary.whole.replay {
            Some(replay) => text.push_str(&replay_row(all, summary, replay, &figures)),
            None => text.push_str(&whole_row(&summary.variant, "", &summary.whole)),
        }
    }
    text.push_str("</tbody>\n</table>\n</div>\n");
    if all.len() > 1 {
        let _ =
            writeln!(text, "<p class=\"dim\">+ best, - worst of all variants for this {who}.</p>");
    }
    text.push_str(&each_seed(all, who));
    let left_out = all.iter().map(|one| one.tasks.len().saturating_sub(STREAMS_MAX)).max();
    if let (true, Some(count @ 1..)) = (is_replay, left_out) {
        let _ = writeln!(
            text,
            "<p class=\"dim\">{count} smaller streams are not shown; CSV, JSON and Parquet have \
             all.</p>"
        );
    }
    text
}

fn cells(text: &mut String, figures: &[&Marked], row: &TaskRow, mark: impl Fn(&Marked) -> Mark) {
    for figure in figures {
        let (value, interval) = figure.text(row).unwrap_or_default();
        let (class, sign) = match mark(figure) {
            Mark::Best => (" class=\"best\"", "+"),
            Mark::Worst => (" class=\"worst\"", "-"),
            Mark::Between => ("", " "),
        };
        let _ = write!(text, "<td{class}>{value}<i>{sign}</i>{interval}</td>");
    }
}

/// The row of all requests of a replay.
fn replay_row(
    all: &[Summary],
    summary: &Summary,
    replay: &ReplayRow,
    figures: &[&Marked],
) -> String {
    let mut text =
        format!("<tr class=\"whole\"><td>{}</td><td>{WHOLE}</td>", escaped(&summary.variant));
    let whole = |one: &Summary| one.whole.replay.as_ref().map(|replay| replay.all.clone());
    let wholes: Vec<TaskRow> = all.iter().filter_map(whole).collect();
    let rows: Vec<&TaskRow> = wholes.iter().collect();
    cells(&mut text, figures, &replay.all, |figure| mark_among(&rows, figure, &replay.all));
    let busy = percent(&summary.whole);
    let took = Milli(replay.elapsed_ms.0 / 1_000);
    let late = match replay.late {
        0 => String::new(),
        count => format!("{count}, by up to {:.1} s", Milli(replay.late_max_ms.0 / 1_000)),
    };
    let _ = writeln!(text, "<td>{busy}</td><td>{took:.2} s</td><td>{late}</td></tr>");
    text
}

fn whole_row(name: &str, seed: &str, whole: &WholeRow) -> String {
    let ci95 = whole.ci95.as_ref();
    let of = |half: Option<Milli>| interval(half, 2);
    let efficiency = whole.efficiency.map_or(String::new(), |sum| {
        format!("{sum:.2}<i> </i>{}", of(ci95.and_then(|ci95| ci95.efficiency)))
    });
    format!(
        "<tr class=\"whole\"><td>{}</td><td>{WHOLE}</td>{seed}<td>{:.2}<i> </i>{}</td><td></td>\
         <td></td><td></td><td></td><td>{efficiency}</td><td>{}</td><td>{}</td></tr>\n",
        escaped(name),
        whole.mb_s,
        of(ci95.map(|ci95| ci95.mb_s)),
        percent(whole),
        checks(whole),
    )
}

/// The figures of every seed, folded up; nothing if there is one.
fn each_seed(all: &[Summary], who: &str) -> String {
    let Some(seeds) = seeds(all) else { return String::new() };
    let mut text = format!(
        "<p class=\"dim\">{}.</p>\n<details><summary>Each seed</summary>\n<div class=\"scroll\" \
         tabindex=\"0\" role=\"region\" aria-label=\"Figures of each seed\">\n<table>\n<thead><tr>",
        escaped(&capital(&meaning(seeds)))
    );
    let headings = FIGURES.iter().map(|figure| figure.heading);
    for heading in ["variant", who, "seed"].into_iter().chain(headings) {
        let _ = write!(text, "<th scope=\"col\">{heading}</th>");
    }
    text.push_str("<th scope=\"col\">disk busy</th><th scope=\"col\">checks</th></tr></thead>\n");
    text.push_str("<tbody>\n");
    for summary in all {
        for (place, task) in summary.tasks.iter().enumerate() {
            for one in &summary.by_seed {
                let (variant, task) = (escaped(&summary.variant), escaped(&task.task));
                let _ = write!(text, "<tr><td>{variant}</td><td>{task}</td><td>{}</td>", one.seed);
                let figures: Vec<&Marked> = FIGURES.iter().collect();
                cells(&mut text, &figures, &one.tasks[place], |_| Mark::Between);
                text.push_str("<td></td><td></td></tr>\n");
            }
        }
        for one in &summary.by_seed {
            let seed = format!("<td>{}</td>", one.seed);
            text.push_str(&whole_row(&summary.variant, &seed, &one.whole));
        }
    }
    text.push_str("</tbody>\n</table>\n</div>\n</details>\n");
    text
}

/// A sentence begins with a capital.
fn capital(text: &str) -> String {
    let mut letters = text.chars();
    let first = letters.next().map(|letter| letter.to_ascii_uppercase());
    first.into_iter().chain(letters).collect()
}

/// What the words of every report mean.
macro_rules! reading {
    () => {
        "\
<dt>latency</dt><dd>From the submission of a request to its completion, as the task sees it. \
Percentiles are exact to 1/16; a request that still waits at the end counts with the time so \
far.</dd>
<dt>plots</dt><dd>Drag to zoom in time, double-click or Escape to see all; the arrow keys \
move the cursor of a plot that has the focus. A click on a name in a legend hides its curve. \
Panels of one row have the same scale. The warm-up is drawn, but counts in no figure and no \
percentile.</dd>
<dt>where the time went</dt><dd>The sum over all requests of the time that each spent \
waiting for dirty memory (pace), for a slot or within a limit (admit), for its turn in the \
scheduler or while the disk was kept for another task (sched), for a full window (window), \
and at the disk.</dd>
</dl></section>
"
    };
}

/// What the words mean.
pub(super) const READING: &str = concat!(
    "\
<section><h2>How to read it</h2>
<dl>
<dt>share</dt><dd>Requests per second over those of the same task alone on the same disk, \
without a scheduler; in the rows (all) their sum. 1.00 is about the limit of a disk with one \
head.</dd>
",
    reading!()
);

/// What the words of a replay mean.
pub(super) const REPLAY_READING: &str = concat!(
    "\
<section><h2>How to read it</h2>
<dl>
<dt>throughput</dt><dd>A trace that is replayed by its time stamps asks for the same under every \
scheduler; what differs is how long requests wait. In a closed loop the throughput differs. Rates \
of a stream count the time from its first request to its last.</dd>
<dt>late</dt><dd>Requests that were due while 4096 others of their trace were outstanding: they \
are submitted as soon as one is finished, and their latency counts from when they were due.</dd>
",
    reading!()
);
