//! Figures, and how they are shown.

use std::fmt::Write as _;

use serde::Serialize;

/// All figures of a run.
#[derive(Debug, Default, Serialize)]
pub struct Report {
    figures: Vec<Figure>,
}

/// One figure.
#[derive(Debug, Serialize)]
pub struct Figure {
    /// What was measured.
    pub what: String,
    /// In which setting.
    pub at: String,
    /// How much.
    pub value: f64,
    /// Of what.
    pub unit: &'static str,
    /// Divided by the figure of the same kind that was measured first.
    pub ratio: Option<f64>,
}

impl Report {
    /// Adds a figure; its ratio is to the first of the same name.
    pub fn add(&mut self, what: &str, at: String, value: f64, unit: &'static str) {
        let first = self.figures.iter().find(|figure| figure.what == what && figure.unit == unit);
        let ratio = first.filter(|first| first.value != 0.0).map(|first| value / first.value);
        self.figures.push(Figure {
            what: what.to_owned(),
            at,
            value,
            unit,
            ratio,
        });
    }

    /// For people.
    pub fn table(&self) -> String {
        let mut text = format!("{:<34} {:<26} {:>14} {:<16} {:>8}\n", "WHAT", "AT", "VALUE", "UNIT", "RATIO");
        for figure in &self.figures {
            let ratio = figure.ratio.map(|ratio| format!("{ratio:.2}")).unwrap_or_default();
            let value = match figure.value {
                value if value >= 1000.0 => format!("{value:.0}"),
                value => format!("{value:.2}"),
            };
            let Figure { what, at, unit, .. } = figure;
            let line = format!("{what:<34} {at:<26} {value:>14} {unit:<16} {ratio:>8}");
            let _ = writeln!(text, "{}", line.trim_end());
        }
        text.push_str("RATIO compares with the first figure of the same name and unit, of this run.\n");
        text
    }

    /// For programs.
    pub fn json(&self) -> String {
        serde_json::to_string_pretty(self).expect("figures can be encoded")
    }
}
