"""The event bus, as any stage needs it: topics to follow and one to publish. Nothing here knows what a stage decides.

Threads only carry: they read what comes and send what is said. One thread, the stage's own, takes in, decides and writes.
"""

import logging
import os
import sys
import threading
import time
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc

sys.path.append(os.environ.get("BAILIFF_PROTO", str(Path(__file__).resolve().parents[2] / "proto")))
pb, rpc = grpc.protos_and_services("bailiff/v1/event_bus.proto")

EPOCH = time.time() - time.monotonic()  # turns a moment of the monotonic clock into one that people read
KEEPALIVE_EVERY, STALE_AFTER = 2.0, 10.0  # seconds
# An idle connection that is dead is noticed, whichever side has nothing to say.
CHANNEL = [("grpc.keepalive_time_ms", 5000), ("grpc.keepalive_timeout_ms", 5000), ("grpc.max_receive_message_length", 8 << 20)]


def connect(address: str) -> grpc.Channel:
    """A channel to the bus: mutual TLS if there is a certificate, else plain text."""
    files = [os.environ.get(f"BAILIFF_TLS_{name}_FILE") for name in ("CA", "PRIVATE_KEY", "CERT")]
    if not all(files):
        return grpc.insecure_channel(address, CHANNEL)
    return grpc.secure_channel(address, grpc.ssl_channel_credentials(*(Path(file).read_bytes() for file in files)), CHANNEL)


def is_understood(message: Any) -> bool:
    """False for a record of a newer contract: no conclusion may be drawn from a value that is not known here."""
    for field, value in message.ListFields():
        parts = value if field.is_repeated else [value]
        if field.message_type and not all(is_understood(part) for part in parts):
            return False
        if field.enum_type and any(part not in field.enum_type.values_by_number for part in parts):
            return False
    return True


class Inbox:
    """What was heard and not yet looked at."""

    def __init__(self) -> None:
        self.news: deque[tuple] = deque()
        self.bell = threading.Event()

    def put(self, *news: Any) -> None:
        self.news.append(news)
        self.bell.set()


class Topics:
    """The latest record of every key of some topics, as the bus tells them. `records[topic][key]` is an Envelope."""

    def __init__(self, channel: grpc.Channel, topics: list[str], subscriber: str, inbox: Inbox) -> None:
        self.records: dict[str, dict[str, Any]] = {topic: {} for topic in topics}
        self.shards: dict[tuple[str, int], Any] = {}
        self.incarnation, self.heard, self.has_begun = "", time.monotonic(), False
        self._stub, self._inbox = rpc.EventBusStub(channel), inbox
        self._request = pb.SubscribeRequest(topics=topics, subscriber=subscriber)
        threading.Thread(target=self._follow, daemon=True).start()

    def _follow(self) -> None:
        while True:
            try:
                # Without a cursor the stream begins with a snapshot: for a stage that starts over there is one way to begin.
                snapshot, records, shards = None, [], []
                for response in self._stub.Subscribe(self._request):
                    self.heard = time.monotonic()
                    step = response.WhichOneof("step")
                    if step == "snapshot_start":
                        snapshot = response.snapshot_start.incarnation
                    elif step == "changes":
                        records += response.changes.records
                        shards += response.changes.shards
                    elif step == "bookmark":
                        shards += response.bookmark.shards
                    # A set is one change: it is passed on when it is whole, a snapshot at its boundary.
                    if step == "boundary" or (snapshot is None and not (step == "changes" and response.changes.more)):
                        self._inbox.put("bus", snapshot, records, shards)
                        snapshot, records, shards = None, [], []
            except grpc.RpcError as error:
                logging.warning("The bus cannot be read: %s", error.details())
            time.sleep(1)

    def take_in(self, snapshot: str | None, records: list[Any], shards: list[Any]) -> list[tuple[str, str]]:
        """Applies one set; returns the keys that may have changed."""
        touched = []
        if snapshot is not None:
            touched = [(topic, key) for topic, known in self.records.items() for key in known]
            self.records, self.shards = {topic: {} for topic in self.records}, {}
            self.incarnation, self.has_begun = snapshot, True
        for record in records:
            touched.append((record.topic, record.key))
            if record.WhichOneof("body") == "tombstone":
                self.records[record.topic].pop(record.key, None)
            else:
                if not is_understood(record):
                    record.ClearField(record.WhichOneof("body") or "tombstone")  # it is there, and says nothing
                self.records[record.topic][record.key] = record
        for shard in shards:
            layout = self.shards.items()
            self.shards = {k: v for k, v in layout if k[0] != shard.topic or v.shard_count == shard.shard_count}
            self.shards[shard.topic, shard.shard] = shard
        return touched

    def _all(self, topic: str, what: str) -> bool:
        shards = [shard for (name, _), shard in self.shards.items() if name == topic]
        return bool(shards) and len(shards) == shards[0].shard_count and all(getattr(shard, what) for shard in shards)

    def is_complete(self, topic: str) -> bool:
        """Every shard has said all it has to say: a key that is missing means something."""
        return self._all(topic, "complete")

    def is_live(self, topic: str) -> bool:
        return time.monotonic() - self.heard < STALE_AFTER and self._all(topic, "live")


