import { expect, it } from 'vitest'

import { loadOf } from './load'
import type { RecentQuery } from './recent'

const query = (endedMs: number, timeUsedMs: number, ...exceptions: number[]) => ({ endedMs, timeUsedMs, exceptions }) as RecentQuery

it('queries are counted by stretches of a round width', () => {
  expect(loadOf([query(61_000, 10), query(62_500, 30, 200), query(64_999, 5)], 10)).toEqual([
    { startMs: 61_000, answered: 1, failed: 0, meanMs: 10, slowestMs: 10 },
    { startMs: 62_000, answered: 0, failed: 1, meanMs: 30, slowestMs: 30 },
    { startMs: 63_000, answered: 0, failed: 0, meanMs: null, slowestMs: null },
    { startMs: 64_000, answered: 1, failed: 0, meanMs: 5, slowestMs: 5 },
  ])
  expect(loadOf([], 10)).toEqual([])
})

it('there are never more stretches than wanted', () => {
  for (const span of [0, 1, 999, 59_000, 3_600_001, 86_400_000, 40 * 86_400_000]) {
    for (const slots of [2, 7, 60]) {
      const found = loadOf([query(1_700_000_000_000, 1), query(1_700_000_000_000 + span, 1)], slots)
      expect(found.length).toBeLessThanOrEqual(slots)
      expect(found.reduce((sum, slot) => sum + slot.answered, 0)).toBe(2)
    }
  }
})
