//! Requests to etcd: to one of its members at a time, each with a deadline, and to the next member when one does not answer.
//!
//! Nothing here is tried again by itself but on another member, and only what may be: reads, and writes that compare first, so that
//! the second of two attempts does nothing if the first was done.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bailiff_runtime::args::Address;
use bailiff_runtime::tls::{Connector, Tls};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::metadata::MetadataValue;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Request, Response, Status, Streaming};

use super::keys::end_of;
use super::rpc;
use super::rpc::kv_client::KvClient;
use super::rpc::lease_client::LeaseClient;
use super::rpc::watch_client::WatchClient;

/// How long a member may take to answer. etcd elects a new leader within about 1.5 s, and answers in milliseconds otherwise.
const ANSWER_WITHIN: Duration = Duration::from_millis(1_500);
const CONNECT_WITHIN: Duration = Duration::from_secs(1);
const PING_EVERY: Duration = Duration::from_secs(2);
/// What a value adds to the time that an answer may take: 20 of the largest, which are a little over 1 MiB, in a second.
const VALUE_WITHIN: Duration = Duration::from_millis(50);
/// How long one large value may take; several are asked for at a time.
const LARGE_WITHIN: Duration = Duration::from_secs(5);
/// Values in the first page of a range, and at most: the first must come over a slow way, too, and 64 of the largest fit into an answer.
const PAGE: u32 = 4;
const PAGE_MAX: u32 = 64;
/// Bytes that a page should have: enough that its way there and back does not count.
const PAGE_BYTES: usize = 2 * 1024 * 1024;
/// Keys without values in one page.
const KEYS_PAGE: i64 = 10_000;
/// Largest answer: a page of the largest values, and room.
const MESSAGE_MAX: usize = 128 * 1024 * 1024;

