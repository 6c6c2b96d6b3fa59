//! Steps of a scenario.

use std::collections::BTreeMap;

use bailiff_sandbox::kubelet::Target;
use serde_json::{Value, json};

use super::Error;
use super::requests::spaced;
use super::rig::Rig;
use crate::oracle::file::{Action, Copy, PodStatus, Request, Sut};
use crate::oracle::placeholders::{resolve, resolve_all};
use crate::oracle::sut::{Controllers, Setup};

// === impl Rig: steps ===

impl Rig {
    /// Does what a step says.
    pub async fn step(&mut self, action: &Action, setup: &Setup) -> Result<(), Error> {
        match action {
            Action::Request(request) => self.request(request).await,
            Action::Kubelet(node, settings) => {
                let target = node.as_ref().map_or(Target::All, |node| Target::Node(node.as_str().into()));
                self.change_kubelets(target, settings.0.clone()).await
            }
            Action::PodStatus(status) => self.pod_status(status).await,
            Action::Capture(texts) => self.capture(texts),
            Action::Copy(copy) => self.copy(copy).await,
            Action::Sut(what) => {
                self.controllers(*what, setup).await;
                Ok(())
            }
        }
    }

    async fn request(&self, request: &Request) -> Result<(), Error> {
        let Request {
            verb,
            path,
            content_type,
            body,
            expect,
        } = request;
        if verb == "CREATE" {
            return self.create(body.clone().unwrap_or_default(), *expect).await;
        }
        let path = resolve(path, self)?;
        let mut body = body.clone();
        if let Some(body) = &mut body {
            resolve_all(body, self)?;
        }
        self.send(verb, &path, content_type.as_deref(), body.as_ref(), *expect)
            .await
            .map(drop)
    }

    async fn pod_status(&self, status: &PodStatus) -> Result<(), Error> {
        let pod = resolve(&status.pod, self)?;
        let (namespace, name) = pod.split_once('/').unwrap_or(("default", &pod));
        let path = format!("{}/{name}/status", self.collection("pods", namespace)?);
        let now = resolve("<now>", self)?;
        let condition = |kind: &str, is_true: bool| {
            let status = if is_true { "True" } else { "False" };
            json!({"type": kind, "status": status, "lastTransitionTime": now})
        };
        let conditions = [
            condition("Initialized", true),
            condition("ContainersReady", status.ready),
            condition("Ready", status.ready),
        ];
        let body = json!({"status": {"phase": status.phase, "conditions": conditions}});
        self.patch(&path, "strategic-merge-patch", &body).await
    }

    fn capture(&mut self, texts: &BTreeMap<String, String>) -> Result<(), Error> {
        for (name, text) in texts {
            let text = resolve(text, self)?;
            self.captured.insert(name.clone(), text);
        }
        Ok(())
    }

    async fn copy(&self, copy: &Copy) -> Result<(), Error> {
        let of = resolve(&copy.of, self)?;
        let (resource, rest) = of.split_once('/').unwrap_or((&of, ""));
        let (namespace, name) = rest.rsplit_once('/').unwrap_or(("", rest));
        let source = format!("{}/{name}", self.collection(resource, namespace)?);
        let mut object = self.send("GET", &source, None, None, None).await?;
        if let Some(Value::Object(metadata)) = object.get_mut("metadata") {
            for own in ["uid", "resourceVersion", "creationTimestamp", "generation", "managedFields"] {
                metadata.shift_remove(own);
            }
        }
        let mut set = Value::Object(copy.set.clone());
        resolve_all(&mut set, self)?;
        if let (Value::Object(fields), Value::Object(set)) = (&mut object, set) {
            fields.extend(set);
        }
        let namespace = crate::oracle::observe::meta(&object, "namespace").to_owned();
        let path = self.collection(resource, &namespace)?;
        let bytes = if copy.spaced {
            spaced(&object)
        } else {
            object.to_string().into_bytes()
        };
        self.send_bytes("POST", &path, Some("application/json"), bytes, None)
            .await
            .map(drop)
    }

    async fn controllers(&mut self, what: Sut, setup: &Setup) {
        match what {
            Sut::Kill => self.controllers.drain(..).for_each(|instance| instance.kill()),
            Sut::Stop => {
                for instance in std::mem::take(&mut self.controllers) {
                    instance.stop().await;
                }
            }
            Sut::Start | Sut::Second => {
                self.started += 1;
                self.controllers.push(Controllers::start(setup, self.started));
            }
        }
    }
}
