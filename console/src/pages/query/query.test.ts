import { describe, expect, test } from 'vitest'

import { histogramBins, suggested } from './chartPlan'
import { csv, distinct, json, tabbed } from '../../lib/files'
import type { Answer } from './answer'
import { placeOf, withoutCopy } from './places'
import { operatorTrees, textTrees } from './plan'
import { hasLimit, offsetOf, statementAt, statements } from './statements'
import { sentences } from './statistics'

describe('statements', () => {
  test('semicolons end them, but not in strings, names and comments', () => {
    const text = `SELECT ';', "a;b" -- c; d\nFROM t; /* ; */ SELECT 2;`
    expect(statements(text).map((s) => s.text)).toEqual([`SELECT ';', "a;b" -- c; d\nFROM t`, 'SELECT 2'])
  })

  test('SET goes with what follows', () => {
    expect(statements('SET a = 1; SET b=2;\nSELECT 1; SELECT 2').map((s) => s.text)).toEqual([
      'SET a = 1; SET b=2;\nSELECT 1',
      'SELECT 2',
    ])
  })

  test('the one under the cursor, and the last one behind all', () => {
    const text = 'SELECT 1;\nSELECT 2;\n'
    expect(statementAt(text, 3)?.text).toBe('SELECT 1')
    expect(statementAt(text, 12)?.text).toBe('SELECT 2')
    expect(statementAt(text, text.length)?.text).toBe('SELECT 2')
    expect(statementAt('  -- nothing', 3)).toBeUndefined()
  })

  test('a quote in a string is doubled, and an open string goes to the end', () => {
    expect(statements(`SELECT 'it''s;'; SELECT 'x;`).map((s) => s.text)).toEqual([`SELECT 'it''s;'`, `SELECT 'x;`])
  })

  test('a LIMIT in a comment is none', () => {
    expect(hasLimit('SELECT 1 -- LIMIT 5')).toBe(false)
    expect(hasLimit('SELECT 1 limit 5')).toBe(true)
  })

  test('offsets', () => {
    expect(offsetOf('ab\ncd', 2, 2)).toBe(4)
    expect(offsetOf('ab', 7, 1)).toBe(2)
  })
})

describe('places of errors', () => {
  test('a line and a column', () => {
    const sql = 'SELECT a\nFROM t WHRE x'
    expect(placeOf('SQLParsingError: expected …, at line 2, column 8:\n  …', sql)).toEqual({ from: 16, to: 20 })
  })

  test('behind the end the last character is underlined', () => {
    expect(placeOf('…, at line 1, column 13:', 'SELECT a FROM')).toEqual({ from: 12, to: 13 })
  })

  test('a name that the message quotes, not the one that it suggests', () => {
    const sql = "SELECT city, 'cty' FROM trips WHERE cty = 1"
    expect(placeOf("Unknown columnName 'cty' found in the query. Did you mean 'city'?", sql)).toEqual({ from: 36, to: 39 })
    expect(placeOf('The query ran longer than its 1 ms', sql)).toBeUndefined()
  })

  test('the copy of the query is cut off', () => {
    expect(withoutCopy('bad, at line 1, column 2:\n  SELECT\n   ^')).toBe('bad, at line 1, column 2')
  })
})

describe('plans', () => {
  test('operators by number', () => {
    const [root] = operatorTrees([
      ['BROKER_REDUCE(limit:10)', 1, 0],
      ['COMBINE_GROUP_BY', 2, 1],
      ['PLAN_START(numSegmentsForThisPlan:1)', -1, -1],
      ['GROUP_BY(groupKeys:city, price, aggregations:count(*))', 3, 2],
      ["FILTER_FULL_SCAN(operator:RANGE,predicate:price > '10.0')", 4, 3],
    ])
    expect(root!.name).toBe('BROKER_REDUCE')
    const start = root!.children[0]!.children[0]!
    expect(start.details).toEqual([['numSegmentsForThisPlan', '1']])
    expect(start.children[0]!.details).toEqual([
      ['groupKeys', 'city, price'],
      ['aggregations', 'count(*)'],
    ])
    expect(start.children[0]!.children[0]!.details[1]).toEqual(['predicate', "price > '10.0'"])
  })

  test('an indented text with rows and times', () => {
    const [root] = textTrees(
      'Execution Plan (rows=[3], time=[0.9 ms])\nLeaves\n  Scan(table=[trips], columns=[city, id], limit=[3])\n' +
        '    rows=[3], time=[0.5 ms], docs=[3 of 9]',
    )
    expect(root).toMatchObject({ name: 'Execution Plan', rows: 3, timeMs: 0.9 })
    const scan = root!.children[0]!.children[0]!
    expect(scan).toMatchObject({ name: 'Scan', rows: 3, timeMs: 0.5 })
    expect(scan.details).toEqual([
      ['table', 'trips'],
      ['columns', 'city, id'],
      ['limit', '3'],
      ['docs', '3 of 9'],
    ])
  })

  test('an indented text without', () => {
    const [root] = textTrees('Execution Plan\nProject(trips.city, pay.n)\n  Scan(table=[trips])\n  Scan(table=[pay])')
    expect(root!.name).toBe('Project')
    expect(root!.children.map((child) => child.details[0])).toEqual([
      ['table', 'trips'],
      ['table', 'pay'],
    ])
  })
})

