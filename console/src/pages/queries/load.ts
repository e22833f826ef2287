// How many queries ended when, and how long they took. Pure.

import type { RecentQuery } from './recent'

/** one stretch of time */
export interface Slot {
  startMs: number
  answered: number
  failed: number
  /** of all queries of the stretch, null without any */
  meanMs: number | null
  slowestMs: number | null
}

// what people read off an axis
const WIDTHS_MS = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 21_600, 86_400].map((seconds) => seconds * 1000)

/** Return the stretches from the first query to the last, at most `slotsMax` of a round width. */
export function loadOf(queries: RecentQuery[], slotsMax: number): Slot[] {
  if (!queries.length) return []
  const ends = queries.map((query) => query.endedMs)
  const [first, last] = [Math.min(...ends), Math.max(...ends)]
  const days = Math.ceil((last - first) / (slotsMax - 1) / 86_400_000) * 86_400_000
  const width = WIDTHS_MS.find((one) => Math.floor(last / one) - Math.floor(first / one) < slotsMax) ?? days
  const start = Math.floor(first / width)
  const groups = Array.from({ length: Math.floor(last / width) - start + 1 }, (): RecentQuery[] => [])
  for (const query of queries) groups[Math.floor(query.endedMs / width) - start]?.push(query)
  return groups.map((group, index) => {
    const failed = group.filter((query) => query.exceptions.length).length
    const times = group.map((query) => query.timeUsedMs)
    return {
      ...{ startMs: (start + index) * width, answered: group.length - failed, failed },
      meanMs: times.length ? times.reduce((sum, ms) => sum + ms, 0) / times.length : null,
      slowestMs: times.length ? Math.max(...times) : null,
    }
  })
}
