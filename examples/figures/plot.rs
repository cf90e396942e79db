//! What is shown: lines in panels, as SVG and as CSV, and tables in Markdown.

use plotters::coord::ranged1d::{AsRangedCoord, ValueFormatter};
use plotters::prelude::*;
use std::error::Error;
use std::fmt::Write;
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
    /// Empty = not in the legend.
    pub label: String,
    pub colour: usize,
    pub strength: Strength,
    pub points: Vec<Point>,
}

/// So that lines of one colour can be told apart.
#[derive(Clone, Copy)]
pub enum Strength {
    Bold,
    Thin,
    Faint,
}

/// A bar goes from low to high; there is none where both are y.
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

/// The points of a curve at these times.
pub fn points(at: &[u64], curve: &[f64]) -> Vec<Point> {
    at.iter().zip(curve).map(|(&time, &value)| Point::new(time as f64, value)).collect()
}

/// Of a panel, with the room for its legend at the right.
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

    fn csv(&self) -> String {
        let mut text = String::from("panel,line,x,y,low,high\n");
        for panel in &self.panels {
            for (number, line) in panel.lines.iter().enumerate() {
                let label = if line.label.is_empty() { format!("line {number}") } else { line.label.clone() };
                for p in &line.points {
                    let numbers = [p.x, p.y, p.low, p.high].map(|number| format!("{}", (number * 1e3).round() / 1e3));
                    let _ = writeln!(text, "\"{}\",\"{label}\",{}", panel.title, numbers.join(","));
                }
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
            // Five decades show all there is to see.
            let (low, high) = range(heights, top / 1e5);
            (low, high * 1.5)
        } else {
            let (low, high) = range(heights, f64::MIN);
            (low.min(0.0), high * 1.05)
        };
        match (self.x.log, self.y.log) {
            (false, false) => self.draw_on(area, x0..x1, y0..y1, y0),
            (true, false) => self.draw_on(area, (x0..x1).log_scale(), y0..y1, y0),
            (false, true) => self.draw_on(area, x0..x1, (y0..y1).log_scale(), y0),
            (true, true) => self.draw_on(area, (x0..x1).log_scale(), (y0..y1).log_scale(), y0),
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
            .x_label_formatter(&|x| self.x.tick(*x))
            .y_label_formatter(&|y| self.y.tick(*y))
            .max_light_lines(0)
            .draw()?;
        let mut row = 34;
        for line in &self.lines {
            let style = match line.strength {
                Strength::Bold => colour(line.colour).stroke_width(2),
                Strength::Thin => colour(line.colour).stroke_width(1),
                Strength::Faint => colour(line.colour).mix(0.4).stroke_width(1),
            };
            let visible = |p: &&Point| p.y >= bottom && (!self.x.log || p.x > 0.0);
            chart.draw_series(LineSeries::new(line.points.iter().filter(visible).map(|p| (p.x, p.y)), style))?;
            if !line.label.is_empty() {
                legend.draw(&PathElement::new(vec![(0, row + 6), (20, row + 6)], style))?;
                legend.draw(&Text::new(line.label.as_str(), (26, row), ("sans-serif", 12)))?;
                row += 18;
            }
            let bars = line.points.iter().filter(|p| p.low < p.high);
            chart.draw_series(
                bars.map(|p| ErrorBar::new_vertical(p.x, p.low.max(bottom), p.y.max(bottom), p.high, style, 4)),
            )?;
        }
        Ok(())
    }
}

impl Axis {
    /// The number at a tick; on a logarithmic axis some have no room for one.
    fn tick(&self, value: f64) -> String {
        let digit = value / 10f64.powf((value * (1.0 + 1e-9)).log10().floor());
        let roomy = [1.0, 2.0, 5.0].iter().any(|clear| (digit - clear).abs() < 1e-6);
        if self.log && !roomy { String::new() } else { number(value) }
    }
}

fn range(values: impl Iterator<Item = f64>, least: f64) -> (f64, f64) {
    let (low, high) = values.fold((f64::MAX, f64::MIN), |(low, high), value| (low.min(value), high.max(value)));
    let low = low.max(least);
    if low < high { (low, high) } else { (low, low + 1.0) }
}

/// The last colour's number.
pub const BLACK: usize = 13;

fn colour(number: usize) -> RGBColor {
    // Okabe and Ito's first, which colour-blind readers can tell apart; black last.
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
