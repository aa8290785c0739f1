"""Moves the packages that are new from one directory into another.

What the other directory has stays as it is: its files may be shared with a
set of packages that is in use.
"""
import os
import re
import sys
from importlib import metadata

source, target = sys.argv[1:]


def packages(path):
    return {re.sub(r"[-_.]+", "-", d.metadata["Name"]).lower(): d for d in metadata.distributions(path=[path])}


there = packages(target)
for name, package in packages(source).items():
    if name in there:
        continue
    for file in package.files or []:
        old, new = os.path.join(source, file), os.path.join(target, file)
        if ".." in file.parts or not os.path.exists(old) or os.path.exists(new):
            continue  # scripts are not used, and nothing is replaced
        os.makedirs(os.path.dirname(new), exist_ok=True)
        os.rename(old, new)
