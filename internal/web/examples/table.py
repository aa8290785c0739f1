import pandas as pd

cities = pd.DataFrame({
    "city": ["Lagos", "Lima", "Oslo", "Osaka"],
    "people": [16_500_000, 11_200_000, 717_000, 2_750_000],
    "metres": [41, 154, 23, 24],
})
cities.to_csv("cities.csv", index=False)
print(cities.describe())
