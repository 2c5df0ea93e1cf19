//! A study as a picture: what each task gets in each variant, one panel for each figure.
//!
//! All coordinates come from whole numbers by additions and multiplications, so that the bytes are
//! the same on every machine.

use super::summary::{Summary, TaskRow};
use crate::milli::Milli;
use crate::sweep::{Area, Drawn, finish_svg};
use plotters::prelude::*;

/// Size of a panel in pixels.
const PANEL: (u32, u32) = (960, 260);

/// Tasks that are drawn: more lines would not be told apart. The first of the scenario.
pub const TASKS_MAX: usize = COLOURS.len();

/// Labels that fit below a panel, and the characters of one.
const LABELS_MAX: usize = 10;
const LABEL_CHARS: usize = 28;

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

/// A figure of a task: what the panel is called, and where it is found.
type Figure = (&'static str, fn(&TaskRow) -> Option<Milli>);

const FIGURES: [Figure; 3] = [
    ("throughput, MB/s", |task| Some(task.mb_s)),
    ("share of what it gets alone", |task| task.share),
    ("99 % of the requests were done within, ms", |task| Some(task.p99_ms)),
];

/// The picture of a study, as SVG.
pub fn svg(title: &str, all: &[Summary]) -> String {
    let is_known =
        |figure: &&Figure| all.iter().flat_map(|one| &one.tasks).any(|t| figure.1(t).is_some());
    let figures: Vec<&Figure> = FIGURES.iter().filter(is_known).collect();
    let count = u32::try_from(figures.len().max(1)).expect("three at most");
    finish_svg((PANEL.0, PANEL.1 * count + 30), |root| draw(root, title, all, &figures))
}

fn draw(root: &Area<'_>, title: &str, all: &[Summary], figures: &[&Figure]) -> Drawn {
    root.fill(&WHITE)?;
    let root = root.titled(title, ("sans-serif", 16))?;
    let panels = root.split_evenly((figures.len().max(1), 1));
    for (panel, figure) in panels.iter().zip(figures) {
        draw_panel(panel, all, figure)?;
    }
    Ok(())
}

/// One figure: a line for each task over the variants, in their order.
fn draw_panel(panel: &Area<'_>, all: &[Summary], (caption, of): &Figure) -> Drawn {
    let names: Vec<&str> = all
        .first()
        .map_or(&[][..], |one| &one.tasks)
        .iter()
        .take(TASKS_MAX)
        .map(|task| &*task.task)
        .collect();
    let value = |one: &Summary, name: &str| {
        let task = one.tasks.iter().find(|task| task.task == name)?;
        of(task).map(|figure| figure.0.max(0))
    };
    let values = all.iter().flat_map(|one| names.iter().filter_map(|name| value(one, name)));
    let highest = values.max().unwrap_or(0);
    let last = i32::try_from(all.len()).unwrap_or(i32::MAX).saturating_sub(1);
    let mut chart = ChartBuilder::on(panel)
        .caption(caption, ("sans-serif", 13))
        .margin(6)
        .margin_right(16)
        .x_label_area_size(24)
        .y_label_area_size(64)
        .build_cartesian_2d(0..last.max(1), 0..(highest + highest / 10).max(1))?;
    chart
        .configure_mesh()
        .max_light_lines(1)
        .x_labels(all.len().clamp(2, LABELS_MAX))
        .x_label_formatter(&|place| label(all, *place))
        .y_label_formatter(&|figure| Milli(*figure).to_string())
        .draw()?;
    for (name, colour) in names.iter().zip(COLOURS) {
        let points = all.iter().zip(0..).filter_map(|(one, at)| Some((at, value(one, name)?)));
        let points: Vec<(i32, i64)> = points.collect();
        chart
            .draw_series(LineSeries::new(points.iter().copied(), colour.stroke_width(2)))?
            .label(*name)
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 14, y)], colour.stroke_width(2)));
        chart.draw_series(points.into_iter().map(|at| Circle::new(at, 3, colour.filled())))?;
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
    use crate::study::{Variant, outcomes};

    #[test]
    fn a_study_is_drawn_with_every_task_and_the_same_bytes_again() {
        let story = stories::find("newcomer-beside-stream").expect("a story");
        let mut scenario = Scenario::parse(story.name, story.text).expect("it is right");
        scenario.duration = iopace_core::time::Nanos::from_secs(6);
        scenario.warmup = iopace_core::time::Nanos::ZERO;
        (scenario.steps, scenario.checks) = (Vec::new(), Vec::new());
        let variants = [Variant::plain(&scenario), Variant::plain(&scenario)];
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
