#!/usr/bin/env bash
# Onyx starts the image of its code interpreter with
#     bash ./entrypoint.sh code-interpreter-api
# There it finds a Docker daemon first. We need none.
set -euo pipefail
exec "$@"
