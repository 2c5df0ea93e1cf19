//! A study as a picture: what each task gets in each variant, one panel for each figure.
//!
//! All coordinates come from whole numbers by additions and multiplications, so that the bytes are
//! the same on every machine.

use super::scale::Scale;
use super::summary::{Summary, TaskInterval, TaskRow};
use crate::milli::Milli;
use crate::svg::{Area, Drawn, finish_svg};
use plotters::prelude::*;

/// Size of a panel in pixels.
const PANEL: (u32, u32) = (960, 260);

/// Tasks that are drawn: more lines would not be told apart. The first of the scenario.
pub const TASKS_MAX: usize = COLOURS.len();

/// Labels that fit below a panel, and the characters of one.
const LABELS_MAX: usize = 10;
const LABEL_CHARS: usize = 28;

/// Width of the ends of an error bar in pixels.
const BAR: u32 = 10;

/// Colours that stay apart for colour-blind eyes (Okabe and Ito 2008).
const COLOURS: [RGBColor; 7] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(230, 159, 0),
    RGBColor(86, 180, 233),
    RGBColor(0, 0, 0),
];

/// A figure of a task: what its panel is called, where it and its interval are found, and whether
/// equal factors make sense of it.
struct PlotFigure {
    caption: &'static str,
    value: fn(&TaskRow) -> Option<Milli>,
    half: fn(&TaskInterval) -> Option<Milli>,
    may_be_log: bool,
}

const FIGURES: [PlotFigure; 3] = [
    PlotFigure {
        caption: "throughput, MB/s",
        value: |task| Some(task.mb_s),
        half: |ci95| Some(ci95.mb_s),
        may_be_log: false,
    },
    PlotFigure {
        caption: "share of what it gets alone",
        value: |task| task.share,
        half: |ci95| ci95.share,
        may_be_log: false,
    },
    PlotFigure {
        caption: "99 % of the requests were done within, ms",
        value: |task| Some(task.p99_ms),
        half: |ci95| Some(ci95.p99_ms),
        may_be_log: true,
    },
];

impl PlotFigure {
    /// The least, the mean and the most of a task's interval in a variant; three times the value
    /// where there is no interval.
    fn of(&self, one: &Summary, name: &str) -> Option<[i64; 3]> {
        let task = one.tasks.iter().find(|task| task.task == name)?;
        let value = (self.value)(task)?.0.max(0);
        let half = task.ci95.as_ref().and_then(self.half).unwrap_or_default().0;
        Some([value.saturating_sub(half).max(0), value, value.saturating_add(half)])
    }
}

/// The picture of a study, as SVG.
pub fn svg(title: &str, all: &[Summary]) -> String {
    let is_known = |figure: &&PlotFigure| {
        all.iter().flat_map(|one| &one.tasks).any(|t| (figure.value)(t).is_some())
    };
    let figures: Vec<&PlotFigure> = FIGURES.iter().filter(is_known).collect();
    let count = u32::try_from(figures.len().max(1)).expect("three at most");
    finish_svg((PANEL.0, PANEL.1 * count + 30), |root| draw(root, title, all, &figures))
}

fn draw(root: &Area<'_>, title: &str, all: &[Summary], figures: &[&PlotFigure]) -> Drawn {
    root.fill(&WHITE)?;
    let root = root.titled(title, ("sans-serif", 16))?;
    let panels = root.split_evenly((figures.len().max(1), 1));
    for (panel, figure) in panels.iter().zip(figures) {
        draw_panel(panel, all, figure)?;
    }
    Ok(())
}

/// One figure: a line for each task over the variants, in their order, with the intervals of its
/// means.
fn draw_panel(panel: &Area<'_>, all: &[Summary], figure: &PlotFigure) -> Drawn {
    let names: Vec<&str> = all
        .first()
        .map_or(&[][..], |one| &one.tasks)
        .iter()
        .take(TASKS_MAX)
        .map(|task| &*task.task)
        .collect();
    let values = all.iter().flat_map(|one| names.iter().filter_map(|name| figure.of(one, name)));
    let means_and_most: Vec<i64> = values.flat_map(|[_, mean, most]| [mean, most]).collect();
    let scale = Scale::of(&means_and_most, figure.may_be_log);
    let steps = if scale.is_log { ", in equal factors" } else { "" };
    let last = i32::try_from(all.len()).unwrap_or(i32::MAX).saturating_sub(1);
    let mut chart = ChartBuilder::on(panel)
        .caption(format!("{}{steps}", figure.caption), ("sans-serif", 13))
        .margin(6)
        .margin_right(16)
        .x_label_area_size(24)
        .y_label_area_size(64)
        .build_cartesian_2d(0..last.max(1), scale)?;
    chart
        .configure_mesh()
        .max_light_lines(1)
        .x_labels(all.len().clamp(2, LABELS_MAX))
        .x_label_formatter(&|place| label(all, *place))
        .y_label_formatter(&|figure| Milli(*figure).to_string())
        .draw()?;
    for (name, colour) in names.iter().zip(COLOURS) {
        let points = all.iter().zip(0..).filter_map(|(one, at)| Some((at, figure.of(one, name)?)));
        let points: Vec<(i32, [i64; 3])> = points.collect();
        let means = points.iter().map(|(at, [_, mean, _])| (*at, *mean));
        chart
            .draw_series(LineSeries::new(means.clone(), colour.stroke_width(2)))?
            .label(*name)
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 14, y)], colour.stroke_width(2)));
        chart.draw_series(means.map(|at| Circle::new(at, 3, colour.filled())))?;
        let bars = points.into_iter().filter(|(_, [least, _, most])| least < most);
        chart.draw_series(bars.map(|(at, [least, mean, most])| {
            ErrorBar::new_vertical(at, least, mean, most, colour.filled(), BAR)
        }))?;
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperRight)
        .background_style(WHITE.mix(0.8))
        .border_style(BLACK.mix(0.3))
        .label_font(("sans-serif", 11))
        .draw()?;
    Ok(())
}

/// What a variant is called below the axis: the values that were set, without their keys.
fn label(all: &[Summary], place: i32) -> String {
    let Some(one) = usize::try_from(place).ok().and_then(|place| all.get(place)) else {
        return String::new();
    };
    let values: Vec<&str> = one.settings.iter().map(|setting| &*setting.value).collect();
    let text = if values.is_empty() { one.variant.clone() } else { values.join(" ") };
    text.chars().take(LABEL_CHARS).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::Scenario;
    use crate::stories;
    use crate::study::{StudyVariant, outcomes};

    #[test]
    fn a_study_is_drawn_with_every_task_and_the_same_bytes_again() {
        let story = stories::find("newcomer-beside-stream").expect("a story");
        let mut scenario = Scenario::parse(story.name, story.text).expect("it is right");
        scenario.duration = iopace_core::time::Nanos::from_secs(6);
        scenario.warmup = iopace_core::time::Nanos::ZERO;
        (scenario.steps, scenario.checks) = (Vec::new(), Vec::new());
        let variants = [StudyVariant::plain(&scenario), StudyVariant::plain(&scenario)];
        let all: Vec<Summary> =
            outcomes(&variants, &|_, _| ()).into_iter().map(|one| one.summary).collect();
        let picture = svg("two", &all);
        for task in &scenario.tasks {
            assert!(picture.contains(&task.name), "{} is not drawn", task.name);
        }
        assert!(picture.contains("MB/s") && picture.contains("share"));
        assert_eq!(picture, svg("two", &all));
        assert!(svg("nothing", &[]).contains("nothing"));
    }
}
