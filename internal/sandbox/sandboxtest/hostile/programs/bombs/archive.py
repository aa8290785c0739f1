# Leaves an archive that unpacks to a flood, and to places above it.
import io, zipfile
with zipfile.ZipFile("bomb.zip", "w", zipfile.ZIP_DEFLATED) as z:
    for name in ("../../../../etc/cron.d/x", "/etc/passwd", "..\\..\\x", "a" * 60000, "con", "x\0y"): z.writestr(name, b"0" * (1 << 20))
    for i in range(200): z.writestr("same", b"0" * 1000)
tried("archive")
done()
