# The data frames that cells displayed, and what a page asks about them between cells: windows of rows and
# columns, in an order, of the rows that are found, statistics, and text. live.py runs this file with the first
# frame, and it is its file in a traceback.
import time
import weakref

MOST_FRAMES = 32
HELD = 64 << 20  # bytes of frames that are kept for their pages alone
MOST_VIEWS = 4
MOST_ANSWER = 4 << 20  # bytes; a call has 5 MiB
MOST_WINDOW = 50_000  # values
PATIENCE = 20  # seconds that one question may take, as far as it looks at the time


class Question(Exception):
    """Says why a question has no answer."""


class Gone(Question):
    """Says that there is no such frame any more."""


class Shown:
    """A frame as it was displayed. What is held is a copy that shares its memory; of one that is too large for
    that, the frame itself while the program has it."""

    def __init__(self, value):
        self.held = value.clone() if is_polars(value) else value.copy(deep=False)
        self.size = bytes_of(value)
        self.shape = value.shape
        self.weak = weakref.ref(value)
        self.whole_days = {}  # by field

    def source(self):
        value = self.held if self.held is not None else self.weak()
        if value is None:
            raise Gone("the program has it no longer")
        return Polars(value) if is_polars(value) else Pandas(value)


class Pandas:
    """Fields are the levels of the index, and then the columns."""

    def __init__(self, frame):
        if frame.ndim == 1:
            frame = frame.to_frame(name="" if frame.name is None else frame.name)
        self.frame, self.index = frame, frame.index.nlevels
        self.rows, self.columns = frame.shape

    def series(self, field, where=slice(None)):
        import pandas

        if field < self.index:
            return pandas.Series(self.frame.index[where].get_level_values(field))
        return self.frame.iloc[:, field - self.index].iloc[where]

    def names(self, field):
        if field < self.index:
            name = self.frame.index.names[field]
            return ["" if name is None else str(name)]
        name = self.frame.columns[field - self.index]
        return [str(part) for part in name] if isinstance(name, tuple) and self.frame.columns.nlevels > 1 else [str(name)]

    def dtype(self, field):
        if field < self.index:
            return str(self.frame.index.get_level_values(field).dtype)
        return str(self.frame.dtypes.iloc[field - self.index])

    def csv(self, where, header):
        import pandas

        plain = type(self.frame.index) is pandas.RangeIndex and self.frame.index.name is None
        return self.frame.iloc[where].to_csv(header=header, index=not plain)

    missing = None


class Polars:
    index = 0

    def __init__(self, frame):
        self.frame = frame
        self.rows, self.columns = frame.shape

    def series(self, field, where=slice(None)):
        import pandas

        found = self.frame.to_series(field)[where]
        try:
            return found.to_pandas(use_pyarrow_extension_array=True)
        except Exception:  # of a type that Arrow has not
            return pandas.Series(found.to_list(), dtype=object)

    def names(self, field):
        return [self.frame.columns[field]]

    def dtype(self, field):
        return str(self.frame.dtypes[field])

    def csv(self, where, header):
        part = self.frame[where]
        try:
            return part.write_csv(include_header=header)
        except Exception:  # it has lists in it
            return part.to_pandas().to_csv(header=header, index=False)

    missing = "null"


def is_polars(value):
    return type(value).__module__.partition(".")[0] == "polars"


def bytes_of(value):
    """About how much memory a frame has. Of objects some are measured for all."""
    if is_polars(value):
        return value.estimated_size()
    size = int(value.memory_usage(index=True, deep=False).sum() if value.ndim == 2 else value.memory_usage(deep=False))
    columns = [value.iloc[:, i] for i in range(value.shape[1])] if value.ndim == 2 else [value]
    for column in columns[:1000]:
        if column.dtype == object and len(column):
            some = column.iloc[:50].tolist()
            size += len(column) * sum(map(sys.getsizeof, some)) // len(some)
    return size


# Values as JSON has them.


def kind_of(series):
    """The kind of a column's values: as numpy calls it, c for categories, and s for strings alone."""
    dtype = series.dtype
    if type(dtype).__name__ == "CategoricalDtype":
        return "c"
    if str(dtype) in ("str", "string", "string[pyarrow]", "large_string[pyarrow]"):
        return "s"
    kind = getattr(dtype, "kind", "O")
    return "i" if kind == "u" else kind if kind in TYPES else "O"


TYPES = {"i": "integer", "f": "number", "b": "boolean", "M": "datetime", "m": "duration", "c": "category"}
MOST_CATEGORIES = 1000  # of a column, with which a page sorts rows that it has


