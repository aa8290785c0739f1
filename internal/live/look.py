"""What the service asks of a sandbox: a function by its name, its arguments as JSON on
stdin. The answer is one JSON document on stdout."""

import fnmatch
import heapq
import json
import os
import re
import signal
import stat
import sys
import time

MOST = 10_000  # entries of a list
MOST_PROCESSES = 1000
KEPT = (".git", "node_modules", "__pycache__", ".venv")  # what tools keep for themselves


def kind_of(mode):
    kinds = ((stat.S_ISREG, "file"), (stat.S_ISDIR, "folder"), (stat.S_ISLNK, "link"))
    return next((kind for is_one, kind in kinds if is_one(mode)), "other")


def leads(path):
    """The kind of what a link leads to."""
    try:
        return kind_of(os.stat(path).st_mode)
    except OSError:
        return "other"


def entry(path, name):
    found = os.lstat(path)
    kind = kind_of(found.st_mode)
    return {
        "path": name,
        "exists": True,
        "kind": kind,
        "size": found.st_size if kind in ("file", "folder") else 0,
        "mode": found.st_mode & 0o777,
        "modified": found.st_mtime,
        "target": os.readlink(path) if kind == "link" else "",
        "leads": leads(path) if kind == "link" else "",
    }


def look(path, last):
    """Follows a path, with the link at its end if last."""
    if last:
        path = os.path.realpath(path)
    else:
        path = os.path.join(os.path.realpath(os.path.dirname(path)), os.path.basename(path))
    try:
        return entry(path, path)
    except OSError:
        return {"path": path, "exists": False}


def listing(path, depth):
    entries = []

    def add(folder, below, depth):
        for name in sorted(os.listdir(folder)):
            if len(entries) >= MOST:
                return True
            try:
                one = entry(os.path.join(folder, name), below + name)
                entries.append(one)
                if one["kind"] == "folder" and depth > 1 and add(os.path.join(folder, name), below + name + "/", depth - 1):
                    return True
            except OSError:
                continue  # it is gone, or not for this user
        return False

    return {"entries": entries, "more": add(path, os.path.join(path, ""), depth)}


def walk(top, hidden=True):
    """Yields files and folders."""
    if os.path.isfile(top):
        yield top, "file"
        return
    for folder, folders, files in os.walk(top):
        folders[:] = sorted(f for f in folders if f not in KEPT and (hidden or not f.startswith(".")))
        for name in folders:
            yield os.path.join(folder, name), "directory"
        for name in sorted(files):
            if hidden or not name.startswith("."):
                yield os.path.join(folder, name), "file"


def fits(path, top, patterns):
    name, inner = os.path.basename(path), os.path.relpath(path, top)
    return any(
        fnmatch.fnmatch(name, p) or fnmatch.fnmatch(inner, p) or p.startswith("**/") and fnmatch.fnmatch(inner, p[3:])
        for p in patterns
    )


def lines(path):
    """Yields the numbered lines of a file of text."""
    if not stat.S_ISREG(os.stat(path).st_mode):
        return
    with open(path, "rb") as file:
        if b"\0" in file.read(8192):
            return
        file.seek(0)
        for number, line in enumerate(file, 1):
            yield number, line.decode("utf-8", "replace").rstrip("\r\n")


def grep(q):
    try:
        pattern = re.compile(q["query"] if q.get("regex") else re.escape(q["query"]), re.IGNORECASE if q.get("ignore_case") else 0)
    except re.error as error:
        sys.exit("Invalid regex: %s" % error)
    top, matches, include = q["path"], [], q.get("include")
    for path, kind in walk(top):
        if kind != "file" or include and not fits(path, top, include):
            continue
        try:
            for number, text in lines(path):
                if not pattern.search(text):
                    continue
                if len(matches) >= q["most"]:
                    return {"matches": matches, "more": True}
                matches.append({"file": path, "line": number, "content": text[:500]} if q.get("per_line") else {"file": path})
                if not q.get("per_line"):
                    break
        except OSError:
            continue
    return {"matches": matches, "more": False}


def found(path, kind, /, **more):
    details = os.stat(path)
    return {**more, "type": kind, "size": details.st_size, "modified": details.st_mtime}


def glob(q):
    top, matches = q["path"], []
    for path, kind in walk(top):
        if q.get("kind", kind) != kind or fits(path, top, q.get("exclude", ())) or not fits(path, top, [q["query"]]):
            continue
        if len(matches) >= q["most"]:
            return {"matches": matches, "more": True}
        try:
            matches.append(found(path, kind, path=os.path.relpath(path, top)))
        except OSError:
            continue
    return {"matches": matches, "more": False}


def rank(name, query):
    name = name.lower()
    return 0 if name == query else 1 if name.startswith(query) else 2 if query in name else 3


def search(q):
    query, top = q["query"].strip().lower(), q["path"]

    def candidates():
        for path, kind in walk(top, q.get("hidden", False)):
            name = os.path.basename(path)
            if q.get("kind", kind) != kind or rank(name, query) > 2:
                continue
            try:
                yield rank(name, query), len(name), os.path.relpath(path, top).lower(), found(path, kind, path=path, name=name)
            except OSError:
                continue

    return {"matches": [c[3] for c in heapq.nsmallest(q["most"], candidates(), key=lambda c: c[:3])], "more": False}


