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
    if type(value).__name__ == "datetime64":
        return None if value != value else str(value.astype("datetime64[s]"))
    if hasattr(value, "item"):
        value = value.item()
    return clean(value) if isinstance(value, (int, float, str, bool, type(None))) else str(value)


def frame(table):
    return {str(name): [scalar(value) for value in column] for name, column in table.items()}


# Charts: what is in a figure, as numbers.


def labels(axes, swapped=False):
    """Labels of both axes, and the units in them. A horizontal chart has the vertical one's."""
    import re

    made = {}
    for name, of in zip("xy", "yx" if swapped else "xy"):
        label = getattr(axes, "get_%slabel" % of)()
        unit = re.search(r"\(([^)]*)\)|\[([^\]]*)\]", label)
        made |= {name + "_label": label or None, name + "_unit": unit.group(1) or unit.group(2) if unit else None}
    return made


def scale_of(axis):
    converter = type(axis.get_converter() if hasattr(axis, "get_converter") else axis.converter).__name__
    return "datetime" if "Date" in converter else "categorical" if "Category" in converter else axis.get_scale()


def ticks(axes):
    """Ticks and scales of both axes."""
    made = {}
    for name in "xy":
        of = getattr(axes, name + "axis")
        made |= {
            name + "_ticks": [place(of, tick) for tick in of.get_ticklocs()],
            name + "_tick_labels": [t.get_text() for t in of.get_ticklabels()], name + "_scale": scale_of(of),
        }
    return made


def place(axis, value):
    """A number on an axis, or the date that it stands for."""
    if scale_of(axis) != "datetime":
        return scalar(value)
    from matplotlib.dates import num2date

    return num2date(value).isoformat()


def category(axis, value):
    """The same, or the category."""
    if scale_of(axis) == "datetime":
        return place(axis, value).removesuffix("+00:00")
    if scale_of(axis) == "categorical":
        return named_places(axis).get(round(float(value), 9), scalar(value))
    return scalar(value)


def named_places(axis):
    return {round(float(at), 9): text.get_text() for at, text in zip(axis.get_ticklocs(), axis.get_ticklabels())}


def named(label, kind, number):
    label = str(label)
    if label.startswith("_child") and label[6:].isdigit() and kind == "Line":
        return "Line " + label[6:]
    return label if label and not label.startswith("_") or kind == "Line" else "%s %d" % (kind, number)


def points(pairs):
    return [[scalar(x), scalar(y)] for x, y in pairs]


def bars(axes, groups, upright):
    from matplotlib.ticker import FixedLocator

    axis, elements = axes.xaxis if upright else axes.yaxis, []
    names, scale = named_places(axis), scale_of(axis)
    gap = min((b - a for a, b in zip(sorted(names), sorted(names)[1:])), default=1)
    for number, group in enumerate(groups):
        for bar in group.patches:
            middle = bar.get_x() + bar.get_width() / 2 if upright else bar.get_y() + bar.get_height() / 2
            label = names.get(round(float(middle), 9))
            if scale == "datetime":
                label = category(axis, middle).removesuffix("T00:00:00")
            elif not label and names and isinstance(axis.get_major_locator(), FixedLocator):
                nearest = min(names, key=lambda at: abs(at - middle))  # of several bars around one tick
                label = names[nearest] if abs(nearest - middle) < gap / 2 else None
            value = bar.get_height() if upright else bar.get_width()
            elements.append({"label": label or "%g" % middle, "group": named(group.get_label(), "Group", number), "value": scalar(value)})
    return elements


def boxes(axes, upright):
    from matplotlib.patches import PathPatch

    across, along = (0, 1) if upright else (1, 0)
    names = named_places(axes.xaxis if upright else axes.yaxis)
    lines = [line.get_xydata() for line in axes.lines]
    elements = []
    for number, patch in enumerate(p for p in axes.patches if isinstance(p, PathPatch)):
        corners = patch.get_path().vertices
        left, right = corners[:, across].min(), corners[:, across].max()
        low, high = corners[:, along].min(), corners[:, along].max()
        own = [xy for xy in lines if len(xy) and left <= xy[:, across].mean() <= right]
        whiskers = [y for xy in own if len(xy) == 2 and xy[0, across] == xy[1, across] for y in xy[:, along]]
        flat = [xy for xy in own if len(xy) == 2 and xy[0, along] == xy[1, along] and low <= xy[0, along] <= high]
        median = max(flat, key=lambda xy: abs(xy[1, across] - xy[0, across]), default=None)  # the ends of whiskers are shorter
        quartiles = [y for y in whiskers if low <= y <= high] or [low, high]  # where there is a notch a box is longer
        ends = whiskers or [low, high]
        outliers = [y for xy in own for y in xy[:, along] if not min(ends) <= y <= max(ends)]
        elements.append({
            "label": names.get(round(float((left + right) / 2), 9)) or str(number + 1), "min": scalar(min(ends)),
            "first_quartile": scalar(min(quartiles)), "median": scalar(median[0, along]) if median is not None else None,
            "third_quartile": scalar(max(quartiles)), "max": scalar(max(ends)), "outliers": [scalar(y) for y in outliers],
        })
    return elements


