#!/bin/sh
# Runs before the removal, with "remove" from dpkg and 0 from rpm. It ignores upgrades.
set -e
case $1 in remove | 0) ;; *) exit 0 ;; esac
if [ -d /run/systemd/system ]; then
	systemctl disable --now airlock.service
fi
