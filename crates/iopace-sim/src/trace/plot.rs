//! A trace as SVG, in the manner of the source's figures: dirty memory against its thresholds, the
//! rates, and pauses as dots, over one time axis.
//!
//! All coordinates come from whole numbers by additions and multiplications, so that the bytes are
//! the same on every machine.

use super::RunTrace;
use crate::look::Look;
use crate::svg::{Area, Drawn, finish_svg};
use iopace_core::time::Instant;
use plotters::prelude::*;

/// Size of the picture in pixels.
const SIZE: (u32, u32) = (960, 900);

/// Colours that stay apart for colour-blind eyes (Okabe and Ito 2008).
const BLUE: RGBColor = RGBColor(0, 114, 178);
const ORANGE: RGBColor = RGBColor(230, 159, 0);
const GREEN: RGBColor = RGBColor(0, 158, 115);
const PURPLE: RGBColor = RGBColor(204, 121, 167);
const RED: RGBColor = RGBColor(213, 94, 0);

/// A curve: what it is called, its colour, and its values, one per look.
type Curve = (&'static str, RGBColor, Vec<u64>);

/// The picture of a trace.
pub fn svg(title: &str, trace: &RunTrace) -> String {
    finish_svg(SIZE, |root| draw(root, title, trace))
}

fn draw(root: &Area<'_>, title: &str, trace: &RunTrace) -> Drawn {
    root.fill(&WHITE)?;
    let root = root.titled(title, ("sans-serif", 16))?;
    let panels = root.split_evenly((4, 1));
    let of = |value: fn(&Look) -> u64| trace.looks.iter().map(value).collect::<Vec<u64>>();
    let dirty: [Curve; 4] = [
        ("limit", RED, of(|look| look.pace.limit.0 >> 20)),
        ("set point", GREEN, of(|look| look.pace.setpoint.0 >> 20)),
        ("free run", PURPLE, of(|look| look.pace.freerun.0 >> 20)),
        ("dirty", BLUE, of(|look| look.pace.dirty.0 >> 20)),
    ];
    draw_curves(&panels[0], trace, "dirty memory, MiB", &dirty)?;
    let rates: [Curve; 4] = [
        ("write bandwidth", BLUE, of(|look| look.pace.write_bandwidth.0 / 1_000)),
        ("balanced", ORANGE, of(|look| look.pace.balanced_rate.0 / 1_000)),
        ("position", PURPLE, of(|look| look.pace.task_rate.0 / 1_000)),
        ("base", RED, of(|look| look.pace.base_rate.0 / 1_000)),
    ];
    draw_curves(&panels[1], trace, "rates, kB/s", &rates)?;
    let window: [Curve; 3] = [
        ("gap of write-back, ms", ORANGE, of(|look| look.window.write_back_gap.0 / 1_000_000)),
        ("at the disk", BLUE, of(|look| look.in_flight_count as u64)),
        ("writes that wait", GREEN, of(|look| look.paced_count as u64)),
    ];
    draw_curves(&panels[2], trace, "window", &window)?;
    draw_pauses(&panels[3], trace)
}

/// Milliseconds since the beginning.
fn ms(at: Instant) -> u64 {
    at.0 / 1_000_000
}

fn end(trace: &RunTrace) -> u64 {
    let looks = trace.looks.last().map_or(0, |look| ms(look.at));
    trace.pauses.last().map_or(0, |pause| ms(pause.at)).max(looks).max(1)
}

fn draw_curves(panel: &Area<'_>, trace: &RunTrace, caption: &str, curves: &[Curve]) -> Drawn {
    // Lines without values (a policy that has no such figure) would only be noise at zero.
    let curves: Vec<&Curve> =
        curves.iter().filter(|(_, _, values)| values.iter().any(|v| *v > 0)).collect();
    let highest = curves.iter().flat_map(|(_, _, values)| values).max().copied().unwrap_or(0);
    let mut chart = ChartBuilder::on(panel)
        .caption(caption, ("sans-serif", 13))
        .margin(6)
        .x_label_area_size(24)
        .y_label_area_size(64)
        .build_cartesian_2d(0..end(trace), 0..(highest + highest / 10).max(1))?;
    chart
        .configure_mesh()
        .max_light_lines(1)
        .x_label_formatter(&|at| format!("{}.{} s", at / 1_000, at % 1_000 / 100))
        .draw()?;
    for (name, colour, values) in curves {
        let points = trace.looks.iter().zip(values).map(|(look, value)| (ms(look.at), *value));
        let style = colour.stroke_width(1);
        chart
            .draw_series(LineSeries::new(points, style))?
            .label(*name)
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 14, y)], style));
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

fn draw_pauses(panel: &Area<'_>, trace: &RunTrace) -> Drawn {
    let longest = trace.pauses.iter().map(|pause| pause.pause.0 / 1_000).max().unwrap_or(0);
    let mut chart = ChartBuilder::on(panel)
        .caption("pauses of writers, ms", ("sans-serif", 13))
        .margin(6)
        .x_label_area_size(24)
        .y_label_area_size(64)
        .build_cartesian_2d(0..end(trace), 0..(longest + longest / 10).max(1_000))?;
    chart
        .configure_mesh()
        .max_light_lines(1)
        .x_label_formatter(&|at| format!("{}.{} s", at / 1_000, at % 1_000 / 100))
        .y_label_formatter(&|us| format!("{}.{}", us / 1_000, us % 1_000 / 100))
        .draw()?;
    let dots = trace.pauses.iter().map(|pause| (ms(pause.at), pause.pause.0 / 1_000));
    chart.draw_series(dots.map(|at| Circle::new(at, 1, BLUE.filled())))?;
    Ok(())
}