def described(shown, source, field, sample):
    """What is said of a field. A column of objects is one of numbers if those in the sample are."""
    import pandas

    kind = kind_of(sample)
    names = source.names(field)
    made = {"name": " ".join(names), "type": TYPES.get(kind, "string"), "dtype": source.dtype(field)}
    if len(names) > 1:
        made["names"] = names
    made["missing"] = source.missing or ("NaT" if kind in "Mm" else "<NA>" if kind not in "fOsc" or isinstance(
        sample.dtype, (pandas.api.extensions.ExtensionDtype,)) and kind == "f" else "None" if kind == "O" else "NaN")
    if kind == "c" and len(sample.cat.categories) <= MOST_CATEGORIES:  # their order is that of the column
        made["categories"] = [cut(value, LONGEST) for value in sample.cat.categories.tolist()]
    if kind == "O":
        present = [value for value in sample.tolist() if value is not None]
        if present and all(type(value).__name__ in ("int", "float", "Decimal") for value in present):
            made["type"] = "number"
    return made


def encoded_values(shown, field, series, longest, form=None):
    """The values of a part of a column."""
    kind, absent = kind_of(series), series.isna().tolist()
    values = series.tolist()
    if kind == "i":
        return [None if no else value if -(1 << 53) < value < 1 << 53 else str(value) for value, no in zip(values, absent)]
    if kind == "f":
        if form is not None:
            return [None if no else str(form(value)) for value, no in zip(values, absent)]
        return [None if no else value if value - value == 0 else str(value) for value, no in zip(values, absent)]
    if kind == "b":
        return [None if no else bool(value) for value, no in zip(values, absent)]
    texts = [None if no else cut(value, longest) for value, no in zip(values, absent)]
    if kind == "M" and shown.whole_days.get(field):
        texts = [text and text.removesuffix(" 00:00:00") for text in texts]
    return texts


def cut(value, longest):
    text = value if type(value) is str else str(value)
    return text if len(text) <= longest else text[:longest] + "…"


def are_whole_days(series):
    """Reports whether all dates of a column are days, which are shown without their time."""
    try:
        if kind_of(series) != "M" or getattr(series.dt, "tz", None) is not None:
            return False
        for some in (series.iloc[:1000].dropna(), series.dropna()):  # most often the first say it
            if not (some == some.dt.normalize()).all():
                return False
        return len(some) > 0
    except Exception:  # dates of Arrow have no time
        return False


# The order of rows, and which are found.


def ranks(series):
    """Numbers in the order of a column's values, and which of them are missing."""
    import numpy
    import pandas

    kind, absent = kind_of(series), series.isna().to_numpy()
    if kind in "ifbMm" and isinstance(series.dtype, numpy.dtype):
        values = series.to_numpy()
        return (values.view("i8") if kind in "Mm" else values), absent
    if kind == "c":
        return series.cat.codes.to_numpy(), absent
    try:
        codes, found = pandas.factorize(series)
    except Exception:  # of lists and other values without a hash
        codes, found = pandas.factorize(series.astype(object).map(str, na_action="ignore"))
    rank = numpy.empty(len(found) + 1, numpy.int64)
    rank[ordered(found)] = numpy.arange(len(found))
    rank[-1] = len(found)  # of code -1
    return rank[codes], absent


def ordered(values):
    """The positions of different values in their order."""
    import numpy
    import pandas

    with contextlib.suppress(Exception):
        import pyarrow
        from pyarrow import compute

        return compute.array_sort_indices(pyarrow.array(values)).to_numpy(zero_copy_only=False)
    values = list(values)
    try:
        return numpy.array(sorted(range(len(values)), key=values.__getitem__), numpy.int64)
    except TypeError:  # of types that have no order among them
        return numpy.array(sorted(range(len(values)), key=lambda i: (type(values[i]).__name__, str(values[i]))), numpy.int64)


def sorted_positions(series, positions, descending):
    """The positions in the order of a column's values; those without one come last."""
    import numpy

    if kind_of(series) == "s":
        with contextlib.suppress(Exception):
            import pyarrow
            from pyarrow import compute

            values = pyarrow.array(series if positions is None else series.iloc[positions], from_pandas=True)
            found = compute.array_sort_indices(values, order="descending" if descending else "ascending").to_numpy()
            return found if positions is None else positions[found]
    values, absent = ranks(series)
    if positions is not None:
        values, absent = values[positions], absent[positions]
    if descending:  # equal ones stay in their order, and the least integer has no negative
        values = -values if values.dtype.kind == "f" else ~values
    found = numpy.argsort(values, kind="stable")
    if absent.any():
        found = numpy.concatenate([found[~absent[found]], found[absent[found]]])
    return found if positions is None else positions[found]


