//! What a request says, and what bounds it.

use std::time::Duration;

use bailiff_runtime::client::Content;
use http::{Method, Request};

use super::MAX_ANSWER;
use crate::error::{Error, Kind};

/// What a request says, as long as it waits: it is built when it is sent.
pub(super) struct Words<'a> {
    pub(super) method: Method,
    pub(super) path: &'a str,
    pub(super) accept: &'static str,
    pub(super) content_type: &'static str,
    pub(super) body: Vec<u8>,
}

impl<'a> Words<'a> {
    pub(super) const fn read(path: &'a str, accept: &'static str) -> Self {
        Self {
            method: Method::GET,
            path,
            accept,
            content_type: "",
            body: Vec::new(),
        }
    }

    pub(super) fn into_request(self) -> Result<Request<Content>, Error> {
        let Self {
            method, path, accept, ..
        } = self;
        let mut request = Request::builder().method(method).uri(path).header("accept", accept);
        if !self.content_type.is_empty() {
            request = request.header("content-type", self.content_type);
        }
        request
            .body(Content::from(self.body))
            .map_err(|error| Error::new(Kind::Invalid, format!("{path}: {error}")))
    }
}

/// What a request is for, as far as it bounds it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Use {
    pub(super) is_write: bool,
    pub(super) deadline: Duration,
    /// Longest answer, in bytes.
    pub(super) most: usize,
}

impl Use {
    pub(super) const fn read(deadline: Duration, most: usize) -> Self {
        Self {
            is_write: false,
            deadline,
            most,
        }
    }

    pub(super) const fn write(deadline: Duration) -> Self {
        Self {
            is_write: true,
            deadline,
            most: MAX_ANSWER,
        }
    }
}
