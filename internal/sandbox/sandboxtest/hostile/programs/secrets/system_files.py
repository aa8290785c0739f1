# Reads what every host has and no sandbox should.
# only: machine
# control: host
import os
for path in ("/etc/shadow", "/etc/gshadow", "/etc/machine-id", "/etc/resolv.conf", "/etc/ssh/sshd_config", "/etc/sudoers", "/etc/fstab", "/etc/crontab", "/etc/hostid", "/etc/ssl/private", "/etc/passwd-", "/etc/environment", "/etc/profile",
             "/var/lib/dpkg/status", "/var/log", "/var/lib/dbus/machine-id", "/var/run/docker.sock", "/run/systemd", "/run/containerd/containerd.sock", "/root", "/boot", "/sys/class/dmi/id/product_uuid", "/srv"):
    refused(path, lambda: os.listdir(path) if os.path.isdir(path) else open(path).read(1))
if not os.path.exists("/home/user") or not os.path.samefile("/home/user", "."): refused("/home", os.listdir, "/home")
elif os.listdir("/home") != ["user"]: breach("/home holds more than a cell's folder")
users = open("/etc/passwd").read().splitlines()
tried("%d users" % len(users))
if any(not line.startswith(("root:", "sandbox")) for line in users): breach("the host's users are in sight")
done()
