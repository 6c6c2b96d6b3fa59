//! Lists a whole collection: as a stream where the server has that, else page by page.

use std::time::Duration;

use bailiff_model::heeded_retry_after;
use bailiff_runtime::Seed;

use super::collected::{Collected, Way};
use super::initial::{self, Unstreamed};
use super::wire::{Page, Stream};
use super::{Snapshot, Source, View, Witness};
use crate::api::Api;
use crate::decode::{Decode, DecodeError, Encoded};
use crate::error::{Error, Kind};

/// Objects a page of a list asks for, as client-go does.
const PAGE: usize = 500;

/// How long a page may take: the API server's own limit for a request (`--request-timeout`). A page is read, never written, so no
/// leadership depends on it.
const DEADLINE: Duration = Duration::from_secs(60);

/// Attempts at one page before the whole list is begun anew, and the pause between them, as client-go's first one. A list of a
/// large cluster is many pages, and beginning anew is what costs.
const ATTEMPTS: u32 = 3;
const PAUSE: Duration = Duration::from_millis(800);

/// Streams in a row without an end after which the server counts as one that does not tell it. One that goes ends what it has under way,
/// and is another one for the next list; each costs the time until it ends, up to 50 s.
const CUT_OFF: u32 = 3;

/// Reads the lists of one watch.
pub(super) struct Lister<T, P> {
    api: Api,
    source: Source,
    seed: Seed,
    pub(super) witness: Box<dyn Witness>,
    /// The server was not found to have no lists as streams.
    streams: bool,
    /// Streams in a row whose end was not told.
    cut_off: u32,
    /// Where parts are shown; `None` if lists come whole.
    way: Option<Way<T, P>>,
}

/// A list and the position to watch from.
type Positioned<T> = (Snapshot<T>, String);

/// A list, or what remains of one that was shown in parts, and where the watch begins.
pub(super) struct Listed<T> {
    pub(super) snapshot: Snapshot<T>,
    pub(super) position: String,
    /// It has begun already.
    pub(super) stream: Option<Stream>,
}

impl<T: View, P> Lister<T, P> {
    pub(super) fn new(api: Api, source: Source, seed: Seed, witness: Box<dyn Witness>, way: Option<Way<T, P>>) -> Self {
        Self {
            api,
            source,
            seed,
            witness,
            streams: true,
            cut_off: 0,
            way,
        }
    }

    /// Lists everything.
    pub(super) async fn list(&mut self) -> Result<Listed<T>, Error> {
        if self.streams {
            let (witness, way) = (&mut *self.witness, self.way.as_ref());
            match initial::read(&self.api, &self.source, &self.seed, witness, way).await {
                Ok(begun) => {
                    self.cut_off = 0;
                    self.witness.saw_all();
                    return Ok(begun);
                }
                Err(Unstreamed::Failed(error)) if error.kind == Kind::TooManyRequests => return Err(error),
                // Whatever is wrong: pages may be right, or say what is.
                Err(Unstreamed::Failed(error)) => {
                    tracing::debug!(path = %self.source.path, %error, "The list did not come as a stream");
                }
                Err(Unstreamed::CutOff(error)) => {
                    tracing::info!(path = %self.source.path, %error, "The list as a stream has no end; it is read by pages");
                    self.cut_off += 1;
                    if self.cut_off == CUT_OFF {
                        self.without_streams(&error);
                    }
                }
                Err(Unstreamed::Unknown(error)) => self.without_streams(&error),
            }
        }
        let (snapshot, position) = self.paged().await?;
        Ok(Listed {
            snapshot,
            position,
            stream: None,
        })
    }

    fn without_streams(&mut self, error: &Error) {
        self.streams = false;
        tracing::info!(path = %self.source.path, %error, "The server has no lists as streams; it is read by pages");
    }

    async fn paged(&mut self) -> Result<Positioned<T>, Error> {
        let listed = match self.pages(Some(PAGE)).await {
            // The list took longer than the server keeps the past. The whole at once cannot expire half-way.
            Err((error, true)) if error.kind == Kind::Expired => self.pages(None).await.map_err(|(error, _)| error),
            Err((error, _)) => Err(error),
            Ok(listed) => Ok(listed),
        };
        if listed.is_ok() {
            self.witness.saw_all();
        }
        listed
    }