NUMERALS = {"i": set("0123456789-"), "f": set("0123456789-.e+inf"), "M": set("0123456789-.:+tz")}


def contains(series, word):
    """Which values have a text in them, whatever its case."""
    import numpy

    kind = kind_of(series)
    if kind in NUMERALS:
        word = word.replace(",", "") if kind in "if" else word
        if set(word) - NUMERALS[kind]:
            return numpy.zeros(len(series), bool)
    if kind == "b":
        true, false = word in "true", word in "false"
        values = series.fillna(False).astype(bool).to_numpy() if series.isna().any() else series.to_numpy(bool)
        return (values & true | ~values & false) & ~series.isna().to_numpy()
    if kind == "c":
        import pandas

        found = numpy.flatnonzero(contains(pandas.Series(series.cat.categories), word))
        return numpy.isin(series.cat.codes.to_numpy(), found)
    with contextlib.suppress(Exception):
        import pyarrow
        from pyarrow import compute

        if kind == "M" and getattr(series.dt, "tz", None) is not None:
            series = series.dt.tz_localize(None)  # the time that is shown
        values = pyarrow.array(series, from_pandas=True)
        found = compute.match_substring(values.cast(pyarrow.large_string()), word, ignore_case=True)
        return compute.fill_null(found, False).to_numpy(zero_copy_only=False)
    texts = series.astype(object).map(str, na_action="ignore")
    return texts.str.lower().str.contains(word, regex=False, na=False).to_numpy(bool)


COMPARED = {"=": "eq", "!=": "ne", "<": "lt", "<=": "le", ">": "gt", ">=": "ge"}


def matches(series, op, text):
    """Which values of a column a filter lets through."""
    import pandas

    absent = series.isna().to_numpy()
    if op in ("missing", "present"):
        return absent if op == "missing" else ~absent
    if op in ("contains", "excludes"):
        found = contains(series, text.strip().lower())
        return found if op == "contains" else ~found & ~absent
    if op not in COMPARED:
        raise Question("there is no filter %.20r" % op)
    kind, value = kind_of(series), text
    try:
        if kind in "if":
            number = text.replace(",", "").replace(" ", "").strip()
            try:
                value = int(number)
            except ValueError:
                value = float(number)
        elif kind == "b":
            value = {"true": True, "1": True, "false": False, "0": False}[text.strip().lower()]
        elif kind == "M":
            value = pandas.Timestamp(text.strip())
            zone = getattr(series.dt, "tz", None)
            if zone is not None:
                value = value.tz_localize(zone) if value.tz is None else value.tz_convert(zone)
            if op in ("=", "!=") and len(text.strip()) <= 10:  # of that day
                series = series.dt.normalize()
        elif kind == "m":
            value = pandas.Timedelta(text.strip())
        elif kind != "s":
            series = series.astype(object).map(str, na_action="ignore")
    except (ValueError, KeyError):
        raise Question("%.80r is not a value of this column, whose type is %s" % (text, TYPES.get(kind, "string"))) from None
    if kind in "ifbMm":
        found = getattr(series, COMPARED[op])(value)
    else:  # missing values have no order
        found = pandas.Series(False, series.index)
        found[~absent] = getattr(series[~absent], COMPARED[op])(value)
    return found.fillna(False).to_numpy(bool) & ~absent


def found_positions(source, order, end):
    """The positions of the rows of a view in their order; None: all, as they are."""
    import numpy

    keep = None
    for one in order.get("filters") or ():
        found = matches(source.series(checked(source, one["column"])), one["op"], str(one.get("value", "")))
        keep = found if keep is None else keep & found
    for word in (order.get("search") or "").lower().split():
        found = numpy.zeros(source.rows, bool)
        for field in range(source.index + source.columns):
            if time.monotonic() > end:
                raise Question("the search took longer than %d s: use a filter of a column" % PATIENCE)
            found |= contains(source.series(field), word)
            if found.all():
                break
        keep = found if keep is None else keep & found
    positions = None if keep is None else numpy.flatnonzero(keep)
    for one in reversed(order.get("sort") or ()):
        positions = sorted_positions(source.series(checked(source, one["column"])), positions, bool(one.get("descending")))
    return positions if positions is None or len(positions) > 1 << 31 else positions.astype(numpy.int32, copy=False)


