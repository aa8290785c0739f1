"""Lists the packages in a directory as JSON: name, version, module to import.

A package's module often has another name, as bs4 of beautifulsoup4: it is
found among the files that the package owns.
"""
import json
import re
import sys
from importlib import metadata


def modules(package):
    found = set()
    for file in package.files or []:
        top = file.parts[0]
        if len(file.parts) == 1 and file.suffix in (".py", ".so"):
            top = top.split(".")[0]
        elif len(file.parts) == 1:
            continue
        if top.isidentifier() and top != "bin" and not top.startswith("_"):
            found.add(top)
    return sorted(found)


def plain(name):
    return re.sub(r"[-_.]+", "-", name).lower()


listing = []
for package in metadata.distributions(path=[sys.argv[1]]):
    name = package.metadata["Name"]
    names = modules(package)
    alike = [m for m in names if plain(m) == plain(name)]
    listing.append({
        "name": plain(name),
        "version": package.version,
        "module": (alike + names + [""])[0],
        "requested": package.read_text("REQUESTED") is not None,
    })
json.dump(listing, sys.stdout)
