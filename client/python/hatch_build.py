"""Puts a binary into a wheel, as a script on PATH. Without AIRLOCK_BINARY the wheel has the client alone."""

from __future__ import annotations

import os
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

# The binaries are static: they need neither glibc nor musl.
TAGS = {"amd64": "x86_64", "arm64": "aarch64"}


class Hook(BuildHookInterface):  # type: ignore[type-arg]
    """Adds the binary that AIRLOCK_BINARY names, built for AIRLOCK_ARCH."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Name the binary and the platforms it runs on."""
        binary = os.environ.get("AIRLOCK_BINARY")
        if not binary:
            return
        machine = TAGS[os.environ["AIRLOCK_ARCH"]]
        build_data["shared_scripts"] = {binary: os.path.basename(binary)}
        build_data["tag"] = f"py3-none-manylinux_2_17_{machine}.manylinux2014_{machine}.musllinux_1_1_{machine}"
        build_data["pure_python"] = False
