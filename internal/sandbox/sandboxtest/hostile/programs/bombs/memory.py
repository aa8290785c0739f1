# Takes memory until it is ended.
# ends: oom
# memory: 128
tried("take")
taken = []
while True: taken.append(b"x" * (8 << 20))
