//! A trace as collectors show it: a bar for each span, one below the other, as an SVG.

use std::fmt::Write as _;
use std::time::Duration;

use bailiff_model::Wall;
use bailiff_runtime::trace::{Event, Finished};

/// Who tells, and in which colour.
const STAGES: [(&str, &str); 4] = [
    ("node-health-monitor", "#539bf5"),
    ("taint-manager", "#daaa3f"),
    ("zone-evictor", "#f47067"),
    ("daemonset-syncer", "#57ab5a"),
];
const PLAIN: &str = "#d5dae1";
const FAINT: &str = "#7d8590";
const GRID: &str = "#2d333b";
const GROUND: &str = "#16181d";

/// In pixels.
const MARGIN: f64 = 14.0;
const ROW: f64 = 19.0;
const BAR: f64 = 11.0;
/// A character of the text.
const CHARACTER: f64 = 7.2;
/// Title, stages and axis.
const HEAD: f64 = 74.0;
/// Where bars begin and end, and where what is said of them begins.
const BEGIN: f64 = 248.0;
const END: f64 = 640.0;
const SAID: f64 = 656.0;
const WIDTH: f64 = 972.0;

/// Seconds between two lines of the grid.
const STEP: u32 = 20;

/// The picture of a trace.
pub fn svg(root: &Finished, trace: &[&Finished]) -> String {
    let mut spans = trace.to_vec();
    spans.sort_by_key(|told| (told.parent.is_some(), told.span.start, told.span.end));
    let end = spans.iter().map(|told| told.span.end).max().unwrap_or(root.span.end);
    let scale = Scale {
        begin: root.span.start,
        lasts: since(root.span.start, end).as_secs_f64().max(1.0),
    };
    let height = HEAD + ROW * spans.len() as f64 + MARGIN;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" height=\"{height}\" \
         font-family=\"ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace\" font-size=\"12\">\n\
         <rect width=\"{WIDTH}\" height=\"{height}\" rx=\"8\" fill=\"{GROUND}\"/>\n"
    );
    head(&mut svg, root, end, &spans);
    grid(&mut svg, &scale, height);
    for (row, told) in spans.iter().enumerate() {
        line(&mut svg, &scale, told, HEAD + ROW * row as f64);
    }
    svg + "</svg>\n"
}

struct Scale {
    begin: Wall,
    /// Seconds.
    lasts: f64,
}

impl Scale {
    fn x(&self, at: Wall) -> f64 {
        BEGIN + (END - BEGIN) * since(self.begin, at).as_secs_f64() / self.lasts
    }
}

/// What it is a trace of, and who tells it.
fn head(svg: &mut String, root: &Finished, end: Wall, spans: &[&Finished]) {
    let title = format!(
        "{} {}",
        attribute(root, "k8s.node.name").unwrap_or_default(),
        length(since(root.span.start, end))
    );
    text(svg, MARGIN, 25.0, PLAIN, &title, true);
    let id = format!("trace {:032x}", root.context.trace_id());
    let x = WIDTH - MARGIN - CHARACTER * id.len() as f64;
    text(svg, x, 25.0, FAINT, &id, false);
    let mut x = MARGIN;
    for (stage, colour) in STAGES
        .iter()
        .filter(|(stage, _)| spans.iter().any(|told| told.scope == *stage))
    {
        bar(svg, x, 39.0, BAR, colour, 1.0);
        text(svg, x + 17.0, 49.0, FAINT, stage, false);
        x += 17.0 + CHARACTER * (stage.len() as f64 + 3.0);
    }
}

fn grid(svg: &mut String, scale: &Scale, height: f64) {
    for number in 0..=(scale.lasts / f64::from(STEP)) as u32 {
        let seconds = number * STEP;
        let x = scale.x(scale.begin + Duration::from_secs(seconds.into()));
        let bottom = height - MARGIN;
        writeln!(
            svg,
            "<line x1=\"{x:.1}\" y1=\"{HEAD}\" x2=\"{x:.1}\" y2=\"{bottom}\" stroke=\"{GRID}\"/>"
        )
        .expect("a string takes everything");
        text(svg, x + 2.0, HEAD - 5.0, FAINT, &format!("{seconds}s"), false);
    }
}

