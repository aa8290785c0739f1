"""Prints what a program inside the sandbox can see of the world around it."""

import os
import resource
import socket


def show(title, *lines):
    print(f"{title}:")
    for line in lines:
        print(f"  {line}")


def status(*names):
    wanted = dict(line.rstrip("\n").split(":\t", 1) for line in open("/proc/self/status") if ":\t" in line)
    return [f"{name}: {wanted[name].strip()}" for name in names]


def processes():
    for pid in sorted((p for p in os.listdir("/proc") if p.isdigit()), key=int):
        command = open(f"/proc/{pid}/cmdline").read().replace("\0", " ").strip()
        yield f"{pid} {command}"


def mounts():
    for line in open("/proc/mounts"):
        source, target, kind, options, *_ = line.split()
        mode = options.split(",")[0]
        limits = [o for o in options.split(",") if o.startswith(("size=", "nr_inodes="))]
        yield f"{mode} {kind:7} {target} {' '.join(limits)}".rstrip()


def reach(name, connect):
    try:
        connect()
        return f"{name}: REACHED"
    except OSError as error:
        return f"{name}: {error.strerror or error}"


def network():
    yield "devices: " + ", ".join(line.split(":")[0].strip() for line in open("/proc/net/dev").readlines()[2:])
    yield reach("192.0.2.1 port 80", lambda: socket.create_connection(("192.0.2.1", 80), timeout=2))
    yield reach("127.0.0.1 port 8000", lambda: socket.create_connection(("127.0.0.1", 8000), timeout=2))
    yield reach("look-up of example.org", lambda: socket.getaddrinfo("example.org", 80))
    yield reach("netlink socket", lambda: socket.socket(16, socket.SOCK_RAW))


def limits():
    for name in ("NOFILE", "FSIZE", "CORE", "MEMLOCK", "MSGQUEUE"):
        value = resource.getrlimit(getattr(resource, "RLIMIT_" + name))[1]
        yield f"{name}: {'unlimited' if value == resource.RLIM_INFINITY else value}"


show("Me", f"user {os.getuid()}, group {os.getgid()}, groups {os.getgroups()}, host {socket.gethostname()}, folder {os.getcwd()}")
show("Privileges", *status("CapEff", "CapPrm", "CapBnd", "CapAmb", "NoNewPrivs", "Seccomp"))
show("Processes", *processes())
show("Mounts", *mounts())
show("/", "  ".join(sorted(os.listdir("/"))))
show("/etc", "  ".join(sorted(os.listdir("/etc"))))
show("Open files", *(f"{fd} -> {os.readlink(f'/proc/self/fd/{fd}')}" for fd in (0, 1, 2)))
show("Environment", *(f"{name}={value}" for name, value in sorted(os.environ.items())))
show("Network", *network())
show("Limits", *limits())
