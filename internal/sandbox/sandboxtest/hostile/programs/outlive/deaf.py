# Ignores and blocks every signal.
# ends: timeout
# timeout: 500ms
import signal, time
for s in signal.valid_signals():
    try: signal.signal(s, signal.SIG_IGN)
    except (OSError, ValueError): pass
signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
tried("deaf")
while True: time.sleep(60)
