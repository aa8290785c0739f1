"""What a waiting sandbox runs before its program comes: a little of all that
most programs do, so that the memory for it is there when somebody waits."""

import os
import sys


class Rehearsed:
    def __init__(self, value):
        self.value = value

    def __repr__(self):
        return f"<{self.value:>8.3f}>"


def numbers(count):
    for i in range(count):
        yield {"i": i, "x": i**0.5, "name": str(i)}


rows = sorted(numbers(20), key=lambda row: -row["x"])
print("a line", 1, 2.5, rows[0], [Rehearsed(row["x"]) for row in rows[:2]])
if "json" in sys.modules:
    import json

    rows = json.loads(json.dumps(rows))
print(rows[0], sum(row["i"] for row in rows), sep=", ", end="\n")
sys.stdout.write(f"{os.getcwd()} {len(sys.argv)}\n")
try:
    with open("/dev/null", encoding="utf-8") as file:
        file.read().splitlines()
    raise ValueError("prewarmed")
except ValueError as error:
    str(error)
