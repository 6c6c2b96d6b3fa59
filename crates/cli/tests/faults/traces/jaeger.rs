//! A real Jaeger that is a process: told over OTLP, asked through its query API.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::time::Duration;

use bailiff_processes::free_address;
use jiff::Timestamp;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::trace_service_client::TraceServiceClient;
use opentelemetry_proto::tonic::common::v1::any_value::Value as Any;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue};
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span};
use serde_json::Value;

use super::span::{Collector, SeenSpan};
use crate::clock;

/// The module that it is, at the last version whose `go.mod` lets `go install` have it.
const MODULE: &str = "github.com/jaegertracing/jaeger/cmd/all-in-one@v1.42.0";
/// Far beyond what a start takes; it only ends a run that hangs.
const DEADLINE: Duration = Duration::from_secs(60);
/// The service of a span that says that all before it were taken in.
const LAST: &str = "last";

/// A Jaeger. It ends with this value.
pub struct Jaeger {
    address: SocketAddr,
    query: SocketAddr,
    child: Child,
}

/// Its program, if it can be had; says so if it cannot.
pub fn program() -> Option<&'static PathBuf> {
    static FOUND: OnceLock<Option<PathBuf>> = OnceLock::new();
    FOUND.get_or_init(find).as_ref()
}

fn find() -> Option<PathBuf> {
    let asked = Command::new("go").args(["env", "GOBIN", "GOPATH"]).output();
    let Some(told) = asked.ok().filter(|output| output.status.success()) else {
        eprintln!("skipped: there is no Go to install Jaeger with");
        return None;
    };
    let told = String::from_utf8(told.stdout).unwrap();
    let (bin, path) = told.trim_end_matches('\n').split_once('\n').unwrap();
    let bin = if bin.is_empty() {
        PathBuf::from(path).join("bin")
    } else {
        PathBuf::from(bin)
    };
    let program = bin.join("all-in-one");
    if !program.exists() {
        println!("go install {MODULE}");
        let installed = Command::new("go").args(["install", MODULE]).output().unwrap();
        if !installed.status.success() {
            let said = String::from_utf8_lossy(&installed.stderr).into_owned();
            eprintln!("skipped: Jaeger cannot be installed (go install {MODULE}): {said}");
            return None;
        }
    }
    Some(program)
}

impl Jaeger {
    /// Starts the program, and waits until it answers.
    pub fn start(program: &PathBuf) -> Self {
        let [address, query] = [(); 2].map(|()| free_address().unwrap());
        let mut command = Command::new(program);
        command
            .env_clear()
            .arg("--collector.otlp.enabled=true")
            .arg(format!("--collector.otlp.grpc.host-port={address}"))
            .arg(format!("--query.http-server.host-port={query}"))
            // One after another: what was told last is there last.
            .args(["--collector.num-workers=1", "--collector.queue-size=100000"]);
        for other in [
            "admin.http",
            "collector.otlp.http",
            "collector.grpc-server",
            "collector.http-server",
            "query.grpc-server",
            "http-server",
        ] {
            command.arg(format!("--{other}.host-port=127.0.0.1:0"));
        }
        for agent in ["jaeger-binary", "jaeger-compact", "zipkin-compact"] {
            command.arg(format!("--processor.{agent}.server-host-port=127.0.0.1:0"));
        }
        let quiet = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let jaeger = Self {
            address,
            query,
            child: quiet.spawn().unwrap(),
        };
        jaeger.until("an answer", |jaeger| {
            jaeger.ask("/api/services").is_some() && TcpStream::connect(jaeger.address).is_ok()
        });
        jaeger
    }

    fn services(&self) -> BTreeSet<String> {
        let answer = self.ask("/api/services").expect("it answers");
        let all = answer["data"].as_array().into_iter().flatten();
        all.map(|name| name.as_str().unwrap().to_owned()).collect()
    }

    /// The traces in which this service told a span with these attributes, whole.
    fn traces(&self, service: &str, attributes: &[(&str, &str)]) -> Vec<Value> {
        let tags: BTreeMap<_, _> = attributes.iter().copied().collect();
        let tags = encoded(&serde_json::to_string(&tags).unwrap());
        let path = format!("/api/traces?service={service}&tags={tags}&limit=100000");
        let answer = self.ask(&path).expect("it answers");
        answer["data"].as_array().cloned().unwrap()
    }

