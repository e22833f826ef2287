"""The controller: owns schemas, tables, segments and ideal states, and tells the rest of the cluster what to do.

The life of a pushed segment: `gamay.controller.api.uploads` streams the archive to disk,
`gamay.controller.verify.verify_archive` unpacks and checks it, `gamay.controller.segments.SegmentManager` moves it into the
deep store, writes its record and names it in the ideal state; the server does the rest and
`gamay.controller.view_builder.ViewBuilder` tells what became of it.
"""
