"""The demo: three models on handwritten digits, trained on each device and as planned.

In: names of models, a device to use. Out: a table, `report.html`, `report.json`. Never: a download.
"""
