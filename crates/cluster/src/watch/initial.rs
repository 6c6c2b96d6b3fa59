//! The first list as the beginning of a watch: what there is comes as events, then a bookmark says that this was all.
//!
//! It spares the server a list in its memory, and the client a request: the stream goes on as the watch. Servers before 1.34 may not have
//! it; then pages are read. What is asked for is as consistent as a list without a `resourceVersion` (DS-201).

use std::time::Duration;

use bailiff_runtime::Seed;
use serde::Deserialize;

use super::collected::{Collected, Way};
use super::list::{Listed, take};
use super::wire::{Part, Stream, Told};
use super::{Source, View, WATCH_FOR, Witness};
use crate::api::Api;
use crate::error::{Error, Kind};
use crate::scan::schema;
use crate::views::or_default;

/// How long it may take altogether, with the time that the reader takes for its parts: longer than the server is asked to keep any
/// watch open, less than what makes a watch stale.
const WITHIN: Duration = Duration::from_secs(50);

/// Why a list did not come as a stream.
pub(super) enum Unstreamed {
    /// The server does not have it: it is not worth asking again.
    Unknown(Error),
    /// Its end was not told: the server does not have it, or is on its way out, or has too much to do.
    CutOff(Error),
    /// It failed, as any request may.
    Failed(Error),
}

/// The metadata of a bookmark.
#[derive(Deserialize)]
struct Bookmark {
    metadata: Metadata,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Metadata {
    resource_version: String,
    #[serde(deserialize_with = "or_default")]
    annotations: Annotations,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Annotations {
    #[serde(rename = "k8s.io/initial-events-end")]
    end: Option<String>,
}

/// Reads everything that there is.
pub(super) async fn read<T: View, P>(
    api: &Api,
    source: &Source,
    seed: &Seed,
    witness: &mut dyn Witness,
    way: Option<&Way<T, P>>,
) -> Result<Listed<T>, Unstreamed> {
    let mut stream = open(api, source, seed, T::ACCEPT).await?;
    let mut told = Collected::told(way);
    let all = async {
        loop {
            while let Some(part) = stream.cut() {
                if let Some(position) = hear(api, source, &part, witness, &mut told)? {
                    return Ok(position);
                }
                told.show().await;
            }
            if stream.is_too_long() {
                return Err(unreadable("an event is too long"));
            }
            if !stream.fill().await.map_err(Unstreamed::Failed)? {
                return Err(cut_off("it ended before all was told".to_owned()));
            }
        }
    };
    let position = match tokio::time::timeout(WITHIN, all).await {
        Ok(position) => position?,
        Err(_) => return Err(cut_off(format!("its end was not told within {WITHIN:?}"))),
    };
    Ok(Listed {
        snapshot: told.end().await,
        position,
        stream: Some(stream),
    })
}

async fn open(api: &Api, source: &Source, seed: &Seed, accept: &'static str) -> Result<Stream, Unstreamed> {
    let timeout = seed.jitter(WATCH_FOR.mul_f64(0.8), 0.25).as_secs().max(1).to_string();
    let path = source.query(&[
        ("watch", "true"),
        ("allowWatchBookmarks", "true"),
        ("sendInitialEvents", "true"),
        ("resourceVersionMatch", "NotOlderThan"),
        ("timeoutSeconds", timeout.as_str()),
    ]);
    match api.stream(&path, accept, source.attention).await {
        Ok(body) => Ok(Stream::new(body)),
        Err(error) if error.kind == Kind::Invalid => Err(Unstreamed::Unknown(error)),
        Err(error) => Err(Unstreamed::Failed(error)),
    }
}

fn cut_off(how: String) -> Unstreamed {
    Unstreamed::CutOff(Error::new(Kind::Timeout, how))
}

/// A stream that is not what was asked for.
fn unreadable(what: &str) -> Unstreamed {
    Unstreamed::Unknown(Error::new(Kind::Unavailable, what))
}

/// Hears an event; answers with the position once that was all.
fn hear<T: View, P>(
    api: &Api,
    source: &Source,
    part: &Part,
    witness: &mut dyn Witness,
    told: &mut Collected<T, P>,
) -> Result<Option<String>, Unstreamed> {
    let Ok(Told { kind, object }) = Told::read(part) else {
        return Err(unreadable("an unreadable event"));
    };
    match &*kind {
        "ADDED" | "MODIFIED" => take(api, source, &object, witness, told),
        "DELETED" => match object.identity().filter(|meta| !meta.name.is_empty()) {
            Some(meta) => {
                witness.gone(&meta);
                told.remove(meta);
            }
            None => return Err(unreadable("something is gone and nobody can say what")),
        },
        "BOOKMARK" => {
            let Ok(Bookmark { metadata }) = object.read(Some(&schema::OBJECT)) else {
                return Err(unreadable("an unreadable bookmark"));
            };
            let is_end = metadata.annotations.end.as_deref() == Some("true");
            return match metadata.resource_version {
                version if is_end && version.is_empty() => Err(unreadable("its end has no resourceVersion")),
                version => Ok(is_end.then_some(version)),
            };
        }
        "ERROR" => return Err(Unstreamed::Failed(Error::from_status(&object))),
        _ => {}
    }
    Ok(None)
}
