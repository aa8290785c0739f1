#!/bin/sh
# Before the removal; dpkg says "remove", rpm says 0. Upgrades are left alone.
set -e
case $1 in remove | 0) ;; *) exit 0 ;; esac
if [ -d /run/systemd/system ]; then
	systemctl disable --now airlock.service
fi
