"""A zone-evictor that empties nodes for people only in a maintenance window. README.md says what it is for and how it is run."""

import argparse
import logging
import math
import os
import re
import time
from datetime import UTC, datetime
from typing import Any

import grpc
import requests
from bus import EPOCH
from kube import NOT_READY, UNREACHABLE, deletion_of, disruption_target_patch, has_no_schedule, health_taint_patch
from kube import health_taints, is_health, is_same, justifies, no_execute, ready_of, refusal, tolerations_of, zone_of, zone_ref
from stage import HEALTH, INTENTS, OUTCOMES, Hold, Stage
from window import Window
from zones import Zone

intents, outcomes, types = (grpc.protos(f"bailiff/v1/{name}.proto") for name in ("intents", "outcomes", "types"))
READY = grpc.protos("bailiff/v1/health.proto").READY_STATUS_TRUE
WANTED = {intents.HEALTH_TAINT_NOT_READY: ("False", NOT_READY), intents.HEALTH_TAINT_UNREACHABLE: ("Unknown", UNREACHABLE)}
WAITING = (outcomes.POD_OUTCOME_STATE_EVICTING, outcomes.POD_OUTCOME_STATE_BLOCKED, outcomes.POD_OUTCOME_STATE_HELD)


class Evictor(Stage):
    """Decides and acts, one key at a time, by what is true now: nothing is remembered of how it became so."""

    def __init__(self, options: argparse.Namespace) -> None:
        super().__init__(options)
        self.wanted: dict[str, tuple[str | None, float]] = {}  # what is wanted of a node's taints, and since when

    def look_at(self, key: str) -> None:
        if key.startswith("node/"):
            self.look_at_node(key)
        elif key.startswith("pod/"):
            self.look_at_pod(key)

    # === nodes ===

    def place(self, key: str) -> tuple[bool, int, str]:
        """Nodes first, and of these those that are unhealthy for longest."""
        record = self.topics.records[HEALTH].get(key.removeprefix("node/"))
        return key.startswith("pod/"), record.node_health.ready.since.seconds if record else 0, key

    def look_at_node(self, key: str) -> None:
        name, record = key.removeprefix("node/"), self.topics.records[INTENTS].get(key)
        if not (node := self.nodes.get(name)):
            if key in self.publisher.said:
                self.publisher.say(key, None)
            self.wanted.pop(key, None)
            return self.forget(key)
        wish = record.node_isolation if record and record.node_isolation.node.uid == node["metadata"]["uid"] else None
        status, wanted = WANTED.get(wish.taint, ("", "")) if wish else ("", "")
        standing, ready = {taint.key for taint in health_taints(node)}, ready_of(node)
        said = self.publisher.said.get(key)
        if standing and (ready == "True" or self.zones.all_down):
            # The NoSchedule counterpart goes first, or a monitor period passes. Nothing holds this.
            if self.zones.all_down or not self.must_wait(key, None, any(has_no_schedule(node, one) for one in standing)):
                if not self.backs_off(key) and self.write_taints(key, node, None):
                    self.say_node(key, record, outcomes.NODE_OUTCOME_STATE_RELEASED)
        elif not (record.WhichOneof("body") if record else self.topics.is_complete(INTENTS)):
            pass  # what is not said, or not understood, means nothing
        elif standing == {wanted}:
            self.say_node(key, record, outcomes.NODE_OUTCOME_STATE_ISOLATED)
            self.open.discard(key)
        elif wish and ready in ("False", "Unknown"):
            self.isolate(key, node, record, wanted, status == ready)
        else:
            if not standing and said and said.node_outcome.state != outcomes.NODE_OUTCOME_STATE_RELEASED:
                self.say_node(key, record, outcomes.NODE_OUTCOME_STATE_RELEASED)
            self.open.discard(key)  # a taint that stands without a wish goes when the node is Ready

    def isolate(self, key: str, node: dict, record: Any, wanted: str, is_borne_out: bool) -> None:
        name, zone = node["metadata"]["name"], self.zones[zone_of(node)]
        known, is_swap = self.topics.records[HEALTH].get(name), bool(health_taints(node))
        is_newest = record.derived_from_incarnation == self.topics.incarnation and known and record.derived_from >= known.revision
        zone.waiting += not is_swap
        hold = self.hold(name, zone_of(node), by_health=True)
        if not hold and not (is_newest and is_borne_out and zone.votes.get(name, "down") == "down"):
            hold = Hold(types.HOLD_REASON_OUTDATED_INTENT, "the intent is older than what is known of the node")
        if not hold and self.must_wait(key, wanted, not has_no_schedule(node, wanted)):
            hold = Hold(types.HOLD_REASON_TAINT_ORDER, "the NoSchedule taint comes first")
        if hold := hold or (None if is_swap else rate_hold(zone)):
            self.say_node(key, record, outcomes.NODE_OUTCOME_STATE_HELD, held=hold)
        elif not is_swap and time.monotonic() < zone.free_at():
            turn = datetime.fromtimestamp(round(EPOCH + zone.free_at() + (zone.waiting - 1) / zone.rate), UTC)
            self.say_node(key, record, outcomes.NODE_OUTCOME_STATE_QUEUED, position=zone.waiting, expected_at=turn)
        elif not self.backs_off(key):
            before = zone.taken, zone.granted
            if not is_swap:
                zone.take(time.monotonic())
            try:
                if not self.write_taints(key, node, wanted):
                    return
            except requests.HTTPError as error:
                if error.response.status_code < 500:
                    zone.taken, zone.granted = before  # surely nothing was done with it
                raise
            if not is_swap:
                zone.take(time.monotonic())  # the turn counts from when the taint stands
                zone.waiting -= 1
            self.say_node(key, record, outcomes.NODE_OUTCOME_STATE_ISOLATED)

    def must_wait(self, key: str, wanted: str | None, is_out_of_order: bool) -> bool:
        if self.wanted.get(key, ("", 0.0))[0] != wanted:
            self.wanted[key] = wanted, time.monotonic()
        return is_out_of_order and time.monotonic() < self.wanted[key][1] + self.options.node_monitor_period

    def write_taints(self, key: str, node: dict, wanted: str | None) -> bool:
        written = self.kube.request("PATCH", f"/api/v1/nodes/{node['metadata']['name']}", *health_taint_patch(node, wanted))
        self.failures.pop(key, None)
        self.take_node(node["metadata"]["name"], written)
        return bool(written)

    # === pods ===

    def look_at_pod(self, key: str) -> None:
        record = self.topics.records[INTENTS].get(key)
        if not record and not self.topics.is_complete(INTENTS):
            return
        said = self.publisher.said.get(key) or self.topics.records[OUTCOMES].get(key)
        state = said.pod_outcome.state if said else outcomes.POD_OUTCOME_STATE_UNSPECIFIED
        if not record or record.pod_eviction.state in (intents.INTENT_STATE_SCHEDULED, intents.INTENT_STATE_WITHDRAWN):
            if state in WAITING:
                self.say_pod(key, record or said, outcomes.POD_OUTCOME_STATE_CANCELLED)
            if not record:
                self.forget(key)
            self.open.discard(key)
        elif state in (outcomes.POD_OUTCOME_STATE_DELETED, outcomes.POD_OUTCOME_STATE_GONE):
            self.open.discard(key)
        elif not record.WhichOneof("body") or record.pod_eviction.cause.kind != intents.EVICTION_CAUSE_KIND_TAINTS:
            logging.warning("%s: an intent that is not understood, or of node mode", key)
            self.open.discard(key)
        elif hold := self.pod_hold(record.pod_eviction, record.pod_eviction.cause.tolerations):
            self.say_pod(key, record, outcomes.POD_OUTCOME_STATE_HELD, held=hold)
        elif not self.backs_off(key):
            self.evict(key, record)

    def pod_hold(self, intent: Any, tolerations: Any) -> Hold | None:
        """Why the pod is not evicted now. A taint made by hand waits for the window; its node's failure, for what health needs."""
        name, node = intent.node.name, self.nodes.get(intent.node.name)
        standing = no_execute(node) if node else intent.cause.taints
        causes = [taint for taint in intent.cause.taints if any(is_same(taint, one) for one in standing)]
        by_hand, by_health = ([taint for taint in causes if is_health(taint) == wanted] for wanted in (False, True))
        zone = zone_of(node) if node else f"{intent.zone.region}:{intent.zone.zone}"
        holds = []
        if justifies(by_hand, tolerations, intent) or not by_health:
            opens = self.options.maintenance_window.opens_at(datetime.now(UTC))
            window = opens and Hold(types.HOLD_REASON_PAUSED, f"the maintenance window opens {opens:%a %d %b %H:%M} UTC", opens)
            holds.append(self.hold(name, zone, by_health=False) or window)
        # Whom the node's failure would have evicted by now no window keeps. Our clock only ends a hold here; it justifies nothing.
        if by_health and (not holds or justifies(by_health, tolerations, intent, time.time())):
            known = self.topics.records[HEALTH].get(name)
            is_doubted = known and (not known.WhichOneof("body") or known.node_health.ready.status == READY)
            again = Hold(types.HOLD_REASON_OUTDATED_INTENT, "the node is Ready again")
            is_ready = node and (is_doubted or ready_of(node) == "True")
            holds.append(self.hold(name, zone, by_health=True) or (again if is_ready else None))
        return None if None in holds else holds[0]

    def evict(self, key: str, record: Any) -> None:
        intent, failed = record.pod_eviction, self.failures.get(key, (0, 0.0))[0]
        path = f"/api/v1/namespaces/{intent.pod.namespace}/pods/{intent.pod.name}"
        pod = self.kube.request("GET", path)
        if not pod or pod["metadata"]["uid"] != intent.pod.uid:
            return self.finish(key, record, outcomes.POD_OUTCOME_STATE_GONE)
        if "deletionTimestamp" in pod["metadata"]:
            return self.finish(key, record, outcomes.POD_OUTCOME_STATE_DELETED)
        node = self.nodes.get(intent.node.name)
        if not node or refusal(intent, node, pod):
            node = self.kube.request("GET", f"/api/v1/nodes/{intent.node.name}")  # the watch may be behind
        if reason := refusal(intent, node, pod):
            return self.finish(key, record, outcomes.POD_OUTCOME_STATE_REFUSED, refused_reason=reason)
        if hold := self.pod_hold(intent, tolerations_of(pod)):
            return self.say_pod(key, record, outcomes.POD_OUTCOME_STATE_HELD, held=hold)
        self.say_pod(key, record, outcomes.POD_OUTCOME_STATE_EVICTING, failed_attempts=failed)
        if pod := self.kube.request("PATCH", path + "/status", *disruption_target_patch(pod)):
            pod = self.kube.request("DELETE", path, deletion_of(pod))
        self.finish(key, record, outcomes.POD_OUTCOME_STATE_DELETED if pod else outcomes.POD_OUTCOME_STATE_GONE)

    # === what is said ===

    def finish(self, key: str, record: Any, state: int, **more: Any) -> None:
        self.failures.pop(key, None)
        self.say_pod(key, record, state, **more)
        self.open.discard(key)

    def say_pod(self, key: str, cause: Any, state: int, held: Hold | None = None, **more: Any) -> None:
        told = cause.pod_eviction if cause.HasField("pod_eviction") else cause.pod_outcome
        node = self.nodes.get(told.node.name)
        zone = zone_of(node) if node else f"{told.zone.region}:{told.zone.zone}"
        body = outcomes.PodOutcome(
            pod=told.pod, node=told.node, zone=zone_ref(zone), state=state, held=held and held.said(), **more
        )
        self.say(key, zone, cause, pod_outcome=body)

    def say_node(self, key: str, cause: Any, state: int, held: Hold | None = None, **more: Any) -> None:
        node = self.nodes[key.removeprefix("node/")]
        named = {"name": node["metadata"]["name"], "uid": node["metadata"]["uid"]}
        body = outcomes.NodeOutcome(node=named, zone=zone_ref(zone_of(node)), state=state, held=held and held.said(), **more)
        self.say(key, zone_of(node), cause, node_outcome=body)

    def say_all(self) -> None:
        """Says how the zones are; what is said of nodes and pods was said as it was decided."""
        for key, zone in self.zones.items():
            down, late = zone.count("down"), zone.count("late")
            body = outcomes.ZoneStatus(zone=zone_ref(key), state=zone.state, voting=len(zone.votes), not_ready=down, late=late)
            body.rate_per_second, body.queue_length = zone.rate, zone.waiting
            if zone.granted > -math.inf:
                body.last_grant.FromNanoseconds(int((EPOCH + zone.granted) * 1e9))
            if hold := self.hold("", key, by_health=True) or rate_hold(zone):
                body.held.CopyFrom(hold.said())
            self.say(f"zone/{key}", key, None, zone_status=body)
            zone.waiting = 0  # counted anew with each look at the nodes


