//! The sandbox as a tower service of HTTP requests, for clients in the same process and for the server.

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body::Frame;
use http_body_util::{BodyExt, Limited};

use crate::api::reply::{Content, Reply};
use crate::api::request::{Body, Query, Request as Asked};
use crate::api::stream::Stream;
use crate::api::{self, encode};
use crate::status::Status;
use crate::{Sandbox, User};

/// Largest request body, as in the real server.
const MOST_BYTES: usize = 3 * 1024 * 1024;
/// How long a request's body may take to arrive, as the real server lets requests take.
pub(crate) const BODY: Duration = Duration::from_secs(60);

/// The sandbox as a tower service.
#[derive(Clone, Debug)]
pub struct Service {
    sandbox: Sandbox,
    user: Option<User>,
}

/// The body of an answer.
#[derive(Debug)]
pub enum Answer {
    /// All of it, once.
    Full(Option<Bytes>),
    /// A watch.
    Stream(Box<Stream>),
}

// === impl Service ===

impl Service {
    /// A service whose clients say who they are by tokens.
    pub fn new(sandbox: Sandbox) -> Self {
        Self { sandbox, user: None }
    }

    /// A service whose client is this user.
    pub fn trusting(sandbox: Sandbox, user: User) -> Self {
        Self {
            sandbox,
            user: Some(user),
        }
    }
}

type Answered = Pin<Box<dyn Future<Output = Result<Response<Answer>, Infallible>> + Send>>;

impl<B> tower::Service<Request<B>> for Service
where
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    type Response = Response<Answer>;
    type Error = Infallible;
    type Future = Answered;

    fn poll_ready(&mut self, _context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Answered {
        let (sandbox, user) = (self.sandbox.clone(), self.user.clone());
        Box::pin(async move { Ok(answer(&sandbox, user.as_ref(), request).await) })
    }
}

async fn answer<B>(sandbox: &Sandbox, user: Option<&User>, request: Request<B>) -> Response<Answer>
where
    B: http_body::Body<Data = Bytes>,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let (parts, body) = request.into_parts();
    let mut asked = asked(&parts);
    let body = tokio::time::timeout(BODY, Limited::new(body, MOST_BYTES).collect()).await;
    let refusal = match body {
        Ok(Ok(collected)) => {
            asked.body = Body::Bytes(collected.to_bytes());
            let reply = settle(sandbox, api::handle(sandbox, &asked, user), &asked).await;
            return response(reply, &asked.method);
        }
        Ok(Err(error)) if error.is::<http_body_util::LengthLimitError>() => {
            let message = format!("Request entity too large: limit is {MOST_BYTES}");
            Status::new(413, "RequestEntityTooLarge", message)
        }
        Ok(Err(_)) => Status::bad_request("the body of the request could not be read"),
        Err(_) => Status::new(504, "Timeout", "request did not complete within the allotted timeout"),
    };
    let accepted = api::negotiate::Accepted::default();
    let reply = encode::finish(Reply::refusal(&refusal), &asked, accepted, &sandbox.kinds());
    response(reply, &asked.method)
}

/// Waits for what is not due yet. A client that gave up by then costs nothing more.
async fn settle(sandbox: &Sandbox, reply: Reply, asked: &Asked) -> Reply {
    match reply.body {
        Content::Late(delay, status) => {
            tokio::time::sleep(delay).await;
            encode::finish(
                Reply::refusal(&status),
                asked,
                api::negotiate::Accepted::default(),
                &sandbox.kinds(),
            )
        }
        _ => reply,
    }
}

fn asked(parts: &http::request::Parts) -> Asked {
    let header = |name: &str| {
        let values: Vec<&str> = parts
            .headers
            .get_all(name)
            .iter()
            .filter_map(|value| value.to_str().ok())
            .collect();
        (!values.is_empty()).then(|| values.join(","))
    };
    Asked {
        method: parts.method.as_str().to_owned(),
        path: parts.uri.path().to_owned(),
        query: Query::parse(parts.uri.query().unwrap_or_default()),
        accept: header("accept").unwrap_or_default(),
        content_type: header("content-type"),
        accept_encoding: header("accept-encoding").unwrap_or_default(),
        authorization: header("authorization"),
        impersonate: impersonated(parts),
        user_agent: header("user-agent").unwrap_or_default(),
        body: Body::default(),
    }
}

fn impersonated(parts: &http::request::Parts) -> Vec<(String, String)> {
    let headers = parts.headers.iter().filter_map(|(name, value)| {
        let name = name.as_str().strip_prefix("impersonate-")?;
        Some((name.to_owned(), value.to_str().ok()?.to_owned()))
    });
    headers.collect()
}

fn response(reply: Reply, method: &str) -> Response<Answer> {
    let body = match reply.body {
        Content::Full(_) if method == "HEAD" => Answer::Full(None),
        Content::Full(bytes) => Answer::Full(Some(bytes).filter(|bytes| !bytes.is_empty())),
        Content::Stream(stream) => Answer::Stream(stream),
        Content::Object(value) => Answer::Full(Some(value.to_string().into())),
        Content::Late(..) => Answer::Full(None),
    };
    let mut response = Response::new(body);
    *response.status_mut() = http::StatusCode::from_u16(reply.status).unwrap_or(http::StatusCode::INTERNAL_SERVER_ERROR);
    for (name, value) in reply.headers {
        if let Ok(value) = http::HeaderValue::from_str(&value) {
            response.headers_mut().append(name, value);
        }
    }
    response
}

// === impl Answer ===

impl http_body::Body for Answer {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match self.get_mut() {
            Self::Full(bytes) => Poll::Ready(bytes.take().map(|bytes| Ok(Frame::data(bytes)))),
            Self::Stream(stream) => stream.poll_next(context).map(|line| line.map(|line| Ok(Frame::data(line)))),
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(self, Self::Full(None))
    }

    fn size_hint(&self) -> http_body::SizeHint {
        match self {
            Self::Full(bytes) => http_body::SizeHint::with_exact(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64)),
            Self::Stream(_) => http_body::SizeHint::default(),
        }
    }
}
