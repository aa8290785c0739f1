# Computes a number that does not end, deaf to signals while it does.
# ends: timeout
# timeout: 1s
tried("compute")
9 ** 9 ** 9