def rate_hold(zone: Zone) -> Hold | None:
    return None if zone.rate > 0 else Hold(types.HOLD_REASON_RATE_ZERO, "no node is granted in the present state of the zone")


def seconds(text: str) -> float:
    """A duration such as 5s, 1m30s or 500ms."""
    units = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 0.001}
    if not re.fullmatch(r"([\d.]+(h|ms|m|s))+", text):
        raise argparse.ArgumentTypeError(f"{text!r} is no duration such as 1m30s")
    return sum(float(number) * units[unit] for number, unit in re.findall(r"([\d.]+)(h|ms|m|s)", text))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    defaults = [
        ("--bus", str, "127.0.0.1:7460", "where the event bus is"),
        ("--maintenance-window", Window, "", "such as 'Sat 02:00-06:00 Europe/Berlin', several with ';' between; none: always"),
        ("--node-eviction-rate", float, "0.1", "nodes isolated per second and zone"),
        ("--secondary-node-eviction-rate", float, "0.01", "the same in a large zone that is partially disrupted"),
        ("--large-cluster-size-threshold", int, "50", "a zone with more nodes is large"),
        ("--unhealthy-zone-threshold", float, "0.55", "share of nodes not ready at which a zone is partially disrupted"),
        ("--node-monitor-period", seconds, "5s", "how long a NoExecute taint waits at most for its NoSchedule counterpart"),
    ]
    for flag, kind, default, text in defaults:
        variable = "BAILIFF_" + flag.strip("-").replace("-", "_").upper()
        parser.add_argument(flag, type=kind, default=os.environ.get(variable, default), help=f"{text} [{variable}]")
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    Evictor(parser.parse_args()).run()


if __name__ == "__main__":
    main()
