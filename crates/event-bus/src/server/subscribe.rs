//! Subscriptions: a position in the engine, read whenever the transport has room.
//!
//! Nothing is buffered for a reader but the set it is in the middle of, as pointers; while it does not read it costs nothing more.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use bailiff_model::Topic;
use bailiff_proto::v1 as pb;
use bailiff_proto::v1::subscribe_response::Step;
use bailiff_runtime::Ticks;
use futures::stream;
use tokio_util::sync::CancellationToken;
use tonic::Status;

use super::gate::Caller;
use super::hub::{Hub, Seat};
use super::sending::{Chunk, Pending};
use super::status;
use crate::engine::{Command, Engine, Position, Selection, Set, SnapshotReason, Speaker, cursor};
use crate::wire::{self, envelope, scalar};

/// Most routes in all filters of a subscription, which are kept for as long as it lasts. Routes are zones: more than any cluster has, and
/// of the longest names a quarter of a megabyte.
const ROUTES_MAX: usize = 1_000;

/// The stream of a subscription.
pub(super) type Stream = super::Boxed<pb::SubscribeResponse>;

struct Reader {
    hub: Arc<Hub>,
    seat: Seat,
    ended: CancellationToken,
    selection: Selection,
    fingerprint: u64,
    incarnation: String,
    position: Position,
    /// What is to be sent before anything is read again.
    steps: VecDeque<Step>,
    /// A set is being sent.
    is_in_set: bool,
    bookmark: Ticks,
    /// The snapshot, or what was missed, is not yet said to be complete.
    owes_boundary: bool,
    /// The states of all shards were not told yet.
    owes_shards: bool,
    /// A bookmark is due.
    owes_bookmark: bool,
}

/// Opens a subscription.
pub(super) async fn open(hub: Arc<Hub>, caller: &Caller, request: pb::SubscribeRequest) -> Result<Stream, Status> {
    let subscriber = scalar::identity("subscriber", request.subscriber).map_err(|error| hub.refuse_invalid(&error))?;
    let selection = selection(request.topics, request.filters, request.except).map_err(|error| hub.refuse_invalid(&error))?;
    let fingerprint = selection.fingerprint();
    let ended = hub.admit_reader()?;
    // Elsewhere the reader has seen what is still to come here; it must not be shown the past. What was committed before is known
    // once this is answered, or it is lost.
    let early =
        hub.read(|engine| cursor::ahead(&request.cursor, engine.incarnation(), engine.head()).filter(|_| engine.may_lag()))?;
    if let Some(revision) = early {
        hub.call(Command::Witness { revision }).await?;
    }
    let (incarnation, position) = hub.read(|engine| {
        let incarnation = engine.incarnation().to_owned();
        let position = cursor::position(&request.cursor, &incarnation, engine.head(), fingerprint);
        (incarnation, position)
    })?;
    let position = position.map_err(|refusal| hub.refuse(&refusal))?;
    let topics = selection.topics.iter().copied().collect();
    let seat = hub.seat(caller.party(), subscriber.clone(), topics)?;
    let bookmark = hub.ticks(hub.options.bookmark_every);
    tracing::debug!(subscriber, ?position, "Subscription was opened");
    let reader = Reader {
        ended,
        hub,
        seat,
        selection,
        fingerprint,
        incarnation,
        position,
        steps: VecDeque::new(),
        is_in_set: false,
        bookmark,
        owes_boundary: true,
        owes_shards: true,
        owes_bookmark: false,
    };
    let steps = stream::unfold(Some(reader), |reader| async move {
        let mut reader = reader?;
        match reader.next().await {
            Ok(step) => Some((Ok(pb::SubscribeResponse { step: Some(step) }), Some(reader))),
            Err(status) => Some((Err(status), None)),
        }
    });
    Ok(Box::pin(steps))
}

fn selection(topics: Vec<String>, filters: Vec<pb::RouteFilter>, except: Option<pb::Speaker>) -> Result<Selection, wire::Error> {
    if topics.is_empty() {
        return Err(wire::Error::new("topics", topics, "at least one topic"));
    }
    let mut selected = BTreeSet::new();
    for (index, text) in topics.iter().enumerate() {
        let field = format!("topics[{index}]");
        if !selected.insert(envelope::topic(&field, text)?) {
            return Err(wire::Error::new(&field, text, "each topic once"));
        }
    }
    let (mut routes, mut room) = (BTreeMap::new(), ROUTES_MAX);
    for (index, filter) in filters.into_iter().enumerate() {
        let filtered = route_filter(filter, &selected, &mut room);
        let (topic, wanted) = filtered.map_err(|error| error.under(&format!("filters[{index}]")))?;
        if routes.insert(topic, wanted).is_some() {
            let field = format!("filters[{index}].topic");
            return Err(wire::Error::new(&field, topic.as_str(), "one filter per topic"));
        }
    }
    Ok(Selection {
        topics: selected,
        filters: routes,
        except: except.map(speaker).transpose().map_err(|error| error.under("except"))?,
    })
}

fn speaker(speaker: pb::Speaker) -> Result<Speaker, wire::Error> {
    if speaker.epoch == 0 {
        return Err(wire::Error::new("epoch", 0, "an epoch that a session has: at least 1"));
    }
    Ok(Speaker {
        producer: scalar::identity("producer", speaker.producer)?,
        epoch: speaker.epoch,
    })
}

