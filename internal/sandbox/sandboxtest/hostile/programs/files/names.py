# Leaves files with names that are no names.
import os
names = [b"new\nline", b"tab\t", b"bell\x07", b"escape\x1b[2J", b"\xff\xfe not text", b"\xc0\xae\xc0\xae", b"...", b" ", b"-rf", b"~", b"back\\slash", b"..\\..\\up", b"C:\\x", b"colon:stream", b"%2e%2e%2f", b"a" * 255,
         "right\u202eleft".encode(), "e\u0301".encode(), "\u00e9".encode(), b"con", b".env", b".git", b"quote\"", b"<script>", b"$(id)", b"`id`", b"{{7*7}}", b"H:" + H["NONCE"].encode(), b"nul", b"a;b", b"a|b", b"*", b"?", "\u2028".encode(), "\ud800".encode("utf-8", "surrogatepass")]
for name in names:
    try: open(os.path.join(b"/workspace", name), "w").write("x")
    except OSError as e: tried("%r: %s" % (name, e))
    else: tried(repr(name))
for folder in (b"..\xff", b"sub\n", b"...."):
    os.mkdir(folder)
    open(folder + b"/in it", "w").write("x")
done()
