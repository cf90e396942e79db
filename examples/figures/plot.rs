//! Figures of line plots in panels, written as SVG and as CSV, and tables in Markdown.

use super::sample::Sample;
use plotters::coord::combinators::WithKeyPoints;
use plotters::coord::ranged1d::{AsRangedCoord, ValueFormatter};
use plotters::prelude::*;
use std::collections::BTreeMap;
use std::error::Error;
use std::path::Path;

pub struct Figure {
    pub name: &'static str,
    pub columns: usize,
    pub panels: Vec<Panel>,
}

pub struct Panel {
    pub title: String,
    pub x: Axis,
    pub y: Axis,
    pub lines: Vec<Line>,
}

#[derive(Clone, Copy)]
pub struct Axis {
    pub label: &'static str,
    pub log: bool,
}

pub struct Line {
    pub label: String,
    pub colour: usize,
    pub strength: Strength,
    pub points: Vec<Point>,
    /// Whether the legend shows the line.
    pub named: bool,
}

impl Line {
    /// A bold line that the legend shows.
    pub fn new(label: &str, colour: usize, points: Vec<Point>) -> Line {
        Line { label: label.into(), colour, strength: Strength::Bold, points, named: true }
    }
}

/// The style of a line, to distinguish lines of the same colour.
#[derive(Clone, Copy)]
pub enum Strength {
    Bold,
    Thin,
    Faint,
    Dashed,
}

/// A point with an error bar from `low` to `high`. If both are y, there is no bar.
#[derive(Clone, Copy)]
pub struct Point {
    pub x: f64,
    pub y: f64,
    pub low: f64,
    pub high: f64,
}

impl Point {
    pub fn new(x: f64, y: f64) -> Point {
        Point { x, y, low: y, high: y }
    }
}

/// The points of a curve at these times, without bars.
pub fn points(at: &[u64], curve: &[f64]) -> Vec<Point> {
    at.iter().zip(curve).map(|(&time, &value)| Point::new(time as f64, value)).collect()
}

/// The mean curve of a sample. About eight points have a bar of one standard error to each side.
pub fn mean_curve(at: &[u64], sample: &Sample) -> Vec<Point> {
    const BARS: usize = 8;
    let mut points = points(at, &sample.mean());
    let (errors, step) = (sample.errors(), at.len().div_ceil(BARS));
    for (point, error) in points.iter_mut().zip(errors).rev().step_by(step) {
        (point.low, point.high) = (point.y - error, point.y + error);
    }
    points
}

/// The width and height of a panel in pixels, and the width of the legend at its right.
const SIZE: (u32, u32) = (680, 330);
const LEGEND: u32 = 190;

impl Figure {
    /// Writes NAME.svg and NAME.csv.
    pub fn write(&self, out: &Path) -> Result<(), Box<dyn Error>> {
        std::fs::write(out.join(self.name).with_extension("csv"), self.csv())?;
        let path = out.join(self.name).with_extension("svg");
        let rows = self.panels.len().div_ceil(self.columns);
        let size = (SIZE.0 * self.columns as u32, SIZE.1 * rows as u32);
        let page = SVGBackend::new(&path, size).into_drawing_area();
        page.fill(&WHITE)?;
        for (panel, area) in self.panels.iter().zip(page.split_evenly((rows, self.columns))) {
            panel.draw(&area)?;
        }
        page.present()?;
        Ok(())
    }

    /// A row for each x of each panel. Each line has a column for y, and two for the ends of its bars if it has any.
    fn csv(&self) -> String {
        let mut names: Vec<(&str, bool)> = Vec::new();
        for line in self.panels.iter().flat_map(|panel| &panel.lines).filter(|line| !line.points.is_empty()) {
            let bars = line.points.iter().any(|p| p.low < p.high);
            match names.iter_mut().find(|(name, _)| *name == line.label) {
                Some((_, some)) => *some |= bars,
                None => names.push((&line.label, bars)),
            }
        }
        let number = |number: f64| format!("{}", (number * 1e3).round() / 1e3);
        let header = names.iter().map(|(name, bars)| {
            if *bars { format!(",\"{name}\",\"{name}, low\",\"{name}, high\"") } else { format!(",\"{name}\"") }
        });
        let mut text = format!("panel,x{}\n", header.collect::<String>());
        for panel in &self.panels {
            let xs: BTreeMap<u64, f64> = // x is never negative, so its bits have the same order
                panel.lines.iter().flat_map(|line| &line.points).map(|p| (p.x.to_bits(), p.x)).collect();
            for x in xs.into_values() {
                text += &format!("\"{}\",{x}", panel.title);
                for (name, bars) in &names {
                    let line = panel.lines.iter().find(|line| line.label == *name);
                    let point = line.and_then(|line| line.points.iter().find(|p| p.x == x));
                    text += &point.map_or(",".into(), |p| format!(",{}", number(p.y)));
                    if *bars {
                        let bar = point.filter(|p| p.low < p.high);
                        text += &bar.map_or(",,".into(), |p| format!(",{},{}", number(p.low), number(p.high)));
                    }
                }
                text.push('\n');
            }
        }
        text
    }
}

