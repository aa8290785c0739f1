#!/bin/sh
# After the installation of the deb or rpm. Python packages are left to `airlock setup`:
# they are downloaded, which neither dpkg nor rpm should wait for.
set -e
getent passwd airlock >/dev/null ||
	useradd --system --user-group --no-create-home --home-dir /nonexistent --shell /usr/sbin/nologin airlock
# As setup makes it: the service keeps its data here and cannot replace the runtimes.
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
