import { describe, expect, it } from 'vitest'

import { heatLevel, heatOf } from './heat'
import { binsItem, itemsOf, profileOf, scopeOf } from './profile'
import { consumersOf, mayReplay, newestMs, payloadText, stateOf, type Letter } from './ingestion'
import { consequencesOf, differences, kindsOf, notesOf, partsOf, segmentsOf } from './table'
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

describe('the profile of a column', () => {
  const column = (dataType: string) => ({ name: 'a"b', dataType })

  it('asks for ranges in the type of the column', () => {
    expect(itemsOf(column('LONG')).slice(2)).toEqual(['MINLONG("a""b")', 'MAXLONG("a""b")'])
    expect(itemsOf(column('STRING')).slice(2)).toEqual(['MINSTRING("a""b")', 'MAXSTRING("a""b")'])
    expect(profileOf(column('BOOLEAN'), [2, 1, 9, 9])).toEqual({ distinct: 2, nulls: 1, least: null, most: null })
  })

  it('divides a range that there is', () => {
    const of = (least: unknown, most: unknown, dataType = 'DOUBLE') => binsItem(column(dataType), { distinct: 2, nulls: 0, least, most })
    expect(of(-1.5, 3)).toBe('HISTOGRAM("a""b", -1.5, 3, 24)')
    expect(of(3, 3)).toBeNull()
    expect(of(null, null)).toBeNull()
    expect(of('Infinity', 'Infinity')).toBeNull()
    expect(of('a', 'b', 'STRING')).toBeNull()
  })
})

describe('the consumption of a stream', () => {
  const replica = { partition: 0, state: 'HOLDING', failure: null, currentOffset: '7', latestUpstreamOffset: '9', recordsLag: 2 }
  const counts = { numRows: 7, rowsPerSecond: 0.5, lastConsumedTimestampMs: 50, lastMessageTimestampMs: -1, memoryBytes: 10 }

  it('shows the replicas that do not answer, too', () => {
    const idealState = { s2: 'CONSUMING', s1: 'CONSUMING', s3: 'OFFLINE' }
    const segment = { segmentName: 'a', rowLimit: 5, idealState, replicas: { s2: { ...replica, ...counts } } }
    const [first, second, ...rest] = consumersOf({ consumingSegments: [segment], serversFailingToRespond: ['s1'] })
    expect(rest).toEqual([])
    expect([first?.server, second?.server, second?.currentOffset]).toEqual(['s1', 's2', '7'])
    expect(first && [stateOf(first), newestMs(first)]).toEqual([{ text: 'no answer', look: 'bad' }, null])
    expect(second && [stateOf(second), newestMs(second)]).toEqual([{ text: 'holding', look: 'warn' }, 50])
    expect(second && stateOf({ ...second, failure: 'gone' })).toEqual({ text: 'gone', look: 'bad' })
  })

  it('shows messages as what they are', () => {
    expect(payloadText(btoa('{"a": 1}'))).toBe('{"a": 1}')
    expect(payloadText(btoa('\xff\x01'))).toBe('ff 01')
    expect(payloadText(btoa('x'.repeat(3000)))).toHaveLength(2001)
  })

  it('replays what there is, once', () => {
    const letter: Letter = { partition: 0, offset: '1', nextOffset: null, kind: 'UNCONVERTIBLE', reason: '', timestampMs: 0, payload: 'e30=', replayedTo: null, notReplayable: null }
    expect([letter, { ...letter, notReplayable: 'no' }, { ...letter, replayedTo: '9' }].map(mayReplay)).toEqual([true, false, false])
  })
})

describe('a change of a config', () => {
  const of = (before: unknown, after: unknown) => consequencesOf(before, after).map(({ text, needsReload }) => [text.split(':')[0], needsReload])

  it('says what follows, each thing once', () => {
    const before = { tableIndexConfig: { invertedIndexColumns: ['a'] }, segmentsConfig: { replication: '1' }, quota: {} }
    expect(of(before, before)).toEqual([])
    expect(of(before, { ...before, quota: { maxQueriesPerSecond: '1' } })).toEqual([])
    const after = { tableIndexConfig: { invertedIndexColumns: ['b'], loadMode: 'MMAP' }, segmentsConfig: { replication: '2' }, ingestionConfig: { filterConfig: {} } }
    expect(of(before, after)).toEqual([['Indexes and forms of columns', true], ['Where segments are', false], ['How rows are made', false]])
    expect(of({}, { tableIndexConfig: { streamConfigs: { a: 'b' } } })).toEqual([['Indexes and forms of columns', true]])
    expect(of({ tableIndexConfig: { streamConfigs: {} } }, { tableIndexConfig: { streamConfigs: { a: 'b' } } })).toEqual([['The stream', false]])
  })
})

describe('a column of a segment', () => {
  it('has parts, the largest first', () => {
    const { bytes, names } = partsOf({ dictionary: 5, forward: 9 })
    expect([bytes, names.map(({ name }) => name)]).toEqual([14, ['forward', 'dictionary']])
  })
})
