"""Runs what a person enters, again and again, with variables that stay: what the callback of a page does."""

import sys

from airlock_run import Airlock

with Airlock() as airlock, airlock.session() as session:
    for line in sys.stdin:
        for event in session.stream(line):
            if event.output and event.output.text:
                print(event.output.text, end="", flush=True)
            elif event.output and event.output.data:
                print(event.output.data["text/plain"])
            elif event.output:
                print(f"{event.output.name}: {event.output.value}")
