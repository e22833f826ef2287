// A rebalance: what it would move, and how far it is.

import { get, path } from '../../lib/api'
import type { Kind, Segment } from './table'

/** state of each server, by segment */
export type Assignment = Record<string, Record<string, string>>

export interface Result {
  jobId: string
  status: string
  description: string
  segmentAssignment: Assignment | null
  preChecksResult: Record<string, { preCheckStatus: string; message: string }> | null
}

interface Left {
  _segmentsToRebalance: number
  _replicasToRebalance: number
}

export interface Progress {
  jobId: string
  status: string
  startTimeMs: number
  timeToFinishInSeconds: number
  completionStatusMsg: string | null
  currentToTargetConvergence?: Left
  externalViewToIdealStateConvergence?: Left
}

/** what a server has, and will have */
export interface Share {
  server: string
  segmentsNow: number
  segmentsThen: number
  bytesNow: number
  bytesThen: number
  comes: number
  goes: number
}

export interface Move {
  segment: string
  bytes: number
  from: string[]
  to: string[]
}

export interface Plan {
  shares: Share[]
  moves: Move[]
  /** of all moves, each replica */
  bytes: number
}

/** Return what changes between two assignments; segments of unknown size count as none. */
export function planOf(now: Assignment, then: Assignment, sizes: Map<string, number>): Plan {
  const shares = new Map<string, Share>()
  const moves: Move[] = []
  let moved = 0
  const shareOf = (server: string): Share => {
    const known = shares.get(server)
    if (known) return known
    const made = { server, segmentsNow: 0, segmentsThen: 0, bytesNow: 0, bytesThen: 0, comes: 0, goes: 0 }
    shares.set(server, made)
    return made
  }
  for (const segment of [...new Set([...Object.keys(now), ...Object.keys(then)])].sort()) {
    const size = sizes.get(segment) ?? 0
    const before = Object.keys(now[segment] ?? {})
    // a segment that the plan does not name stays where it is
    const after = Object.keys(then[segment] ?? now[segment] ?? {})
    for (const server of before) {
      const share = shareOf(server)
      share.segmentsNow += 1
      share.bytesNow += size
    }
    for (const server of after) {
      const share = shareOf(server)
      share.segmentsThen += 1
      share.bytesThen += size
    }
    const to = after.filter((server) => !before.includes(server))
    const from = before.filter((server) => !after.includes(server))
    for (const server of to) shareOf(server).comes += 1
    for (const server of from) shareOf(server).goes += 1
    moved += to.length * size
    if (to.length || from.length) moves.push({ segment, bytes: size, from, to })
  }
  return { shares: [...shares.values()].sort((a, b) => (a.server < b.server ? -1 : 1)), moves, bytes: moved }
}

/** Return the bytes of each segment of one half of a table. */
export function sizesOf(segments: Segment[], kind: Kind): Map<string, number> {
  return new Map(segments.filter((one) => one.kind === kind).map((one) => [one.name, one.bytes ?? 0]))
}

/** Return the share of replicas that are where they should be, of those that were to move. */
export function doneOf(progress: Progress, moves: number): number {
  if (progress.status === 'DONE') return 1
  const left = (progress.currentToTargetConvergence?._replicasToRebalance ?? moves) + (progress.externalViewToIdealStateConvergence?._replicasToRebalance ?? 0)
  return moves > 0 ? Math.min(1, Math.max(0, 1 - left / moves)) : 0
}

/** Return the newest rebalance of one half of a table, null without any. */
export async function newestOf(name: string, kind: Kind): Promise<Progress | null> {
  const jobs = await get<Record<string, { submissionTimeMs: string }>>(path`/table/${name}/jobs`, { type: kind, jobTypes: 'TABLE_REBALANCE' })
  const newest = Object.entries(jobs).sort(([, a], [, b]) => Number(b.submissionTimeMs) - Number(a.submissionTimeMs))[0]
  return newest ? progressOf(newest[0]) : null
}

export async function progressOf(jobId: string): Promise<Progress> {
  const told = await get<{ tableRebalanceProgressStats: Omit<Progress, 'jobId'> }>(path`/rebalanceStatus/${jobId}`)
  return { ...told.tableRebalanceProgressStats, jobId }
}
