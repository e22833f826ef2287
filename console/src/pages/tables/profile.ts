// What is asked about a table's columns, and of which rows: all of a small table, the newest segments of a large one. Pure.

import { quoted } from '../../lib/ask'
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

export interface Field {
  name: string
  dataType: string
  fieldType?: string
  singleValueField?: boolean
  format?: string
}

export interface Profile {
  distinct: number
  nulls: number
  least: unknown
  most: unknown
  /** rows by equal parts of the range, where there is one */
  bins?: number[]
}

export const BINS = 24
const WHOLE = ['INT', 'LONG', 'TIMESTAMP'] // whose range is exact
const NUMBERS = [...WHOLE, 'FLOAT', 'DOUBLE']

/** Whether a column's values can be counted and compared by `itemsOf`. */
export const isProfiled = (field: Field) => field.singleValueField !== false && !['MAP', 'BYTES'].includes(field.dataType)

/** Return what is selected of a column: distinct values, nulls, the least value and the greatest. */
export function itemsOf(field: Field): string[] {
  const column = quoted(field.name)
  const kind = WHOLE.includes(field.dataType) ? 'LONG' : field.dataType === 'STRING' ? 'STRING' : ''
  const range = hasRange(field) ? [`MIN${kind}(${column})`, `MAX${kind}(${column})`] : ['COUNT(*)', 'COUNT(*)']
  return [`DISTINCTCOUNTSMARTHLL(${column})`, `COUNT(*) FILTER (WHERE ${column} IS NULL)`, ...range]
}

/** Return the profile of a column, of the values of its items. */
export function profileOf(field: Field, [distinct, nulls, least, most]: unknown[]): Profile {
  const ranged = hasRange(field)
  return { distinct: Number(distinct), nulls: Number(nulls), least: ranged ? least : null, most: ranged ? most : null }
}

const hasRange = (field: Field) => NUMBERS.includes(field.dataType) || field.dataType === 'STRING'

/** Return what counts the rows by equal parts of a column's range; null where it has none. */
export function binsItem(field: Field, { least, most }: Profile): string | null {
  if (!NUMBERS.includes(field.dataType) || least === null || most === null) return null
  const [low, high] = [Number(least), Number(most)]
  return Number.isFinite(low) && Number.isFinite(high) && low < high ? `HISTOGRAM(${quoted(field.name)}, ${least}, ${most}, ${BINS})` : null
}
