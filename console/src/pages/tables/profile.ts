// Which rows a table's columns are profiled by: all of a small table, the newest segments of a large one. Pure.

import type { Segment } from './table'

export const ROWS_MAX = 2_000_000
// each is named in the query
const SEGMENTS_MAX = 200

export interface Scope {
  /** condition of the queries, empty for all rows */
  where: string
  rows: number
  totalRows: number
  segments: number
  totalSegments: number
}

/** Return what to profile. rowsMax: that many rows at most, but one segment at least. Consuming segments, whose rows nobody counts, go with all rows only. */
export function scopeOf(segments: Segment[], rowsMax: number): Scope {
  const counted = segments.filter((segment) => segment.rows !== null).sort((a, b) => (b.to ?? 0) - (a.to ?? 0) || (b.made ?? 0) - (a.made ?? 0))
  const totalRows = rowsOf(counted)
  const all = { where: '', rows: totalRows, totalRows, segments: segments.length, totalSegments: segments.length }
  if (totalRows <= rowsMax) return all
  const chosen: Segment[] = []
  for (const segment of counted.slice(0, SEGMENTS_MAX)) {
    if (chosen.length && rowsOf(chosen) + (segment.rows ?? 0) > rowsMax) break
    chosen.push(segment)
  }
  if (chosen.length === segments.length) return all
  const names = chosen.map((segment) => `'${segment.name.replaceAll("'", "''")}'`)
  return { ...all, where: `WHERE $segmentName IN (${names.join(', ')})`, rows: rowsOf(chosen), segments: chosen.length }
}

const rowsOf = (segments: Segment[]) => segments.reduce((sum, segment) => sum + (segment.rows ?? 0), 0)
