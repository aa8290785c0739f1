#!/usr/bin/python3
"""What stands in for pip in a sandbox, as a command and as a module. Without a network
packages cannot be installed, unless they are there; it lists those that are. With
one it is the pip that comes with the host's Python, for a folder of the session's own."""

import glob
import os
import re
import sys

# The engine knows the first line, and follows the output of a program that fails with what can be done.
SENTENCE = """pip: %s cannot be installed here: there is no network to the package registries.
What `pip list` names is there already. Others come with network access to packages, or from the operator."""

# Options with which an installation of what is there changes nothing, and those that are followed by a value.
HARMLESS = {"-q", "-qq", "--quiet", "--user", "--no-input", "--no-cache-dir", "--disable-pip-version-check",
            "--break-system-packages"}
VALUED = {"-r", "--requirement", "-c", "--constraint", "-t", "--target", "-i", "--index-url", "--extra-index-url",
          "-f", "--find-links", "-e", "--editable", "--proxy", "--timeout", "--prefix", "--root"}


def packages(words):
    """Returns the packages that an installation names, as it names them."""
    valued, names = False, []
    for word in words:
        if not valued and re.match(r"[A-Za-z0-9][^/\\]*$", word) and not word.endswith((".whl", ".gz", ".zip", ".txt")):
            names.append(word)
        valued = word in VALUED
    return names


def is_there(requirement):
    from importlib.metadata import PackageNotFoundError, version

    try:
        return bool(version(requirement))
    except (PackageNotFoundError, ValueError):
        return False


def install(words):
    """Says what is there already, or what cannot be installed."""
    names = packages(words)
    absent = [name for name in names if not is_there(name)]
    if names and not absent and not set(words) - set(names) - HARMLESS:
        for name in names:
            print("Requirement already satisfied: " + name)
        return 0
    name = re.match(r"[\w.-]*", (absent or names or ["packages"])[0])[0].rstrip(".-")
    print(SENTENCE % name, file=sys.stderr)
    return 1


def main(arguments=None):
    wheels = sorted(glob.glob("/usr/share/python-wheels/pip-*.whl") + glob.glob("/usr/lib/python3*/ensurepip/_bundled/pip-*.whl"))
    if "PIP_TARGET" in os.environ and wheels:
        # It unpacks beside its target: /tmp is small, and moving within a file system is cheap.
        os.environ["TMPDIR"] = os.environ["PIP_TARGET"] + "/.tmp"
        os.makedirs(os.environ["TMPDIR"], exist_ok=True)
        rest = sys.argv[1:] if arguments is None else list(arguments)
        os.execv(sys.executable, [sys.executable, wheels[-1] + "/pip", *rest])
    words = sys.argv[1:] if arguments is None else list(arguments)
    commands = [word for word in words if not word.startswith("-")][:1]
    if commands not in (["list"], ["freeze"]):
        return install(words[words.index("install") + 1 :] if commands == ["install"] else [])
    from importlib.metadata import distributions

    for name, version in sorted({(d.metadata["Name"], d.version) for d in distributions()}, key=lambda d: d[0].lower()):
        print(f"{name}=={version}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
