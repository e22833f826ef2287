"""The web console: the files that `console/build.sh` builds from `console/`, and what they are served as (`files`).

In goes the name of a file, out come its content, type and tag; who serves them adds the headers. `build.json` notes what
was built from what (`tools/console_digest.py`).
"""