def is_upright(axes):
    """Reports whether the boxes stand beside each other. Their whiskers tell, or else the boxes."""
    from matplotlib.patches import PathPatch

    for line in axes.lines:
        xy = line.get_xydata()
        if len(xy) == 2 and (xy[0] != xy[1]).sum() == 1 and line.get_transform() == axes.transData:
            boxed = any(p.get_path().get_extents().padded(1e-9).contains(*xy.mean(axis=0)) for p in axes.patches if isinstance(p, PathPatch))
            if not boxed:  # no median
                return bool(xy[0, 0] == xy[1, 0])
    return True


def drawn_lines(axes):
    """The lines of data, and how they are called: neither grid lines nor parts of error bars."""
    parts, names = set(), {}
    for group in axes.containers:
        children = [part for part in group if part is not None and not hasattr(part, "__iter__")]
        more = [part for part in group if hasattr(part, "__iter__")]
        if hasattr(group, "has_yerr"):  # of errorbar: the line, caps, bars
            parts |= {part for each in more for part in each}
            children = children[:1]
        elif hasattr(group, "baseline"):
            parts.add(group.baseline)
            children = [group.markerline]
        else:
            continue
        names |= {child: group.get_label() for child in children}
    lines = [line for line in axes.lines if line not in parts and line.get_transform() == axes.transData or line not in parts and axes.name != "rectilinear"]
    crossing = [line for line in lines if not is_straight(line)]
    for number, line in enumerate(crossing or lines):
        label = str(names.get(line, line.get_label()))
        yield line, "Line %d" % number if line in names and label.startswith("_") else named(label, "Line", number)


def is_straight(line):
    """Reports whether a line is what E2B takes for one of a grid."""
    x, y = line.get_xdata(), line.get_ydata()
    return len(x) == len(y) == 2 and bool(x[0] == x[1] or y[0] == y[1])


def one_chart(axes):
    from matplotlib.collections import PathCollection
    from matplotlib.container import BarContainer
    from matplotlib.patches import PathPatch, Wedge

    made = {"title": axes.get_title() or None}
    wedges = [patch for patch in axes.patches if isinstance(patch, Wedge)]
    groups = [group for group in axes.containers if isinstance(group, BarContainer)]
    scattered = [c for c in axes.collections if isinstance(c, PathCollection)]
    if wedges:
        texts = [text.get_text() for text in axes.texts]
        return made | {"type": "pie", "elements": [
            {"label": wedge.get_label() if not wedge.get_label().startswith("_") else texts[i] if i < len(texts) else "",
             "angle": scalar(abs(wedge.theta2 - wedge.theta1)), "radius": scalar(wedge.r)} for i, wedge in enumerate(wedges)]}
    if any(isinstance(patch, PathPatch) for patch in axes.patches):
        upright = is_upright(axes)
        return made | labels(axes, not upright) | {"type": "box_and_whisker", "elements": boxes(axes, upright)}
    if groups:
        upright = getattr(groups[0], "orientation", None) != "horizontal"
        return made | labels(axes, not upright) | {"type": "bar", "elements": bars(axes, groups, upright)}
    if scattered:
        return made | labels(axes) | ticks(axes) | {"type": "scatter", "elements": [
            {"label": named(c.get_label(), "Scatter", i), "points": [
                [category(axes.xaxis, x), category(axes.yaxis, y)] for x, y in c.get_offsets().tolist()]} for i, c in enumerate(scattered)]}
    lines = list(drawn_lines(axes))
    if lines:
        return made | labels(axes) | ticks(axes) | {"type": "line", "elements": [
            {"label": label, "points": points(zip(line.get_xdata(), line.get_ydata()))} for line, label in lines]}
    return made | {"type": "unknown", "elements": []}


def known_chart(axes):
    """One chart, or that it is none of those that are known."""
    try:
        return one_chart(axes)
    except Exception:  # the picture is there
        return {"type": "unknown", "title": axes.get_title() or None, "elements": []}


def chart(figure):
    if not any(axes.has_data() for axes in figure.axes):
        return None
    charts = [known_chart(axes) for axes in figure.axes]
    if len(charts) == 1:
        return charts[0]
    return {"type": "superchart", "title": figure.get_suptitle() if hasattr(figure, "get_suptitle") else "", "elements": charts}


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
