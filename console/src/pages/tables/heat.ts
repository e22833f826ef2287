// Segments by server and time: where the bytes of a table lie.

import type { Segment } from './table'

export interface Cell {
  server: string
  /** which column, and from when to when that is, in milliseconds since 1970 */
  slot: number
  from: number
  to: number
  segments: Segment[]
  bytes: number
  rows: number
}

export interface Heat {
  servers: string[]
  /** where the columns begin, with the end of the last; empty where no segment has a time */
  edges: number[]
  /** by server, then by column */
  cells: Cell[][]
  /** the bytes of the fullest cell */
  most: number
  /** segments whose rows have no time that is known */
  timeless: Segment[]
}

/**
 * Return the heat map of segments. A segment that spans several columns counts in each in parts, as if its rows came evenly.
 * columns: how many there are at most.
 */
export function heatOf(segments: Segment[], columns: number): Heat {
  const timed = segments.filter((segment) => segment.from !== null && segment.to !== null)
  const timeless = segments.filter((segment) => segment.from === null || segment.to === null)
  const servers = [...new Set(segments.flatMap((segment) => segment.states.map(([server]) => server)))].sort()
  if (timed.length === 0) return { servers, edges: [], cells: [], most: 0, timeless }
  const begins = timed.reduce((least, segment) => Math.min(least, segment.from ?? 0), Number.POSITIVE_INFINITY)
  const ends = timed.reduce((most, segment) => Math.max(most, segment.to ?? 0), begins) + 1
  const width = Math.max(1, Math.ceil((ends - begins) / columns))
  const edges: number[] = []
  for (let edge = begins; edge < ends; edge += width) edges.push(edge)
  edges.push(ends)
  const rowOf = new Map(servers.map((server, index) => [server, index]))
  const cells = servers.map((server) =>
    edges.slice(0, -1).map((from, slot): Cell => ({ server, slot, from, to: edges[slot + 1] ?? ends, segments: [], bytes: 0, rows: 0 })),
  )
  for (const segment of timed) {
    const from = segment.from ?? begins
    const to = Math.max(segment.to ?? from, from) + 1
    const [first, last] = [Math.floor((from - begins) / width), Math.floor((to - 1 - begins) / width)]
    for (const [server] of segment.states) {
      for (let slot = first; slot <= last; slot++) {
        const cell = cells[rowOf.get(server) ?? 0]?.[slot]
        if (!cell) continue
        const share = (Math.min(to, cell.from + width) - Math.max(from, cell.from)) / (to - from)
        cell.segments.push(segment)
        cell.bytes += (segment.bytes ?? 0) * share
        cell.rows += (segment.rows ?? 0) * share
      }
    }
  }
  return { servers, edges, cells, most: Math.max(...cells.flat().map((cell) => cell.bytes)), timeless }
}

/** 0 for nothing, else 1 to 5: how much of the fullest cell one has. By square root, so that small ones are seen. */
export function heatLevel(bytes: number, most: number): number {
  return bytes <= 0 || most <= 0 ? 0 : Math.max(1, Math.ceil(5 * Math.sqrt(bytes / most)))
}
