"""Turns a CSV file into an Excel workbook and a one-page PDF.

    airlock run -f testdata/sales.csv -o out examples/report.py
"""
from pathlib import Path

import pandas as pd
from fpdf import FPDF

sales = pd.read_csv("sales.csv", parse_dates=["date"])
sales["revenue"] = sales["units"] * sales["price"]
by_month = sales.groupby([sales["date"].dt.strftime("%Y-%m"), "region"])["revenue"].sum().unstack().round(2)
by_month.index.name = "month"

by_month.to_excel("report.xlsx", sheet_name="revenue")

pdf = FPDF()
pdf.add_page()
pdf.set_font("helvetica", size=16)
pdf.cell(text="Revenue by month and region", new_x="LMARGIN", new_y="NEXT")
pdf.set_font("helvetica", size=9)
with pdf.table(text_align="RIGHT") as table:
    table.row(["Month", *by_month.columns])
    for month, row in by_month.iterrows():
        table.row([month, *(f"{value:,.0f}" for value in row)])
pdf.output("report.pdf")

for file in ("report.xlsx", "report.pdf"):
    print(file, Path(file).stat().st_size, "bytes")