describe('files', () => {
  test('CSV quotes what needs it', () => {
    expect(csv(['a', 'b,c'], [[1n, 'x"y'], [null, [1, 2]]]).join('')).toBe('a,"b,c"\r\n1,"x""y"\r\n,"[1,2]"\r\n')
  })

  test('JSON keeps long numbers and nulls', () => {
    expect(JSON.parse(json(['a', 'a'], [[1, null]]).join(''))).toEqual([{ a: 1, a_2: null }])
    expect(json(['n'], []).join('')).toBe('[\n\n]\n')
  })

  test('names become distinct', () => {
    expect(distinct(['a', 'a_2', 'a'])).toEqual(['a', 'a_2', 'a_3'])
  })

  test('the clipboard gets one line for each row', () => {
    expect(tabbed([['a\tb', null], [1, true]], ['x', 'y'])).toBe('x\ty\na b\t\n1\ttrue')
  })
})

describe('statistics in words', () => {
  const say = (answer: Answer, sql: string) => sentences(answer, sql, 10_000).map((found) => found.text)

  test('pruning, scanning and what is missing', () => {
    const told = say(
      {
        numServersQueried: 2, numServersResponded: 1, numSegmentsQueried: 4, numSegmentsPrunedByBroker: 6,
        numSegmentsProcessed: 3, numSegmentsPrunedByValue: 1, numSegmentsMatched: 2, numDocsScanned: 50, totalDocs: 1000,
        numEntriesScannedInFilter: 0, numEntriesScannedPostFilter: 100, numGroupsLimitReached: true,
      },
      'SELECT a FROM t WHERE b = 1 LIMIT 20',
    )
    expect(told[0]).toBe('1 server of 2 did not answer: rows are missing.')
    expect(told[1]).toContain('numGroupsLimit')
    expect(told).toContain('50 rows of 1,000 used (5 %).')
    expect(told).toContain('The filter was answered from dictionaries and indexes alone: no value was looked at.')
    expect(told.join()).toContain('10 segments: 3 read, pruned 6 by the broker')
  })

  test('ten rows without LIMIT', () => {
    expect(say({ numRowsResultSet: 10 }, 'SELECT a FROM t')[0]).toContain('Without LIMIT')
    expect(say({ numRowsResultSet: 10 }, 'SELECT a FROM t LIMIT 10')).toEqual([])
  })
})

describe('charts', () => {
  const column = (name: string, type: string, unitMs?: number) => ({ name, type, unitMs })
  const two = [[], []]

  test('are picked from types', () => {
    const ts = column('ts', 'LONG', 1)
    const [city, id, price, n] = [column('city', 'STRING'), column('id', 'LONG'), column('price', 'DOUBLE'), column('n', 'LONG')]
    expect(suggested([ts, city, price], two)).toEqual({ kind: 'line', x: 0, ys: [2], by: 1 })
    expect(suggested([id, city, price], two)).toEqual({ kind: 'bar', x: 1, ys: [2], by: null })
    expect(suggested([price, n], two)).toEqual({ kind: 'scatter', x: 0, ys: [1], by: null })
    expect(suggested([price], two)).toEqual({ kind: 'histogram', x: 0, ys: [], by: null })
    expect(suggested([city], two)).toBeUndefined()
    expect(suggested([city, price], [[]])).toBeUndefined()
  })

  test('a histogram counts every finite value once', () => {
    const bins = histogramBins([1, 2, 2, 3, Number.NaN, 10])
    expect(bins.reduce((sum, bin) => sum + bin.rows, 0)).toBe(5)
    expect(histogramBins([4, 4])).toEqual([{ label: '4', rows: 2 }])
    expect(histogramBins([])).toEqual([])
  })
})
