#!/usr/bin/python3
"""What stands in for pip in a sandbox, as a command and as a module. Without a network
packages cannot be installed, and it says what to do; it lists those that are there. With
one it is the pip that comes with the host's Python, for a folder of the session's own."""

import glob
import os
import sys

SENTENCE = """pip: packages cannot be installed here: a sandbox has no network.
What `pip list` names is there already. For more, ask the operator of this service to run
`airlock setup --python-requirements FILE` with the packages in FILE, one on each line."""


def main(arguments=None):
    wheels = sorted(glob.glob("/usr/share/python-wheels/pip-*.whl") + glob.glob("/usr/lib/python3*/ensurepip/_bundled/pip-*.whl"))
    if "PIP_TARGET" in os.environ and wheels:
        # It unpacks beside its target: /tmp is small, and moving within a file system is cheap.
        os.environ["TMPDIR"] = os.environ["PIP_TARGET"] + "/.tmp"
        os.makedirs(os.environ["TMPDIR"], exist_ok=True)
        rest = sys.argv[1:] if arguments is None else list(arguments)
        os.execv(sys.executable, [sys.executable, wheels[-1] + "/pip", *rest])
    words = [word for word in (sys.argv[1:] if arguments is None else arguments) if not word.startswith("-")]
    if words[:1] not in (["list"], ["freeze"]):
        print(SENTENCE, file=sys.stderr)
        return 1
    from importlib.metadata import distributions

    for name, version in sorted({(d.metadata["Name"], d.version) for d in distributions()}, key=lambda d: d[0].lower()):
        print(f"{name}=={version}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
