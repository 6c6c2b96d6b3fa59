//! The way to an API server that has the chart's roles and policies, for a ServiceAccount with a token of its own.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use bailiff_runtime::client;
use bailiff_sandbox::service::{Answer, Service};
use bailiff_sandbox::{Authorization, Config, Sandbox, User, Verb};
use http::{Method, Request, Response};
use kube::client::Body;
use serde_json::{Value, json};

use super::documents;

/// A committed manifest.
#[derive(Clone, Copy, Debug)]
pub struct Manifest {
    pub file: &'static str,
    pub namespace: &'static str,
    pub observes: bool,
}

pub const REPLACE: Manifest = Manifest {
    file: "deploy/manifests/bailiff.yaml",
    namespace: "bailiff-system",
    observes: false,
};
pub const OBSERVE: Manifest = Manifest {
    file: "deploy/manifests/observe.yaml",
    namespace: "bailiff-observe",
    observes: true,
};
pub const STAGES: [&str; 4] = ["node-health-monitor", "taint-manager", "zone-evictor", "daemonset-syncer"];

/// A sandbox in which only roles give rights.
pub fn config() -> Config {
    Config {
        authorization: Authorization::Rbac,
        anonymous: false,
        ..Config::default()
    }
}

/// Where objects of a kind are created; `None` for what does not concern rights.
fn collection(object: &Value) -> Option<String> {
    let namespace = object["metadata"]["namespace"].as_str().unwrap_or_default();
    let (group, resource) = match object["kind"].as_str()? {
        "Namespace" => ("/api/v1", "namespaces"),
        "ServiceAccount" => ("/api/v1", "serviceaccounts"),
        "ClusterRole" => ("/apis/rbac.authorization.k8s.io/v1", "clusterroles"),
        "ClusterRoleBinding" => ("/apis/rbac.authorization.k8s.io/v1", "clusterrolebindings"),
        "Role" => ("/apis/rbac.authorization.k8s.io/v1", "roles"),
        "RoleBinding" => ("/apis/rbac.authorization.k8s.io/v1", "rolebindings"),
        "ValidatingAdmissionPolicy" => ("/apis/admissionregistration.k8s.io/v1", "validatingadmissionpolicies"),
        "ValidatingAdmissionPolicyBinding" => ("/apis/admissionregistration.k8s.io/v1", "validatingadmissionpolicybindings"),
        _ => return None,
    };
    Some(match namespace {
        "" => format!("{group}/{resource}"),
        namespace => format!("{group}/namespaces/{namespace}/{resource}"),
    })
}

/// Creates the accounts, roles and policies of a committed manifest.
pub fn lay(sandbox: &Sandbox, manifest: Manifest) {
    for object in documents(manifest.file) {
        let Some(path) = collection(&object) else { continue };
        let created = sandbox.request(&User::admin(), Verb::Create, &path, &object);
        created.unwrap_or_else(|status| panic!("{path} {}: {status}", object["metadata"]["name"]));
    }
}

/// A token of a stage's ServiceAccount, as its pod would get one.
pub fn token(sandbox: &Sandbox, manifest: Manifest, stage: &str) -> String {
    let path = format!("/api/v1/namespaces/{}/serviceaccounts/{stage}/token", manifest.namespace);
    let request = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}});
    let answer = sandbox.request(&User::admin(), Verb::Create, &path, &request).unwrap();
    answer["status"]["token"].as_str().unwrap().to_owned()
}

/// What RBAC asks about a request: stage, API group, resource with its subresource, verb.
pub type Use = (String, String, String, String);

/// What was asked for so far, and what was refused for lack of rights.
#[derive(Clone, Debug, Default)]
pub struct Book(Arc<Mutex<Pages>>);

#[derive(Debug, Default)]
struct Pages {
    used: BTreeSet<Use>,
    refused: Vec<String>,
    /// Writes that were overtaken, of each kind the first.
    overtaken: BTreeSet<Use>,
}

impl Book {
    pub fn used(&self) -> BTreeSet<Use> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).used.clone()
    }

    pub fn refused(&self) -> Vec<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).refused.clone()
    }
}

/// The API server as a stage reaches it.
#[derive(Clone)]
pub struct Door {
    stage: &'static str,
    token: String,
    sandbox: Sandbox,
    inner: Service,
    book: Book,
}

/// A client of the stage's own account, whose requests are noted.
///
/// The first write of each kind to an object that exists is overtaken by another's, so that it conflicts and its maker reads again. There
/// are no lists as streams.
pub fn client(sandbox: &Sandbox, manifest: Manifest, stage: &'static str, book: &Book) -> kube::Client {
    client::from_service(Door {
        stage,
        token: format!("Bearer {}", token(sandbox, manifest, stage)),
        sandbox: sandbox.clone(),
        inner: Service::new(sandbox.clone()),
        book: book.clone(),
    })
}

