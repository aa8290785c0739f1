# Writes single characters from many processes.
# ends: timeout
# timeout: 500ms
tried "write"
for i in 1 2 3 4 5 6 7 8; do (while :; do printf .; done) & (while :; do printf , >&2; done) & done
wait
