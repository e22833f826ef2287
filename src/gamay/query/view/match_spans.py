"""Matches by the rows that walking them looks at: how many there are, and cutting some off the front."""

from gamay.query.view.matches import AllDocs, DocList, DocMask, DocScan, Matches


def span_of(matches: Matches) -> int:
    """Return the number of rows that walking the matches looks at."""
    if isinstance(matches, DocList):
        return len(matches)
    return len(matches.mask) if isinstance(matches, DocMask) else matches.stop - matches.start


def cut(matches: Matches, rows: int) -> tuple[Matches, Matches]:
    """Return the part that looks at the first `rows` rows, and the rest."""
    if isinstance(matches, DocList):
        return DocList(matches.ids[:rows]), DocList(matches.ids[rows:])
    if isinstance(matches, DocMask):
        return DocMask(matches.start, matches.mask[:rows]), DocMask(matches.start + rows, matches.mask[rows:])
    middle = min(matches.start + rows, matches.stop)
    if isinstance(matches, DocScan):
        return matches.part(matches.start, middle), matches.part(middle, matches.stop)
    return AllDocs(matches.start, middle), AllDocs(middle, matches.stop)
