//! How many slots does a group need? The fio job of the table `slots` over `nr_group_requests`.
//!
//! Both groups have the same cap. First completion and share of `g2`, and the throughput of both
//! over that of fifo without caps, for both ways to give slots and both programs. The mail of 2009
//! expects 25 to 30 to be enough for fairness; the curves answer.

use super::write_files;
use crate::milli::Milli;
use crate::svg::{Area, Drawn, finish_svg};
use crate::tables::slots::VARIANTS;
use crate::tables::slots::caps::{CAPS, CapPoint, of_variants};
use iopace_core::admit::Mode;
use plotters::prelude::*;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// Size of the picture in pixels.
const SIZE: (u32, u32) = (960, 360);

/// The longest time to a first completion that is drawn, in ms: with 4 slots it takes 3.7 s.
const FIRST_TOP: i32 = 4_000;

/// The panel of shares.
const SHARE: &str = "share of the newcomer";

/// All points, by variant and cap.
pub fn group_requests(seed: u64) -> Vec<CapPoint> {
    of_variants(seed, &VARIANTS)
}

/// The points as comma-separated values with a header line.
pub fn csv(points: &[CapPoint]) -> String {
    let mut text =
        String::from("variant,nr_group_requests,g2_first_ms,g2_rise_ms,g2_share,total_vs_fifo\n");
    for CapPoint { variant, cap, outcome, total_vs_fifo } in points {
        let time = |time: Option<Milli>| time.map_or(String::new(), |time| time.to_string());
        let (first, rise) = (time(outcome.g2_first_ms), time(outcome.g2_rise_ms));
        let share = outcome.g2_share;
        let _ = writeln!(text, "{variant},{cap},{first},{rise},{share},{total_vs_fifo}");
    }
    text
}

/// The picture.
pub fn svg(points: &[CapPoint]) -> String {
    finish_svg(SIZE, |root| draw(root, points))
}

type Value = fn(&CapPoint) -> Option<Milli>;

fn draw(root: &Area<'_>, points: &[CapPoint]) -> Drawn {
    root.fill(&WHITE)?;
    let title = "two groups with fio, depth 500: the cap on each (nr_group_requests)";
    let root = root.titled(title, ("sans-serif", 16))?;
    let panels: [(&str, i32, Value); 3] = [
        ("newcomer's first completion, s", FIRST_TOP, |point| {
            point.outcome.g2_first_ms.map(|first| Milli(first.0 / 1_000))
        }),
        (SHARE, 1_000, |point| Some(point.outcome.g2_share)),
        ("throughput over fifo's", 1_300, |point| Some(point.total_vs_fifo)),
    ];
    for (area, (caption, top, value)) in root.split_evenly((1, 3)).iter().zip(panels) {
        // One legend for all, where no line is: shares are all about a half.
        draw_panel(area, points, caption, top, value, caption == SHARE)?;
    }
    Ok(())
}

fn draw_panel(
    area: &Area<'_>,
    points: &[CapPoint],
    caption: &str,
    top_milli: i32,
    value: Value,
    has_legend: bool,
) -> Drawn {
    let last = CAPS.len() as i32 - 1;
    let mut chart = ChartBuilder::on(area)
        .caption(caption, ("sans-serif", 14))
        .margin(8)
        .x_label_area_size(34)
        .y_label_area_size(40)
        .build_cartesian_2d(0..last, 0i32..top_milli)?;
    chart
        .configure_mesh()
        .disable_x_mesh()
        .max_light_lines(1)
        .x_labels(CAPS.len())
        .x_desc("nr_group_requests")
        .x_label_formatter(&|index| {
            let cap = usize::try_from(*index).ok().and_then(|at| CAPS.get(at));
            cap.map_or(String::new(), |cap| cap.to_string())
        })
        .y_label_formatter(&|milli| format!("{:.1}", Milli(i64::from(*milli))))
        .draw()?;
    for variant in VARIANTS {
        let of_variant = points.iter().filter(|point| point.variant == variant.name);
        let line = of_variant.enumerate().filter_map(|(index, point)| {
            Some((index as i32, i32::try_from(value(point)?.0).ok()?.min(top_milli)))
        });
        // One colour for each way to give slots, apart for colour-blind eyes too (Okabe and Ito
        // 2008); the program that sleeps has the thick line.
        let colour = match variant.mode {
            Mode::Plain => RGBColor(213, 94, 0),
            Mode::Guaranteed => RGBColor(0, 114, 178),
        };
        let (width, size) = if variant.blocking { (3, 4) } else { (1, 2) };
        let style = colour.stroke_width(width);
        chart
            .draw_series(LineSeries::new(line, style).point_size(size))?
            .label(variant.name)
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 14, y)], style));
    }
    if !has_legend {
        return Ok(());
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::LowerRight)
        .background_style(WHITE.mix(0.8))
        .border_style(BLACK.mix(0.3))
        .label_font(("sans-serif", 11))
        .draw()?;
    Ok(())
}

/// Writes the curves into a directory: one CSV and one SVG. Returns the files.
///
/// # Errors
/// The directory or a file cannot be written; the message names it.
pub fn write(points: &[CapPoint], directory: &Path) -> std::io::Result<Vec<PathBuf>> {
    let files = [("slots.csv".to_string(), csv(points)), ("slots.svg".to_string(), svg(points))];
    write_files(directory, files.into())
}
