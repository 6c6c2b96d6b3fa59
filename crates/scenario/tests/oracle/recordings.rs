//! The recordings.

use std::path::{Path, PathBuf};

use bailiff_scenario::oracle::observe::Step;
use bailiff_scenario::oracle::{Observed, Scenario};

/// Where what is shared between checkouts is: `BAILIFF_SHARED`, or `shared` beside the workspace.
fn shared() -> PathBuf {
    match std::env::var_os("BAILIFF_SHARED") {
        Some(path) => path.into(),
        None => Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared"),
    }
}

/// All recorded scenarios, by name.
pub fn all() -> Vec<Scenario> {
    let directory = shared().join("oracle");
    let entries = std::fs::read_dir(&directory).expect("the recordings are there: set BAILIFF_SHARED");
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.expect("an entry").path()).collect();
    files.retain(|file| file.extension().is_some_and(|extension| extension == "json"));
    files.sort();
    assert!(!files.is_empty(), "no recordings in {}", directory.display());
    files.iter().map(|file| Scenario::read(file).expect("a scenario")).collect()
}

/// An observation that is what was recorded, in the middle of each span.
pub fn observation(scenario: &Scenario) -> Observed {
    let mut observed = Observed {
        events: scenario.events.clone().expect("recorded"),
        finals: scenario.finals.clone().expect("recorded"),
        end: scenario.duration.get(),
        ..Observed::default()
    };
    let mut seq = 0;
    for (object, lines) in scenario.observed.as_ref().expect("recorded") {
        let mut steps: Vec<Step> = lines
            .iter()
            .map(|line| Step {
                t: line.t.middle(),
                seq: 0,
                fields: line.fields.clone(),
            })
            .collect();
        steps.sort_by(|a, b| a.t.total_cmp(&b.t));
        for step in &mut steps {
            seq += 1;
            step.seq = seq;
        }
        observed.transitions.insert(object.clone(), steps);
    }
    observed
}
