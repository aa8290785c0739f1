# What programs and cells show, and are, as far as both have it: program.py and live.py include this file,
# and each is its file in a traceback. It wants nothing but the modules that they have imported.


class WhenImported:
    """Changes a module as soon as a program imports it, and not before."""

    def __init__(self, name, change):
        self.name, self.change = name, change
        if name in sys.modules:
            change(sys.modules[name])
        else:
            sys.meta_path.insert(0, self)

    def find_spec(self, name, path, target=None):
        if name != self.name:
            return None
        sys.meta_path.remove(self)
        spec = _frozen_importlib_external.PathFinder.find_spec(name, path, target)
        if spec is not None and spec.loader is not None:
            spec.loader.exec_module = _functools.partial(self.execute, spec.loader.exec_module)
        return spec

    def execute(self, exec_module, module):
        exec_module(module)
        self.change(module)


PICTURES = ".png", ".jpg", ".jpeg", ".webp", ".gif"
KEPT = "/workspace/", "/mnt/data/", "/home/user/"  # the folder of what a program leaves, by its names


def note_saves(module):
    """Has a figure know the picture that it was saved as, until it is changed."""
    plain = module.Figure.savefig
    if hasattr(plain, "__wrapped__"):
        return

    def savefig(self, fname, *args, **named):
        result = plain(self, fname, *args, **named)
        try:
            path = os.path.abspath(os.fspath(fname))
        except (TypeError, ValueError):
            return result  # a file object, of which nobody knows what becomes
        kind = named.get("format")
        if not os.path.splitext(path)[1]:
            path += "." + (kind or "png")
        kind = "." + kind if kind else os.path.splitext(path)[1]
        if kind.lower() in PICTURES and path.startswith(KEPT) and os.path.exists(path):
            self._saved_as = path
            self.stale = False  # what changes it says otherwise
        return result

    for name in ("__module__", "__name__", "__qualname__", "__doc__"):
        setattr(savefig, name, getattr(plain, name))
    savefig.__wrapped__ = plain
    module.Figure.savefig = savefig


def saved_as(figure):
    """The path, below the folder of what the program leaves, of the picture that a figure was
    saved as and still is; None: there is none."""
    path = getattr(figure, "_saved_as", None)
    if path is None or figure.stale or not os.path.exists(path):
        return None
    return next(path[len(folder) :] for folder in KEPT if path.startswith(folder))


def show_images(show):
    """Has Pillow show an image by show, and not by a program of a desktop."""

    class Viewer:
        def show(self, image, **options):
            show(image)
            return True

    WhenImported("PIL.ImageShow", lambda module: module._viewers.__setitem__(slice(None), [Viewer()]))


def forget_randomness():
    """Takes from a copy of a stored process what it has in common with the others."""
    modules = sys.modules
    if "random" in modules:
        modules["_random"].Random.seed(modules["random"]._inst, None)
    if "numpy.random" in modules:
        modules["numpy.random"].seed()
    if "multiprocessing.process" in modules:
        modules["multiprocessing.process"].current_process().authkey = os.urandom(32)
    if "_ssl" in modules:
        modules["_ssl"].RAND_add(os.urandom(32), 32.0)
