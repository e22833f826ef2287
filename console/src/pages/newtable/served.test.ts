import { describe, expect, it } from 'vitest'

import { isServed } from './served'

describe('whether a table is served', () => {
  const ideal = { OFFLINE: { s0: { a: 'ONLINE' }, s1: { a: 'ONLINE', b: 'ONLINE' } }, REALTIME: null }

  it('needs a server for each segment', () => {
    expect(isServed(ideal, { OFFLINE: { s0: { a: 'ONLINE' }, s1: { a: 'OFFLINE', b: 'ONLINE' } } })).toBe(true)
    expect(isServed(ideal, { OFFLINE: { s0: { a: 'ONLINE' }, s1: { a: 'ERROR' } } })).toBe(false)
    expect(isServed(ideal, { OFFLINE: { s0: { a: 'ONLINE' } } })).toBe(false)
    expect(isServed(ideal, {})).toBe(false)
  })

  it('holds for a table without segments', () => {
    expect(isServed({ OFFLINE: {} }, {})).toBe(true)
  })

  it('takes rows that are being consumed', () => {
    expect(isServed({ REALTIME: { s: { a: 'CONSUMING' } } }, { REALTIME: { s: { a: 'CONSUMING' } } })).toBe(true)
  })
})