/// Why etcd did not do what it was asked.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Error {
    /// None of the members answered.
    #[error("none of etcd's members answered")]
    Unavailable(#[source] Box<Status>),
    /// It refused.
    #[error("etcd refused")]
    Refused(#[source] Box<Status>),
    /// What was asked for is not kept any more.
    #[error("etcd has compacted that revision")]
    Compacted,
    /// What it holds is not what a replica of this format writes.
    #[error("what etcd holds is not what a replica of this format writes")]
    Malformed(#[source] crate::wire::Error),
}

/// A member of etcd, and how it is reached.
#[derive(Clone, Debug)]
pub struct Member {
    endpoint: Endpoint,
    tls: Option<Connector>,
}

/// A client of all members.
#[derive(Clone, Debug)]
pub(super) struct Client {
    members: Arc<[Channel]>,
    current: Arc<AtomicUsize>,
}

/// How many values to ask for: few while they are large or come slowly, many while they are small.
#[derive(Debug)]
struct Pages {
    next: u32,
    most: u32,
}

/// A watch that is open.
pub(super) struct Watching {
    pub(super) requests: mpsc::Sender<rpc::WatchRequest>,
    pub(super) responses: Streaming<rpc::WatchResponse>,
}

impl Member {
    /// Over plain text; `address` is host and port.
    pub fn plain(address: &Address) -> Result<Self, tonic::transport::Error> {
        Ok(Self {
            endpoint: Endpoint::from_shared(address.http_url())?,
            tls: None,
        })
    }

    /// Over mutual TLS; `None` if the host is no name that a certificate can carry.
    pub fn secured(address: &Address, tls: &Tls) -> Option<Self> {
        Some(Self {
            // tonic would encrypt what is called https by itself; here the connector does.
            endpoint: Endpoint::from_shared(address.http_url()).ok()?,
            tls: Some(Connector::of_url(tls, &format!("https://{address}"))?),
        })
    }

    fn connect(&self) -> Channel {
        let endpoint = self.endpoint.clone();
        let endpoint = endpoint
            .connect_timeout(CONNECT_WITHIN)
            .http2_keep_alive_interval(PING_EVERY)
            .keep_alive_timeout(PING_EVERY)
            .tcp_nodelay(true);
        match self.tls.clone() {
            Some(connector) => endpoint.connect_with_connector_lazy(connector),
            None => endpoint.connect_lazy(),
        }
    }
}

impl Client {
    /// A client; connects when it is first used.
    pub(super) fn new(members: &[Member], first: usize) -> Self {
        Self {
            members: members.iter().map(Member::connect).collect(),
            current: Arc::new(AtomicUsize::new(first)),
        }
    }

    /// The member in use is not to be used next.
    pub(super) fn move_on(&self) {
        self.current.fetch_add(1, Ordering::Relaxed);
    }

    fn member(&self) -> (usize, Channel) {
        let current = self.current.load(Ordering::Relaxed);
        let channel = self
            .members
            .get(current % self.members.len())
            .expect("there is at least one member");
        (current, channel.clone())
    }

    /// Asks one member after the other until one answers.
    async fn ask<T, F, C>(&self, call: C) -> Result<T, Error>
    where
        C: FnMut(Channel) -> F,
        F: Future<Output = Result<Response<T>, Status>>,
    {
        self.ask_within(ANSWER_WITHIN, call).await
    }

    async fn ask_within<T, F, C>(&self, within: Duration, mut call: C) -> Result<T, Error>
    where
        C: FnMut(Channel) -> F,
        F: Future<Output = Result<Response<T>, Status>>,
    {
        let mut last = Status::unavailable("there are no members");
        for _ in 0..self.members.len() {
            let (current, channel) = self.member();
            match tokio::time::timeout(within, call(channel)).await {
                Ok(Ok(response)) => return Ok(response.into_inner()),
                Ok(Err(status)) if !is_passing(&status) => return Err(refused(status)),
                Ok(Err(status)) => last = status,
                Err(_) => last = Status::deadline_exceeded("no answer in time"),
            }
            // Unless somebody else has moved on already.
            let _ = self
                .current
                .compare_exchange(current, current + 1, Ordering::Relaxed, Ordering::Relaxed);
        }
        // A member that is full has answered.
        if last.code() == Code::ResourceExhausted {
            return Err(refused(last));
        }
        Err(Error::Unavailable(Box::new(last)))
    }

    /// Everything that begins with `prefix`, as it was at `revision` (0: now), and that revision.
    pub(super) async fn list(&self, prefix: &[u8], revision: i64, keys_only: bool) -> Result<(Vec<rpc::KeyValue>, i64), Error> {
        let (mut found, mut revision, mut key) = (Vec::new(), revision, prefix.to_vec());
        let mut pages = Pages::default();
        loop {
            let request = rpc::RangeRequest {
                key: key.clone(),
                range_end: end_of(prefix),
                limit: if keys_only { KEYS_PAGE } else { i64::from(pages.next) },
                revision,
                keys_only,
            };
            let page = match self.range(request, ANSWER_WITHIN + VALUE_WITHIN * pages.next).await {
                Ok(page) => page,
                Err(Error::Unavailable(_)) if !keys_only && pages.failed() => continue,
                Err(error) => return Err(error),
            };
            pages.took(page.kvs.len(), page.kvs.iter().map(|kv| kv.value.len()).sum());
            if revision == 0 {
                revision = page.header.map_or(0, |header| header.revision);
            }
            let Some(last) = page.kvs.last() else {
                return Ok((found, revision));
            };
            key = last.key.clone();
            key.push(0);
            found.extend(page.kvs);
            if !page.more {
                return Ok((found, revision));
            }
        }
    }

    /// One key, as it was at `revision` (0: now).
    pub(super) async fn get(&self, key: Vec<u8>, revision: i64) -> Result<Option<rpc::KeyValue>, Error> {
        let request = rpc::RangeRequest {
            key,
            revision,
            ..rpc::RangeRequest::default()
        };
        Ok(self.range(request, LARGE_WITHIN).await?.kvs.into_iter().next())
    }

    async fn range(&self, request: rpc::RangeRequest, within: Duration) -> Result<rpc::RangeResponse, Error> {
        self.ask_within(within, |channel| {
            let request = request.clone();
            async move { kv(channel).range(request).await }
        })
        .await
    }

    /// A transaction. It must do nothing the second time: an attempt that was not answered may have been done.
    pub(super) async fn txn(&self, request: rpc::TxnRequest) -> Result<rpc::TxnResponse, Error> {
        self.ask(|channel| {
            let request = request.clone();
            async move { kv(channel).txn(request).await }
        })
        .await
    }

    pub(super) async fn compact(&self, revision: i64) -> Result<(), Error> {
        self.ask(|channel| async move { kv(channel).compact(rpc::CompactionRequest { revision }).await })
            .await
            .map(drop)
    }

    /// A new lease; one that was granted and not answered ends by itself.
    pub(super) async fn grant(&self, ttl: Duration) -> Result<i64, Error> {
        let request = rpc::LeaseGrantRequest {
            ttl: i64::try_from(ttl.as_secs()).unwrap_or(i64::MAX),
            id: 0,
        };
        let granted = self
            .ask(|channel| async move { LeaseClient::new(channel).lease_grant(request).await })
            .await?;
        Ok(granted.id)
    }

    /// Renews a lease; false if it has ended.
    pub(super) async fn renew(&self, id: i64) -> Result<bool, Error> {
        let renewal = self.ask(|channel| async move {
            let requests = tokio_stream::once(rpc::LeaseKeepAliveRequest { id });
            let mut answers = LeaseClient::new(channel).lease_keep_alive(requests).await?.into_inner();
            let answer = answers.message().await?;
            answer.map(Response::new).ok_or_else(|| Status::unavailable("no answer"))
        });
        Ok(renewal.await?.ttl > 0)
    }

    /// Watches everything that begins with `prefix`, from `revision` on. The watch ends when its member has lost the others.
    pub(super) async fn watch(&self, prefix: &[u8], revision: i64) -> Result<Watching, Error> {
        let create = rpc::WatchCreateRequest {
            key: prefix.to_vec(),
            range_end: end_of(prefix),
            start_revision: revision,
            fragment: true,
        };
        let (requests, outbound) = mpsc::channel(8);
        let create = rpc::watch_request::RequestUnion::CreateRequest(create);
        let create = rpc::WatchRequest {
            request_union: Some(create),
        };
        if requests.try_send(create).is_err() {
            return Err(Error::Unavailable(Box::new(Status::internal("a new channel has room"))));
        }
        let mut request = Request::new(ReceiverStream::new(outbound));
        request.metadata_mut().insert("hasleader", MetadataValue::from_static("true"));
        let (_, channel) = self.member();
        let mut client = WatchClient::new(channel).max_decoding_message_size(MESSAGE_MAX);
        match tokio::time::timeout(ANSWER_WITHIN, client.watch(request)).await {
            Ok(Ok(response)) => Ok(Watching {
                requests,
                responses: response.into_inner(),
            }),
            Ok(Err(status)) => Err(Error::Unavailable(Box::new(status))),
            Err(_) => Err(Error::Unavailable(Box::new(Status::deadline_exceeded("no answer in time")))),
        }
    }
}

// === impl Pages ===

impl Default for Pages {
    fn default() -> Self {
        Self {
            next: PAGE,
            most: PAGE_MAX,
        }
    }
}

impl Pages {
    /// A page came. The next values may be larger, so a page grows to its double at most.
    fn took(&mut self, count: usize, bytes: usize) {
        let fitting = PAGE_BYTES.saturating_mul(count) / bytes.max(1);
        let fitting = u32::try_from(fitting).unwrap_or(u32::MAX);
        self.next = fitting.min(self.next * 2).clamp(1, self.most);
    }

    /// A page did not come in time. True if a smaller one may be tried.
    fn failed(&mut self) -> bool {
        let is_smallest = self.next == 1;
        self.most = (self.next / 4).max(1);
        self.next = self.most;
        !is_smallest
    }
}

fn kv(channel: Channel) -> KvClient<Channel> {
    KvClient::new(channel).max_decoding_message_size(MESSAGE_MAX)
}

/// It may go better on another member, or later.
fn is_passing(status: &Status) -> bool {
    matches!(
        status.code(),
        Code::Unavailable | Code::DeadlineExceeded | Code::Cancelled | Code::Unknown | Code::Internal | Code::ResourceExhausted
    )
}

fn refused(status: Status) -> Error {
    // etcd has no code of its own for it: OUT_OF_RANGE is also a revision of the future, which is none that we ask for.
    if status.code() == Code::OutOfRange {
        return Error::Compacted;
    }
    Error::Refused(Box::new(status))
}

// === what transactions are made of ===

/// The key stands at this revision; 0: it is not there.
pub(super) fn stands_at(key: Vec<u8>, revision: i64) -> rpc::Compare {
    rpc::Compare {
        result: rpc::compare::CompareResult::Equal.into(),
        target: rpc::compare::CompareTarget::Mod.into(),
        key,
        target_union: Some(rpc::compare::TargetUnion::ModRevision(revision)),
    }
}

/// The key was not changed after this revision, or is not there.
pub(super) fn not_after(key: Vec<u8>, revision: i64) -> rpc::Compare {
    rpc::Compare {
        result: rpc::compare::CompareResult::Less.into(),
        ..stands_at(key, revision.saturating_add(1))
    }
}

pub(super) fn put(key: Vec<u8>, value: Vec<u8>, lease: i64) -> rpc::RequestOp {
    let put = rpc::PutRequest { key, value, lease };
    op(rpc::request_op::Request::RequestPut(put))
}

pub(super) fn delete(key: Vec<u8>, range_end: Vec<u8>) -> rpc::RequestOp {
    let delete = rpc::DeleteRangeRequest { key, range_end };
    op(rpc::request_op::Request::RequestDeleteRange(delete))
}

pub(super) fn get(key: Vec<u8>) -> rpc::RequestOp {
    let range = rpc::RangeRequest {
        key,
        ..rpc::RangeRequest::default()
    };
    op(rpc::request_op::Request::RequestRange(range))
}

fn op(request: rpc::request_op::Request) -> rpc::RequestOp {
    rpc::RequestOp { request: Some(request) }
}

/// The key that the `place`th operation of a transaction, a [`get`], found.
pub(super) fn found(response: &rpc::TxnResponse, place: usize) -> Option<&rpc::KeyValue> {
    match response.responses.get(place)?.response.as_ref()? {
        rpc::response_op::Response::ResponseRange(range) => range.kvs.first(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_grow_while_values_are_small_and_shrink_with_large_ones() {
        let mut pages = Pages::default();
        let mut sizes = Vec::new();
        for value in [100, 100, 100, 100, 100, 100, 1_200_000, 1_200_000] {
            sizes.push(pages.next);
            let count = pages.next as usize;
            pages.took(count, count * value);
        }
        assert_eq!(sizes, [4, 8, 16, 32, 64, 64, 64, 1]);
    }

    #[test]
    fn a_page_that_does_not_come_is_asked_for_in_smaller_ones_until_there_are_none() {
        let mut pages = Pages { next: 64, most: 64 };
        let mut sizes = Vec::new();
        while pages.failed() {
            sizes.push(pages.next);
        }
        assert_eq!(sizes, [16, 4, 1]);
        pages.took(1, 10);
        assert_eq!(pages.next, 1, "it does not grow again");
    }

    #[test]
    fn every_page_has_the_time_that_its_values_take() {
        for (page, mib_per_second) in [(PAGE_MAX, 14.0), (PAGE, 2.5), (1, 0.7)] {
            let within = ANSWER_WITHIN + VALUE_WITHIN * page;
            assert!(f64::from(page) / within.as_secs_f64() < mib_per_second, "{page}");
        }
    }
}
