import { describe, expect, it } from 'vitest'

import { linesOf, shapeOf } from './recent'

const query = (sql: string, timeUsedMs: number, endedMs: number, exceptions: number[] = []) => ({
  ...{ requestId: '1', tables: ['t'], user: 'ann', application: '', cpuMs: 2, numDocsScanned: 3, totalDocs: 9, numSegmentsProcessed: 1 },
  ...{ sql, timeUsedMs, endedMs, exceptions },
})

describe('queries of late', () => {
  it('have a shape without constants', () => {
    expect(shapeOf(`SELECT "a 1", b2 FROM t\n WHERE x = 'it''s' AND y IN (1, 2.5, 3)`)).toBe('SELECT "a 1", b2 FROM t WHERE x = ? AND y IN (?…)')
  })

  it('are put together, and in the order of what they cost', () => {
    const queries = [query('SELECT 2', 30, 3), query('SELECT 1', 10, 1, [200]), query('SELECT x', 35, 2)]
    expect(linesOf(queries, true, 'timeMs').map((line) => [line.sql, line.times, line.timeMs, line.failed])).toEqual([
      ['SELECT 2', 2, 40, 1],
      ['SELECT x', 1, 35, 0],
    ])
    expect(linesOf(queries, false, 'slowestMs').map((line) => line.sql)).toEqual(['SELECT x', 'SELECT 2', 'SELECT 1'])
  })
})
