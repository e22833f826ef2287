import { describe, expect, test, vi } from 'vitest'

import { endSession, get, withQuery, path } from './api'
import { eachOf } from './bounded'
import { epochUnitMs } from './catalog'
import { ago, bytes, count, duration, percent } from './format'
import { parseJson, toJson } from './json'

describe('JSON', () => {
  test('whole numbers beyond 2^53 stay exact, all else is as ever', () => {
    const text = '{"a":[1152921504606846977,-9223372036854775808, 1.2345678901234567890,1234567890123456],"b":"x,1152921504606846977,y"}'
    expect(parseJson(text)).toEqual({
      a: [1152921504606846977n, -9223372036854775808n, 1.2345678901234567, 1234567890123456],
      b: 'x,1152921504606846977,y',
    })
  })

  test('escapes in strings do not confuse it', () => {
    expect(parseJson('["\\\\","a\\"b,1152921504606846977",1152921504606846977]')).toEqual(['\\', 'a"b,1152921504606846977', 1152921504606846977n])
  })

  test('and go out as they came', () => {
    const text = '{"a":[1152921504606846977,-9223372036854775808,1.5],"b":"1152921504606846977","c":{"d":9007199254740993}}'
    expect(toJson(parseJson(text))).toBe(text)
    expect(toJson({ a: 1n }, 2)).toBe('{\n  "a": 1\n}')
  })

  test('what is no JSON stays none', () => {
    expect(() => parseJson('{"a": 01152921504606846977}')).toThrow(SyntaxError)
  })
})

test('numbers, sizes and times are written for people', () => {
  expect([count(1234567), percent(0.1234), percent(0.001), percent(0)]).toEqual(['1,234,567', '12 %', '0.1 %', '0 %'])
  expect([0, 1023, 1536, 5_800_000].map(bytes)).toEqual(['0 B', '1023 B', '1.5 KiB', '5.53 MiB'])
  expect([0.42, 15, 1500, 90_000, 7_260_000, 300_000_000].map(duration)).toEqual([
    '0.42 ms', '15 ms', '1.5 s', '1 min 30 s', '2 h 1 min', '3 days 11 h',
  ])
  expect([ago(0, 1000), ago(0, 7345), ago(0, 190_000)]).toEqual(['just now', '7 s ago', '3 min ago'])
})

test('paths and parameters are encoded', () => {
  expect(path`/tables/${'a/b c'}/size`).toBe('/tables/a%2Fb%20c/size')
  expect(withQuery('/x', { a: 'b&c', d: undefined, e: true })).toBe('/x?a=b%26c&e=true')
})

test('units of date-time columns', () => {
  const formats = ['1:MILLISECONDS:EPOCH', '5:MINUTES:EPOCH', 'EPOCH|SECONDS|1', 'EPOCH|DAYS', 'EPOCH', '1:DAYS:SIMPLE_DATE_FORMAT:yyyyMMdd', undefined]
  expect(formats.map(epochUnitMs)).toEqual([1, 300_000, 1000, 86_400_000, 1, undefined, undefined])
})

test('calls are made a few at a time', async () => {
  let running = 0
  let most = 0
  const doubled = await eachOf([1, 2, 3, 4, 5, 6, 7], 3, async (item) => {
    most = Math.max(most, ++running)
    await new Promise((done) => setTimeout(done, 8 - item))
    running -= 1
    return 2 * item
  })
  expect([doubled, most]).toEqual([[2, 4, 6, 8, 10, 12, 14], 3])
  expect(await eachOf([], 3, async () => 1)).toEqual([])
})

test('calls wait while the session ends, and go on when it does not', async () => {
  const asked: string[] = []
  let answer: (given: Response) => void = () => {}
  vi.stubGlobal('location', { host: 'here' })
  vi.stubGlobal('fetch', (url: string) => {
    asked.push(url)
    return url === '/auth/logout' ? new Promise<Response>((done) => (answer = done)) : Promise.resolve(new Response('1'))
  })
  const ending = endSession()
  const later = get('/tables')
  await new Promise((done) => setTimeout(done))
  expect(asked).toEqual(['/auth/logout'])
  answer(new Response('{"code": 503, "error": "not now"}', { status: 503 }))
  await expect(ending).rejects.toThrow('not now')
  expect(await later).toBe(1)
  const ended = endSession()
  void get('/never')
  await new Promise((done) => setTimeout(done))
  answer(new Response('{}'))
  await ended
  await new Promise((done) => setTimeout(done))
  expect(asked).toEqual(['/auth/logout', '/tables', '/auth/logout'])
  vi.unstubAllGlobals()
})
