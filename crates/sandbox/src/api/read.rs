//! GET: objects, lists with paging and old states, and where watches start.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use super::negotiate::{Encoding, Shape};
use super::paging::{Paged, Token};
use super::reply::{Content, Reply};
use super::request::Query;
use super::selector::Selector;
use super::stream::{Initial, Stream};
use super::write::Stored;
use super::{Call, encode, options};
use crate::Status;
use crate::status::Cause;
use crate::store::{Key, NODE, Object, Past, Store, Table};

/// How long the real server waits for a revision that it has not seen yet.
const PATIENCE: Duration = Duration::from_secs(3);

/// Serves a get.
///
/// # Errors
/// The refusal.
pub fn get(call: &Call<'_>) -> Result<Reply, Status> {
    let store = call.store();
    // A single object is read below the layer that calls this a bad request.
    let wanted = revision(call).map_err(|status| {
        let why = status.message.trim_start_matches("invalid resource version: ");
        Status::new(500, "", why)
    })?;
    if let Some(wanted) = wanted
        && wanted > store.revision()
    {
        return Ok(too_large(wanted, store.revision()));
    }
    let object = call.current(&store)?;
    if matches!(call.accepted.shape, Shape::PartialList(_)) {
        return Err(not_acceptable());
    }
    encode::object(call, 200, Stored::Kept(object))
}

/// 406: a form that this answer cannot have.
pub fn not_acceptable() -> Status {
    Status::new(406, "NotAcceptable", "406: Not Acceptable").about("", "", "")
}

/// The revision that the query names.
///
/// # Errors
/// 400 for what is none.
pub fn revision(call: &Call<'_>) -> Result<Option<u64>, Status> {
    let text = call.request.query.get("resourceVersion");
    if text.is_empty() {
        return Ok(None);
    }
    text.parse().map(Some).map_err(|_| {
        let message = format!("resourceVersion: Invalid value: \"{text}\": strconv.ParseUint: parsing \"{text}\": invalid syntax");
        Status::bad_request(format!("invalid resource version: {message}"))
    })
}

fn too_large(wanted: u64, current: u64) -> Reply {
    let message = format!("Timeout: Too large resource version: {wanted}, current: {current}");
    let cause = Cause::new("ResourceVersionTooLarge", "", "Too large resource version");
    let status = Status::new(504, "Timeout", message).because(vec![cause]).retry_after(1);
    Reply {
        status: 504,
        headers: Vec::new(),
        body: Content::Late(PATIENCE, Box::new(status)),
    }
}

/// The selector of a request for a collection.
///
/// # Errors
/// 400 when it cannot be parsed.
pub fn selector(call: &Call<'_>) -> Result<Selector, Status> {
    let query = &call.request.query;
    let known = (call.kind.fields())(&Value::Null);
    let has_namespace = !matches!(call.kind.storage.as_str(), "nodes" | "namespaces");
    let is_known = |field: &str| match field {
        "metadata.name" => true,
        "metadata.namespace" => has_namespace,
        _ => known.iter().any(|(one, _)| *one == field),
    };
    if call.kind.rules.converts() {
        // Fields are asked for by the names they have in this version.
        let served = call.kind.rules.stored_fields(query.get("fieldSelector"))?;
        return Selector::parse(query.get("labelSelector"), &served, &is_known);
    }
    Selector::parse(query.get("labelSelector"), query.get("fieldSelector"), &is_known)
}

/// The objects of a table that a selector may mean, in order: all that can be said without looking at each. An empty namespace is all.
pub fn candidates<'s>(
    table: &'s Table,
    namespace: &'s str,
    selector: &Selector,
    after: Option<Key>,
) -> Box<dyn Iterator<Item = &'s Arc<Object>> + 's> {
    let is_here = move |object: &&Arc<Object>| namespace.is_empty() || object.namespace() == namespace;
    if let Some(name) = selector.only_name()
        && !namespace.is_empty()
    {
        let named = table.get(&Key::new(namespace, name));
        return Box::new(
            named
                .into_iter()
                .filter(move |object| after.as_ref().is_none_or(|after| object.key() > after)),
        );
    }
    if let Some(node) = selector.only(NODE)
        && let Some(objects) = table.on_node(node)
    {
        let is_next = move |object: &&Arc<Object>| after.as_ref().is_none_or(|after| object.key() > after);
        return Box::new(objects.filter(is_here).filter(is_next));
    }
    let start = after.max(before(namespace));
    Box::new(table.beyond(start.as_ref()).take_while(is_here))
}

/// What comes right before a namespace's objects: none has an empty name.
fn before(namespace: &str) -> Option<Key> {
    (!namespace.is_empty()).then(|| Key::new(namespace, ""))
}

/// The namespace that the path names, empty for all.
fn namespace<'c>(call: &'c Call<'_>) -> &'c str {
    if call.kind.namespaced { &call.target.namespace } else { "" }
}