impl tower::Service<Request<Body>> for Door {
    type Response = Response<Answer>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Answer>, Infallible>> + Send>>;

    fn poll_ready(&mut self, _context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, mut request: Request<Body>) -> Self::Future {
        let asked = asked(self.stage, &request);
        self.overtake(&asked, request.uri().path(), request.method());
        request
            .headers_mut()
            .insert(http::header::AUTHORIZATION, self.token.parse().unwrap());
        let what = format!("{} {} {}", self.stage, request.method(), request.uri());
        let is_streamed_list = what.contains("sendInitialEvents=true");
        if is_streamed_list {
            // As a server without them, which needs the right to list.
            let uri = request.uri().to_string().replace("NotOlderThan", "Exact");
            *request.uri_mut() = uri.parse().unwrap();
        }
        let (answer, book) = (tower::Service::call(&mut self.inner, request), self.book.clone());
        Box::pin(async move {
            let answer = answer.await?;
            if is_streamed_list {
                return Ok(answer);
            }
            let mut pages = book.0.lock().unwrap_or_else(PoisonError::into_inner);
            // A refusal by a policy is one of these too, or 422.
            if [401, 403, 422].contains(&answer.status().as_u16()) {
                pages.refused.push(format!("{} {what}", answer.status()));
            } else {
                pages.used.insert(asked);
            }
            drop(pages);
            Ok(answer)
        })
    }
}

impl Door {
    fn overtake(&self, asked: &Use, path: &str, method: &Method) {
        let object = path.strip_suffix("/status").unwrap_or(path);
        let concerns = ["nodes", "pods/status"].contains(&asked.2.as_str());
        if method != Method::PATCH || !concerns {
            return;
        }
        let mut pages = self.book.0.lock().unwrap_or_else(PoisonError::into_inner);
        if pages.overtaken.insert(asked.clone()) {
            let note = json!({"metadata": {"annotations": {"overtaken-by": self.stage}}});
            // Whatever is gone cannot be overtaken.
            let _ = self.sandbox.request(&User::admin(), Verb::MergePatch, object, &note);
        }
    }
}

/// What the API server asks RBAC about this request.
fn asked(stage: &str, request: &Request<Body>) -> Use {
    let parts: Vec<&str> = request.uri().path().trim_start_matches('/').split('/').collect();
    let (group, rest) = match parts[..] {
        ["api", _, ref rest @ ..] => ("", rest),
        ["apis", group, _, ref rest @ ..] => (group, rest),
        _ => panic!("{}", request.uri()),
    };
    let rest = match rest {
        ["namespaces", _, rest @ ..] if !rest.is_empty() => rest,
        rest => rest,
    };
    let (resource, is_named) = match rest {
        [resource] => ((*resource).to_owned(), false),
        [resource, _] => ((*resource).to_owned(), true),
        [resource, _, sub] => (format!("{resource}/{sub}"), true),
        _ => panic!("{}", request.uri()),
    };
    let is_watch = request.uri().query().is_some_and(|query| query.contains("watch="));
    let verb = match *request.method() {
        Method::GET if is_watch => "watch",
        Method::GET if is_named => "get",
        Method::GET => "list",
        Method::POST => "create",
        Method::PUT => "update",
        Method::PATCH => "patch",
        Method::DELETE if is_named => "delete",
        _ => "deletecollection",
    };
    (stage.to_owned(), group.to_owned(), resource, verb.to_owned())
}

/// What the manifests' roles grant, by the account that each is bound to.
pub fn granted(manifest: Manifest) -> BTreeSet<Use> {
    let objects = documents(manifest.file);
    let mut granted = BTreeSet::new();
    let bindings = objects.iter().filter(|object| object["roleRef"].is_object());
    for binding in bindings {
        let role = objects.iter().find(|object| {
            object["kind"] == binding["roleRef"]["kind"]
                && object["metadata"]["name"] == binding["roleRef"]["name"]
                && object["metadata"]["namespace"] == binding["metadata"]["namespace"]
        });
        let role = role.unwrap_or_else(|| panic!("no role for {binding}"));
        let texts = |value: &Value| -> Vec<String> {
            let list = value.as_array().unwrap();
            list.iter().map(|text| text.as_str().unwrap().to_owned()).collect()
        };
        for stage in binding["subjects"].as_array().unwrap() {
            let stage = stage["name"].as_str().unwrap();
            for rule in role["rules"].as_array().unwrap() {
                for group in texts(&rule["apiGroups"]) {
                    for resource in texts(&rule["resources"]) {
                        for verb in texts(&rule["verbs"]) {
                            granted.insert((stage.to_owned(), group.clone(), resource.clone(), verb));
                        }
                    }
                }
            }
        }
    }
    granted
}
