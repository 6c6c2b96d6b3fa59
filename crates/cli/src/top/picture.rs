//! A picture of a frame, for documents: the same lines as an SVG. The test below holds the one of the README to what is drawn.

use std::fmt::Write as _;
use std::path::Path;

use super::frame::{Line, Size, Span, Tone, frame};
use super::sample;

/// Set to have the picture written instead of compared.
const UPDATE: &str = "BAILIFF_UPDATE_DOCS";
/// A character, in pixels.
const WIDTH: usize = 8;
const HEIGHT: usize = 17;
const MARGIN: usize = 14;

fn svg(lines: &[Line], size: Size) -> String {
    let (width, height) = (size.width * WIDTH + 2 * MARGIN, size.height * HEIGHT + 2 * MARGIN);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" height=\"{height}\" \
         font-family=\"ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace\" font-size=\"13\">\n\
         <rect width=\"{width}\" height=\"{height}\" rx=\"8\" fill=\"#16181d\"/>\n"
    );
    for (row, line) in lines.iter().enumerate() {
        let mut column = 0;
        for span in line.spans() {
            write_text(&mut svg, span, column, row);
            column += span.width();
        }
    }
    svg + "</svg>\n"
}

fn write_text(svg: &mut String, span: &Span, column: usize, row: usize) {
    let text = span.text().trim();
    if text.is_empty() {
        return;
    }
    let (fill, weight) = match span.tone() {
        Tone::Plain => ("#d5dae1", ""),
        Tone::Title => ("#d5dae1", " font-weight=\"bold\""),
        Tone::Faint => ("#7d8590", ""),
        Tone::Good => ("#57ab5a", ""),
        Tone::Odd => ("#daaa3f", ""),
        Tone::Bad => ("#f47067", ""),
    };
    let column = column + span.text().find(text).expect("a part of it");
    let (x, y) = (MARGIN + column * WIDTH, MARGIN + row * HEIGHT + HEIGHT * 3 / 4);
    // What is below each other stays so in any font.
    let length = text.chars().count() * WIDTH;
    let text = text.replace('&', "&amp;").replace('<', "&lt;");
    writeln!(
        svg,
        "<text x=\"{x}\" y=\"{y}\" fill=\"{fill}\"{weight} textLength=\"{length}\" lengthAdjust=\"spacingAndGlyphs\">{text}</text>"
    )
    .expect("a string takes everything");
}

#[test]
fn the_picture_in_the_documents_is_what_is_drawn() {
    let size = Size { width: 118, height: 39 };
    let drawn = svg(&frame(&sample::view(), size, sample::now()), size);
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/images/top.svg");
    if std::env::var_os(UPDATE).is_some() {
        std::fs::write(&file, drawn).expect("it can be written");
        return;
    }
    let kept = std::fs::read_to_string(&file).unwrap_or_default();
    assert!(
        kept == drawn,
        "docs/images/top.svg is out of date: run this test with {UPDATE}=1 and look at what it wrote"
    );
}
