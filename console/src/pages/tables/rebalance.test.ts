import { expect, test } from 'vitest'

import { doneOf, planOf, type Progress } from './rebalance'

const ONLINE = 'ONLINE'

test('what each server has before and after, and what moves', () => {
  const now = { a: { S1: ONLINE }, b: { S1: ONLINE }, c: { S1: ONLINE }, kept: { S1: ONLINE } }
  const then = { a: { S1: ONLINE }, b: { S2: ONLINE }, c: { S1: ONLINE, S2: ONLINE } }
  const plan = planOf(now, then, new Map([['a', 10], ['b', 20], ['c', 30]]))
  expect(plan.shares).toEqual([
    { server: 'S1', segmentsNow: 4, segmentsThen: 3, bytesNow: 60, bytesThen: 40, comes: 0, goes: 1 },
    { server: 'S2', segmentsNow: 0, segmentsThen: 2, bytesNow: 0, bytesThen: 50, comes: 2, goes: 0 },
  ])
  expect(plan.moves).toEqual([
    { segment: 'b', bytes: 20, from: ['S1'], to: ['S2'] },
    { segment: 'c', bytes: 30, from: [], to: ['S2'] },
  ])
  expect(plan.bytes).toBe(50)
})

test('how far a rebalance is', () => {
  const left = (n: number) => ({ _segmentsToRebalance: n, _replicasToRebalance: n })
  const told = { jobId: 'j', status: 'IN_PROGRESS', startTimeMs: 0, timeToFinishInSeconds: -1, completionStatusMsg: null } satisfies Progress
  expect(doneOf(told, 4)).toBe(0)
  expect(doneOf({ ...told, currentToTargetConvergence: left(2), externalViewToIdealStateConvergence: left(1) }, 4)).toBe(0.25)
  expect(doneOf({ ...told, status: 'DONE' }, 0)).toBe(1)
})
