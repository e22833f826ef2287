import { expect, test } from 'vitest'

import { linesOf } from './logs'

const line = (number: number, time: string) => ({ number, time, level: 'WARN', logger: 'gamay', message: `m${number}` })

test('lines of all instances are put together, those of one process once, the newest first', () => {
  const shared = [line(1, '2026-01-01T00:00:01Z'), line(2, '2026-01-01T00:00:03Z'), line(3, '2026-01-01T00:00:03Z')]
  const shown = linesOf({
    Broker_a: { process: 'h/1', lines: shared },
    Server_a: { process: 'h/1', lines: shared },
    Server_b: { process: 'h/2', lines: [line(1, '2026-01-01T00:00:02Z')] },
  })
  expect(shown.map((one) => [one.number, one.instance])).toEqual([
    [3, 'Broker_a, Server_a'],
    [2, 'Broker_a, Server_a'],
    [1, 'Server_b'],
    [1, 'Broker_a, Server_a'],
  ])
})
