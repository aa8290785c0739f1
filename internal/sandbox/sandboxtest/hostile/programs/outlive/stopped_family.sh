# Leaves stopped processes, in groups and sessions of their own, that wait for a signal to go on.
tried family
for i in 1 2 3 4 5 6; do
  (setsid bash -c 'kill -STOP $$; sleep 300' >/dev/null 2>&1 &)
  (set -m; sleep 300 & kill -STOP $! ) >/dev/null 2>&1 &
done
sleep 0.2
kill -CONT -1 2>/dev/null &
done_
