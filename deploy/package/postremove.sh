#!/bin/sh
# After the removal. Only dpkg's purge deletes what was kept: rpm has no such word.
set -e
if [ -d /run/systemd/system ]; then
	systemctl daemon-reload
fi
[ "$1" = purge ] || exit 0
rm -rf /var/lib/airlock /etc/airlock
if getent passwd airlock >/dev/null; then
	userdel airlock
fi
