# Makes itself the last that an exhausted machine ends.
# kernel: shared
# weaken: raise the out-of-memory score
own = int(open("/proc/self/oom_score_adj").read())
tried("score %d" % own)
if own < 500: breach("it would be ended as late as the service")
for value in (-1000, -500, -1):
    def attempt(): open("/proc/self/oom_score_adj", "w").write(str(value)) 
    refused("score %d" % value, attempt)
    refused("score of pid 1", lambda: open("/proc/1/oom_score_adj", "w").write(str(value)))
    refused("old score", lambda: open("/proc/self/oom_adj", "w").write("-17"))
done()
