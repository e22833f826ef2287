// What instances measured of late, as charts. Pure.

import { bytes, count, duration } from '../../lib/format'

/** what an instance tells; times in milliseconds since 1970, one value of each series for each of them */
export interface Told {
  process: string
  stepSeconds: number
  timesMs: number[]
  series: Record<string, (number | null)[]>
}

export interface Line {
  name: string
  /** null where nothing was measured, so that no line is drawn across */
  points: [number, number | null][]
  isBad: boolean
}

export interface Panel {
  title: string
  lines: Line[]
  shown: (value: number) => string
  /** the last values and the highest ones, in words */
  summary: string
}

interface Part {
  series: string
  /** behind the name of the instance, where a panel has several series */
  label?: string
  isBad?: boolean
  /** only drawn when it was ever more than 0 */
  isRare?: boolean
}

interface Spec {
  title: string
  parts: Part[]
  shown: (value: number) => string
  /** one line for all roles of a process */
  byProcess?: boolean
}

const number = (value: number) => (Number.isInteger(value) || value >= 1000 ? count(Math.round(value)) : String(Number(value.toPrecision(3))))

const SPECS: Spec[] = [
  {
    title: 'Queries a second',
    parts: [{ series: 'queriesPerSecond' }, { series: 'errorsPerSecond', label: 'failed', isBad: true, isRare: true }],
    shown: number,
  },
  { title: 'Time of queries', parts: [{ series: 'medianMs', label: 'median' }, { series: 'p99Ms', label: '99 %' }], shown: duration },
  { title: 'Rows consumed a second', parts: [{ series: 'rowsPerSecond' }], shown: number },
  { title: 'Messages not consumed yet', parts: [{ series: 'lagMessages' }], shown: number },
  { title: 'Age of the last row consumed', parts: [{ series: 'delayMs' }], shown: duration },
  { title: 'Processors in use', parts: [{ series: 'processors' }], shown: number, byProcess: true },
  { title: 'Memory', parts: [{ series: 'memoryBytes' }], shown: bytes, byProcess: true },
  {
    title: 'Segments',
    parts: [
      { series: 'segments' },
      { series: 'segmentsInError', label: 'cannot be loaded', isBad: true, isRare: true },
      { series: 'unavailableSegments', label: 'not available', isBad: true, isRare: true },
    ],
    shown: number,
  },
  { title: 'Disk of the segments in use', parts: [{ series: 'diskUsedBytes' }], shown: bytes },
  { title: 'Bytes of segments', parts: [{ series: 'segmentBytes' }], shown: bytes },
  { title: 'Subtasks running', parts: [{ series: 'subtasksRunning', isRare: true }], shown: number },
  {
    title: 'Instances that are gone',
    parts: ['servers', 'brokers', 'controllers'].map((role) => ({ series: `${role}Down`, label: role, isBad: true, isRare: true })),
    shown: number,
  },
]

/** Return from when a chart is drawn: so many minutes ago, or when the first of the instances began. */
export function startMs(told: Record<string, Told>, minutes: number, nowMs: number): number {
  const firsts = Object.values(told).flatMap((one) => one.timesMs.slice(0, 1))
  return Math.max(nowMs - minutes * 60_000, Math.min(nowMs - 60_000, ...firsts))
}

/** Return the charts for which there is anything to draw. told: by instance. */
export function panelsOf(told: Record<string, Told>): Panel[] {
  return SPECS.map((spec) => panelOf(spec, told)).filter((panel) => panel.lines.length)
}

function panelOf(spec: Spec, told: Record<string, Told>): Panel {
  const instances = spec.byProcess ? processes(told) : Object.entries(told)
  const lines = spec.parts.flatMap((part) => {
    const isOne = Object.values(told).filter((one) => part.series in one.series).length === 1 // it needs no name
    return instances.flatMap(([instance, one]) => {
      const values = one.series[part.series] ?? []
      const isWorth = values.some((value) => value !== null && (!part.isRare || value > 0))
      const name = part.label ? (isOne ? part.label : `${instance}: ${part.label}`) : instance
      return isWorth ? [{ name, points: pointsOf(one, values), isBad: part.isBad ?? false }] : []
    })
  })
  return { title: spec.title, lines, shown: spec.shown, summary: lines.map((line) => inWords(line, spec.shown)).join('; ') }
}

/** Return one of the instances of each process, with the names of all. */
function processes(told: Record<string, Told>): [string, Told][] {
  const found = new Map<string, [string[], Told]>()
  for (const [instance, one] of Object.entries(told)) {
    const known = found.get(one.process)
    if (known) known[0].push(instance)
    else found.set(one.process, [[instance], one])
  }
  return [...found.values()].map(([names, one]) => [names.length > 1 ? `${names.length} roles in one process` : names[0]!, one])
}

/** A step that is missing breaks the line. */
function pointsOf(told: Told, values: (number | null)[]): [number, number | null][] {
  const longestMs = told.stepSeconds * 2500
  const points: [number, number | null][] = []
  told.timesMs.forEach((ms, index) => {
    const before = told.timesMs[index - 1]
    if (before !== undefined && ms - before > longestMs) points.push([before + 1, null])
    points.push([ms, values[index] ?? null])
  })
  return points
}

function inWords(line: Line, shown: (value: number) => string): string {
  const values = line.points.flatMap(([, value]) => (value === null ? [] : [value]))
  return `${line.name} ${shown(values.at(-1)!)} at last, ${shown(Math.max(...values))} at most`
}

/** What an instance takes of its machine, as it told last. */
export interface Load {
  processors: number | null
  memoryBytes: number | null
  /** share of the disk of its segments that is in use */
  disk: number | null
}

export function loadOf({ series }: Told): Load {
  const last = (name: string) => series[name]?.findLast((value) => value !== null) ?? null
  const [used, total] = [last('diskUsedBytes'), last('diskTotalBytes')]
  return { processors: last('processors'), memoryBytes: last('memoryBytes'), disk: used !== null && total ? used / total : null }
}
