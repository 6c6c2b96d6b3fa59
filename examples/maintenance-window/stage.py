"""The evictor's loop, what it knows, why nothing may be done now, and how it says what it did. What it does is in evictor.py."""

import argparse
import logging
import socket
import sys
import time
import uuid
from datetime import datetime
from typing import Any, NamedTuple

import grpc
import requests
from bus import Inbox, Publisher, Topics, connect, pb
from kube import Kubernetes, health_taints
from window import pause_of
from zones import Zones

types = grpc.protos("bailiff/v1/types.proto")
HEALTH, INTENTS, OUTCOMES = "node-health", "eviction-intents", "eviction-outcomes"
WATCHES = {
    "nodes": "/api/v1/nodes",
    "pauses": "/api/v1/namespaces/kube-system/configmaps?fieldSelector=metadata.name%3Dbailiff-pauses",
}
FRESH_FOR = 60.0  # seconds for which a quiet watch is trusted


class Hold(NamedTuple):
    """Why something that is decided does not happen."""

    reason: int
    detail: str
    until: datetime | None = None

    def said(self) -> Any:
        return types.Hold(reason=self.reason, detail=self.detail, until=self.until)


class Stage:
    """A stage that is level-triggered: `open` are the keys that may need something done, `look_at` does it by what is true."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options, self.inbox, self.kube = options, Inbox(), Kubernetes()
        self.name, channel = f"zone-evictor/{socket.gethostname()}_{uuid.uuid4().hex[:8]}", connect(options.bus)
        self.topics = Topics(channel, [HEALTH, INTENTS, OUTCOMES], self.name, self.inbox)
        self.publisher = Publisher(channel, OUTCOMES, self.name)
        self.nodes: dict[str, dict] = {}
        self.zones = Zones(options)
        self.pauses: dict[str, str] = {}
        self.open: set[str] = set()
        self.failures: dict[str, tuple[int, float]] = {}  # how often requests about a key failed, and when the next may be made
        self.heard, self.listed = {}, set()
        self._last: dict[str, Any] = {}
        for kind, path in WATCHES.items():
            self.kube.watch(kind, path, self.inbox, self.heard)

    def run(self) -> None:
        while not self.publisher.is_fenced:
            self.inbox.bell.wait(0.2)
            self.inbox.bell.clear()
            self.take_in()
            if not (self.topics.has_begun and self.is_ready()):
                continue
            for key in sorted(self.open, key=self.place):
                self.take_in()  # what came meanwhile counts
                try:
                    self.look_at(key)
                except requests.RequestException as error:
                    count = self.failures.get(key, (0, 0.0))[0] + 1
                    self.failures[key] = count, time.monotonic() + min(0.1 * 2**count, 30)
                    logging.warning("%s: %s", key, error)
            self.say_all()
            if not self.publisher.is_started:
                self.publisher.open()  # from here on what was not said means something
        sys.exit("Another producer has taken over the topic")

    def forget(self, key: str) -> None:
        """Nothing is wanted of the key any more, and what was said of it last may outlive us."""
        self.open.discard(key)
        self.publisher.forget(key)
        for kept in (self.failures, self._last):
            kept.pop(key, None)

    def backs_off(self, key: str) -> bool:
        return time.monotonic() < self.failures.get(key, (0, 0.0))[1]

    # === what is known ===

    def take_in(self) -> None:
        now = time.monotonic()
        quiet = max((now - heard for heard in self.heard.values()), default=0.0)
        self.publisher.tick, self.publisher.watch_age = now, quiet if quiet > FRESH_FOR else 0.0
        is_news = bool(self.inbox.news)
        while self.inbox.news:
            match self.inbox.news.popleft():
                case "bus", *news:
                    for topic, key in self.topics.take_in(*news):
                        if topic == HEALTH:
                            self.touch(key)
                        elif topic == INTENTS:
                            self.open.add(key)
                        elif key.startswith("zone/") and (record := self.topics.records[OUTCOMES].get(key)):
                            if record.producer != self.name:
                                self.zones.inherit(record)
                case "listed", "nodes", nodes:
                    self.listed.add("nodes")
                    for name in self.nodes.keys() - {node["metadata"]["name"] for node in nodes}:
                        self.take_node(name, None)
                    for node in nodes:  # a list is how things are, also after the server's store was restored
                        self.nodes.pop(node["metadata"]["name"], None)
                        self.take_node(node["metadata"]["name"], node)
                case "changed", "nodes", change, node:
                    self.take_node(node["metadata"]["name"], None if change == "DELETED" else node)
                case "listed", "pauses", found:
                    self.listed.add("pauses")
                    self.pauses = {k: v for one in found for part in ("data", "binaryData") for k, v in one.get(part, {}).items()}
                case "changed", "pauses", change, one:
                    self.pauses = {} if change == "DELETED" else {**one.get("data", {}), **one.get("binaryData", {})}
        if is_news and self.is_ready() and self.topics.is_complete(HEALTH):
            if not self.zones.has_begun:
                self.zones.begin(self.nodes.values())
            if self.zones.judge():
                self.open |= {f"node/{name}" for name, node in self.nodes.items() if health_taints(node)}

    def is_ready(self) -> bool:
        return self.listed == WATCHES.keys()

    def take_node(self, name: str, node: dict | None) -> None:
        known = self.nodes.pop(name, None)
        if known and node and int(known["metadata"]["resourceVersion"]) > int(node["metadata"]["resourceVersion"]):
            node = known  # the watch is behind the answer to a write of ours
        if node:
            self.nodes[name] = node
        self.touch(name)

    def touch(self, name: str) -> None:
        self.open.add(f"node/{name}")
        self.zones.vote(name, self.nodes.get(name), self.topics.records[HEALTH].get(name))

    # === why not ===

    def hold(self, name: str, zone: str, by_health: bool) -> Hold | None:
        """Why nothing is done to this node or its pods."""
        if pause := pause_of(self.pauses, name, zone):
            return Hold(types.HOLD_REASON_PAUSED, *pause)
        if self.publisher.watch_age:
            return Hold(types.HOLD_REASON_API_STALE, "the API server says nothing")
        for topic in [INTENTS, HEALTH] if by_health else [INTENTS]:
            if not self.topics.is_complete(topic):
                return Hold(types.HOLD_REASON_INCOMPLETE, f"not every shard of topic {topic} is complete")
            if not self.topics.is_live(topic):
                return Hold(types.HOLD_REASON_STALE, f"topic {topic} is not live")
        if not self.publisher.is_open:
            return Hold(types.HOLD_REASON_INCOMPLETE, "the bus has not taken this zone-evictor on yet")
        if not by_health:
            return None
        for held, why in self.zones.held.values():
            if held == zone:
                return Hold(why.reason, why.detail)
        if self.zones.is_braked:
            return Hold(types.HOLD_REASON_ALL_ZONES_DISRUPTED, "no voting node is ready that is not late")
        return None

    # === what is said ===

    def say(self, key: str, route: str, cause: Any | None, **body: Any) -> None:
        """Says what is true of a key from now on, and because of which record, unless that is what was said last."""
        envelope = pb.Envelope(route=route, **body)
        if cause and cause.revision:
            envelope.derived_from, envelope.derived_from_incarnation = cause.revision, self.topics.incarnation
        envelope.traceparent = cause.traceparent if cause else ""
        if self._last.get(key) != envelope or key not in self.publisher.said:
            self._last[key] = pb.Envelope.FromString(envelope.SerializeToString())
            body = getattr(envelope, envelope.WhichOneof("body"))
            for one in [body, *(value for field, value in body.ListFields() if field.name == "held")]:
                if "since" in one.DESCRIPTOR.fields_by_name:
                    one.since.GetCurrentTime()
            self.publisher.say(key, envelope)
