//! Watches of pods: as many as the core asks for.

use std::collections::BTreeSet;
use std::future::poll_fn;
use std::task::{Context, Poll};

use bailiff_cluster::watch::{EventInParts, SILENT_AFTER, Source, WatchInParts};
use bailiff_cluster::{Api, View};
use bailiff_daemonset_core::Scope;
use bailiff_model::Mono;
use bailiff_runtime::Seed;

/// One watch for each scope. They take turns, so that a busy one is not all that is read.
#[derive(Debug)]
pub(crate) struct Watches<T> {
    running: Vec<Running<T>>,
    /// Where the last event came from, unless watches ended since.
    turn: usize,
}

#[derive(Debug)]
struct Running<T> {
    scope: Scope,
    watch: WatchInParts<T>,
    since: Mono,
}

impl<T> Default for Watches<T> {
    /// None.
    fn default() -> Self {
        Self {
            running: Vec::new(),
            turn: 0,
        }
    }
}

impl<T: View> Watches<T> {
    /// Watches these, and no others. What is watched already goes on.
    pub(crate) fn watch(&mut self, scopes: &BTreeSet<Scope>, api: &Api, seed: &Seed) {
        self.running.retain(|running| scopes.contains(&running.scope));
        let now = api.clock().now().mono;
        for scope in scopes {
            if self.running.iter().any(|running| running.scope == *scope) {
                continue;
            }
            let source = match scope {
                Scope::All => Source::all("/api/v1/pods"),
                Scope::Namespace(namespace) => Source::pods_in(namespace.as_str()),
            };
            self.running.push(Running {
                scope: scope.clone(),
                watch: WatchInParts::start_in_parts(api, source, seed, ()),
                since: now,
            });
        }
    }

    /// The next event, and what it is of. Cancel-safe. Never comes while nothing is watched.
    pub(crate) async fn next(&mut self) -> (Scope, EventInParts<T>) {
        poll_fn(|context| self.poll_next(context)).await
    }

    fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<(Scope, EventInParts<T>)> {
        let count = self.running.len();
        for _ in 0..count {
            self.turn = (self.turn + 1) % count;
            let running = &mut self.running[self.turn];
            if let Poll::Ready(event) = running.watch.poll_next(context) {
                return Poll::Ready((running.scope.clone(), event));
            }
        }
        Poll::Pending
    }

    /// The next event of those that came together with the last one of this scope, if there is one.
    pub(crate) fn at_hand(&mut self, scope: &Scope) -> Option<EventInParts<T>> {
        let running = self.running.iter_mut().find(|running| running.scope == *scope)?;
        running.watch.at_hand()
    }

