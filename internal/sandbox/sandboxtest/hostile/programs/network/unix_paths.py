# Connects to sockets in the host's file system: the bait, the service's own, and those of daemons.
# control: host
import os, socket
for path in (H["UNIX"], "/proc/self/root" + H["UNIX"], "/proc/%s/root%s" % (H["PID"], H["UNIX"]), "/var/lib/airlock/airlock.sock", "/run/airlock.sock", "/workspace/../airlock.sock", "/var/run/docker.sock", "/run/containerd/containerd.sock", "/run/dbus/system_bus_socket", "/run/systemd/private", "/run/systemd/notify", "/dev/log", "/run/udev/control", "/tmp/.X11-unix/X0", "/run/snapd.socket"):
    for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM, socket.SOCK_SEQPACKET):
        try:
            s = socket.socket(socket.AF_UNIX, kind)
            s.connect(path)
        except OSError as e: tried("%s: %s" % (path, e)); continue
        tried(path)
        breach(path + " answers")
done()
