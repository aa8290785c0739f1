#!/bin/sh
# Runs after the removal. Only dpkg's purge deletes the data: rpm has no purge.
set -e
if [ -d /run/systemd/system ]; then
	systemctl daemon-reload
fi
[ "$1" = purge ] || exit 0
rm -rf /var/lib/airlock /etc/airlock
if getent passwd airlock >/dev/null; then
	userdel airlock
fi
