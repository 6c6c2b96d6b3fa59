"""Kubernetes, as far as the evictor needs it: requests and watches over REST, what objects say, and what is written."""

import base64
import json
import logging
import os
import tempfile
import threading
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import grpc
import requests
import yaml
from bus import Inbox

outcomes, types = grpc.protos("bailiff/v1/outcomes.proto"), grpc.protos("bailiff/v1/types.proto")
HEALTH_TAINTS = NOT_READY, UNREACHABLE = "node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"
EFFECTS = {
    "": types.TAINT_EFFECT_UNSPECIFIED,
    "NoSchedule": types.TAINT_EFFECT_NO_SCHEDULE,
    "PreferNoSchedule": types.TAINT_EFFECT_PREFER_NO_SCHEDULE,
    "NoExecute": types.TAINT_EFFECT_NO_EXECUTE,
}
WATCH_FOR = 45  # seconds


class Kubernetes:
    """An API server, by $KUBECONFIG or as a pod's service account."""

    def __init__(self) -> None:
        account = Path("/var/run/secrets/kubernetes.io/serviceaccount")
        if path := os.environ.get("BAILIFF_KUBECONFIG") or os.environ.get("KUBECONFIG"):
            config = yaml.safe_load(Path(path).read_text())
            contexts, clusters, users = (
                {entry["name"]: entry[kind] for entry in config[kind + "s"]} for kind in ("context", "cluster", "user")
            )
            context = contexts[config["current-context"]]
            cluster, user = clusters[context["cluster"]], users[context["user"]]
        else:
            server = "https://{KUBERNETES_SERVICE_HOST}:{KUBERNETES_SERVICE_PORT}".format(**os.environ)
            cluster, user = {"server": server, "certificate-authority": account / "ca.crt"}, {"tokenFile": account / "token"}
        self.server, self._user = cluster["server"], user
        self._verify = self._file(cluster, "certificate-authority") or not cluster.get("insecure-skip-tls-verify", False)
        certificate = self._file(user, "client-certificate")
        self._cert = (certificate, self._file(user, "client-key")) if certificate else None
        self._session = self._connect()

    @staticmethod
    def _file(entry: dict, name: str) -> str | None:
        if data := entry.get(name + "-data"):
            with tempfile.NamedTemporaryFile(delete=False) as file:
                file.write(base64.b64decode(data))
            return file.name
        return str(entry[name]) if name in entry else None

    def _connect(self) -> requests.Session:
        session = requests.Session()
        session.verify, session.cert, session.trust_env = self._verify, self._cert, False
        session.auth = self._authorize
        return session

    def _authorize(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        file = self._user.get("tokenFile")
        if token := Path(file).read_text() if file else self._user.get("token"):  # a mounted one is renewed
            request.headers["Authorization"] = f"Bearer {token}"
        return request

    def request(self, method: str, path: str, body: Any = None, kind: str = "application/json") -> dict | None:
        """One request; `None`: there is no such object. Raises `requests.HTTPError` for a refusal, another `RequestException` if
        there is no answer."""
        data = None if body is None else json.dumps(body)
        response = self._session.request(method, self.server + path, headers={"Content-Type": kind}, data=data, timeout=5)
        if response.status_code == 404:
            return None
        response.raise_for_status()
        return response.json()

    def watch(self, kind: str, path: str, inbox: Inbox, heard: dict[str, float]) -> None:
        """Lists and then follows what is at `path`. `heard[kind]` is when the server last gave a sign of life."""
        threading.Thread(target=self._watch, args=(kind, path, inbox, heard), daemon=True).start()

    def _watch(self, kind: str, path: str, inbox: Inbox, heard: dict[str, float]) -> None:
        session, watch = self._connect(), {"watch": "1", "allowWatchBookmarks": "1", "timeoutSeconds": WATCH_FOR}
        while True:
            try:
                listed = session.get(self.server + path, timeout=10)
                listed.raise_for_status()
                version = listed.json()["metadata"]["resourceVersion"]
                heard[kind] = time.monotonic()
                inbox.put("listed", kind, listed.json()["items"])
                while version:
                    query = {**watch, "resourceVersion": version}
                    with session.get(self.server + path, params=query, stream=True, timeout=(5, WATCH_FOR + 5)) as events:
                        events.raise_for_status()
                        heard[kind] = time.monotonic()
                        for event in map(json.loads, events.iter_lines(chunk_size=None)):
                            heard[kind] = time.monotonic()
                            if event["type"] == "ERROR":  # too far behind: list again
                                version = None
                                break
                            version = event["object"]["metadata"]["resourceVersion"]
                            if event["type"] != "BOOKMARK":
                                inbox.put("changed", kind, event["type"], event["object"])
            except (requests.RequestException, ValueError) as error:
                logging.warning("%s cannot be watched: %s", kind, error)
            time.sleep(1)


def zone_of(node: dict) -> str:
    """The printable key of the zone that a node's labels put it in."""
    labels, beta = node["metadata"].get("labels", {}), "failure-domain.beta.kubernetes.io/"
    return ":".join(labels.get(beta + kind, labels.get("topology.kubernetes.io/" + kind, "")) for kind in ("region", "zone"))


def zone_ref(key: str) -> Any:
    """The zone as records name it."""
    region, _, zone = key.partition(":")
    return types.Zone(region=region, zone=zone)


def ready_of(node: dict) -> str:
    """Status of condition Ready; empty if there is none."""
    return next((one["status"] for one in node["status"].get("conditions", []) if one["type"] == "Ready"), "")


def taints_of(node: dict) -> list[dict]:
    return node["spec"].get("taints") or []


def has_no_schedule(node: dict, key: str) -> bool:
    return any(taint["key"] == key and taint["effect"] == "NoSchedule" for taint in taints_of(node))


def no_execute(node: dict) -> list[Any]:
    """The taints of a node that evict."""
    evicting = [taint for taint in taints_of(node) if taint["effect"] == "NoExecute"]
    found = [types.Taint(key=taint["key"], value=taint.get("value")) for taint in evicting]
    for taint, one in zip(evicting, found, strict=True):
        if "timeAdded" in taint:
            one.since.FromJsonString(taint["timeAdded"])
    return found


def is_health(taint: Any) -> bool:
    return taint.key in HEALTH_TAINTS


def health_taints(node: dict) -> list[Any]:
    return [taint for taint in no_execute(node) if is_health(taint)]


def is_same(one: Any, other: Any) -> bool:
    return (is_health(one) and is_health(other)) or (one.key, one.value) == (other.key, other.value)


def tolerates(toleration: Any, taint: Any) -> bool:
    fits = toleration.key in ("", taint.key) and toleration.effect in (0, types.TAINT_EFFECT_NO_EXECUTE)
    return fits and (toleration.operator == "Exists" or toleration.value == taint.value)


def tolerations_of(pod: dict) -> list[Any]:
    return [
        types.Toleration(
            key=one.get("key"),
            operator=one.get("operator"),
            value=one.get("value"),
            effect=EFFECTS[one.get("effect", "")],
            toleration_seconds=one.get("tolerationSeconds"),
        )
        for one in pod["spec"].get("tolerations", [])
    ]


def justifies(taints: list[Any], tolerations: Any, intent: Any, now: float | None = None) -> bool:
    """One of these taints evicts by itself: the pod does not tolerate it, or no longer when the intent became due (or `now`)."""
    over = intent.due_at.seconds + 1 if now is None else now
    for taint in taints:
        used = next((one for one in tolerations if tolerates(one, taint)), None)
        if used is None:
            return True
        seconds = used.toleration_seconds if used.HasField("toleration_seconds") else None
        causes = [cause.since.seconds for cause in intent.cause.taints if is_same(cause, taint) and cause.HasField("since")]
        if seconds is not None and (seconds <= 0 or any(since + seconds <= over for since in causes)):
            return True
    return False


def refusal(intent: Any, node: dict | None, pod: dict) -> int:
    """Why the API does not justify an eviction; 0 if it does. A node that is gone leaves its intents standing."""
    if pod["spec"].get("nodeName") != intent.node.name:
        return outcomes.REFUSED_REASON_OTHER_NODE
    if not node:
        return outcomes.REFUSED_REASON_UNSPECIFIED
    if node["metadata"]["uid"] != intent.node.uid:
        return outcomes.REFUSED_REASON_NODE_REPLACED
    if not (standing := no_execute(node)):
        return outcomes.REFUSED_REASON_NO_TAINT
    is_justified = justifies(standing, tolerations_of(pod), intent)
    return outcomes.REFUSED_REASON_UNSPECIFIED if is_justified else outcomes.REFUSED_REASON_TOLERATED


# === writes, each with a precondition ===


def health_taint_patch(node: dict, wanted: str | None) -> tuple[Any, str]:
    """Makes `wanted` the only NoExecute taint because of health, since when the one before it stood."""
    of_health = [one for one in taints_of(node) if one["effect"] == "NoExecute" and one["key"] in HEALTH_TAINTS]
    taints = [one for one in taints_of(node) if one not in of_health]
    if wanted:
        since = min((one["timeAdded"] for one in of_health if "timeAdded" in one), default=f"{datetime.now(UTC):%FT%TZ}")
        taints.append({"key": wanted, "effect": "NoExecute", "timeAdded": since})
    same = [{"op": "test", "path": f"/metadata/{part}", "value": node["metadata"][part]} for part in ("uid", "resourceVersion")]
    return [*same, {"op": "add", "path": "/spec/taints", "value": taints}], "application/json-patch+json"


def disruption_target_patch(pod: dict) -> tuple[Any, str]:
    mark = {"type": "DisruptionTarget", "status": "True", "reason": "DeletionByTaintManager"}
    mark["message"] = "Taint manager: deleting due to NoExecute taint"
    mark["observedGeneration"] = pod["metadata"].get("generation", 0)
    mark["lastTransitionTime"] = f"{datetime.now(UTC):%FT%TZ}"
    same = {part: pod["metadata"][part] for part in ("uid", "resourceVersion")}
    return {"metadata": same, "status": {"conditions": [mark]}}, "application/strategic-merge-patch+json"


def deletion_of(pod: dict) -> dict:
    same = {part: pod["metadata"][part] for part in ("uid", "resourceVersion")}
    return {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": same}
