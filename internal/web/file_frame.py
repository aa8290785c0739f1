# Reads a table as a data frame, for a page. It runs in a live interpreter of a sandbox: the file is a stranger's. What
# is text in the file is a number or a date if all of a column is, written as such are: 007 stays a text.
import pandas
import pyarrow
from pyarrow import compute, csv as arrow_csv

INTEGER, NUMBER = r"^-?(0|[1-9][0-9]{0,17})$", r"^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?$"
DATE, MOMENT = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}$", r"^[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2}(:[0-9]{2}(\.[0-9]{1,6})?)?$"


def divider(path, kind):
    import csv

    with open(path, encoding="utf-8-sig", errors="replace", newline="") as file:
        sample = file.read(64 << 10)
    if "\0" in sample:
        raise ValueError("it holds bytes that no table of text has")
    if kind == "tsv":
        return "\t"
    try:
        return csv.Sniffer().sniff(sample, ",;\t|").delimiter
    except csv.Error:
        return ","


def delimited(path, kind):
    by = divider(path, kind)
    with open(path, "rb") as file:
        content = file.read()
    if content.startswith(b"\xef\xbb\xbf"):
        content = content[3:]
    try:
        content.decode()
    except UnicodeDecodeError:
        content = content.decode("utf-8", "replace").encode()
    options = {
        "parse_options": arrow_csv.ParseOptions(delimiter=by, newlines_in_values=True),
        "convert_options": arrow_csv.ConvertOptions(default_column_type=pyarrow.string(), strings_can_be_null=False),
        "read_options": arrow_csv.ReadOptions(block_size=max(1 << 20, len(content) + 1)),
    }
    try:
        read = arrow_csv.read_csv(pyarrow.BufferReader(content), **options)
        names, columns = read.column_names, read.columns
    except pyarrow.ArrowInvalid:
        names, columns = ragged(content.decode(), by)
    frame = pandas.concat([series(column) for column in columns], axis=1) if columns else pandas.DataFrame()
    frame.columns = names
    return frame


def ragged(text, by):
    """Rows of different lengths."""
    import csv, io

    csv.field_size_limit(1 << 24)
    rows = list(csv.reader(io.StringIO(text), delimiter=by, strict=True))
    width = max(map(len, rows), default=0)
    names = rows[0] + [""] * (width - len(rows[0])) if rows else []
    return names, [pyarrow.array([row[i] if i < len(row) else "" for row in rows[1:]], pyarrow.string()) for i in range(width)]


def series(column):
    """A column of texts as what they are."""
    filled = compute.not_equal(column, "")
    present = column.filter(filled)

    def are(pattern):
        return len(present) > 0 and all(
            compute.all(compute.match_substring_regex(part, pattern)).as_py() for part in (present[:1000], present))

    absent_as_null = lambda: compute.if_else(filled, column, pyarrow.scalar(None, column.type))
    try:
        if are(INTEGER):
            made = absent_as_null().cast(pyarrow.int64())
            return made.to_pandas(integer_object_nulls=False) if not made.null_count else made.to_pandas(types_mapper={pyarrow.int64(): pandas.Int64Dtype()}.get)
        if are(NUMBER):
            return absent_as_null().cast(pyarrow.float64()).to_pandas()
        if are(DATE) or are(MOMENT):
            return absent_as_null().cast(pyarrow.timestamp("us")).to_pandas()
    except pyarrow.ArrowInvalid:
        pass
    return column.to_pandas()


def workbook(path):
    import openpyxl

    # Values as they were when it was saved: formulas are not computed.
    book = openpyxl.load_workbook(open(path, "rb"), read_only=True, data_only=True)
    rows = [values for values in book.worksheets[0].iter_rows(values_only=True)]
    while rows and not any(value is not None for value in rows[0]):
        rows.pop(0)
    width = max((i + 1 for values in rows for i, value in enumerate(values) if value is not None), default=0)
    names = ["" if name is None else str(name) for name in (*rows[0], *[None] * width)][:width] if rows else []
    frame = pandas.DataFrame([(*values, *[None] * width)[:width] for values in rows[1:]]).infer_objects()
    if not len(frame.columns):
        frame = pandas.DataFrame({i: [] for i in range(width)})
    frame.columns = names
    return frame


def lines(path):
    return pandas.read_json(path, lines=True, dtype=False, convert_dates=False)


def show(kind, path):
    pandas.set_option("display.notebook_repr_html", True)
    return pandas.read_parquet(path) if kind == "parquet" else workbook(path) if kind == "xlsx" else lines(path) if kind == "jsonl" else delimited(path, kind)