type Area<'a> = DrawingArea<SVGBackend<'a>, plotters::coord::Shift>;

impl Panel {
    fn draw(&self, area: &Area) -> Result<(), Box<dyn Error>> {
        let shown = |p: &&Point| (!self.x.log || p.x > 0.0) && (!self.y.log || p.y > 0.0);
        let all: Vec<Point> = self.lines.iter().flat_map(|line| line.points.iter().filter(shown).copied()).collect();
        let (x0, x1) = range(all.iter().map(|p| p.x), f64::MIN);
        let top = all.iter().map(|p| p.high).fold(0.0, f64::max);
        let heights = all.iter().flat_map(|p| [p.y, p.low, p.high]);
        let (y0, y1) = if self.y.log {
            // A logarithmic y axis shows at most five decades.
            let (low, high) = range(heights, top / 1e5);
            (low, high * 1.5)
        } else {
            let (low, high) = range(heights, f64::MIN);
            (low.min(0.0), high * 1.05)
        };
        match (self.x.log, self.y.log) {
            (false, false) => self.draw_on(area, x0..x1, y0..y1, y0),
            (true, false) => self.draw_on(area, log_axis(x0, x1), y0..y1, y0),
            (false, true) => self.draw_on(area, x0..x1, log_axis(y0, y1), y0),
            (true, true) => self.draw_on(area, log_axis(x0, x1), log_axis(y0, y1), y0),
        }
    }

    fn draw_on<X, Y>(&self, panel: &Area, x: X, y: Y, bottom: f64) -> Result<(), Box<dyn Error>>
    where
        X: AsRangedCoord<Value = f64, CoordDescType: ValueFormatter<f64>>,
        Y: AsRangedCoord<Value = f64, CoordDescType: ValueFormatter<f64>>,
    {
        let (area, legend) = panel.split_horizontally(SIZE.0 - LEGEND);
        let mut chart = ChartBuilder::on(&area)
            .caption(&self.title, ("sans-serif", 16))
            .margin(8)
            .x_label_area_size(36)
            .y_label_area_size(60)
            .build_cartesian_2d(x, y)?;
        chart
            .configure_mesh()
            .x_desc(self.x.label)
            .y_desc(self.y.label)
            .x_label_formatter(&|x| number(*x))
            .y_label_formatter(&|y| number(*y))
            .max_light_lines(0)
            .draw()?;
        let mut row = 34;
        for line in &self.lines {
            let style = match line.strength {
                Strength::Bold => colour(line.colour).stroke_width(2),
                Strength::Thin | Strength::Dashed => colour(line.colour).stroke_width(1),
                Strength::Faint => colour(line.colour).mix(0.4).stroke_width(1),
            };
            let visible = |p: &&Point| p.y >= bottom && (!self.x.log || p.x > 0.0);
            let mut path: Vec<(f64, f64)> = line.points.iter().filter(visible).map(|p| (p.x, p.y)).collect();
            path.dedup_by_key(|point| chart.backend_coord(point));
            let path = thinned(path, self.x.log);
            match line.strength {
                Strength::Dashed => chart.draw_series(DashedLineSeries::new(path, 6, 4, style)).map(|_| ())?,
                _ => chart.draw_series(LineSeries::new(path, style)).map(|_| ())?,
            }
            if line.named {
                let dashes: &[i32] = if matches!(line.strength, Strength::Dashed) { &[0, 8, 16] } else { &[0] };
                let length = if dashes.len() > 1 { 5 } else { 20 };
                for &from in dashes {
                    legend.draw(&PathElement::new(vec![(from, row + 6), (from + length, row + 6)], style))?;
                }
                legend.draw(&Text::new(line.label.as_str(), (26, row), ("sans-serif", 12)))?;
                row += 18;
            }
            let (left, top) = (area.get_pixel_range().0.start, area.get_pixel_range().1.start);
            for p in line.points.iter().filter(|p| p.low < p.high) {
                let ((x, low), (_, high)) =
                    (chart.backend_coord(&(p.x, p.low.max(bottom))), chart.backend_coord(&(p.x, p.high)));
                let (x, low, high) = (x - left, low - top, high - top);
                let bar = [(x - 2, low), (x + 2, low), (x, low), (x, high), (x - 2, high), (x + 2, high)];
                area.draw(&PathElement::new(bar, style))?;
            }
        }
        Ok(())
    }
}

