//! Flags about leader election: kube-controller-manager's.

use std::time::Duration;

use clap::{ArgAction, Args};

use super::{Error, GoDuration, Valid, Validate, defaults, go_bool};

/// Valid flags about leader election.
pub type LeaderElectionArgs = Valid<LeaderElectionFlags>;

/// Flags about leader election.
#[derive(Args, Clone, Debug, PartialEq)]
#[command(next_help_heading = "Leader election", about = None, long_about = None)]
pub struct LeaderElectionFlags {
    /// Work only while holding a Lease, so that several replicas may run
    #[arg(
        long, env = "BAILIFF_LEADER_ELECT", default_value = "true", value_name = "BOOL", action = ArgAction::Set,
        num_args = 0..=1, require_equals = true, default_missing_value = "true", value_parser = go_bool
    )]
    pub leader_elect: bool,

    /// How long a replica waits for the holder's renewal before it takes the Lease over
    #[arg(
        long,
        env = "BAILIFF_LEADER_ELECT_LEASE_DURATION",
        default_value = "15s",
        value_name = "DURATION"
    )]
    pub leader_elect_lease_duration: GoDuration,

    /// How long the holder keeps working without having renewed; shorter than the lease duration
    #[arg(
        long,
        env = "BAILIFF_LEADER_ELECT_RENEW_DEADLINE",
        default_value = "10s",
        value_name = "DURATION"
    )]
    pub leader_elect_renew_deadline: GoDuration,

    /// How long to wait between attempts to renew or to take over
    #[arg(
        long,
        env = "BAILIFF_LEADER_ELECT_RETRY_PERIOD",
        default_value = "2s",
        value_name = "DURATION"
    )]
    pub leader_elect_retry_period: GoDuration,

    /// Name of the Lease, before the number of the shard: NAME-0 is that of the first, and of the only one. Default: the service's name, with observe- before it where it only observes
    #[arg(long, env = "BAILIFF_LEADER_ELECT_RESOURCE_NAME", value_name = "NAME")]
    pub leader_elect_resource_name: Option<String>,

    /// Namespace of the Lease
    #[arg(
        long,
        env = "BAILIFF_LEADER_ELECT_RESOURCE_NAMESPACE",
        default_value = "kube-system",
        value_name = "NAMESPACE"
    )]
    pub leader_elect_resource_namespace: String,
}

// === impl LeaderElectionFlags ===

impl Validate for LeaderElectionFlags {
    fn validate(&self) -> Result<(), Error> {
        self.validate_periods()?;
        if let Some(name) = &self.leader_elect_resource_name
            // The shard's number is appended: a dash and up to five digits.
            && !(name.len() <= 247 && name.split('.').all(is_label))
        {
            let allowed = "allowed are lower case letters, digits, '-' and '.', at most 247";
            return Err(Error::new("leader-elect-resource-name", name, allowed));
        }
        let namespace = &self.leader_elect_resource_namespace;
        if !is_label(namespace) {
            let allowed = "allowed are lower case letters, digits and '-', at most 63";
            return Err(Error::new("leader-elect-resource-namespace", namespace, allowed));
        }
        Ok(())
    }
}

impl LeaderElectionFlags {
    /// The order client-go demands: lease duration > renew deadline > 1.2 × retry period > 0.
    fn validate_periods(&self) -> Result<(), Error> {
        let (lease, renew, retry) = (
            self.leader_elect_lease_duration,
            self.leader_elect_renew_deadline,
            self.leader_elect_retry_period,
        );
        // The Lease carries whole seconds, as an int32 above zero.
        const LEASE_SECONDS: std::ops::RangeInclusive<u64> = 1..=i32::MAX as u64;
        if !LEASE_SECONDS.contains(&lease.get().as_secs()) {
            let allowed = "allowed is 1s to 596523h: the Lease carries whole seconds";
            return Err(Error::new("leader-elect-lease-duration", lease, allowed));
        }
        if retry.is_zero() {
            return Err(Error::new("leader-elect-retry-period", retry, "allowed is more than 0s"));
        }
        if renew.get() <= retry.get().saturating_mul(6) / 5 {
            let allowed = format!("must be longer than 1.2 times --leader-elect-retry-period ({retry})");
            return Err(Error::new("leader-elect-renew-deadline", renew, allowed));
        }
        if Duration::from_secs(lease.get().as_secs()) <= renew.get() {
            let allowed = format!("must be longer, in whole seconds, than --leader-elect-renew-deadline ({renew})");
            return Err(Error::new("leader-elect-lease-duration", lease, allowed));
        }
        Ok(())
    }
}

impl Default for LeaderElectionArgs {
    fn default() -> Self {
        defaults()
    }
}

/// Is it a DNS label (RFC 1123)?
fn is_label(text: &str) -> bool {
    let is_inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    !text.is_empty() && text.len() <= 63 && text.bytes().all(is_inner) && !text.starts_with('-') && !text.ends_with('-')
}
