"""Runs an analysis that nobody has read on a file, and brings back what it made."""

import sys

from airlock_run import Airlock

# As a model would write it.
CODE = """
import pandas as pd

sales = pd.read_csv("sales.csv")
sales["revenue"] = sales.units * sales.price
by_region = sales.groupby("region").revenue.sum().sort_values(ascending=False)
by_region.to_csv("by_region.csv")
by_region.plot.bar(title="Revenue by region").figure.savefig("by_region.png", bbox_inches="tight")
print(by_region.to_string())
"""

with Airlock() as airlock:
    run = airlock.run(CODE, files=[sys.argv[1]], timeout=60).check()
    print(run.stdout)
    for path in run.save(sys.argv[2]):
        print("saved", path.name)
