# Leaves daemons of every kind.
tried "leave"
setsid sleep 300 & nohup sleep 300 >/dev/null 2>&1 & disown
(setsid bash -c 'trap "" TERM HUP INT QUIT; while :; do sleep 1; done' &)
bash -c 'exec -a kworker/0:1 sleep 300' &
(sleep 300 <&- >&- 2>&- &)
coproc sleep 300
done_
