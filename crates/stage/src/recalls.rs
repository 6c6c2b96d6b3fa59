//! Writes that a core may take back as long as they are not sent.
//!
//! A write that was decided waits: for room among the requests under way, and for its turn under the client's rate limit. If something
//! begins meanwhile that holds it, the core says so, and the write is answered as called off ([`Kind::CalledOff`]) instead of sent.
//! Which writes may be taken back, and when, is the cores' to say; here is only how.
//!
//! [`Kind::CalledOff`]: bailiff_cluster::Kind::CalledOff

use std::collections::BTreeMap;

use bailiff_cluster::Api;
use tokio_util::sync::CancellationToken;

/// The writes that are not answered yet and may be called off: as many as a core has under way.
#[derive(Debug)]
pub struct Recalls<K> {
    tokens: BTreeMap<K, CancellationToken>,
}

impl<K> Default for Recalls<K> {
    fn default() -> Self {
        Self { tokens: BTreeMap::new() }
    }
}

impl<K: Ord> Recalls<K> {
    /// The same API, for a write that may be called off by `key`.
    #[must_use]
    pub fn guard(&mut self, key: K, api: Api) -> Api {
        let token = CancellationToken::new();
        self.tokens.insert(key, token.clone());
        api.unless_called_off(token)
    }

    /// It is not wanted any more. Without effect on what was sent, or answered.
    pub fn call_off(&self, key: &K) {
        if let Some(token) = self.tokens.get(key) {
            token.cancel();
        }
    }

    /// The loop ends, and with it the news that might hold what is not sent: none of it is wanted any more.
    pub fn call_off_all(&self) {
        self.tokens.values().for_each(CancellationToken::cancel);
    }

    /// It was answered.
    pub fn answered(&mut self, key: &K) {
        self.tokens.remove(key);
    }
}
