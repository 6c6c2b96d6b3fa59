//! The stages in the recorded scenarios, in both profiles. The lists of those that pass are checked in: they can only grow.

use std::collections::BTreeSet;

use bailiff_scenario::oracle::{Profile, jobs, play_all};

use crate::recordings::all;

fn check(profile: Profile, passing: &str) {
    let expected: BTreeSet<&str> = passing.lines().filter(|line| !line.is_empty()).collect();
    let scenarios = all();
    let mut passed = BTreeSet::new();
    play_all(&scenarios, profile, 1, jobs(), |nth, result| {
        let id = scenarios[nth].id.as_str();
        match result {
            Ok(played) if played.differences.is_empty() => drop(passed.insert(id)),
            Ok(played) => {
                println!("{id}: {} differences", played.differences.len());
                for difference in played.differences.iter().take(5) {
                    println!("    {} {difference}", difference.object);
                }
            }
            Err(error) => println!("{id}: {}", bailiff_runtime::shutdown::chain(&error)),
        }
    });
    println!("{}: {} of {} pass", profile.as_str(), passed.len(), scenarios.len());
    let lost: Vec<&&str> = expected.difference(&passed).collect();
    let won: Vec<&&str> = passed.difference(&expected).collect();
    assert!(lost.is_empty(), "{}: these passed before: {lost:?}", profile.as_str());
    assert!(
        won.is_empty(),
        "{}: these pass now, add them to the list: {won:?}",
        profile.as_str()
    );
}

#[test]
fn what_passes_under_the_upstream_profile_is_listed() {
    check(Profile::Upstream, include_str!("passing-upstream.txt"));
}

#[test]
fn what_passes_under_the_default_profile_is_listed() {
    check(Profile::Bailiff, include_str!("passing-bailiff.txt"));
}
