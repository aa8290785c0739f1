# Executes itself without end.
# ends: timeout
# timeout: 1s
[ -n "$AGAIN" ] || tried "execute"
export AGAIN=1
exec bash "$0"