    /// Lists page by page; an error comes with whether it was in the middle.
    async fn pages(&mut self, mut limit: Option<usize>) -> Result<Positioned<T>, (Error, bool)> {
        let mut listed = Collected::listed(self.way.as_ref());
        let mut token = String::new();
        loop {
            let page = read_page::<T>(&self.api, &self.source, &self.seed, &token, &mut limit)
                .await
                .map_err(|error| (error, !token.is_empty()))?;
            for item in page.items() {
                take(&self.api, &self.source, &item, &mut *self.witness, &mut listed);
                listed.show().await;
            }
            token = page.next;
            if !token.is_empty() {
                continue;
            }
            let position = page.resource_version;
            if position.is_empty() {
                let message = format!("the list of {} has no resourceVersion", self.source.path);
                return Err((Error::new(Kind::Unavailable, message), false));
            }
            return Ok((listed.end().await, position));
        }
    }
}

/// Reads a collection of `T` once, page by page, and hands every object to `take`, with its name. Ends with an error if that takes
/// longer than `within`; what was taken by then was read all the same.
pub async fn read_collection<T: Decode>(
    api: &Api,
    source: &Source,
    seed: &Seed,
    within: Duration,
    mut take: impl FnMut(&str, &Encoded<'_>),
) -> Result<(), Error> {
    let pages = async {
        let (mut token, mut limit) = (String::new(), Some(PAGE));
        loop {
            let page = read_page::<T>(api, source, seed, &token, &mut limit).await?;
            for item in page.items() {
                if let Some(meta) = item.identity() {
                    take(&meta.name, &item);
                }
            }
            token = page.next;
            if token.is_empty() {
                return Ok(());
            }
        }
    };
    match tokio::time::timeout(within, pages).await {
        Ok(ended) => ended,
        Err(_) => {
            let message = format!("the list of {} was not read within {within:?}", source.path);
            Err(Error::new(Kind::Timeout, message))
        }
    }
}

/// Reads one page, asking for less where it was too much.
async fn read_page<T: Decode>(
    api: &Api,
    source: &Source,
    seed: &Seed,
    token: &str,
    limit: &mut Option<usize>,
) -> Result<Page, Error> {
    let mut attempt = 1;
    loop {
        let text = limit.map(|limit| limit.to_string()).unwrap_or_default();
        let path = source.query(&[("limit", text.as_str()), ("continue", token)]);
        let error = match api.list(&path, T::ACCEPT, limit.is_none(), DEADLINE).await {
            Ok(page) => return Ok(page),
            Err(error) if !error.is_transient() || attempt == ATTEMPTS => return Err(error),
            Err(error) => error,
        };
        attempt += 1;
        // No answer in time, or one that began and could not be read whole.
        if error.kind == Kind::Timeout || error.answered == Some(200) {
            *limit = limit.map(|limit| (limit / 2).max(1));
        }
        tracing::warn!(path = %source.path, ?limit, %error, "Page of a list was not read");
        let pause = PAUSE.max(heeded_retry_after(error.retry_after));
        tokio::time::sleep(seed.jitter(pause, 0.5)).await;
    }
}

/// Takes an object of a list.
pub(super) fn take<T: View, P>(
    api: &Api,
    source: &Source,
    object: &Encoded<'_>,
    witness: &mut dyn Witness,
    listed: &mut Collected<T, P>,
) {
    witness.saw(object);
    match decode(api, source, object) {
        Ok(view) => listed.put(Ok(view)),
        Err(_) => {
            if let Some(meta) = object.identity() {
                listed.put(Err(meta));
            }
        }
    }
}

/// Decodes an object; one that cannot be is counted and logged.
pub(super) fn decode<T: View>(api: &Api, source: &Source, object: &Encoded<'_>) -> Result<T, DecodeError> {
    T::decode(object).inspect_err(|error| {
        let resource = source.resource();
        api.metrics().malformed(resource);
        let meta = object.identity().unwrap_or_default();
        tracing::warn!(resource, namespace = %meta.namespace, name = %meta.name, %error, "Skipped an object that could not be decoded");
    })
}
