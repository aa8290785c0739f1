"""Draws the totals of a CSV file as a bar chart.

    airlock run -f testdata/sales.csv -o out examples/plot.py

It takes the first CSV file in the current folder, multiplies units by price
where there are such columns, else adds up the last column of numbers, and
groups by the first columns that hold few different words.
"""
import sys
from pathlib import Path

import matplotlib.pyplot as plt
import pandas as pd
from matplotlib.ticker import FuncFormatter

FEW = 12  # groups that a chart can show
COLORS = ["#2f6f8f", "#e0a030", "#6a9f58", "#b5524a", "#7a6a9f", "#4f9f9a", "#c77d9b", "#8f8f4f"]


def load():
    files = sorted(Path.cwd().glob("*.csv"))
    if not files:
        sys.exit("there is no CSV file here: stage one with -f sales.csv")
    try:
        table = pd.read_csv(files[0])
    except (ValueError, UnicodeDecodeError) as error:
        sys.exit(f"{files[0].name} is not a CSV file that pandas can read: {error}")
    if table.empty:
        sys.exit(f"{files[0].name} has no rows")
    return files[0], table


def measure(table):
    """The column to add up, and what to call it."""
    if {"units", "price"} <= set(table.columns):
        return table["units"] * table["price"], "revenue"
    numbers = table.select_dtypes("number").columns
    if len(numbers) == 0:
        return pd.Series(1, index=table.index), "rows"
    return table[numbers[-1]], numbers[-1]


def groups(table):
    """Up to two columns whose values name groups."""
    named = [c for c in table.columns if not pd.api.types.is_numeric_dtype(table[c]) and 1 < table[c].nunique() <= FEW]
    if not named:
        sys.exit("there is no column with a few different words to group by")
    return named[:2]


def short(value, _=None):
    for size, letter in ((1e9, "B"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:.3g}{letter}"
    return f"{value:.3g}"


def main():
    file, table = load()
    values, name = measure(table)
    by = groups(table)
    totals = values.groupby([table[c] for c in by]).sum()
    if len(by) == 2:
        totals = totals.unstack(fill_value=0)
        totals = totals.loc[totals.sum(axis=1).sort_values(ascending=False).index]
    else:
        totals = totals.sort_values(ascending=False).to_frame(name)

    fig, ax = plt.subplots(figsize=(9, 5), layout="constrained")
    totals.plot.bar(ax=ax, width=0.8, color=COLORS, edgecolor="white", rot=0, legend=len(by) == 2)
    ax.set_title(f"{name.capitalize()} by {' and '.join(by)}", loc="left", fontsize=15, fontweight="bold", pad=14)
    ax.set_xlabel("")
    ax.yaxis.set_major_formatter(FuncFormatter(short))
    ax.yaxis.grid(True, color="#dddddd")
    ax.set_axisbelow(True)
    ax.spines[["top", "right", "left"]].set_visible(False)
    ax.tick_params(length=0)
    if len(by) == 2:
        ax.legend(title=by[1], frameon=False, ncols=1, loc="upper left", bbox_to_anchor=(1, 1))
    fig.savefig("plot.png", dpi=150)

    print(f"{file.name}: {len(table):,} rows, {name} by {' and '.join(by)}")
    print(totals.round(2).to_string())
    print("chart: plot.png")


if __name__ == "__main__":
    main()
