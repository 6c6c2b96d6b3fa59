//! From when until when a certificate holds.

use std::time::Duration;

use bailiff_model::Wall;
use tokio_rustls::rustls::pki_types::{CertificateDer, UnixTime};
use webpki::{EndEntityCert, Error, KeyUsage};

/// From when until when something holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Validity {
    /// First moment.
    pub from: Wall,
    /// Last moment.
    pub until: Wall,
}

// === impl Validity ===

impl Validity {
    /// How long all of `certificates` hold.
    pub(super) fn shortest(certificates: &[CertificateDer<'_>]) -> Self {
        let all = certificates.iter().map(Self::of);
        let both = |one: Self, other: Self| Self {
            from: one.from.max(other.from),
            until: one.until.min(other.until),
        };
        all.reduce(both).unwrap_or(Self::UNKNOWN)
    }

    /// How long at least one of `certificates` holds: an old CA may stay in a bundle for as long as it likes.
    pub(super) fn longest(certificates: &[CertificateDer<'_>]) -> Self {
        let all = certificates.iter().map(Self::of);
        all.max_by_key(|validity| validity.until).unwrap_or(Self::UNKNOWN)
    }

    /// Of what says nothing: for ever, so that nothing is said about it.
    const UNKNOWN: Self = Self {
        from: Wall::MIN,
        until: Wall::MAX,
    };

    /// What [`webpki`] answers when it is asked before and after all times: it tells both ends, and does so before anything else
    /// about a certificate.
    fn of(certificate: &CertificateDer<'_>) -> Self {
        let from = match asked(certificate, Duration::ZERO) {
            Some(Error::CertNotValidYet { not_before, .. }) => wall(not_before),
            _ => Wall::MIN,
        };
        let until = match asked(certificate, Duration::from_secs(u64::MAX)) {
            Some(Error::CertExpired { not_after, .. }) => wall(not_after),
            _ => Wall::MAX,
        };
        Self { from, until }
    }

    /// What is wrong at `now`, or will be soon.
    ///
    /// Soon is the last sixth: cert-manager renews when a third is left, so a renewal is overdue by half of that.
    pub fn concern(&self, now: Wall) -> Option<String> {
        let Self { from, until } = *self;
        if now > until {
            return Some(format!("expired at {until:.0}"));
        }
        if now < from {
            return Some(format!("is not valid before {from:.0}"));
        }
        let whole = until.duration_since(from);
        let left = until.duration_since(now);
        (left.saturating_mul(6) < whole).then(|| format!("expires soon, at {until:.0}"))
    }
}

fn asked(certificate: &CertificateDer<'_>, at: Duration) -> Option<Error> {
    let parsed = EndEntityCert::try_from(certificate).ok()?;
    let at = UnixTime::since_unix_epoch(at);
    parsed
        .verify_for_usage(&[], &[], &[], at, KeyUsage::client_auth(), None, None)
        .err()
}

fn wall(time: UnixTime) -> Wall {
    let seconds = i64::try_from(time.as_secs()).unwrap_or(i64::MAX);
    Wall::from_second(seconds).unwrap_or(Wall::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_sixth_is_soon() {
        let at = |seconds| Wall::from_second(seconds).expect("a time");
        let validity = Validity {
            from: at(0),
            until: at(600),
        };
        for (now, wanted) in [
            (-1, Some("is not valid before")),
            (0, None),
            (500, None),
            (501, Some("expires soon")),
            (600, Some("expires soon")),
            (601, Some("expired at 1970-01-01T00:10:00Z")),
        ] {
            let concern = validity.concern(at(now));
            assert_eq!(concern.is_some(), wanted.is_some(), "{now}");
            assert!(concern.unwrap_or_default().contains(wanted.unwrap_or_default()), "{now}");
        }
        assert_eq!(Validity::UNKNOWN.concern(at(0)), None);
    }
}