/// A span: what, of whom, when, and how it ended.
fn line(svg: &mut String, scale: &Scale, told: &Finished, y: f64) {
    let base = y + ROW - 6.0;
    let indent = if told.parent.is_some() { 12.0 } else { 0.0 };
    text(svg, MARGIN + indent, base, PLAIN, &told.span.name, told.parent.is_none());
    if let Some(pod) = attribute(told, "k8s.pod.name") {
        let x = MARGIN + indent + CHARACTER * (told.span.name.len() as f64 + 1.0);
        text(svg, x, base, FAINT, &pod, false);
    }
    let colour = STAGES
        .iter()
        .find(|(stage, _)| *stage == told.scope)
        .map_or(PLAIN, |(_, colour)| colour);
    let (begin, end) = (scale.x(told.span.start), scale.x(told.span.end));
    let top = y + (ROW - BAR) / 2.0;
    bar(svg, begin, top, (end - begin).max(2.0), colour, 1.0);
    for event in &told.span.events {
        // What held it meanwhile.
        let until = scale.x(event.at + Duration::from_secs_f64(held(event)));
        bar(svg, scale.x(event.at), top, until.min(end) - scale.x(event.at), GROUND, 0.45);
    }
    text(svg, SAID, base, FAINT, &said(told), false);
}

/// How long it took, how it ended and why.
fn said(told: &Finished) -> String {
    let span = &told.span;
    let mut words = vec![length(since(span.start, span.end))];
    words.extend(attribute(told, "bailiff.outcome"));
    if told.parent.is_none() {
        words.extend(attribute(told, "bailiff.verdict"));
    }
    if span.events.is_empty() {
        words.extend(attribute(told, "bailiff.reason"));
    }
    for event in &span.events {
        let reason = event.attributes.iter().find(|kv| kv.key.as_str() == "bailiff.reason");
        let reason = reason.map(|kv| kv.value.to_string()).unwrap_or_default();
        words.push(format!("{reason} {}", length(Duration::from_secs_f64(held(event)))));
    }
    words.join("  ")
}

fn held(event: &Event) -> f64 {
    let found = event.attributes.iter().find(|kv| kv.key.as_str() == "bailiff.held.seconds");
    found.and_then(|kv| kv.value.to_string().parse().ok()).unwrap_or_default()
}

fn attribute(told: &Finished, key: &str) -> Option<String> {
    let found = told.span.attributes.iter().find(|kv| kv.key.as_str() == key)?;
    Some(found.value.to_string())
}

fn since(begin: Wall, at: Wall) -> Duration {
    at.duration_since(begin).try_into().unwrap_or_default()
}

/// As people say it.
fn length(span: Duration) -> String {
    let seconds = span.as_secs_f64();
    match seconds {
        _ if seconds >= 60.0 => format!("{}m{:02}s", span.as_secs() / 60, span.as_secs() % 60),
        _ if seconds >= 10.0 || span.subsec_millis() == 0 => format!("{seconds:.0}s"),
        _ => format!("{seconds:.1}s"),
    }
}

fn bar(svg: &mut String, x: f64, y: f64, width: f64, colour: &str, opacity: f64) {
    writeln!(
        svg,
        "<rect x=\"{x:.1}\" y=\"{y}\" width=\"{width:.1}\" height=\"{BAR}\" rx=\"2\" fill=\"{colour}\" fill-opacity=\"{opacity}\"/>"
    )
    .expect("a string takes everything");
}

fn text(svg: &mut String, x: f64, y: f64, colour: &str, text: &str, is_bold: bool) {
    let weight = if is_bold { " font-weight=\"bold\"" } else { "" };
    // What is beside each other stays so in any font.
    let length = CHARACTER * text.chars().count() as f64;
    let text = text.replace('&', "&amp;").replace('<', "&lt;");
    writeln!(
        svg,
        "<text x=\"{x:.1}\" y=\"{y}\" fill=\"{colour}\"{weight} textLength=\"{length:.1}\" \
         lengthAdjust=\"spacingAndGlyphs\">{text}</text>"
    )
    .expect("a string takes everything");
}