    /// HTTP/1.0, so that the answer ends with the connection.
    fn ask(&self, path: &str) -> Option<Value> {
        let mut stream = TcpStream::connect(self.query).ok()?;
        stream.set_read_timeout(Some(DEADLINE)).unwrap();
        stream
            .write_all(format!("GET {path} HTTP/1.0\r\nHost: {}\r\n\r\n", self.query).as_bytes())
            .ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).ok()?;
        let (head, body) = answer.split_once("\r\n\r\n")?;
        assert!(head.contains(" 200 "), "{path}: {answer}");
        Some(serde_json::from_str(body).unwrap())
    }

    fn until(&self, what: &str, is_so: impl Fn(&Self) -> bool) {
        let end = clock::now() + DEADLINE;
        while !is_so(self) {
            assert!(clock::now() < end, "Jaeger: {what} was not seen");
            clock::breathe(Duration::from_millis(100));
        }
    }
}

impl Collector for Jaeger {
    fn address(&self) -> SocketAddr {
        self.address
    }

    fn settle(&self) {
        let name = Any::StringValue(LAST.to_owned());
        let service = KeyValue {
            key: "service.name".to_owned(),
            value: Some(AnyValue { value: Some(name) }),
            ..KeyValue::default()
        };
        let span = Span {
            trace_id: vec![1; 16],
            span_id: vec![1; 8],
            name: LAST.to_owned(),
            ..Span::default()
        };
        let request = ExportTraceServiceRequest {
            resource_spans: vec![ResourceSpans {
                resource: Some(Resource {
                    attributes: vec![service],
                    ..Resource::default()
                }),
                scope_spans: vec![ScopeSpans {
                    spans: vec![span],
                    ..ScopeSpans::default()
                }],
                ..ResourceSpans::default()
            }],
        };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let mut client = TraceServiceClient::connect(format!("http://{}", self.address)).await.unwrap();
            client.export(request).await.unwrap();
        });
        self.until("the last span", |jaeger| jaeger.services().contains(LAST));
    }

    fn all(&self) -> Vec<SeenSpan> {
        let services = self.services().into_iter().filter(|name| name != LAST);
        let traces = services.flat_map(|service| self.traces(&service, &[]));
        // A trace of several services is found by each of them.
        let whole: BTreeMap<String, Value> = traces.map(|trace| (text(&trace["traceID"]), trace)).collect();
        whole.values().flat_map(seen).collect()
    }

    fn find(&self, service: &str, attributes: &[(&str, &str)]) -> BTreeSet<String> {
        let found = self.traces(service, attributes);
        found.iter().map(|trace| long(&trace["traceID"])).collect()
    }
}

impl Drop for Jaeger {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The spans of a trace.
fn seen(trace: &Value) -> Vec<SeenSpan> {
    let spans = trace["spans"].as_array().unwrap().iter();
    spans.map(|span| seen_span(span, &trace["processes"])).collect()
}

fn seen_span(span: &Value, processes: &Value) -> SeenSpan {
    let process = &processes[span["processID"].as_str().unwrap()];
    let mut attributes = texts(&span["tags"]);
    let mut take = |key: &str| attributes.remove(key).unwrap_or_default();
    // What is no attribute in OpenTelemetry is one here.
    let (kind, stage, _) = (take("span.kind"), take("otel.library.name"), take("otel.library.version"));
    let (has_failed, _, _) = (
        take("error") == "true",
        take("otel.status_code"),
        take("otel.status_description"),
    );
    take("internal.span.format");
    let parent = span["references"].as_array().and_then(|all| all.first());
    let start = span["startTime"].as_i64().unwrap();
    SeenSpan {
        trace: long(&span["traceID"]),
        id: text(&span["spanID"]),
        parent: parent.map(|of| text(&of["spanID"])),
        name: text(&span["operationName"]),
        kind,
        start: time(start),
        end: time(start + span["duration"].as_i64().unwrap()),
        has_failed,
        stage,
        service: text(&process["serviceName"]),
        instance: texts(&process["tags"]).remove("service.instance.id").unwrap_or_default(),
        attributes,
    }
}

fn texts(tags: &Value) -> BTreeMap<String, String> {
    let tags = tags.as_array().into_iter().flatten();
    tags.map(|tag| {
        let value = &tag["value"];
        let plain = value.as_str().map(str::to_owned);
        (text(&tag["key"]), plain.unwrap_or_else(|| value.to_string()))
    })
    .collect()
}

fn text(value: &Value) -> String {
    value.as_str().unwrap().to_owned()
}

/// An id of a trace, with the zeros that it may begin with.
fn long(id: &Value) -> String {
    format!("{:0>32}", id.as_str().unwrap())
}

fn time(micros: i64) -> Timestamp {
    Timestamp::from_microsecond(micros).unwrap()
}

fn encoded(text: &str) -> String {
    text.bytes().map(|byte| format!("%{byte:02X}")).collect()
}