/// The objects that the path names, in order.
pub fn objects<'s>(call: &'s Call<'_>, store: &'s Store) -> Box<dyn Iterator<Item = &'s Arc<Object>> + 's> {
    let Some(table) = store.table(&call.kind.storage) else {
        return Box::new(std::iter::empty());
    };
    if call.target.namespace.is_empty() || !call.kind.namespaced {
        Box::new(table.iter())
    } else {
        Box::new(table.in_namespace(&call.target.namespace))
    }
}

/// What state a list shows, and how much of it.
#[derive(Debug, Default)]
struct Page {
    /// The revision; none for the newest.
    at: Option<u64>,
    /// After which key it starts.
    after: Option<Key>,
    /// How many objects at most.
    limit: Option<usize>,
    /// How many there are from there on, if the page before counted them.
    left: Option<usize>,
}

/// Serves a list.
///
/// # Errors
/// The refusal.
pub fn list(call: &Call<'_>) -> Result<Reply, Status> {
    if matches!(call.accepted.shape, Shape::Partial(_)) {
        return Err(not_acceptable());
    }
    check_list_options(call, false)?;
    call.request.query.number("timeoutSeconds")?;
    let selector = selector(call)?;
    // Encoding takes as long as the list is, and others wait for the store.
    let (page, revision) = {
        let store = call.store();
        let wanted = revision(call)?;
        if let Some(wanted) = wanted
            && wanted > store.revision()
        {
            return Ok(too_large(wanted, store.revision()));
        }
        listed(call, &store, &selector, wanted)?
    };
    encode::list(call, &page.chosen, revision, page.token, page.remaining)
}

/// What a list is to say, and as of which revision.
fn listed(call: &Call<'_>, store: &Store, selector: &Selector, wanted: Option<u64>) -> Result<(Paged, u64), Status> {
    let page = page(call, wanted)?;
    // What any state may answer is answered from what this resource last saw, as the real server's cache does.
    let newest = match (wanted, store.table(&call.kind.storage)) {
        (Some(wanted), Some(table)) => table.last().max(wanted),
        _ => store.revision(),
    };
    let revision = page.at.unwrap_or(newest);
    let Some(table) = store.table(&call.kind.storage) else {
        return Err(Status::no_such_path());
    };
    let past = past(table, page.at).map_err(|TooOld| too_old(call, page.after.as_ref()))?;
    let namespace = namespace(call);
    let rows: Box<dyn Iterator<Item = &Arc<Object>>> = match &past {
        None => candidates(table, namespace, selector, page.after.clone()),
        Some(past) => {
            let start = page.after.clone().max(before(namespace));
            let is_here = |object: &&Arc<Object>| namespace.is_empty() || object.namespace() == namespace;
            Box::new(past.beyond(start.as_ref()).take_while(is_here))
        }
    };
    let mut rows = rows;
    let Some(limit) = page.limit else {
        let page = Paged {
            chosen: rows.filter(|object| selector.matches(object)).cloned().collect(),
            token: None,
            remaining: None,
        };
        return Ok((page, revision));
    };
    let matching = rows.by_ref().filter(|object| selector.matches(object));
    let chosen: Vec<Arc<Object>> = matching.take(limit).cloned().collect();
    let is_counted = selector.is_empty();
    let is_whole = namespace.is_empty() && past.is_none() && page.after.is_none();
    let left = match page.left.or(is_whole.then(|| table.len())) {
        Some(from_here) if is_counted => from_here.saturating_sub(chosen.len()),
        _ if is_counted => rows.count(),
        // Clients are not told how many, nor whether any of what is left matches.
        _ => usize::from(rows.next().is_some()),
    };
    Ok((Paged::new(call, chosen, left, is_counted, revision), revision))
}

/// A state that is not remembered any more.
struct TooOld;

/// How a table was, unless that is how it is.
fn past(table: &Table, at: Option<u64>) -> Result<Option<Past<'_>>, TooOld> {
    match at {
        Some(at) if at < table.compacted() || table.after(at).is_some() => table.at(at).map(Some).ok_or(TooOld),
        _ => Ok(None),
    }
}

/// 410 for a list of such a state. Where it is the rest of one, the client may have the rest as it is now.
fn too_old(call: &Call<'_>, after: Option<&Key>) -> Status {
    let Some(after) = after else {
        return Status::expired("The resourceVersion for the provided list is too old.");
    };
    let token = Token {
        revision: None,
        after: after.clone(),
        left: None,
    };
    Status::expired(
        "The provided continue parameter is too old to display a consistent list result. You can start a new list without the continue \
         parameter, or use the continue token in this response to retrieve the remainder of the results. Continuing with the provided \
         token results in an inconsistent list - objects that were created, modified, or deleted between the time the first chunk was \
         returned and now may show up in the list.",
    )
    .going_on(token.encode(call))
}

