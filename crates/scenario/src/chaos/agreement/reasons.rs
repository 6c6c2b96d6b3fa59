//! Whether a reason to wait is true.

use std::time::Duration;

use super::lives::is_down;
use super::{Case, Judge, SETTLED};
use crate::chaos::timeline::Node;

/// For so long after something broke it may be said that something is not known, or not fresh.
const NOTICED: Duration = Duration::from_secs(30);
/// A watch that is silent is noticed after a minute, and opened anew.
const WATCH: Duration = Duration::from_secs(100);

impl Judge<'_> {
    /// A reason that the history bears out.
    pub(super) fn check_reason(&self, case: &Case<'_>, node: &Node, reason: &str) -> Result<(), String> {
        let broke = |span| self.trouble.is_any_amid(case.at.saturating_sub(span), case.at);
        let is_true = match reason {
            // That somebody else was first, or that the pace allows no more, is nothing that the API knows.
            "queued" | "rate_limited" => self.terms.rate > 0.0,
            "paused" => self.lives.is_paused(node, case.at),
            "rival" => self.trouble.had_rival(case.at),
            "correlated_loss" => self.terms.holds_losses,
            "all_zones_disrupted" => self.lives.nodes(case.at).all(|node| self.is_down_or_about_to(case, node)),
            "rate_zero" => self.is_most_of_zone_down(case, node),
            "budget" => self.lives.has_budget(case.at),
            "incomplete" | "stale" | "outdated_intent" | "taint_order" => broke(NOTICED),
            "api_stale" => broke(WATCH),
            _ => false,
        };
        if is_true {
            Ok(())
        } else {
            Err(format!("it is said to wait because of {reason}, which is not so"))
        }
    }

    /// Nodes that are silent count as not ready before they are (design §1: the brake looks ahead), also if a pause keeps them from it.
    fn is_down_or_about_to(&self, case: &Case<'_>, node: &Node) -> bool {
        let is_about_to = || self.lives.states(&node.name, case.at, case.at + SETTLED).any(is_down);
        is_down(node) || self.trouble.is_silent(&node.name, case.at) || is_about_to()
    }

    /// NL-092, NL-093: in a small zone of which most is down, none is isolated.
    fn is_most_of_zone_down(&self, case: &Case<'_>, node: &Node) -> bool {
        let zone: Vec<&Node> = self.lives.nodes(case.at).filter(|other| other.zone == node.zone).collect();
        let down = zone.iter().filter(|other| self.is_down_or_about_to(case, other)).count();
        down > 2 && down as f64 >= 0.55 * zone.len() as f64
            || self.lives.nodes(case.at).all(|node| self.is_down_or_about_to(case, node))
    }
}