/// The maximum number of points of a curve. A panel has fewer than 500 pixels in a row.
pub const MOST_POINTS: usize = 200;

/// At most [`MOST_POINTS`] of these points, with the first and the last: one in each of as many equal parts of the axis.
pub fn thinned(points: Vec<(f64, f64)>, log: bool) -> Vec<(f64, f64)> {
    let ([(first, _), ..], [.., last]) = (&points[..], &points[..]) else { return points };
    if points.len() <= MOST_POINTS {
        return points;
    }
    let place = |x: f64| if log { x.ln() } else { x };
    let (from, length) = (place(*first), place(last.0) - place(*first));
    let part = |x: f64| ((place(x) - from) / length * (MOST_POINTS - 2) as f64) as usize;
    let mut kept = points.clone();
    kept.dedup_by_key(|point| part(point.0));
    kept.push(*last);
    kept.dedup();
    kept
}

/// A logarithmic axis with ticks at 1, 2 and 5 times the powers of ten; where there are many, at these.
fn log_axis(low: f64, high: f64) -> WithKeyPoints<LogCoord<f64>> {
    let decades = (high / low).log10();
    let clear: &[f64] = if decades > 3.0 { &[1.0] } else { &[1.0, 2.0, 5.0] };
    let powers = (low.log10().floor() as i32..=high.log10().ceil() as i32).map(|power| 10f64.powi(power));
    let ticks = powers.flat_map(|power| clear.iter().map(move |digit| digit * power));
    let inside = ticks.filter(|&tick| tick >= low * (1.0 - 1e-9) && tick <= high * (1.0 + 1e-9)).collect();
    (low..high).log_scale().with_key_points(inside)
}

fn range(values: impl Iterator<Item = f64>, least: f64) -> (f64, f64) {
    let (low, high) = values.fold((f64::MAX, f64::MIN), |(low, high), value| (low.min(value), high.max(value)));
    if low > high {
        return (1.0, 2.0); // nothing to draw
    }
    let low = low.max(least);
    if low < high { (low, high) } else { (low, low + 1.0) }
}

/// The number of the last colour.
pub const BLACK: usize = 13;

fn colour(number: usize) -> RGBColor {
    // The colours of Okabe and Ito come first, because colour-blind readers can distinguish them. Black is last.
    const COLOURS: [(u8, u8, u8); BLACK + 1] = [
        (0, 114, 178),
        (213, 94, 0),
        (0, 158, 115),
        (204, 121, 167),
        (230, 159, 0),
        (86, 180, 233),
        (150, 150, 150),
        (120, 60, 20),
        (100, 60, 180),
        (180, 190, 0),
        (220, 20, 60),
        (240, 228, 66),
        (60, 200, 60),
        (0, 0, 0),
    ];
    let (red, green, blue) = COLOURS[number % COLOURS.len()];
    RGBColor(red, green, blue)
}

fn number(value: f64) -> String {
    match value.abs() {
        0.0 => "0".into(),
        1e6.. => format!("{value:e}"),
        10.0.. => format!("{value:.0}"),
        _ => format!("{}", (value * 1e4).round() / 1e4),
    }
}

/// A table in Markdown.
pub fn table(header: &[String], rows: &[Vec<String>]) -> String {
    let line = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
    let rule = format!("|---|{}\n", "---:|".repeat(header.len() - 1));
    line(header) + &rule + &rows.iter().map(|row| line(row)).collect::<String>()
}
