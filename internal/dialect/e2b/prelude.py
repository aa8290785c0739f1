# What E2B's code interpreter shows and a plain IPython does not. It runs once in each
# interpreter, in a namespace of its own, before the first cell; shell is IPython's, and
# WhenImported(name, change) changes a module once it is imported.
import builtins
import json
import math

from IPython.core.error import StdinNotImplementedError
from IPython.core.formatters import BaseFormatter
from IPython.display import display
from traitlets import ObjectName, Type, Unicode


class Data(BaseFormatter):
    format_type = Unicode("e2b/data")
    print_method = ObjectName("_repr_e2b_data_")
    _return_type = Type(dict)


class Chart(BaseFormatter):
    format_type = Unicode("e2b/chart")
    print_method = ObjectName("_repr_e2b_chart_")
    _return_type = Type(dict)

    def pop(self, *_):
        """Keeps what IPython takes out of all formatters to set those of pictures."""


def clean(value):
    """JSON has neither NaN nor infinity."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: clean(part) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [clean(part) for part in value]
    return value


def plain(value):
    """A dict or a list as JSON, if it is that."""
    try:
        value = clean(value)
        json.dumps(value)
        return value
    except (TypeError, ValueError, RecursionError):
        return None


def scalar(value):
    if hasattr(value, "isoformat"):
        return None if value != value else value.isoformat()
    if hasattr(value, "item"):
        value = value.item()
    return clean(value) if isinstance(value, (int, float, str, bool, type(None))) else str(value)


def frame(table):
    return {str(name): [scalar(value) for value in column] for name, column in table.items()}


# Charts: what is in a figure, as numbers.


def axis(axes, name):
    """Label, unit, ticks and scale of one axis."""
    import re

    label = getattr(axes, "get_%slabel" % name)()
    unit = re.search(r"\(([^)]*)\)|\[([^\]]*)\]", label)
    of = getattr(axes, name + "axis")
    converter = type(of.get_converter() if hasattr(of, "get_converter") else of.converter).__name__
    scale = "datetime" if "Date" in converter else "categorical" if "Category" in converter else of.get_scale()
    ticks = list(of.get_ticklocs())
    if scale == "datetime":
        from matplotlib.dates import num2date

        ticks = [num2date(tick) for tick in ticks]
    return {
        name + "_label": label or None, name + "_unit": unit.group(1) or unit.group(2) if unit else None,
        name + "_ticks": [scalar(tick) for tick in ticks], name + "_tick_labels": [t.get_text() for t in of.get_ticklabels()], name + "_scale": scale,
    }


def named(label, kind, number):
    return label if label and not str(label).startswith("_") else "%s %d" % (kind, number)


def points(pairs):
    return [[scalar(x), scalar(y)] for x, y in pairs]


def bars(axes):
    elements = []
    for number, group in enumerate(axes.containers):
        upright = getattr(group, "orientation", "vertical") != "horizontal"
        names = {}
        of = axes.xaxis if upright else axes.yaxis
        for place, text in zip(of.get_ticklocs(), of.get_ticklabels()):
            names[round(float(place), 9)] = text.get_text()
        for bar in group.patches:
            middle = bar.get_x() + bar.get_width() / 2 if upright else bar.get_y() + bar.get_height() / 2
            label = names.get(round(float(middle), 9)) or "%g" % middle
            value = bar.get_height() if upright else bar.get_width()
            elements.append({"label": label, "group": named(group.get_label(), "Group", number), "value": scalar(value)})
    return elements


def boxes(axes):
    from matplotlib.patches import PathPatch

    labels = [t.get_text() for t in axes.get_xticklabels()]
    lines = [line.get_xydata() for line in axes.lines]
    elements = []
    for number, patch in enumerate(p for p in axes.patches if isinstance(p, PathPatch)):
        corners = patch.get_path().vertices
        low, high, left, right = corners[:, 1].min(), corners[:, 1].max(), corners[:, 0].min(), corners[:, 0].max()
        own = [xy for xy in lines if len(xy) and left <= xy[:, 0].mean() <= right]
        whiskers = [y for xy in own if len(xy) == 2 and xy[0, 0] == xy[1, 0] for y in xy[:, 1]]
        flat = [xy for xy in own if len(xy) == 2 and xy[0, 1] == xy[1, 1] and low <= xy[0, 1] <= high]
        median = max(flat, key=lambda xy: abs(xy[1, 0] - xy[0, 0]), default=None)  # the ends of whiskers are shorter
        ends = whiskers + [low, high]
        outliers = [y for xy in own for y in xy[:, 1] if not min(ends) <= y <= max(ends)]
        elements.append({
            "label": labels[number] if number < len(labels) else str(number + 1), "min": scalar(min(ends)), "first_quartile": scalar(low),
            "median": scalar(median[0, 1]) if median is not None else None, "third_quartile": scalar(high), "max": scalar(max(ends)), "outliers": [scalar(y) for y in outliers],
        })
    return elements


def one_chart(axes):
    from matplotlib.collections import PathCollection
    from matplotlib.patches import PathPatch, Wedge

    made = {"title": axes.get_title() or None}
    wedges = [patch for patch in axes.patches if isinstance(patch, Wedge)]
    scattered = [c for c in axes.collections if isinstance(c, PathCollection)]
    if wedges:
        labels = [text.get_text() for text in axes.texts]
        return made | {"type": "pie", "elements": [
            {"label": wedge.get_label() if not wedge.get_label().startswith("_") else labels[i] if i < len(labels) else "",
             "angle": scalar(abs(wedge.theta2 - wedge.theta1)), "radius": scalar(wedge.r)} for i, wedge in enumerate(wedges)]}
    made |= axis(axes, "x") | axis(axes, "y")
    if any(isinstance(patch, PathPatch) for patch in axes.patches):
        return made | {"type": "box_and_whisker", "elements": boxes(axes)}
    if any(hasattr(group, "patches") for group in axes.containers):
        return made | {"type": "bar", "elements": bars(axes)}
    if scattered:
        return made | {"type": "scatter", "elements": [
            {"label": named(c.get_label(), "Scatter", i), "points": points(c.get_offsets().tolist())} for i, c in enumerate(scattered)]}
    if axes.lines:
        return made | {"type": "line", "elements": [
            {"label": named(line.get_label(), "Line", i), "points": points(zip(line.get_xdata(), line.get_ydata()))} for i, line in enumerate(axes.lines)]}
    return made | {"type": "unknown", "elements": []}


def chart(figure):
    try:
        charts = [one_chart(axes) for axes in figure.axes]
    except Exception:
        return None  # the picture is there
    if len(charts) == 1:
        return charts[0]
    title = figure.get_suptitle() if hasattr(figure, "get_suptitle") else ""
    return {"type": "superchart", "title": title or None, "elements": charts} if charts else None


def show_saved(module):
    """Has an image shown that a cell saves as a file."""
    plain = module.Image.save

    def save(image, fp, format=None, **options):
        if isinstance(fp, str):
            display(image)
        plain(image, fp, format, **options)

    module.Image.save = save


def no_input(prompt=""):
    raise StdinNotImplementedError("raw_input was called, but this frontend does not support input requests.")


formatters = shell.display_formatter.formatters
for kind in (Data, Chart):
    made = kind(parent=shell.display_formatter)
    formatters[made.format_type] = made
shell.display_formatter.active_types = list(formatters)
formatters.pop("application/vnd.airlock.table+json", None)  # e2b/data has what is in it
formatters["application/json"].for_type(dict, plain)
formatters["application/json"].for_type(list, plain)
formatters["e2b/data"].for_type_by_name("pandas.core.frame", "DataFrame", frame)
formatters["e2b/data"].for_type_by_name("pandas", "DataFrame", frame)
formatters["e2b/chart"].for_type_by_name("matplotlib.figure", "Figure", chart)
WhenImported("PIL.Image", show_saved)
shell.ask_exit = lambda: None
builtins.input = no_input