def matches(q):
    query, top = q["query"].strip().lower(), q["path"]

    def inside(path):
        some = []
        try:
            for number, text in lines(path):
                at = text.lower().find(query)
                if at >= 0:
                    column = len(text[:at].encode("utf-16-le")) // 2 + 1
                    some.append({"line": number, "column": column, "text": text[:500]})
                    if len(some) >= 20:
                        break
        except OSError:
            pass
        return some

    def candidates():
        for path, kind in walk(top, q.get("hidden", False)):
            name, inner = os.path.basename(path), os.path.relpath(path, top)
            score = min(rank(name, query), 3)
            if score == 3 and query not in inner.lower():
                score = 4
            content = inside(path) if kind == "file" and not os.path.islink(path) else []
            if score < 4 or content:
                one = {"path": path, "relative_path": inner, "name": name, "type": kind, "name_match": score < 4, "content_matches": content}
                yield score, len(inner), inner.lower(), one

    offset = q.get("offset", 0)
    best = heapq.nsmallest(offset + q["most"] + 1, candidates(), key=lambda c: c[:3])[offset:]
    return {"matches": [c[3] for c in best[: q["most"]]], "more": len(best) > q["most"]}


def document(path):
    """The text of what is no text."""
    ending = path.rpartition(".")[2].lower()
    if ending == "pdf":
        import pypdf

        return "\n\n".join(page.extract_text() for page in pypdf.PdfReader(path).pages)
    if ending == "docx":
        import docx

        return "\n".join(p.text for p in docx.Document(path).paragraphs)
    if ending == "pptx":
        import pptx

        shapes = (s for slide in pptx.Presentation(path).slides for s in slide.shapes)
        return "\n".join(s.text_frame.text for s in shapes if s.has_text_frame)
    import openpyxl

    book = openpyxl.load_workbook(path, read_only=True, data_only=True)
    rows = lambda sheet: "\n".join("\t".join("" if c is None else str(c) for c in r) for r in sheet.iter_rows(values_only=True))
    return "\n\n".join("# %s\n%s" % (sheet.title, rows(sheet)) for sheet in book)


def ports():
    """The TCP ports on which programs listen. Whose they are no other program may see."""
    some = set()
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        try:
            with open(table) as rows:
                listed = [row.split() for row in rows][1:]
        except OSError:
            continue
        some.update(int(row[1].rpartition(":")[2], 16) for row in listed if row[3] == "0A")
    return sorted(some)


def running():
    """Yields the processes by number: their parent, session, state, clock ticks used and at the start, pages of memory."""
    for name in os.listdir("/proc"):
        try:
            with open("/proc/%s/stat" % int(name), "rb") as file:
                rest = file.read().rpartition(b")")[2].split()
        except (OSError, ValueError):
            continue  # it is gone, or none
        if rest[0] not in b"ZX":
            yield int(name), (int(rest[1]), int(rest[3]), rest[0].decode(), int(rest[11]) + int(rest[12]), int(rest[19]), int(rest[21]))


def part(pid, name, most):
    try:
        with open("/proc/%d/%s" % (pid, name), "rb") as file:
            return file.read(most)
    except OSError:
        return b""


def own(pid):
    """Whether a process is Airlock's own: the first one, and this one."""
    return pid in (1, os.getpid())


def vital(pid, parent):
    """Whether a process runs the cells, which end with it: the first one's first child."""
    return pid == 2 and parent == 1


def tree():
    """What runs here."""
    tick, page, now, up = os.sysconf("SC_CLK_TCK"), os.sysconf("SC_PAGE_SIZE"), time.time(), time.clock_gettime(time.CLOCK_BOOTTIME)
    some = []
    for pid, (parent, session, state, used, began, pages) in sorted(running()):
        if own(pid):
            continue
        line = part(pid, "cmdline", 4096).rstrip(b"\0").replace(b"\0", b" ") or part(pid, "comm", 64).rstrip()
        some.append({
            "id": "%d-%d" % (pid, began), "pid": pid, "parent": parent, "session": session, "command": line.decode("utf-8", "replace"), "state": state,
            "interpreter": vital(pid, parent),
            "cpu": used / tick, "memory": pages * page, "started": now - up + began / tick,
        })
    return {"processes": some[:MOST_PROCESSES], "more": len(some) > MOST_PROCESSES}


def end(pid, began):
    """Ends a process with all that it has started and that has a parent. Each is stopped first, and starts no more."""
    if own(pid) or vital(pid, dict(running()).get(pid, (0,))[0]):
        return -1
    stopped, more = {}, True
    while more:
        more, now = False, dict(running())
        for one, (parent, _, _, _, start, _) in sorted(now.items()):
            if one not in stopped and not own(one) and (one == pid and start == began or parent in stopped):
                stopped[one], more = start, True
                send(one, signal.SIGSTOP)
    for one in stopped:
        send(one, signal.SIGKILL)
    until = time.monotonic() + 5
    while left := [one for one, state in running() if stopped.get(one) == state[4]]:
        if time.monotonic() > until:
            break
        time.sleep(0.01)
    return len(left)


def send(pid, number):
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        pass  # it has ended


json.dump(globals()[sys.argv[1]](*json.load(sys.stdin)), sys.stdout)
