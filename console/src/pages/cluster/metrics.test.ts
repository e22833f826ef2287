import { expect, test } from 'vitest'

import { panelsOf, startMs, type Told } from './metrics'

const told = (series: Told['series'], process = 'host/1'): Told => ({ process, stepSeconds: 15, timesMs: [0, 15_000, 90_000], series })

test('a panel has a line for each instance, and none without values', () => {
  const panels = panelsOf({
    Broker_a: told({ queriesPerSecond: [null, 2, 4], errorsPerSecond: [null, 0, 0], medianMs: [null, null, null] }),
    Broker_b: told({ queriesPerSecond: [null, 1, 1], errorsPerSecond: [null, 0.5, 0] }, 'host/2'),
  })
  expect(panels.map((panel) => panel.title)).toEqual(['Queries a second'])
  expect(panels[0]!.lines.map((line) => [line.name, line.isBad])).toEqual([
    ['Broker_a', false],
    ['Broker_b', false],
    ['Broker_b: failed', true],
  ])
  expect(panels[0]!.summary).toContain('Broker_a 4 at last, 4 at most')
})

test('a line is broken where steps are missing', () => {
  const [panel] = panelsOf({ Server_a: told({ rowsPerSecond: [1, 2, 3] }) })
  expect(panel!.lines[0]!.points).toEqual([
    [0, 1],
    [15_000, 2],
    [15_001, null],
    [90_000, 3],
  ])
})

test('roles of one process share its memory', () => {
  const memory = { memoryBytes: [1024, 1024, 2048] }
  const [panel] = panelsOf({ Broker_a: told(memory), Server_a: told(memory), Server_b: told(memory, 'host/2') })
  expect(panel!.lines.map((line) => line.name)).toEqual(['2 roles in one process', 'Server_b'])
  expect(panel!.summary).toContain('2 KiB at last')
})

test('charts begin where there is something, a minute ago at least', () => {
  const [hourMs, minuteMs] = [3_600_000, 60_000]
  const at = (ms: number) => ({ A: { ...told({}), timesMs: [ms] } })
  expect(startMs(at(hourMs), 60, 10 * hourMs)).toBe(9 * hourMs)
  expect(startMs(at(9.5 * hourMs), 60, 10 * hourMs)).toBe(9.5 * hourMs)
  expect(startMs(at(10 * hourMs), 60, 10 * hourMs)).toBe(10 * hourMs - minuteMs)
  expect(startMs({}, 60, 10 * hourMs)).toBe(10 * hourMs - minuteMs)
})