fn page(call: &Call<'_>, wanted: Option<u64>) -> Result<Page, Status> {
    let query = &call.request.query;
    let limit = query
        .number("limit")?
        .filter(|limit| *limit > 0)
        .and_then(|limit| usize::try_from(limit).ok());
    let token = query.get("continue");
    if !token.is_empty() {
        if wanted.is_some_and(|wanted| wanted > 0) {
            return Err(Status::bad_request(
                "specifying resource version is not allowed when using continue",
            ));
        }
        let token = Token::decode(token, call)?;
        return Ok(Page {
            at: token.revision,
            after: Some(token.after),
            // A limit with "any state" is not honoured, here as elsewhere.
            limit: limit.filter(|_| wanted.is_none()),
            left: token.left,
        });
    }
    let exact = query.get("resourceVersionMatch") == "Exact";
    let unmatched = query.get("resourceVersionMatch").is_empty();
    Ok(match wanted {
        // Any state will do, and it is served whole.
        Some(0) => Page::default(),
        Some(wanted) if exact || (unmatched && limit.is_some()) => Page {
            at: Some(wanted),
            limit,
            ..Page::default()
        },
        _ => Page {
            limit,
            ..Page::default()
        },
    })
}

fn check_list_options(call: &Call<'_>, watch: bool) -> Result<(), Status> {
    let query = &call.request.query;
    let matching = query.get("resourceVersionMatch");
    let initial = query.find("sendInitialEvents").is_some();
    let mut causes = Vec::new();
    if initial && watch {
        if matching != "NotOlderThan" {
            let why = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan";
            causes.push(Cause::forbidden("resourceVersionMatch", why));
            if !matching.is_empty() {
                let allowed = ["NotOlderThan"];
                causes.push(Cause::unsupported("resourceVersionMatch", &json!(matching), &allowed));
            }
        }
    } else if !matching.is_empty() {
        check_match(query, watch, &mut causes);
    }
    if watch && !query.get("continue").is_empty() {
        let why = "resourceVersionMatch is forbidden when continue is provided";
        causes.push(Cause::forbidden("resourceVersionMatch", why));
    }
    if initial && !watch {
        let why = "sendInitialEvents is forbidden for list";
        causes.push(Cause::forbidden("sendInitialEvents", why));
    }
    options::refuse("ListOptions", causes)
}

fn check_match(query: &Query, watch: bool, causes: &mut Vec<Cause>) {
    let (matching, revision) = (query.get("resourceVersionMatch"), query.get("resourceVersion"));
    let misplaced = if watch {
        Some("resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided")
    } else if revision.is_empty() {
        Some("resourceVersionMatch is forbidden unless resourceVersion is provided")
    } else if !query.get("continue").is_empty() {
        Some("resourceVersionMatch is forbidden when continue is provided")
    } else {
        None
    };
    causes.extend(misplaced.map(|why| Cause::forbidden("resourceVersionMatch", why)));
    match matching {
        "Exact" if revision == "0" => {
            let why = "resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"";
            causes.push(Cause::forbidden("resourceVersionMatch", why));
        }
        "Exact" if watch => {
            causes.push(Cause::unsupported(
                "resourceVersionMatch",
                &json!(matching),
                &["NotOlderThan"],
            ));
        }
        "Exact" | "NotOlderThan" => {}
        other => {
            let allowed = ["Exact", "NotOlderThan", ""];
            causes.push(Cause::unsupported("resourceVersionMatch", &json!(other), &allowed));
        }
    }
}

/// Serves a watch.
///
/// # Errors
/// The refusal.
pub fn watch(call: &Call<'_>) -> Result<Reply, Status> {
    if matches!(call.accepted.shape, Shape::PartialList(_)) {
        return Err(not_acceptable());
    }
    if call.accepted.encoding == Encoding::Yaml {
        return Err(not_acceptable());
    }
    check_list_options(call, true)?;
    let mut selector = selector(call)?;
    if !call.target.name.is_empty() {
        selector = selector.named(&call.target.name);
    }
    let query = &call.request.query;
    let text = query.get("resourceVersion");
    let revision: u64 = if text.is_empty() {
        0
    } else {
        text.parse().map_err(|_| {
            let why = format!("resourceVersion: Invalid value: \"{text}\": strconv.ParseUint: parsing \"{text}\": invalid syntax");
            Status::new(500, "", why)
        })?
    };
    let timeout = query.number("timeoutSeconds")?.filter(|seconds| *seconds > 0);
    let timeout = timeout
        .and_then(|seconds| u64::try_from(seconds).ok())
        .map(Duration::from_secs);
    let explicit = query.find("sendInitialEvents").map(|_| query.flag("sendInitialEvents"));
    let objects = explicit.unwrap_or(revision == 0);
    let initial = Initial {
        objects,
        // The end of the initial events is told whether or not they were asked for by name.
        end: objects && query.flag("allowWatchBookmarks"),
    };
    let stream = Stream::open(call, selector, revision, initial, query.flag("allowWatchBookmarks"), timeout)?;
    let mut reply = Reply {
        status: 200,
        headers: Vec::new(),
        body: Content::Stream(Box::new(stream)),
    };
    let media = match call.accepted.encoding {
        Encoding::Protobuf => "application/vnd.kubernetes.protobuf;stream=watch",
        Encoding::Json | Encoding::Yaml => "application/json",
    };
    reply.headers.push(("content-type", media.to_owned()));
    Ok(reply)
}
