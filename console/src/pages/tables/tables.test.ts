import { describe, expect, it } from 'vitest'

import { differences, kindsOf, segmentsOf } from './table'

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

describe('differences', () => {
  it('names lines that are in one text only', () => {
    const found = differences('a\nb\nc', 'a\nx\nc\nd')
    expect(found.map((line) => `${line.kind[0]} ${line.text}`)).toEqual(['s a', 'g b', 'n x', 's c', 'n d'])
    expect(differences('a', 'a').every((line) => line.kind === 'same')).toBe(true)
  })
})
