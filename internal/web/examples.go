package web

// example is a program to try, for somebody who sees the page for the first time.
type example struct {
	Name  string // in the address
	Title string
	Code  string
}

var examples = []example{
	{"plot", "Draw a plot", `import matplotlib.pyplot as plt
import numpy as np

t = np.linspace(0, 12, 400)
plt.plot(t, np.exp(-t / 5) * np.cos(3 * t))
plt.xlabel("seconds")
plt.title("A spring that comes to rest")
plt.show()
`},
	{"table", "Make a table", `import pandas as pd

cities = pd.DataFrame({
    "city": ["Lagos", "Lima", "Oslo", "Osaka"],
    "people": [16_500_000, 11_200_000, 717_000, 2_750_000],
    "metres": [41, 154, 23, 24],
})
cities.to_csv("cities.csv", index=False)
print(cities.describe())
`},
	{"walls", "Try to break out", `# What a program of a stranger might try first.
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
`},
}
