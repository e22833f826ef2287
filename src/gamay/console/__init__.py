"""The web console: the files that `console/build.sh` builds from `console/`, and their form for serving (`files`).

Input: the name of a file. Output: its content, type and tag; the server adds the headers. `build.json` records the
sources of the build (`tools/console_digest.py`).
"""
