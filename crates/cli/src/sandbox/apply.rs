//! `bailiff sandbox apply`: objects from files, by server-side apply.

use std::path::{Path, PathBuf};
use std::time::Duration;

use bailiff_runtime::client::SendError;
use kube::api::{Api, DynamicObject, Patch, PatchParams};
use kube::core::GroupVersionKind;
use kube::discovery::{Scope, pinned_kind};
use serde_json::Value;

use crate::out;

/// Who owns what is applied. What a file no longer says goes, as with every server-side apply.
const MANAGER: &str = "bailiff-sandbox";

/// A sandbox answers within milliseconds.
const DEADLINE: Duration = Duration::from_secs(30);

/// Why a file was not applied, or not all of it.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// There is no such file, or it may not be read.
    #[error("cannot read {}", file.display())]
    Read {
        /// The file.
        file: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// It is no YAML.
    #[error("{} is no YAML", file.display())]
    Parse {
        /// The file.
        file: PathBuf,
        /// Where and why.
        source: Box<serde_saphyr::Error>,
    },
    /// A document of it is no object.
    #[error("{}, document {number}: {why}", file.display())]
    NoObject {
        /// The file.
        file: PathBuf,
        /// Of the document, from 1.
        number: usize,
        /// What it lacks.
        why: String,
    },
    /// There is nothing in it.
    #[error("{} has no object", file.display())]
    Empty {
        /// The file.
        file: PathBuf,
    },
    /// The sandbox does not know such objects, or refused this one.
    #[error("{what} was not applied: {why}")]
    Refused {
        /// Kind and name.
        what: String,
        /// What the sandbox said.
        why: String,
    },
    /// There was no sandbox.
    #[error("cannot reach the sandbox: {what} was not applied")]
    Unreached {
        /// Kind and name.
        what: String,
        /// Why.
        source: Box<kube::Error>,
    },
    /// The sandbox said nothing of it.
    #[error("the sandbox did not say that {what} was applied, which it may have been")]
    Failed {
        /// Kind and name.
        what: String,
        /// Why.
        source: Box<kube::Error>,
    },
    /// It is done, and cannot be said.
    #[error(transparent)]
    Unwritten(#[from] out::Unwritten),
    /// No answer came.
    #[error("{what}: no answer within {DEADLINE:?}; it may have been applied")]
    Silent {
        /// Kind and name.
        what: String,
    },
}

/// An object that can be asked for.
#[derive(Debug)]
pub struct Applied {
    kind: GroupVersionKind,
    name: String,
    object: DynamicObject,
}

/// The objects of a file, in their order.
///
/// # Errors
/// It is no file of objects: a matter of configuration (exit code 64).
pub fn read(file: &Path) -> Result<Vec<Applied>, Error> {
    let text = std::fs::read_to_string(file).map_err(|source| Error::Read {
        file: file.to_owned(),
        source,
    })?;
    objects(file, &text)
}

/// Applies objects, and says each.
pub async fn apply(client: &kube::Client, objects: impl IntoIterator<Item = Applied>) -> Result<(), Error> {
    for applied in objects {
        let what = format!("{} {}", applied.kind.kind, applied.name);
        let answer = tokio::time::timeout(DEADLINE, send(client, &applied)).await;
        let answer = answer.map_err(|_| Error::Silent { what: what.clone() })?;
        answer.map_err(|error| unapplied(&applied, what.clone(), error))?;
        out::line(format_args!("{what} applied"))?;
    }
    Ok(())
}

/// Why it was not applied, in the words of the sandbox where it had any.
fn unapplied(applied: &Applied, what: String, error: kube::Error) -> Error {
    let why = match error {
        kube::Error::Api(status) => status.message,
        kube::Error::Discovery(_) => format!("the sandbox knows no {} of {}", applied.kind.kind, applied.kind.api_version()),
        error => {
            let (is_unconnected, source) = (is_unconnected(&error), error.into());
            return match is_unconnected {
                true => Error::Unreached { what, source },
                false => Error::Failed { what, source },
            };
        }
    };
    Error::Refused { what, why }
}

fn is_unconnected(error: &kube::Error) -> bool {
    let kube::Error::Service(cause) = error else { return false };
    cause.downcast_ref().is_some_and(SendError::is_unconnected)
}

fn objects(file: &Path, text: &str) -> Result<Vec<Applied>, Error> {
    let documents: Vec<Value> = serde_saphyr::from_multiple(text).map_err(|source| Error::Parse {
        file: file.to_owned(),
        source: source.into(),
    })?;
    let documents = documents.into_iter().enumerate().filter(|(_, document)| !document.is_null());
    let one = |(index, document)| {
        object(document).map_err(|why| Error::NoObject {
            file: file.to_owned(),
            number: index + 1,
            why,
        })
    };
    let objects: Vec<Applied> = documents.map(one).collect::<Result<_, _>>()?;
    if objects.is_empty() {
        return Err(Error::Empty { file: file.to_owned() });
    }
    Ok(objects)
}

fn object(document: Value) -> Result<Applied, String> {
    if !document.is_object() {
        // All that is in it would be shown.
        return Err("it is no object".to_owned());
    }
    let object: DynamicObject = serde_json::from_value(document).map_err(|error| error.to_string())?;
    let types = object.types.as_ref().ok_or("it has no apiVersion and kind")?;
    let kind = GroupVersionKind::try_from(types).map_err(|error| error.to_string())?;
    let name = object.metadata.name.clone().ok_or("it has no metadata.name")?;
    Ok(Applied { kind, name, object })
}

async fn send(client: &kube::Client, applied: &Applied) -> kube::Result<DynamicObject> {
    let (resource, capabilities) = pinned_kind(client, &applied.kind).await?;
    let api: Api<DynamicObject> = match capabilities.scope {
        Scope::Cluster => Api::all_with(client.clone(), &resource),
        Scope::Namespaced => match &applied.object.metadata.namespace {
            Some(namespace) => Api::namespaced_with(client.clone(), namespace, &resource),
            None => Api::default_namespaced_with(client.clone(), &resource),
        },
    };
    let params = PatchParams::apply(MANAGER).force();
    api.patch(&applied.name, &params, &Patch::Apply(&applied.object)).await
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(text: &str) -> Result<Vec<String>, String> {
        let read = objects(Path::new("f.yaml"), text);
        let names = |read: Vec<Applied>| read.iter().map(|one| format!("{} {}", one.kind.kind, one.name)).collect();
        read.map(names).map_err(|error| error.to_string())
    }

    #[test]
    fn a_file_holds_any_number_of_objects() {
        let text =
            "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\n---\napiVersion: apps/v1\nkind: DaemonSet\nmetadata: {name: b}\n";
        assert_eq!(named(text), Ok(vec!["Pod a".to_owned(), "DaemonSet b".to_owned()]));
    }

    #[test]
    fn what_is_no_object_is_told_with_its_place() {
        for (text, wanted) in [
            ("a: [", "f.yaml is no YAML"),
            ("no object", "f.yaml, document 1: it is no object"),
            ("metadata: {name: a}", "f.yaml, document 1: it has no apiVersion"),
            ("# nothing", "f.yaml has no object"),
            (
                "apiVersion: v1\nkind: Pod\nmetadata: {}",
                "document 1: it has no metadata.name",
            ),
        ] {
            let error = named(text).expect_err(text);
            assert!(error.contains(wanted), "{text}: {error}");
        }
    }

    #[test]
    fn what_the_sandbox_did_not_say_itself_is_the_cause() {
        let applied = object(serde_json::json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}})).expect("an object");
        let error = unapplied(&applied, "Pod p".to_owned(), kube::Error::LinesCodecMaxLineLengthExceeded);
        assert_eq!(
            error.to_string(),
            "the sandbox did not say that Pod p was applied, which it may have been"
        );
        let source = std::error::Error::source(&error).map(ToString::to_string);
        assert_eq!(source, Some(kube::Error::LinesCodecMaxLineLengthExceeded.to_string()));
    }

    #[tokio::test]
    async fn what_no_sandbox_was_there_for_was_not_applied() {
        // Nobody listens there: it is reserved.
        let config = serde_json::json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "c",
            "clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:1"}}],
            "users": [{"name": "u", "user": {}}], "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        });
        let directory = tempfile::tempdir().expect("a directory");
        let file = directory.path().join("kubeconfig");
        std::fs::write(&file, config.to_string()).expect("written");
        let kubeconfig = Some(file);
        let args = bailiff_runtime::KubeArgs {
            kubeconfig,
            ..bailiff_runtime::KubeArgs::default()
        };
        let client = bailiff_runtime::client::connect(&args, "test").await.expect("a client");
        let pod = object(serde_json::json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}})).expect("an object");
        let error = apply(&client, [pod]).await.expect_err("nobody is there");
        assert_eq!(error.to_string(), "cannot reach the sandbox: Pod p was not applied");
    }

    #[tokio::test(start_paused = true)]
    async fn an_object_is_created_and_then_changed_to_what_the_file_says() {
        use bailiff_runtime::shutdown::chain;
        use bailiff_runtime::{Clock, Seed, client};
        use bailiff_sandbox::{Config, Sandbox, User};

        let sandbox = Sandbox::new(
            Config::default(),
            Clock::virtual_from(bailiff_model::Wall::UNIX_EPOCH),
            &Seed::new(1),
        );
        let client = client::from_service(sandbox.service(User::admin()));
        let directory = tempfile::tempdir().expect("a directory");
        let file = directory.path().join("map.yaml");
        let map = |data: &str| format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: m}}\ndata: {{{data}}}\n");
        let maps: Api<DynamicObject> = {
            let kind = GroupVersionKind::gvk("", "v1", "ConfigMap");
            Api::default_namespaced_with(client.clone(), &kube::core::ApiResource::from_gvk(&kind))
        };
        for (data, wanted) in [
            ("a: one, b: two", r#"{"a":"one","b":"two"}"#),
            ("a: three", r#"{"a":"three"}"#),
        ] {
            std::fs::write(&file, map(data)).expect("written");
            apply(&client, read(&file).expect("objects")).await.expect("applied");
            assert_eq!(maps.get("m").await.expect("there").data["data"].to_string(), wanted);
        }
        for (text, wanted) in [
            (
                "apiVersion: v1\nkind: Foo\nmetadata: {name: f}",
                "Foo f was not applied: the sandbox knows no Foo of v1",
            ),
            (
                "apiVersion: v1\nkind: Pod\nmetadata: {name: p}",
                "Pod p was not applied: Pod \"p\" is invalid: spec.containers: Required value",
            ),
        ] {
            std::fs::write(&file, text).expect("written");
            let error = apply(&client, read(&file).expect("objects")).await.expect_err(text);
            assert_eq!(chain(&error), wanted);
        }
    }
}
