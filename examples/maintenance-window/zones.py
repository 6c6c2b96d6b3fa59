"""Zones: who votes how, what state that makes, and how fast nodes may be isolated (docs/rules.md, NL-080 to NL-102)."""

import argparse
import math
import time
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import grpc
from kube import health_taints, ready_of, zone_of
from bus import EPOCH

health, outcomes = grpc.protos("bailiff/v1/health.proto"), grpc.protos("bailiff/v1/outcomes.proto")


@dataclass
class Zone:
    """A failure domain: who votes how in it, and its token, which is there again 1/rate after it was taken."""

    rate: float  # nodes per second that are granted
    votes: dict[str, str] = field(default_factory=dict)  # by node: "ready", "late" or "down"
    state: int = outcomes.ZONE_STATE_INITIAL
    taken: float = -math.inf
    granted: float = -math.inf
    is_remembered: bool = False
    waiting: int = 0
    _rate: float = 0.0  # before the brake

    def free_at(self) -> float:
        return self.taken + 1 / self.rate if self.rate > 0 else math.inf

    def take(self, at: float) -> None:
        self.taken, self.granted = max(self.taken, at), max(self.granted, at)

    def count(self, *votes: str) -> int:
        return sum(vote in votes for vote in self.votes.values())

    def judge(self, options: argparse.Namespace, all_down: bool) -> None:
        """State and rate follow the votes. For what is granted nodes that are late count as down, too."""
        self.state, rate = self._judge(self.count("down"), options)
        rate = 0.0 if all_down else rate
        if rate != self._rate and (self._rate <= 0 or time.monotonic() < self.taken + 1 / self._rate):
            self.taken = time.monotonic()  # a change of the rate makes no token
        self._rate, self.rate = rate, min(rate, self._judge(self.count("down", "late"), options)[1])

    def _judge(self, down: int, options: argparse.Namespace) -> tuple[int, float]:
        voting = len(self.votes)
        if not voting:
            return outcomes.ZONE_STATE_INITIAL, options.node_eviction_rate
        if down == voting:
            return outcomes.ZONE_STATE_FULL_DISRUPTION, options.node_eviction_rate
        if down <= 2 or down / voting < options.unhealthy_zone_threshold:
            return outcomes.ZONE_STATE_NORMAL, options.node_eviction_rate
        is_large = voting > options.large_cluster_size_threshold
        return outcomes.ZONE_STATE_PARTIAL_DISRUPTION, options.secondary_node_eviction_rate if is_large else 0.0


class Zones(defaultdict[str, Zone]):
    """The zones by their keys, "<region>:<zone>"."""

    def __init__(self, options: argparse.Namespace) -> None:
        super().__init__(lambda: Zone(options.node_eviction_rate, _rate=options.node_eviction_rate))
        self.options = options
        self.all_down = self.is_braked = self.has_begun = False
        self.held: dict[str, tuple[str, Any]] = {}  # by node: the zone that the monitor holds because of it, and why

    def vote(self, name: str, node: dict | None, record: Any | None) -> None:
        """The node or what is said of its health may have changed: its vote is counted anew."""
        for zone in self.values():
            zone.votes.pop(name, None)
        self.held.pop(name, None)
        said, vote = record.node_health if record else None, "down"
        if said and said.HasField("held"):
            self.held[name] = f"{said.zone.region}:{said.zone.zone}", said.held
        if not node or not said or "node.kubernetes.io/exclude-disruption" in node["metadata"].get("labels", {}):
            return
        if said.verdict == health.VERDICT_HEALTHY:
            vote = "ready" if said.HasField("last_sign_of_life") else "late"
        elif said.verdict == health.VERDICT_LATE and said.ready.status == health.READY_STATUS_TRUE or not record.WhichOneof("body"):
            vote = "late"
        if said.node.uid in ("", node["metadata"]["uid"]):
            self[zone_of(node)].votes[name] = vote

    def inherit(self, record: Any) -> None:
        """Another zone-evictor granted this zone's rate, before or until it was replaced: that token is gone, whoever took it."""
        status, now = record.zone_status, time.monotonic()
        zone = self[f"{status.zone.region}:{status.zone.zone}"]
        zone.is_remembered, zone.rate = True, zone.rate if self.has_begun else status.rate_per_second
        if status.rate_per_second <= 0:
            zone.taken = now  # leaving a stop costs a whole turn
        if status.HasField("last_grant"):
            # Counted from the record's age, so that no two clocks are compared.
            before = (record.produced_at.ToNanoseconds() - status.last_grant.ToNanoseconds() + record.age.ToNanoseconds()) / 1e9
            zone.take(now - max(before, 0.0) if record.HasField("age") else now)

    def begin(self, nodes: Iterable[dict]) -> None:
        """All nodes and their health are known: from here on rates are granted, but for what the API tells of grants before."""
        self.has_begun, now = True, time.monotonic()
        for zone in self.values():
            zone.rate = self.options.node_eviction_rate
        for node in nodes:
            zone = self[zone_of(node)]
            for taint in health_taints(node):
                added = taint.since.seconds + 1 - EPOCH if taint.HasField("since") else now
                zone.take(min(added, now))
            if ready_of(node) in ("False", "Unknown") and not zone.is_remembered and not health_taints(node):
                zone.take(now)  # it may wait for a turn that somebody had just before us

    def judge(self) -> bool:
        """Works out what the votes mean; true if from now on no voting node is ready."""
        voting, before = [zone for zone in self.values() if zone.votes], self.all_down
        self.all_down = bool(voting) and all(zone.count("down") == len(zone.votes) for zone in voting)
        self.is_braked = bool(voting) and not any(zone.count("ready") for zone in voting)
        for zone in self.values():
            zone.judge(self.options, self.all_down)
        return self.all_down and not before