def checked(source, field):
    if not 0 <= field < source.index + source.columns:
        raise Question("there is no column %d" % field)
    return field


# What a column has in it.


def statistics(series):
    import numpy
    import pandas

    kind, present = kind_of(series), series.dropna()
    made = {"count": len(series), "missing": len(series) - len(present), "facts": [], "bars": []}
    facts = made["facts"]
    try:
        made["unique"] = int(present.nunique())
    except Exception:  # of lists and other values without a hash
        present = present.astype(object).map(str)
        made["unique"] = int(present.nunique())
    if not len(present):
        return made
    if kind == "O" and all(type(v).__name__ in ("int", "float", "Decimal") for v in present.iloc[:1000]):
        with contextlib.suppress(Exception):
            present, kind = present.astype(float), "f"
    if kind in "if":
        low, high = present.min(), present.max()
        numbers = present.to_numpy(float)
        quarters = numpy.quantile(numbers, [0.25, 0.5, 0.75])
        deviation = float(numbers.std(ddof=1)) if len(numbers) > 1 else None
        for name, value in (("minimum", low), ("25 %", quarters[0]), ("median", quarters[1]), ("75 %", quarters[2]),
                            ("maximum", high), ("mean", numbers.mean()), ("standard deviation", deviation), ("sum", present.sum())):
            if value is not None:
                facts.append([name, plain_number(value)])
        finite = numbers[numpy.isfinite(numbers)]
        counts, edges = numpy.histogram(finite, bins=20) if len(finite) and finite.min() < finite.max() else ((), ())
        made["bars"] = [[plain_number(edges[i]), int(n)] for i, n in enumerate(counts)]
        made["histogram"] = True
    elif kind in "Mm":
        facts += [["earliest" if kind == "M" else "shortest", str(present.min())], ["latest" if kind == "M" else "longest", str(present.max())]]
        with contextlib.suppress(Exception):
            numbers = present.astype("int64").to_numpy()
            counts, edges = numpy.histogram(numbers, bins=20)
            back = present.dtype
            made["bars"] = [[str(pandas.Series([int(edges[i])]).astype(back)[0]), int(n)] for i, n in enumerate(counts)]
            made["histogram"] = True
    else:
        counts = present.value_counts().head(10)
        made["bars"] = [[cut(value, 200), int(n)] for value, n in counts.items() if n]
        if kind in "sO":
            with contextlib.suppress(Exception):
                lengths = present.str.len()
                facts += [["shortest", "%d characters" % lengths.min()], ["longest", "%d characters" % lengths.max()]]
    return made


def plain_number(value):
    value = value.item() if hasattr(value, "item") else value
    if type(value) is int and abs(value) >= 1 << 53 or type(value) is float and value - value != 0:
        return str(value)
    return value if type(value) in (int, float) else str(value)


class Frames:
    """The last frames that were displayed."""

    def __init__(self):
        self.shown = {}  # by id, the oldest first
        self.views = {}  # positions by id and view, the last used at the end

    def add(self, value):
        """Takes a frame, and returns its id."""
        name = os.urandom(8).hex()
        self.shown[name] = Shown(value)
        while len(self.shown) > MOST_FRAMES:
            self.shown.pop(next(iter(self.shown)))
        room = HELD
        for one in reversed(self.shown.values()):
            if one.held is not None:
                room -= one.size
                if room < 0:
                    one.held = None
        return name

    def ask(self, order):
        """Answers a question about a frame."""
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                return self.answer(order)
        except Question as problem:
            return {"problem": str(problem), "gone": isinstance(problem, Gone)}
        except Exception as error:  # of what the program put into the frame
            return {"problem": ("%s: %s" % (type(error).__name__, error))[:300]}

    def answer(self, order):
        shown = self.shown.get(order["frame"])
        if shown is None:
            raise Gone("its interpreter has it no longer")
        source, end = shown.source(), time.monotonic() + PATIENCE
        positions = self.view(order, source, end)
        rows = source.rows if positions is None else len(positions)
        made = {"rows": rows, "total": source.rows, "columns": source.columns, "index": source.index,
                "changed": (source.rows, source.columns)[: len(shown.shape)] != shown.shape}
        first, last = (order.get("rows") or [0, 0])[:2]
        first, last = max(0, min(first, rows)), max(0, min(last, rows))
        where = slice(first, last) if positions is None else positions[first:last]
        want = order.get("want") or "window"
        if want == "statistics":
            field = checked(source, order["columns"][0])
            made["statistics"] = statistics(source.series(field, slice(None) if positions is None else positions))
            return made
        if want == "csv":
            return self.csv(made, source, positions, first, last)
        fields = self.fields(order, source)
        if want == "text":
            return text_of(made, source, fields, where, last - first)
        return window(made, shown, source, fields, positions, first, last)

    def fields(self, order, source):
        every = source.index + source.columns
        first, last = (order.get("columns") or [0, every])[:2]
        return range(max(0, min(first, every)), max(0, min(last, every)))

    def view(self, order, source, end):
        key = order["frame"], json.dumps([order.get(name) for name in ("sort", "filters", "search")])
        if not any(order.get(name) for name in ("sort", "filters", "search")):
            return None
        if key in self.views and self.views[key][0] != (source.rows, source.columns):  # the program has changed it
            del self.views[key]
        made = self.views.pop(key, None) or ((source.rows, source.columns), found_positions(source, order, end))
        self.views[key] = made
        while len(self.views) > MOST_VIEWS:
            self.views.pop(next(iter(self.views)))
        return made[1]

    def csv(self, made, source, positions, first, last):
        """Rows as lines of CSV, as many as one answer has."""
        while True:
            where = slice(first, last) if positions is None else positions[first:last]
            text = source.csv(where, first == 0)
            if len(encoded(text)) <= MOST_ANSWER or last - first <= 1:
                break
            last = first + (last - first) // 2
        made.update(text=text, next=last)
        return made


