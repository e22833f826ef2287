"""The controller: owns schemas, tables, segments and ideal states, and directs the rest of the cluster.

The life of a pushed segment: `gamay.controller.api.segments.uploads` streams the archive to disk,
`gamay.controller.segments.verify.verify_archive` unpacks and checks it, `gamay.controller.segments.segments.SegmentManager`
moves it into the deep store, writes its record and names it in the ideal state; the server does the rest and
`gamay.controller.health.view_builder.ViewBuilder` reports the result in the external view.
"""
