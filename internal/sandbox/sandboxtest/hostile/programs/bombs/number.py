# Computes a number that does not end, deaf to signals while it does.
# ends: timeout
# timeout: 500ms
tried("compute")
9 ** 9 ** 9
