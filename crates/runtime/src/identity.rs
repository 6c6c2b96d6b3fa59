//! Who a process is, among all starts of all replicas.

use crate::Seed;

/// Host name and a part that differs at every start: what stands in Leases, and in the resource of traces.
pub fn identity(seed: &Seed) -> String {
    format!("{}_{}", host_name(), seed.fork("identity").uuid())
}

fn host_name() -> String {
    std::fs::read_to_string("/proc/sys/kernel/hostname")
        .ok()
        .map(|name| name.trim().to_owned())
        .filter(|name| !name.is_empty())
        .unwrap_or_else(|| "localhost".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_start_is_another() {
        let of = |seed| identity(&Seed::new(seed));
        assert_eq!(of(1), of(1));
        assert_ne!(of(1), of(2));
        assert!(of(1).starts_with(&format!("{}_", host_name())));
    }
}
