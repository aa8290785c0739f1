# Leaves three files that are each just small enough, and together too much.
for i in range(3):
    open("big%d" % i, "wb").write(b"x" * (15 << 20))
    tried(i)
done()
