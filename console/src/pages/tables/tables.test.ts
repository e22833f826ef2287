import { describe, expect, it } from 'vitest'

import { heatLevel, heatOf } from './heat'
import { scopeOf } from './profile'
import { differences, kindsOf, notesOf, segmentsOf } from './table'
import { endOf, isOver, type Run } from './tasks'

const half = { reportedSizeInBytes: 10, missingSegments: 0, segments: { a: { reportedSizeInBytes: 10 }, b: { reportedSizeInBytes: -1 } } }

describe('what is told of a table', () => {
  it('has the halves that are there', () => {
    expect(kindsOf({ reportedSizeInBytes: 1, offlineSegments: half, realtimeSegments: null })).toEqual(['OFFLINE'])
  })

  it('joins records, sizes and states of segments', () => {
    const records = {
      a: { 'segment.total.docs': '7', 'segment.start.time': '-1', 'segment.end.time': '-1' },
      b: { 'segment.size.in.bytes': '99', 'segment.start.time': '5', 'segment.end.time': '6' },
    }
    const states = { OFFLINE: { a: { s1: 'ONLINE' }, c: { s2: 'ERROR' } }, REALTIME: null }
    const [a, b, c] = segmentsOf('OFFLINE', records, half, states)
    expect(a).toMatchObject({ name: 'a', rows: 7, bytes: 10, from: null, states: [['s1', 'ONLINE']] })
    expect(b).toMatchObject({ name: 'b', rows: null, bytes: 99, from: 5, to: 6, states: [] })
    expect(c).toMatchObject({ name: 'c', bytes: null, states: [['s2', 'ERROR']] })
  })
})

describe('the heat map', () => {
  const segment = (name: string, from: number | null, to: number | null, bytes: number, ...servers: string[]) => ({
    ...{ name, kind: 'OFFLINE' as const, rows: 10, bytes, from, to, made: null },
    states: servers.map((server): [string, string] => [server, 'ONLINE']),
  })

  it('puts each replica where its rows are, in parts where they span columns', () => {
    const found = heatOf([segment('a', 0, 49, 100, 's1', 's2'), segment('b', 0, 99, 60, 's1'), segment('c', null, null, 5, 's2')], 2)
    expect(found.servers).toEqual(['s1', 's2'])
    expect(found.edges).toEqual([0, 50, 100])
    expect(found.cells.map((row) => row.map((cell) => cell.bytes))).toEqual([[130, 30], [100, 0]])
    expect(found.most).toBe(130)
    expect(found.timeless.map((one) => one.name)).toEqual(['c'])
  })

  it('keeps all bytes, however times lie', () => {
    const segments = [segment('a', 5, 5, 7, 's'), segment('b', 5, 1_000_003, 11, 's'), segment('c', 77, 999, 13, 's')]
    for (const columns of [1, 3, 7, 40]) {
      const sum = heatOf(segments, columns).cells.flat().reduce((all, cell) => all + cell.bytes, 0)
      expect(sum).toBeCloseTo(31)
    }
  })

  it('has no columns where no times are known', () => {
    expect(heatOf([segment('c', null, null, 5, 's')], 4).edges).toEqual([])
    expect([heatLevel(0, 9), heatLevel(0.1, 9), heatLevel(9, 9)]).toEqual([0, 1, 5])
  })
})

describe('a config that is accepted', () => {
  it('comes with warnings and what is ignored', () => {
    expect(notesOf({ warnings: ['slow'], unrecognizedProperties: { '/tableIndexConfig/nothing': 1 } })).toEqual([
      'slow',
      '/tableIndexConfig/nothing means nothing here: it is ignored',
    ])
    expect(notesOf({})).toEqual([])
  })
})

describe('the profile of columns', () => {
  const segment = (name: string, rows: number | null, to: number | null) =>
    ({ ...{ name, kind: 'OFFLINE' as const, rows, bytes: 1, from: null, to, made: null }, states: [] })
  const segments = [segment('old', 50, 1), segment("it's new", 30, 9), segment('open', null, null), segment('mid', 40, 5)]

  it('is of all rows where they are few', () => {
    expect(scopeOf(segments, 120)).toEqual({ where: '', rows: 120, totalRows: 120, segments: 4, totalSegments: 4 })
    expect(scopeOf([segment('huge', 500, 1)], 120).where).toBe('')
  })

  it('is of the newest segments of a large table', () => {
    expect(scopeOf(segments, 75)).toEqual({
      ...{ where: "WHERE $segmentName IN ('it''s new', 'mid')", rows: 70, totalRows: 120, segments: 2, totalSegments: 4 },
    })
    expect(scopeOf(segments, 5).rows).toBe(30)
  })
})

describe('differences', () => {
  it('names lines that are in one text only', () => {
    const found = differences('a\nb\nc', 'a\nx\nc\nd')
    expect(found.map((line) => `${line.kind[0]} ${line.text}`)).toEqual(['s a', 'g b', 'n x', 's c', 'n d'])
    expect(differences('a', 'a').every((line) => line.kind === 'same')).toBe(true)
  })
})

describe('a run of a task', () => {
  const run = (taskState: string, finishTime: string | null, ...ends: (string | null)[]) =>
    ({ taskState, finishTime, subtaskInfos: ends.map((end) => ({ finishTime: end })) }) as Run

  it('is over when its state is, also before the end is noted', () => {
    expect(['COMPLETED', 'FAILED', 'IN_PROGRESS', 'STOPPED'].map((state) => isOver(run(state, null)))).toEqual([true, true, false, false])
    expect(endOf(run('COMPLETED', null, '2026-01-01 00:00:01 UTC', '2026-01-01 00:00:09 UTC', null))).toBe('2026-01-01 00:00:09 UTC')
    expect(endOf(run('COMPLETED', '2026-01-02 00:00:00 UTC', '2026-01-01 00:00:01 UTC'))).toBe('2026-01-02 00:00:00 UTC')
    expect(endOf(run('IN_PROGRESS', null, '2026-01-01 00:00:01 UTC'))).toBeNull()
  })
})
