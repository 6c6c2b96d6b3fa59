//! Whatever happens, the invariants hold: seeded stories, and one fault at every place of fixed situations.

use bailiff_scenario::chaos::{Campaign, Enumerated, Story, play, situations};

/// How many stories are played. `cargo xtask soak --seeds N` plays more.
const SEEDS: u64 = 300;

#[test]
fn whatever_happens_the_invariants_hold() {
    let campaign = Campaign::play(0..SEEDS, |_| ()).expect("a world can be set up");
    for (name, count) in &campaign.premises {
        println!("{count:>6} × {name}");
    }
    if let Some((seed, failures)) = campaign.failures.first_key_value() {
        let story = Story::from_seed(*seed);
        let again = play(&story).expect("a world can be set up");
        println!("{story}\n\n{}", again.log.join("\n"));
        panic!(
            "{} of {SEEDS} seeds failed: {:?}; seed {seed} (cargo xtask soak --seed {seed}):\n{}",
            campaign.failures.len(),
            campaign.failures,
            failures.join("\n")
        );
    }
    assert_eq!(
        campaign.idle(),
        Vec::<&str>::new(),
        "invariants that nothing could have broken"
    );
}

/// `cargo xtask soak --places` does the same for all situations.
#[test]
fn one_fault_at_any_place_changes_nothing_in_the_end() {
    let situation = &situations()[0];
    let found = Enumerated::play(situation).expect("a world can be set up");
    println!("{:>6} places: {}", found.places, situation.name);
    let failures: Vec<String> = found
        .failures
        .iter()
        .map(|(place, what)| format!("the {place}:\n    {}", what.join("\n    ")))
        .collect();
    assert!(
        failures.is_empty(),
        "{} of {}:\n{}",
        failures.len(),
        found.places,
        failures.join("\n")
    );
    assert!(
        found.places > 300,
        "{} places: there is more than that to disturb",
        found.places
    );
}
