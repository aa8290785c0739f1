# Walks every object and every frame of the interpreter before it, for open files and texts.
import gc, io, os, socket, sys, types
gc.unfreeze()
gc.collect()
objects = gc.get_objects()
frames = list(sys._current_frames().values())
frame = sys._getframe()
while frame: frames.append(frame); frame = frame.f_back
for f in frames: objects += list(f.f_locals.values()) + list(f.f_globals.values())
for o in list(objects): objects += gc.get_referents(o)
tried("%d objects" % len(objects))
seen = set()
for o in objects:
    if id(o) in seen: continue
    seen.add(id(o))
    try:
        if isinstance(o, (socket.socket, io.FileIO)) and o.fileno() > 2 and not own(o.fileno()): breach("an open file: %r" % o)
        if isinstance(o, (str, bytes, bytearray)) and len(o) > 30:
            text = o if isinstance(o, str) else bytes(o).decode("latin-1")
            if CANARY in text: breach("a text: %.200r" % text)
    except ValueError: pass
    except OSError: pass
tried("%d of them differ" % len(seen))
done()
