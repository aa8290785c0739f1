# Signals, traces, renices and limits a process of the host by its number.
# control: host
import os, resource, signal
pid = int(H["PID"])
refused("signal", os.kill, pid, 0)
refused("limits", lambda: resource.prlimit(pid, resource.RLIMIT_CPU))
refused("priority", os.getpriority, os.PRIO_PROCESS, pid)
refused("affinity", os.sched_getaffinity, pid)
refused("session", os.getsid, pid)
refused("wait", os.waitid, os.P_PID, pid, os.WEXITED | os.WNOHANG)
refused("memory", open, "/proc/%d/mem" % pid, "rb")
refused("name", open, "/proc/%d/comm" % pid)
done()
