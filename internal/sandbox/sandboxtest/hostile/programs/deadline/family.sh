# Lets a crowd of shells compute at the least priority, deaf to all signals, each waiting for the next.
# ends: timeout
# timeout: 500ms
# processes: 140
tried crowd
trap '' TERM INT HUP QUIT PIPE USR1 USR2 TSTP TTIN TTOU
for i in $(seq 100); do (renice -n 19 -p $BASHPID >/dev/null 2>&1; while :; do :; done) & done
renice -n 19 -p 1 >/dev/null 2>&1
while :; do :; done
