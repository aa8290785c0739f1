"""The least that a table, a sum by group and a picture take."""
import matplotlib.pyplot as plt
import pandas as pd

table = pd.read_csv("sales.csv")
table["revenue"] = table["units"] * table["price"]
totals = table.groupby("region")["revenue"].sum().sort_values()
fig, ax = plt.subplots(figsize=(6, 4))
totals.plot.bar(ax=ax)
ax.set_title("Revenue by region")
fig.savefig("plot.png", dpi=80)
print(f"sales.csv: {len(table):,} rows")
