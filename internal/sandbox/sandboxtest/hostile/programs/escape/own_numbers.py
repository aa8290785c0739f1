# Writes every setting of its own in /proc: users, clocks, logins, scores, priorities.
# kernel: shared
import os
for name, text in (("uid_map", "0 0 4294967295"), ("gid_map", "0 0 4294967295"), ("projid_map", "0 0 1"), ("setgroups", "allow"), ("timens_offsets", "monotonic 86400 0"),
                   ("loginuid", "0"), ("sessionid", "0"), ("attr/current", "unconfined"), ("attr/exec", "unconfined"), ("attr/apparmor/current", "changeprofile unconfined"),
                   ("oom_adj", "-17"), ("oom_score_adj", "-1000"), ("make-it-fail", "1"), ("fail-nth", "1"), ("patch_state", "1"), ("seccomp_cache", "x"), ("autogroup", "-20"),
                   ("ns/user", "x"), ("cgroup", "0::/"), ("mountinfo", "x"), ("net/ipv4/ip_forward", "1"), ("root", "x"), ("exe", "x"), ("ksm_stat", "1"), ("latency", "0")):
    refused(name, lambda: os.write(os.open("/proc/self/" + name, os.O_WRONLY), text.encode()))
done()
