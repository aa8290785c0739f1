# What a program of a stranger might try first.
import os, urllib.request

def attempt(what, act):
    try:
        print(f"{what}: {act()}")
    except Exception as e:
        print(f"{what}: refused ({e})")

attempt("reach the internet", lambda: urllib.request.urlopen("http://example.com", timeout=3).status)
attempt("read the password file", lambda: open("/etc/shadow").read())
attempt("see other processes", lambda: sorted(p for p in os.listdir("/proc") if p.isdigit()))
attempt("write to the system", lambda: open("/usr/bin/python3", "w"))
