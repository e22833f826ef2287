"""`%load_ext gamay`: magics, results as HTML, charts.

Input: cells of a notebook and a target, as in `gamay.shell.target`. Output: results with an HTML form, or DataFrames.
Start at `gamay.notebook.magics`; `gamay.client.plot` picks charts.
"""