def window(made, shown, source, fields, positions, first, last):
    """The values of some columns of some rows, column by column."""
    import pandas

    try:
        form = pandas.get_option("display.float_format")
    except Exception:
        form = None
    last = min(last, first + max(1, MOST_WINDOW // max(1, len(fields))))
    while True:
        where = slice(first, last) if positions is None else positions[first:last]
        parts = [source.series(field, where) for field in fields]
        for field, part in zip(fields, parts):
            if field not in shown.whole_days:
                shown.whole_days[field] = kind_of(part) == "M" and are_whole_days(source.series(field))
        data = [encoded_values(shown, field, part, LONGEST, form) for field, part in zip(fields, parts)]
        if last - first <= 1 or len(encoded(data)) <= MOST_ANSWER:
            break
        last = first + (last - first) // 2
    made["fields"] = [described(shown, source, field, part) for field, part in zip(fields, parts)]
    made["from"], made["data"] = first, data
    return made


def text_of(made, source, fields, where, count):
    """Values with nothing left out, as rows of text between tabs, as spreadsheets take it."""
    if count * len(fields) > 1_000_000:
        raise Question("at most a million values are copied at once: download the rows as CSV")

    def plain(value, no):
        text = "" if no else value if type(value) is str else str(value)
        return '"%s"' % text.replace('"', '""') if any(c in text for c in '\t\n"') else text

    columns = []
    for field in fields:
        part = source.series(field, where)
        columns.append(list(map(plain, part.tolist(), part.isna().tolist())))
    text = "\n".join(map("\t".join, zip(*columns)))
    if len(encoded(text)) > MOST_ANSWER:
        raise Question("at most %d MiB are copied at once: download the rows as CSV" % (MOST_ANSWER >> 20))
    made["text"] = text
    return made


FEW_ROWS, FEW_VALUES = 1000, 20_000  # of a frame that is not sent as a whole


def displayed(frames, value):
    """What a cell displays of a frame: how large it is, its first rows, or all of them if there are few, and the
    name by which the others can be asked for. None: it is shown as it shows itself."""
    import pandas

    if not pandas.get_option("display.notebook_repr_html"):
        return None
    name = frames.add(value)
    shown = frames.shown[name]
    source = shown.source()
    fields = range(min(source.index + source.columns, source.index + MOST_COLUMNS))
    whole = min(MOST_ROWS, MOST_VALUES // max(1, len(fields)))
    count = source.rows
    if count > whole or source.columns > MOST_COLUMNS:
        count = min(whole, FEW_ROWS, max(1, FEW_VALUES // max(1, len(fields))))
    while True:
        made = window({}, shown, source, fields, None, 0, count)
        data = made["data"]
        if count <= 1 or len(encoded(data)) <= MOST_TEXT:
            break
        count = min(count // 2, FEW_ROWS)
    return {
        "rows": source.rows, "columns": source.columns, "index": source.index, "precision": pandas.get_option("display.precision"),
        "fields": made["fields"], "data": list(zip(*data)) if data else [], "frame": name,
    }
