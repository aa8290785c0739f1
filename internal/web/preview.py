import csv, json, sys

# A look into a file, as JSON: the head of a table, or a page. It runs in a sandbox: the
# file is a stranger's.
ROWS, COLUMNS, TEXT = 20, 30, 120
OUTPUT = 1 << 20  # bytes that a program may print


def cell(value):
    if value is None:
        return ""
    text = str(value)
    return text if len(text) <= TEXT else text[:TEXT] + "…"


def parquet(path):
    import pyarrow.parquet as pq

    file = pq.ParquetFile(path)
    names = file.schema_arrow.names
    kept = names[:COLUMNS]
    rows = []
    for batch in file.iter_batches(batch_size=ROWS, columns=kept):
        for row in batch.to_pylist():
            rows.append([cell(row.get(name)) for name in kept])
            if len(rows) == ROWS:
                break
        if rows:
            break
    return [cell(n) for n in kept], rows, file.metadata.num_rows, len(names)


def delimited(path, tabs):
    csv.field_size_limit(1 << 20)
    with open(path, encoding="utf-8-sig", errors="replace", newline="") as file:
        sample = file.read(64 << 10)
        file.seek(0)
        if "\0" in sample:
            raise ValueError("it holds bytes that no table of text has")
        divider = "\t" if tabs else ","
        if not tabs:
            try:
                divider = csv.Sniffer().sniff(sample, ",;\t|").delimiter
            except csv.Error:
                pass
        reader = csv.reader(file, delimiter=divider, strict=True)
        header = next(reader, [])
        width, rows, count = len(header), [], 0
        for row in reader:
            count += 1
            if len(rows) < ROWS:
                width = max(width, len(row))
                rows.append([cell(value) for value in row[:COLUMNS]])
    return [cell(n) for n in header[:COLUMNS]], rows, count, width


def workbook(path):
    import openpyxl

    # Values as they were when it was saved: formulas are not computed.
    book = openpyxl.load_workbook(open(path, "rb"), read_only=True, data_only=True)
    sheet = book.worksheets[0]
    header, rows, count, width = [], [], -1, 0
    for values in sheet.iter_rows(values_only=True):
        if count < 0 and not any(v is not None for v in values):
            continue  # before the first row with something in it
        count += 1
        last = max((i + 1 for i, v in enumerate(values) if v is not None), default=0)
        width = max(width, last)
        if count == 0:
            header = [cell(v) for v in values[: min(last, COLUMNS)]]
        elif len(rows) < ROWS:
            rows.append([cell(v) for v in values[: min(last, COLUMNS)]])
    header += [""] * (min(width, COLUMNS) - len(header))
    rows = [row + [""] * (len(header) - len(row)) for row in rows]
    return header, rows, max(count, 0), width, {"sheet": cell(sheet.title), "sheets": len(book.sheetnames)}


def lines(path):
    names, rows, count = [], [], 0
    with open(path, encoding="utf-8-sig", errors="replace") as file:
        for line in filter(str.strip, file):
            count += 1
            if len(rows) < ROWS:
                values = json.loads(line)
                names += [name for name in values if name not in names]
                rows.append(values)
    kept = names[:COLUMNS]
    return [cell(n) for n in kept], [[cell(row.get(name)) for name in kept] for row in rows], count, len(names)


def page(path, number):
    import base64, io, pypdfium2

    document = pypdfium2.PdfDocument(path)
    if not number:
        return {"pages": len(document)}
    shown = document[number - 1]
    wide, high = shown.get_size()
    picture = shown.render(scale=min(1000 / max(wide, 1), 1600 / max(high, 1), 4)).to_pil().convert("RGB")
    for quality in (80, 50, 20):
        out = io.BytesIO()
        picture.save(out, "WEBP", quality=quality)
        if out.tell() < OUTPUT * 3 // 4 - 100:
            break
    return {"picture": base64.b64encode(out.getvalue()).decode()}


try:
    kind, path = sys.argv[1], sys.argv[2]
    if kind == "pdf":
        table = page(path, int(sys.argv[3]))
    else:
        ROWS, COLUMNS = map(int, sys.argv[3:5])
        columns, rows, count, width, *more = (
            parquet(path) if kind == "parquet" else workbook(path) if kind == "xlsx" else lines(path) if kind == "jsonl" else delimited(path, kind == "tsv")
        )
        while len(rows) > 20 and len(json.dumps(rows)) > OUTPUT - (128 << 10):
            rows = rows[: len(rows) * 4 // 5]
        table = {"columns": columns, "rows": rows, "count": count, "width": width, **(more[0] if more else {})}
except ImportError as e:
    table = {"problem": f"this service has no package {e.name}: `airlock setup` installs the packages for Python"}
except Exception as e:
    table = {"problem": f"{e}"[:300].rstrip(".") or type(e).__name__}
print(json.dumps(table))
