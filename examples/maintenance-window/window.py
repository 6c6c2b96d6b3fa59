"""When nodes may be emptied: windows that this evictor is given, and pauses that `bailiff pause` puts into a ConfigMap."""

import argparse
import json
import re
from datetime import UTC, datetime, timedelta
from datetime import time as clock
from zoneinfo import ZoneInfo

DAYS = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"]


class Window:
    """When nodes may be emptied for people: "Sat 02:00-06:00 Europe/Berlin", several with ";" between; without any: always."""

    FORM = re.compile(r"(?:(\w{3})(?:-(\w{3}))? )?(\d\d:\d\d)-(\d\d:\d\d)(?: (\S+))?$")

    def __init__(self, text: str) -> None:
        try:
            self.spans = [self._parse(part.strip()) for part in text.split(";") if part.strip()]
        except (ValueError, KeyError, AttributeError) as error:
            raise argparse.ArgumentTypeError(f"{text!r} is no window such as 'Sat 02:00-06:00 Europe/Berlin'") from error

    def _parse(self, text: str) -> tuple[set[int], clock, clock, ZoneInfo]:
        first, last, opens, closes, place = self.FORM.match(text).groups()
        begin = DAYS.index(first) if first else 0
        length = (DAYS.index(last or first) - begin) % 7 + 1 if first else 7
        days = {(begin + day) % 7 for day in range(length)}
        return days, clock.fromisoformat(opens), clock.fromisoformat(closes), ZoneInfo(place or "UTC")

    def opens_at(self, now: datetime) -> datetime | None:
        """When it opens next; `None` if it is open."""
        opening = []
        for days, opens, closes, place in self.spans:
            for day in (now.astimezone(place).date() + timedelta(days=shift) for shift in range(-1, 8)):
                begin = datetime.combine(day, opens, place).astimezone(UTC)
                end = datetime.combine(day + timedelta(days=closes <= opens), closes, place).astimezone(UTC)
                if day.weekday() in days and now < end:
                    opening.append(begin)
        return min(opening) if opening and min(opening) > now else None


def pause_of(entries: dict[str, str], node: str, zone: str) -> tuple[str, datetime | None] | None:
    """Why, and until when, nothing is done to the node (docs/operations.md). What cannot be read means paused."""
    for text in entries.values():
        try:
            pause = json.loads(text)
            [scope] = pause.keys() & {"all", "zone", "node"}
            if pause.keys() - {"until", "since", "reason", "by"} != {scope}:
                raise ValueError("a field that is not known")
            until, covers = datetime.fromisoformat(pause["until"]), {"all": True, "zone": zone, "node": node}
            if until > datetime.now(UTC) and pause[scope] == covers[scope]:
                return f"{pause['reason']}, by {pause.get('by', 'somebody')}", until
        except (ValueError, KeyError, TypeError, AttributeError):
            return "a pause cannot be read", None
    return None