/// One filter, whose routes take of the room that all have.
fn route_filter(
    filter: pb::RouteFilter,
    selected: &BTreeSet<Topic>,
    room: &mut usize,
) -> Result<(Topic, BTreeSet<String>), wire::Error> {
    let topic = envelope::topic("topic", &filter.topic)?;
    if !selected.contains(&topic) {
        return Err(wire::Error::new("topic", topic.as_str(), "a topic subscribed to"));
    }
    let found = filter.routes.len();
    *room = room.checked_sub(found).ok_or_else(|| {
        let found = format_args!("{found} routes");
        wire::Error::new("routes", found, format!("at most {ROUTES_MAX} in all filters"))
    })?;
    let mut routes = BTreeSet::new();
    for (index, route) in filter.routes.into_iter().enumerate() {
        routes.insert(scalar::token(&format!("routes[{index}]"), route, 1, scalar::NAME_MAX)?);
    }
    Ok((topic, routes))
}

// === impl Reader ===

impl Reader {
    async fn next(&mut self) -> Result<Step, Status> {
        loop {
            // In the middle of a set as well: whoever reads slowly, or never comes to its end, must not go on.
            if self.ended.is_cancelled() {
                return Err(status::down());
            }
            if let Some(step) = self.steps.pop_front() {
                return Ok(step);
            }
            if let Some(step) = self.next_chunk()? {
                return Ok(step);
            }
            if self.has_news()? {
                self.read()?;
                continue;
            }
            if std::mem::take(&mut self.owes_boundary) {
                return Ok(Step::Boundary(pb::Boundary { cursor: self.cursor() }));
            }
            if self.owes_bookmark {
                let Some(bookmark) = self.mk_bookmark()? else { continue };
                self.owes_bookmark = false;
                return Ok(bookmark);
            }
            tokio::select! {
                biased;
                () = self.ended.cancelled() => return Err(status::down()),
                () = self.bookmark.tick() => self.owes_bookmark = true,
                () = self.seat.wake.notified() => {}
            }
        }
    }

    fn has_news(&self) -> Result<bool, Status> {
        // Whoever resumes is told all shards before the boundary, even if it missed nothing.
        Ok(self.owes_shards || self.hub.read(|engine| self.is_behind(engine))?)
    }

    fn is_behind(&self, engine: &dyn Engine) -> bool {
        match self.position {
            Position::Start(_) => true,
            Position::After(revision) => engine.head() > revision,
        }
    }

    /// Takes everything there is as one set.
    fn read(&mut self) -> Result<(), Status> {
        let now = self.hub.now();
        let owes_shards = std::mem::take(&mut self.owes_shards);
        let set = self.hub.read(|engine| {
            let set = engine.read(&self.selection, self.position, now);
            match set.snapshot {
                None if owes_shards => Set {
                    shards: engine.shards(&self.selection.topics, now),
                    ..set
                },
                _ => set,
            }
        })?;
        let Set {
            snapshot,
            records,
            shards,
            upto,
        } = set;
        self.position = Position::After(upto);
        if let Some(reason) = snapshot {
            self.owes_boundary = true;
            self.steps.push_back(Step::SnapshotStart(pb::SnapshotStart {
                reason: to_reason(reason).into(),
                incarnation: self.incarnation.clone(),
            }));
        } else if !owes_shards && records.is_empty() && shards.is_empty() {
            // News of other topics only.
            return Ok(());
        }
        self.hub.metrics.delivered(records.len());
        let pending = Pending {
            records: records.into_iter(),
            shards,
            upto,
        };
        self.seat.sending.begin(pending, now.mono);
        self.is_in_set = true;
        Ok(())
    }

    /// The next part of the set that is being sent.
    fn next_chunk(&mut self) -> Result<Option<Step>, Status> {
        if !self.is_in_set {
            return Ok(None);
        }
        let (now, time) = (self.hub.now().mono, self.hub.time()?.mono);
        let chunk = self.seat.sending.take(self.hub.options.chunk_bytes, time, now)?;
        let Some(Chunk { mut changes, upto }) = chunk else {
            return Ok(None);
        };
        if let Some(upto) = upto {
            changes.cursor = cursor::to_text(&self.incarnation, upto, self.fingerprint);
            self.is_in_set = false;
        }
        Ok(Some(Step::Changes(changes)))
    }

    /// All shards as they are at the reader's position; `None` if there is news, which come first: a shard that is complete says that a
    /// key which is missing is not there.
    fn mk_bookmark(&self) -> Result<Option<Step>, Status> {
        let now = self.hub.now();
        let shards = self
            .hub
            .read(|engine| (!self.is_behind(engine)).then(|| engine.shards(&self.selection.topics, now)))?;
        Ok(shards.map(|shards| {
            Step::Bookmark(pb::Bookmark {
                cursor: self.cursor(),
                shards: shards.iter().map(envelope::to_shard_status).collect(),
            })
        }))
    }

    fn cursor(&self) -> String {
        match self.position {
            Position::Start(_) => String::new(),
            Position::After(revision) => cursor::to_text(&self.incarnation, revision, self.fingerprint),
        }
    }
}

fn to_reason(reason: SnapshotReason) -> pb::SnapshotReason {
    match reason {
        SnapshotReason::NoCursor => pb::SnapshotReason::NoCursor,
        SnapshotReason::ForeignCursor => pb::SnapshotReason::ForeignCursor,
        SnapshotReason::CursorTooOld => pb::SnapshotReason::CursorTooOld,
        SnapshotReason::OtherSelection => pb::SnapshotReason::OtherSelection,
    }
}
