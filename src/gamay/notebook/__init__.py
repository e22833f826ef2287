"""`%load_ext gamay`: magics, results as HTML, charts.

In: cells of a notebook and a place to ask, as `gamay.shell.target` knows them. Out: answers that show themselves, DataFrames
on request. Start at `gamay.notebook.magics`; `gamay.client.plot` picks charts.
"""
