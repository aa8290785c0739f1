# Forks until nothing is left to fork.
# ends: timeout
# timeout: 500ms
tried "fork"
bomb() { bomb | bomb & }
bomb
while :; do sleep 1 || :; done
