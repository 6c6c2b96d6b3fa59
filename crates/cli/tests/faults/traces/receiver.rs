//! A collector in this process: OpenTelemetry's own service, which keeps what it is sent.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use jiff::Timestamp;
use opentelemetry_proto::tonic::collector::trace::v1::trace_service_server::{TraceService, TraceServiceServer};
use opentelemetry_proto::tonic::collector::trace::v1::{ExportTraceServiceRequest, ExportTraceServiceResponse};
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue};
use opentelemetry_proto::tonic::trace::v1::span::SpanKind;
use opentelemetry_proto::tonic::trace::v1::status::StatusCode;
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, Span};
use tokio::runtime::Runtime;
use tonic::transport::Server;
use tonic::transport::server::TcpIncoming;
use tonic::{Request, Response, Status};

use super::span::{Collector, SeenSpan};

/// The collector. It ends with this value.
pub struct Receiver {
    address: SocketAddr,
    kept: Kept,
    _runtime: Runtime,
}

/// What it was sent.
#[derive(Clone, Default)]
struct Kept(Arc<Mutex<Vec<SeenSpan>>>);

impl Receiver {
    pub fn start() -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build();
        let (runtime, kept) = (runtime.unwrap(), Kept::default());
        let listener = runtime.block_on(tokio::net::TcpListener::bind(("127.0.0.1", 0))).unwrap();
        let address = listener.local_addr().unwrap();
        let server = Server::builder().add_service(TraceServiceServer::new(kept.clone()));
        runtime.spawn(server.serve_with_incoming(TcpIncoming::from(listener)));
        Self {
            address,
            kept,
            _runtime: runtime,
        }
    }
}

impl Collector for Receiver {
    fn address(&self) -> SocketAddr {
        self.address
    }

    fn all(&self) -> Vec<SeenSpan> {
        self.kept.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn find(&self, service: &str, attributes: &[(&str, &str)]) -> BTreeSet<String> {
        let found = self.all().into_iter();
        let found = found.filter(|span| span.service == service && span.has(attributes));
        found.map(|span| span.trace).collect()
    }
}

#[tonic::async_trait]
impl TraceService for Kept {
    async fn export(&self, request: Request<ExportTraceServiceRequest>) -> Result<Response<ExportTraceServiceResponse>, Status> {
        let seen = request.into_inner().resource_spans.into_iter().flat_map(seen);
        self.0.lock().unwrap_or_else(PoisonError::into_inner).extend(seen);
        Ok(Response::new(ExportTraceServiceResponse::default()))
    }
}

/// The spans of a resource.
fn seen(of: ResourceSpans) -> Vec<SeenSpan> {
    let resource = texts(of.resource.unwrap_or_default().attributes);
    let told = |key: &str| resource.get(key).cloned().unwrap_or_default();
    let (service, instance) = (told("service.name"), told("service.instance.id"));
    let mut spans = Vec::new();
    for scope in of.scope_spans {
        let stage = scope.scope.unwrap_or_default().name;
        spans.extend(scope.spans.into_iter().map(|span| SeenSpan {
            stage: stage.clone(),
            service: service.clone(),
            instance: instance.clone(),
            ..seen_span(span)
        }));
    }
    spans
}

fn seen_span(span: Span) -> SeenSpan {
    let kind = match span.kind() {
        SpanKind::Internal => "internal",
        SpanKind::Client => "client",
        other => panic!("nothing here is of kind {other:?}"),
    };
    SeenSpan {
        trace: hex(&span.trace_id),
        id: hex(&span.span_id),
        parent: (!span.parent_span_id.is_empty()).then(|| hex(&span.parent_span_id)),
        kind: kind.to_owned(),
        start: time(span.start_time_unix_nano),
        end: time(span.end_time_unix_nano),
        has_failed: span.status.is_some_and(|status| status.code() == StatusCode::Error),
        name: span.name,
        attributes: texts(span.attributes),
        stage: String::new(),
        service: String::new(),
        instance: String::new(),
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn time(nanos: u64) -> Timestamp {
    Timestamp::from_nanosecond(nanos.into()).unwrap()
}

fn texts(attributes: Vec<KeyValue>) -> BTreeMap<String, String> {
    attributes.into_iter().map(|pair| (pair.key, text(pair.value))).collect()
}

fn text(value: Option<AnyValue>) -> String {
    match value.and_then(|value| value.value) {
        Some(Value::StringValue(text)) => text,
        Some(Value::BoolValue(is)) => is.to_string(),
        Some(Value::IntValue(number)) => number.to_string(),
        Some(Value::DoubleValue(number)) => number.to_string(),
        other => panic!("nothing here is {other:?}"),
    }
}