    /// How fresh what was shown of all of them is ([`WatchInParts::fresh_at`]); now, if there are none. If the process has been at work
    /// without one (`is_at_work`), that has as long for its first list as for any sign of life, else there is nothing before that.
    pub(crate) fn fresh_at(&self, is_at_work: bool, now: Mono) -> Option<Mono> {
        self.running.iter().try_fold(now, |least, running| {
            let begun = || match now.saturating_since(running.since) {
                _ if !is_at_work => None,
                waits if waits < SILENT_AFTER => Some(now),
                _ => Some(running.since),
            };
            Some(least.min(running.watch.fresh_at().or_else(begun)?))
        })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use bailiff_cluster::Metrics;
    use bailiff_cluster::watch::Event;
    use bailiff_daemonset_core::Pod;
    use bailiff_model::Wall;
    use bailiff_runtime::Clock;
    use bailiff_sandbox::{Config, Sandbox, User, Verb};
    use serde_json::json;

    use super::*;
    use crate::views::Viewed;

    fn mk_scope(namespace: &str) -> Scope {
        Scope::Namespace(namespace.into())
    }

    fn create(sandbox: &Sandbox, namespace: &str, name: &str) {
        let pod = json!({"metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
        let path = format!("/api/v1/namespaces/{namespace}/pods");
        let created = sandbox.request(&User::admin(), Verb::Create, &path, &pod);
        created.expect("the namespace is there");
    }

    /// What is told until nothing is any more: of which scope, and the names of pods; a list ends with a dot.
    async fn told(watches: &mut Watches<Viewed<Pod>>) -> BTreeSet<(Scope, String)> {
        let name = |pod: &Viewed<Pod>| pod.facts.name.to_string();
        let mut told = BTreeSet::new();
        while let Ok((scope, event)) = tokio::time::timeout(Duration::from_secs(1), watches.next()).await {
            let names = match event {
                Event::Part(part) => part.objects.iter().map(name).collect(),
                Event::Snapshot(rest) => rest.objects.iter().map(name).chain([".".to_owned()]).collect(),
                Event::Applied(pod) => vec![name(&pod)],
                other => vec![format!("{other:?}")],
            };
            told.extend(names.into_iter().map(|name| (scope.clone(), name)));
        }
        told
    }

    fn mk_api() -> (Sandbox, Api, Clock, Seed) {
        let (clock, seed) = (Clock::virtual_from(Wall::UNIX_EPOCH), Seed::new(1));
        let sandbox = Sandbox::new(Config::default(), clock.clone(), &seed);
        let client = kube::Client::new(sandbox.service(User::admin()), "default");
        let api = Api::new(client, clock.clone(), Metrics::default());
        (sandbox, api, clock, seed)
    }

    /// A namespace that comes late makes a process neither unready nor stale while it is listed, as long as that is not too long.
    #[tokio::test(start_paused = true)]
    async fn a_watch_that_is_not_answered_yet_is_fresh_for_a_while() {
        let (_sandbox, api, clock, seed) = mk_api();
        let mut watches: Watches<Viewed<Pod>> = Watches::default();
        watches.watch(&BTreeSet::from([mk_scope("default")]), &api, &seed);
        let began = clock.now().mono;
        for (seconds, wanted) in [(0, 0), (59, 59), (60, 0)] {
            let [now, wanted] = [seconds, wanted].map(|seconds| began + Duration::from_secs(seconds));
            assert_eq!(watches.fresh_at(true, now), Some(wanted), "{seconds}");
            assert_eq!(watches.fresh_at(false, now), None);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_watched_already_goes_on() {
        let (sandbox, api, clock, seed) = mk_api();
        let all = |told: &[(&Scope, &str)]| -> BTreeSet<(Scope, String)> {
            told.iter()
                .map(|(scope, name)| ((*scope).clone(), (*name).to_owned()))
                .collect()
        };
        let (here, there) = (mk_scope("default"), mk_scope("kube-system"));
        create(&sandbox, "default", "a");
        create(&sandbox, "kube-system", "b");
        let mut watches = Watches::default();
        assert_eq!(
            watches.fresh_at(false, clock.now().mono),
            Some(clock.now().mono),
            "nothing is watched"
        );
        watches.watch(&BTreeSet::from([here.clone()]), &api, &seed);
        assert_eq!(watches.fresh_at(false, clock.now().mono), None);
        assert_eq!(told(&mut watches).await, all(&[(&here, "a"), (&here, ".")]));
        watches.watch(&BTreeSet::from([here.clone(), there.clone()]), &api, &seed);
        assert_eq!(told(&mut watches).await, all(&[(&there, "b"), (&there, ".")]));
        create(&sandbox, "default", "c");
        create(&sandbox, "kube-system", "d");
        assert_eq!(told(&mut watches).await, all(&[(&here, "c"), (&there, "d")]));
        watches.watch(&BTreeSet::from([there.clone()]), &api, &seed);
        create(&sandbox, "default", "e");
        create(&sandbox, "kube-system", "f");
        assert_eq!(told(&mut watches).await, all(&[(&there, "f")]));
        watches.watch(&BTreeSet::from([Scope::All]), &api, &seed);
        let names = ["a", "b", "c", "d", "e", "f", "."];
        assert_eq!(told(&mut watches).await, all(&names.map(|name| (&Scope::All, name))));
    }
}
