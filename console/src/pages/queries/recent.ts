// The last queries, and what those of one shape cost together.

import { get } from '../../lib/api'
import { APPLICATION } from '../../lib/ask'

export interface RecentQuery {
  requestId: string
  endedMs: number
  sql: string
  tables: string[]
  user: string
  /** what asked names itself */
  application: string
  timeUsedMs: number
  cpuMs: number
  numDocsScanned: number
  totalDocs: number
  numSegmentsProcessed: number
  exceptions: number[]
}

/** queries that differ in their constants only; of one query, where they are not put together */
export interface Line {
  /** a query, the latest of them */
  sql: string
  user: string
  times: number
  lastMs: number
  /** the sum, and of the one that took longest */
  timeMs: number
  slowestMs: number
  cpuMs: number
  docs: number
  failed: number
}

export type Order = 'lastMs' | 'times' | 'timeMs' | 'slowestMs' | 'cpuMs' | 'docs'

/** Return the last queries of all brokers but those of the console's pages, of one table or of all, the latest first. Raises ApiError. */
export async function recentQueries(table?: string): Promise<RecentQuery[]> {
  const found = await get<Record<string, RecentQuery[]>>('/queries/recent', { table })
  return Object.values(found)
    .flat()
    .filter((query) => query.application !== APPLICATION)
    .sort((a, b) => b.endedMs - a.endedMs)
}

/** Return a query with `?` in place of its constants. */
export function shapeOf(sql: string): string {
  return sql
    .replace(/"(?:[^"]|"")*"|'(?:[^']|'')*'|\b\d[\w.]*/g, (text) => (text.startsWith('"') ? text : '?'))
    .replace(/\s+/g, ' ')
    .replace(/\(\s*\?(?:\s*,\s*\?)+\s*\)/g, '(?…)')
    .trim()
}

/** Return lines of queries, in an order, most first. together: one for all that differ in constants only. */
export function linesOf(queries: RecentQuery[], together: boolean, order: Order): Line[] {
  const lines = new Map<string, Line>()
  queries.forEach((query, index) => {
    const key = together ? shapeOf(query.sql) : String(index)
    const line = lines.get(key) ?? {
      ...{ sql: query.sql, user: query.user, times: 0, lastMs: query.endedMs },
      ...{ timeMs: 0, slowestMs: 0, cpuMs: 0, docs: 0, failed: 0 },
    }
    line.times += 1
    line.lastMs = Math.max(line.lastMs, query.endedMs)
    line.timeMs += query.timeUsedMs
    line.slowestMs = Math.max(line.slowestMs, query.timeUsedMs)
    line.cpuMs += query.cpuMs
    line.docs += query.numDocsScanned
    line.failed += query.exceptions.length ? 1 : 0
    if (line.user !== query.user) line.user = ''
    lines.set(key, line)
  })
  return [...lines.values()].sort((a, b) => b[order] - a[order])
}
