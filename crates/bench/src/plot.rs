//! A report as a picture: a panel for each figure, a group of bars for each situation, a bar for each program. Pure.

use std::fmt::Write as _;

use crate::report::{Played, Report};
use crate::text::name;

/// Sizes in pixels.
const WIDTH: usize = 860;
const PANEL: usize = 210;
const MARGIN: usize = 56;
const TOP: usize = 64;
/// Of bars within a panel, below its title and above its names.
const BARS: usize = 130;
const TITLE: usize = 34;

const FILLS: [&str; 2] = ["#57ab5a", "#daaa3f"];

/// A figure that a panel shows.
struct Panel {
    title: &'static str,
    figure: fn(&Played) -> Option<f64>,
}

const PANELS: [Panel; 5] = [
    Panel {
        title: "CPU, seconds of a processor, all processes together",
        figure: |played| Some(played.sum.cpu_seconds),
    },
    Panel {
        title: "peak memory, MiB, all processes together",
        figure: |played| Some(played.sum.peak),
    },
    Panel {
        title: "requests to the API server",
        // Far below what a float holds exactly.
        #[allow(clippy::cast_precision_loss)]
        figure: |played| played.requests_in_all().map(|requests| requests as f64),
    },
    Panel {
        title: "end of the grace to Ready=Unknown, p99, seconds",
        figure: |played| played.detection.map(|latency| latency.p99),
    },
    Panel {
        title: "due to pod deleted, p99, seconds",
        figure: |played| played.eviction.map(|latency| latency.p99),
    },
];

/// A bar: in which group and of which program, and what it shows.
struct Bar<'a> {
    name: &'a str,
    program: usize,
    value: f64,
}

/// The picture, as an SVG.
pub fn svg(report: &Report) -> String {
    let panels: Vec<(&Panel, Vec<Bar<'_>>)> = PANELS
        .iter()
        .map(|panel| (panel, bars(report, panel)))
        .filter(|(_, bars)| !bars.is_empty())
        .collect();
    let height = TOP + panels.len() * PANEL + MARGIN / 2;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" height=\"{height}\" \
         font-family=\"system-ui, 'DejaVu Sans', sans-serif\" font-size=\"12\">\n\
         <rect width=\"{WIDTH}\" height=\"{height}\" rx=\"8\" fill=\"#16181d\"/>\n"
    );
    legend(&mut svg, report);
    for (row, (panel, bars)) in panels.iter().enumerate() {
        draw(&mut svg, panel.title, bars, TOP + row * PANEL);
    }
    svg + "</svg>\n"
}

fn bars<'a>(report: &Report, panel: &Panel) -> Vec<Bar<'a>> {
    let runs = report.runs.iter().take(FILLS.len()).enumerate();
    let played = runs.flat_map(|(program, run)| run.situations.iter().map(move |played| (program, played)));
    let bar = |(program, played): (usize, &Played)| {
        Some(Bar {
            name: name(played.situation),
            program,
            value: (panel.figure)(played)?.max(0.0),
        })
    };
    played.filter_map(bar).collect()
}

fn legend(svg: &mut String, report: &Report) {
    let settings = &report.settings;
    let title = format!(
        "{} nodes, {} pods, {} cores",
        settings.nodes, settings.pods, report.machine.cores
    );
    write_text(svg, MARGIN, 28, "#d5dae1", "start", &title);
    for (program, run) in report.runs.iter().take(FILLS.len()).enumerate() {
        let (x, fill) = (MARGIN + program * 260, FILLS[program]);
        let _ = writeln!(svg, "<rect x=\"{x}\" y=\"38\" width=\"12\" height=\"12\" fill=\"{fill}\"/>");
        write_text(svg, x + 18, 48, "#d5dae1", "start", &run.program);
    }
}

fn draw(svg: &mut String, title: &str, bars: &[Bar<'_>], top: usize) {
    let mut names: Vec<&str> = Vec::new();
    for bar in bars {
        if !names.contains(&bar.name) {
            names.push(bar.name);
        }
    }
    let most = bars.iter().map(|bar| bar.value).fold(f64::MIN_POSITIVE, f64::max);
    let ground = top + TITLE + BARS;
    write_text(svg, MARGIN, top + 14, "#d5dae1", "start", title);
    let _ = writeln!(
        svg,
        "<line x1=\"{MARGIN}\" y1=\"{ground}\" x2=\"{}\" y2=\"{ground}\" stroke=\"#7d8590\"/>",
        WIDTH - MARGIN
    );
    let group = (WIDTH - 2 * MARGIN) / names.len().max(1);
    let width = (group / 4).min(60);
    for (column, name) in names.iter().enumerate() {
        let middle = MARGIN + column * group + group / 2;
        write_text(svg, middle, ground + 16, "#7d8590", "middle", name);
        for bar in bars.iter().filter(|bar| bar.name == *name) {
            let x = middle + bar.program * (width + 4) - width - 2;
            // A share of BARS, which is small and not negative.
            #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss)]
            let height = (bar.value / most * BARS as f64).round() as usize;
            let (y, fill) = (ground - height, FILLS[bar.program]);
            let _ = writeln!(
                svg,
                "<rect x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\" fill=\"{fill}\"/>"
            );
            write_text(svg, x + width / 2, y - 4, "#d5dae1", "middle", &short(bar.value));
        }
    }
}

fn write_text(svg: &mut String, x: usize, y: usize, fill: &str, anchor: &str, text: &str) {
    let text = text.replace('&', "&amp;").replace('<', "&lt;");
    let _ = writeln!(
        svg,
        "<text x=\"{x}\" y=\"{y}\" fill=\"{fill}\" text-anchor=\"{anchor}\">{text}</text>"
    );
}

/// Three digits that matter, of whatever size the value is.
fn short(value: f64) -> String {
    match value {
        value if value >= 100.0 => format!("{value:.0}"),
        value if value >= 1.0 => format!("{value:.1}"),
        value => format!("{value:.3}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tests::mk_report;

    #[test]
    fn every_program_has_a_bar_in_every_situation() {
        let mut report = mk_report();
        report.runs[1].program = "<other>".to_owned();
        let svg = svg(&report);
        // Two programs: three figures of two situations, two of one; and the ground, and a colour of each program.
        assert_eq!(svg.matches("<rect").count(), 2 * (3 * 2 + 2) + 1 + 2, "{svg}");
        assert!(svg.contains("&lt;other>") && svg.ends_with("</svg>\n"));
        let highest = format!("height=\"{BARS}\" fill=\"{}\"", FILLS[1]);
        assert!(svg.contains(&highest), "the largest bar fills its panel");
    }

    #[test]
    fn what_nobody_measured_has_no_panel() {
        let mut report = mk_report();
        for played in report.runs.iter_mut().flat_map(|run| &mut run.situations) {
            (played.requests, played.detection, played.eviction) = (None, None, None);
        }
        let svg = svg(&report);
        assert!(!svg.contains("requests") && svg.contains("peak memory"), "{svg}");
    }

    #[test]
    fn figures_have_three_digits_or_so() {
        let cases = [(12_345.6, "12346"), (12.34, "12.3"), (0.0049, "0.005")];
        for (value, wanted) in cases {
            assert_eq!(short(value), wanted);
        }
    }
}
