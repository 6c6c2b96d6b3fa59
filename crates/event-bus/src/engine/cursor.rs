//! Cursors: opaque to clients, incarnation and revision to the bus.

use bailiff_model::Revision;

use super::Refusal;

/// Longest cursor accepted: an incarnation, two numbers and room.
const CURSOR_MAX: usize = 256;

/// Why a reader gets a snapshot and not a continuation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SnapshotReason {
    /// No cursor was given.
    NoCursor,
    /// The cursor is of another incarnation.
    ForeignCursor,
    /// The cursor is older than the oldest tombstone kept.
    CursorTooOld,
    /// The cursor is of another selection.
    OtherSelection,
}

/// Where a reader stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Position {
    /// At the beginning, for this reason.
    Start(SnapshotReason),
    /// After this revision.
    After(Revision),
}

/// The text of a cursor.
pub fn to_text(incarnation: &str, revision: Revision, fingerprint: u64) -> String {
    format!("{incarnation}/{revision}/{fingerprint:016x}")
}

/// Where a reader with this cursor stands in a bus of `incarnation` whose newest revision is `head`.
///
/// # Errors
/// [`Refusal::Cursor`] for a text that no bus ever issued.
pub fn position(text: &str, incarnation: &str, head: Revision, fingerprint: u64) -> Result<Position, Refusal> {
    if text.is_empty() {
        return Ok(Position::Start(SnapshotReason::NoCursor));
    }
    let (found, revision, selection) = parse(text).ok_or_else(|| {
        let shown = text.get(..text.floor_char_boundary(CURSOR_MAX)).unwrap_or_default();
        Refusal::Cursor { found: shown.to_owned() }
    })?;
    // A revision that was not given yet can only be of a bus that lost its memory and kept its name.
    Ok(if found != incarnation || revision > head {
        Position::Start(SnapshotReason::ForeignCursor)
    } else if selection != fingerprint {
        Position::Start(SnapshotReason::OtherSelection)
    } else {
        Position::After(revision)
    })
}

/// The revision of a cursor of this incarnation that is ahead of `head`.
pub fn ahead(text: &str, incarnation: &str, head: Revision) -> Option<Revision> {
    let (found, revision, _) = parse(text)?;
    (found == incarnation && revision > head).then_some(revision)
}

fn parse(text: &str) -> Option<(&str, Revision, u64)> {
    if text.len() > CURSOR_MAX {
        return None;
    }
    let mut parts = text.rsplitn(3, '/');
    let fingerprint = u64::from_str_radix(parts.next()?, 16).ok()?;
    let revision = parts.next()?.parse().ok().map(Revision)?;
    let incarnation = parts.next().filter(|part| !part.is_empty())?;
    Some((incarnation, revision, fingerprint))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_is_good_for_its_incarnation_and_selection_only() {
        let text = to_text("bus-1", Revision(7), 42);
        let at = |incarnation, head, fingerprint| position(&text, incarnation, Revision(head), fingerprint);
        let foreign = Ok(Position::Start(SnapshotReason::ForeignCursor));
        assert_eq!(at("bus-1", 9, 42), Ok(Position::After(Revision(7))));
        assert_eq!(at("bus-1", 7, 42), Ok(Position::After(Revision(7))));
        assert_eq!(at("bus-2", 9, 42), foreign);
        assert_eq!(at("bus-1", 9, 43), Ok(Position::Start(SnapshotReason::OtherSelection)));
        assert_eq!(at("bus-1", 6, 42), foreign);
        assert_eq!(ahead(&text, "bus-1", Revision(6)), Some(Revision(7)));
        assert_eq!(ahead(&text, "bus-1", Revision(7)), None);
        assert_eq!(ahead(&text, "bus-2", Revision(6)), None);
        assert_eq!(
            position("", "bus-1", Revision(7), 42),
            Ok(Position::Start(SnapshotReason::NoCursor))
        );
    }

    #[test]
    fn what_no_bus_issued_is_refused() {
        let long = format!("{}/1/0", "x".repeat(300));
        for text in ["x", "a/b", "/1/0", "a/x/0", "a/1/zz", "a/-1/0", &long] {
            let found = position(text, "a", Revision(1), 0);
            assert!(matches!(found, Err(Refusal::Cursor { .. })), "{text:?}: {found:?}");
        }
    }
}
