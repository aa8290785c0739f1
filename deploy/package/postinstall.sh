#!/bin/sh
# Runs after the installation of the deb or rpm. `airlock setup` installs Python packages,
# because neither dpkg nor rpm should wait for downloads.
set -e
getent passwd airlock >/dev/null ||
	useradd --system --user-group --no-create-home --home-dir /nonexistent --shell /usr/sbin/nologin airlock
# The same as in setup: the service has its data here and cannot replace the runtimes.
if [ ! -d /var/lib/airlock ]; then
	install -d -m 1771 -o root -g airlock /var/lib/airlock
fi
if [ -d /run/systemd/system ]; then
	systemctl daemon-reload
	systemctl try-restart airlock.service
fi
if [ ! -d /var/lib/airlock/runtimes ]; then
	echo 'Airlock: next are `airlock setup`, for the Python packages, and `systemctl enable --now airlock`.'
fi
