# Executes itself without end.
# cell: badly
# ends: timeout
# timeout: 500ms
[ -n "$AGAIN" ] || tried "execute"
export AGAIN=1
exec bash "$0"
