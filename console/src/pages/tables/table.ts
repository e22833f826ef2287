// What the controller tells of a table.

import { get, path } from '../../lib/api'
import { ask, quoted } from '../../lib/ask'

export type Kind = 'OFFLINE' | 'REALTIME'

export interface Half {
  reportedSizeInBytes: number
  missingSegments: number
  segments: Record<string, { reportedSizeInBytes: number }>
}

export interface Sizes {
  reportedSizeInBytes: number
  offlineSegments: Half | null
  realtimeSegments: Half | null
}

export interface Summary {
  name: string
  kinds: Kind[]
  rows: number | null
  bytes: number
  segments: number
  missing: number
}

export type States = Record<Kind, Record<string, Record<string, string>> | null>

export interface Segment {
  name: string
  kind: Kind
  rows: number | null
  bytes: number | null
  from: number | null
  to: number | null
  made: number | null
  states: [server: string, state: string][]
}

/** Return what the list shows of a table; rows are null where its brokers do not answer. */
export async function summaryOf(name: string): Promise<Summary> {
  const [sizes, rows] = await Promise.all([
    get<Sizes>(path`/tables/${name}/size`),
    ask(`SELECT COUNT(*) FROM ${quoted(name)}`).then(
      (answer) => Number(answer.resultTable?.rows[0]?.[0] ?? 0),
      () => null,
    ),
  ])
  const halves = [sizes.offlineSegments, sizes.realtimeSegments].filter((half): half is Half => half !== null)
  return {
    name,
    kinds: kindsOf(sizes),
    rows,
    bytes: Math.max(0, sizes.reportedSizeInBytes),
    segments: halves.reduce((sum, half) => sum + Object.keys(half.segments).length, 0),
    missing: halves.reduce((sum, half) => sum + half.missingSegments, 0),
  }
}

export function kindsOf(sizes: Sizes): Kind[] {
  const kinds: Kind[] = []
  if (sizes.offlineSegments) kinds.push('OFFLINE')
  if (sizes.realtimeSegments) kinds.push('REALTIME')
  return kinds
}

/** Ask for the segments of a table, of both its halves. Raises ApiError. */
export async function loadSegments(name: string, sizes: Sizes): Promise<Segment[]> {
  const states = await get<States>(path`/tables/${name}/externalview`)
  const halves = kindsOf(sizes).map(async (kind) => {
    const records = await get<Record<string, Record_>>(path`/segments/${`${name}_${kind}`}/zkmetadata`)
    return segmentsOf(kind, records, kind === 'OFFLINE' ? sizes.offlineSegments : sizes.realtimeSegments, states)
  })
  return (await Promise.all(halves)).flat()
}

type Record_ = Record<string, string>

/** Return the segments of one half of a table, from their records, sizes and states. */
export function segmentsOf(kind: Kind, records: Record<string, Record_>, half: Half | null, states: States): Segment[] {
  const known = states[kind] ?? {}
  return [...new Set([...Object.keys(records), ...Object.keys(known)])].sort().map((name) => {
    const record = records[name] ?? {}
    const size = half?.segments[name]?.reportedSizeInBytes
    return {
      name,
      kind,
      rows: number(record['segment.total.docs']),
      bytes: size === undefined || size < 0 ? number(record['segment.size.in.bytes']) : size,
      from: number(record['segment.start.time']),
      to: number(record['segment.end.time']),
      made: number(record['segment.creation.time']),
      states: Object.entries(known[name] ?? {}),
    }
  })
}

function number(text: string | undefined): number | null {
  const value = Number(text ?? Number.NaN)
  return Number.isFinite(value) && value >= 0 ? value : null
}

/** what the controller answers about a config that it accepts */
export interface Checked {
  warnings?: string[]
  /** by JSON pointer */
  unrecognizedProperties?: Record<string, unknown>
}

/** Return what people should know of a config before it is stored. */
export function notesOf({ warnings = [], unrecognizedProperties = {} }: Checked): string[] {
  const unknown = Object.keys(unrecognizedProperties)
  return [...warnings, ...unknown.map((pointer) => `${pointer} means nothing here: it is ignored`)]
}

export interface Changed {
  kind: 'same' | 'gone' | 'new'
  text: string
}

/** Return the lines of two texts, with what is in one of them only: by their longest common subsequence. */
export function differences(before: string, after: string): Changed[] {
  const old = before.split('\n')
  const now = after.split('\n')
  const longest = Array.from({ length: old.length + 1 }, () => new Uint32Array(now.length + 1))
  const at = (i: number, j: number) => longest[i]?.[j] ?? 0
  for (let i = old.length - 1; i >= 0; i--) {
    for (let j = now.length - 1; j >= 0; j--) {
      const row = longest[i]
      if (row) row[j] = old[i] === now[j] ? at(i + 1, j + 1) + 1 : Math.max(at(i + 1, j), at(i, j + 1))
    }
  }
  const found: Changed[] = []
  let i = 0
  let j = 0
  while (i < old.length || j < now.length) {
    if (i < old.length && j < now.length && old[i] === now[j]) {
      found.push({ kind: 'same', text: old[i] ?? '' })
      i += 1
      j += 1
    } else if (j >= now.length || (i < old.length && at(i + 1, j) >= at(i, j + 1))) {
      found.push({ kind: 'gone', text: old[i] ?? '' })
      i += 1
    } else {
      found.push({ kind: 'new', text: now[j] ?? '' })
      j += 1
    }
  }
  return found
}
