// What the controller tells of a table.

import { get, path } from '../../lib/api'
import { ask, quoted } from '../../lib/ask'
import { toJson } from '../../lib/json'

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

/** Return what a column of a segment is stored as, the largest part first, and how large it is. */
export function partsOf(indexSizeMap: Record<string, number>) {
  const names = Object.entries(indexSizeMap).map(([name, bytes]) => ({ name, bytes }))
  return { bytes: names.reduce((sum, part) => sum + part.bytes, 0), names: names.sort((a, b) => b.bytes - a.bytes) }
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

/** what follows from a change of a config, beside that it is stored */
export interface Consequence {
  text: string
  needsReload: boolean
}

const RELOAD = 'Indexes and forms of columns: stored segments follow when they are reloaded.'
const MOVE = 'Where segments are: they move when the table is rebalanced.'
const STREAM = 'The stream: consuming segments go on as they are; the next ones follow, and “Commit now” makes them begin.'
const ROWS = 'How rows are made: rows that come from now on; those that are stored stay as they are.'

/** parts of a config by their paths, the first that fits a change counts */
const PARTS: [prefix: string, text: string][] = [
  ['tableIndexConfig.streamConfigs', STREAM],
  ['ingestionConfig.streamIngestionConfig', STREAM],
  ['ingestionConfig', ROWS],
  ['tableIndexConfig', RELOAD],
  ['fieldConfigList', RELOAD],
  ['segmentsConfig.retention', 'Retention: the controller deletes what is older when it looks next.'],
  ['segmentsConfig.replic', MOVE],
  ['tenants', MOVE],
  ['tierConfigs', MOVE],
  ['instanceAssignmentConfigMap', MOVE],
  ['instancePartitionsMap', MOVE],
  ['task', 'Tasks: from their next run on.'],
]

/** Return what changing a config causes, each thing once. */
export function consequencesOf(before: unknown, after: unknown): Consequence[] {
  const texts = changedPaths(before, after).flatMap((path) => PARTS.find(([prefix]) => path.startsWith(prefix))?.[1] ?? [])
  return [...new Set(texts)].map((text) => ({ text, needsReload: text === RELOAD }))
}

/** Return the paths, with dots between names, of the smallest parts of two documents that differ. */
function changedPaths(before: unknown, after: unknown, at = ''): string[] {
  if (isObject(before) && isObject(after)) {
    const names = [...new Set([...Object.keys(before), ...Object.keys(after)])]
    return names.flatMap((name) => changedPaths(before[name], after[name], at ? `${at}.${name}` : name))
  }
  return toJson(before ?? null) === toJson(after ?? null) ? [] : [at]
}

const isObject = (value: unknown): value is Record<string, unknown> => typeof value === 'object' && value !== null && !Array.isArray(value)

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
