//! What is measured about the files.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use super::Validity;
use crate::metrics::at_zero;

const USED: &str = "used";
const REFUSED: &str = "refused";

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Result {
    result: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct File {
    file: &'static str,
}

/// Metrics; cloning gives the same ones.
#[derive(Clone, Debug, Default)]
pub(super) struct Metrics {
    reloads: Family<Result, Counter>,
    expiry: Family<File, Gauge>,
}

impl Metrics {
    pub(super) fn register(&self, registry: &mut Registry) {
        at_zero(&self.reloads, [USED, REFUSED].map(|result| Result { result }));
        let reloads = self.reloads.clone();
        registry.register(
            "reloads",
            "Changed certificate files that were taken, or could not be used",
            reloads,
        );
        let expiry = self.expiry.clone();
        let help = "When the certificate, or the last of the CAs, expires, in seconds since 1970";
        registry.register("expiry_timestamp_seconds", help, expiry);
    }

    pub(super) fn reloaded(&self, is_used: bool) {
        let result = if is_used { USED } else { REFUSED };
        self.reloads.get_or_create(&Result { result }).inc();
    }

    pub(super) fn expiry(&self, own: Validity, roots: Validity) {
        for (file, validity) in [("certificate", own), ("ca", roots)] {
            self.expiry.get_or_create(&File { file }).set(validity.until.as_second());
        }
    }
}