class Publisher:
    """Says things on one topic until somebody else takes it over. What is true is kept, and said again to a bus that lost it."""

    def __init__(self, channel: grpc.Channel, topic: str, producer: str) -> None:
        self.said: dict[str, Any] = {}
        self.tick, self.watch_age = time.monotonic(), 0.0
        self.is_started = self.is_open = self.is_fenced = False
        self._stub, self._topic, self._producer, self._epoch = rpc.EventBusStub(channel), topic, producer, 0
        self._changed, self._dirty, self._made = threading.Condition(), {}, {}

    def open(self) -> None:
        self.is_started = True
        threading.Thread(target=self._keep_open, daemon=True).start()

    def say(self, key: str, envelope: Any | None) -> None:
        """Says what is true of a key from now on; `None`: nothing any more."""
        with self._changed:
            if envelope is None:
                self.said.pop(key, None)
                envelope = pb.Envelope(tombstone={})
            else:
                self.said[key] = envelope
            envelope.topic, envelope.key = self._topic, key
            made = self._made[key] = time.monotonic()
            envelope.produced_at.FromNanoseconds(int((EPOCH + made) * 1e9))  # by the clock of all other times that are counted with
            self._dirty[key] = envelope
            self._changed.notify()

    def forget(self, key: str) -> None:
        """It is not said again to a bus that lost it."""
        with self._changed:
            for kept in (self.said, self._made):
                kept.pop(key, None)

    def _keep_open(self) -> None:
        while True:
            try:
                self._session()
            except grpc.RpcError as error:
                logging.warning("The session was lost: %s %s", error.code(), error.details())
                if error.code() == grpc.StatusCode.ABORTED:
                    self.is_fenced, self.is_open = True, False  # another producer has the shard: this one stops for good
                    return
            time.sleep(1)

    def _session(self) -> None:
        ended = threading.Event()
        session = self._stub.Publish(self._steps(ended))
        try:
            for answer in session:
                if answer.HasField("opened"):
                    self._epoch, self.is_open = answer.opened.epoch, True
        finally:
            ended.set()
            session.cancel()  # two open sessions of one shard would fence each other

    def _steps(self, ended: threading.Event) -> Iterator[Any]:
        opening = {"topic": self._topic, "shard_count": 1, "producer": self._producer, "epoch": self._epoch, "replace": True}
        yield pb.PublishRequest(open=opening)
        with self._changed:
            for key, envelope in self.said.items():  # what is said again is as old as it is
                envelope.age.FromNanoseconds(int((time.monotonic() - self._made[key]) * 1e9))
            batch, self._dirty = list(self.said.values()), {}
        yield from self._batches(batch)
        yield pb.PublishRequest(end_replace={})
        due = 0.0
        while True:
            if time.monotonic() >= due:
                due = time.monotonic() + KEEPALIVE_EVERY
                report = pb.Keepalive()
                report.tick_age.FromNanoseconds(int((time.monotonic() - self.tick) * 1e9))
                report.watch_age.FromNanoseconds(int(self.watch_age * 1e9))
                yield pb.PublishRequest(keepalive=report)
            with self._changed:
                self._changed.wait_for(lambda: self._dirty, max(0.0, due - time.monotonic()))
                if ended.is_set():
                    return  # what is said now is for the next session
                batch, self._dirty = list(self._dirty.values()), {}
            yield from self._batches(batch)

    @staticmethod
    def _batches(records: list[Any]) -> Iterator[Any]:
        for start in range(0, len(records), 500):
            yield pb.PublishRequest(batch={"records": records[start : start + 500]})
