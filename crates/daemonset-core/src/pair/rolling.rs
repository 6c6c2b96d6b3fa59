//! What a rolling update may do with a pair, and what the pair takes of its budget (DS-133 to DS-138).

use bailiff_model::Stamp;

use super::{Cause, Class, Facts, Judgement, Look, Rolled, Rules, Work, is_available, is_updated};

pub(super) fn roll(rules: &Rules<'_>, facts: &Facts<'_>, grouped: &[Look<'_>], staying: &[Look<'_>], judgement: &mut Judgement) {
    // DS-133
    if grouped.is_empty() && !facts.verdict.run && !facts.creating && !facts.blocked {
        return;
    }
    let (new, old): (Vec<Look<'_>>, Vec<Look<'_>>) = staying.iter().partition(|look| is_updated(rules, look.pod));
    if rules.surging {
        judgement.served = match (new.as_slice(), old.as_slice()) {
            (_, [old]) => is_available(rules, old.pod),
            ([new], []) => is_available(rules, new.pod),
            _ => false,
        };
        // A pod that manage takes away may stay for as long as it is held: beside a new one it would be one too many.
        let is_leaving = judgement.deletes.iter().any(|(_, cause)| *cause == Cause::Plain);
        let is_unsure = facts.creating || is_leaving || grouped.iter().any(|look| look.work == Work::Asked);
        judgement.class = roll_surge(rules, facts, is_unsure, &new, &old);
    } else {
        judgement.class = roll_plain(rules, facts, &new, &old);
    }
    // Where manage takes none of several away, one after the other would be asked for, and taken back for the other's sake.
    let deletes = matches!(
        judgement.class,
        Class::Replace(_) | Class::Candidate(_) | Class::DeleteLate(_)
    );
    if deletes && facts.node.is_none() && grouped.iter().any(|look| look.work == Work::Asked) {
        judgement.class = if rules.surging { Class::Surged } else { Class::Unavailable };
    }
    if new.is_empty() && !old.is_empty() {
        judgement.old = facts.node.is_some() && facts.verdict.run;
        if is_kept(rules, facts, judgement.old) {
            let class = std::mem::take(&mut judgement.class);
            judgement.class = kept(class, rules.surging);
        }
    }
}

/// True if the old pod of a node without a new one stays by the partition. One that is misplaced goes when nothing is partitioned
/// any more: it would be replaced by nothing, and belongs to no node that could be counted.
pub(super) fn is_kept(rules: &Rules<'_>, facts: &Facts<'_>, is_placed: bool) -> bool {
    facts.kept || (rules.partitioned && !is_placed)
}

/// What is left of a class if the old pod stays.
fn kept(class: Class, surging: bool) -> Class {
    match class {
        Class::Replace(_) if !surging => Class::Unavailable,
        Class::Replace(_) | Class::Candidate(_) | Class::CreateNow | Class::SurgeCandidate | Class::DeleteLate(_) => Class::Idle,
        Class::Idle | Class::Unavailable | Class::Surged | Class::Lost => class,
    }
}

/// What the pair takes of the budget. Nodes may be left out that were bad before the rollout; what it has deleted itself never is.
pub(super) fn use_up(rules: &Rules<'_>, facts: &Facts<'_>, staying: &[Look<'_>], judgement: &mut Judgement) {
    judgement.uses = matches!(judgement.class, Class::Unavailable | Class::Surged | Class::Replace(_));
    if rules.strict && rules.surging && facts.verdict.run && judgement.class == Class::Idle {
        // The old pod is gone, and upstream takes the node for done.
        judgement.uses = !judgement.served;
    }
    if !rules.exclude_unready {
        return;
    }
    let Some(bad_since) = facts.node.and_then(|node| node.bad_since).map(Stamp::wall) else {
        return;
    };
    if bad_since <= rules.since {
        judgement.uses &= facts.rolled == Rolled::Available;
    } else {
        let had_it = |look: &Look<'_>| is_updated(rules, look.pod) && look.pod.created.wall() <= bad_since;
        judgement.broken = staying.iter().any(had_it);
        judgement.uses |= judgement.broken;
    }
}

/// DS-134. An old pod that is busy stays what it is for the budget, and is not asked for again before its pause ends.
fn roll_plain(rules: &Rules<'_>, facts: &Facts<'_>, new: &[Look<'_>], old: &[Look<'_>]) -> Class {
    if facts.creating || facts.blocked {
        return Class::Unavailable;
    }
    match (new, old) {
        ([new], []) if is_available(rules, new.pod) => Class::Idle,
        ([], [old]) if is_available(rules, old.pod) => old.if_free(Class::Candidate),
        ([], [old]) if old.work == Work::None => Class::Replace(old.pod.uid.clone()),
        _ => Class::Unavailable,
    }
}

/// The table above DS-138.
fn roll_surge(rules: &Rules<'_>, facts: &Facts<'_>, is_unsure: bool, new: &[Look<'_>], old: &[Look<'_>]) -> Class {
    if facts.blocked || new.len() > 1 || old.len() > 1 {
        return Class::Surged;
    }
    let [old] = old else { return Class::Idle };
    match new {
        [new] if is_available(rules, new.pod) => old.if_free(Class::Replace),
        [_, ..] => Class::Surged,
        [] if is_unsure => Class::Surged,
        [] if facts.node.is_none() => Class::Lost,
        [] => match (is_available(rules, old.pod), facts.verdict.run) {
            (false, true) => Class::CreateNow,
            (false, false) => old.if_free(Class::Replace),
            (true, true) => Class::SurgeCandidate,
            (true, false) => old.if_free(Class::DeleteLate),
        },
    }
}
