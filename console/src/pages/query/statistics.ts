// The statistics of an answer, in words.

import { bytes, count, counted, duration, percent } from '../../lib/format'
import type { Answer } from './answer'
import { hasLimit, withoutHidden } from './statements'

export interface Sentence {
  text: string
  kind: 'info' | 'warn'
}

// what is left out of an answer, by the member that tells of it
const LIMITS: Record<string, string> = {
  numGroupsLimitReached: 'Groups beyond numGroupsLimit are left out: raise the option, or filter more.',
  groupsTrimmed: 'Groups were trimmed before they were complete (minServerGroupTrimSize and the like).',
  maxRowsInJoinReached: 'Rows of joins beyond maxRowsInJoin are left out.',
  maxRowsInWindowReached: 'Rows of window functions beyond maxRowsInWindow are left out.',
  maxRowsInDistinctReached: 'DISTINCT stopped at maxRowsInDistinct.',
  maxRowsWithoutChangeInDistinctReached: 'DISTINCT stopped at maxRowsWithoutChangeInDistinct.',
  maxExecutionTimeInDistinctReached: 'DISTINCT stopped after maxExecutionTimeMsInDistinct.',
}
const DEFAULT_ROWS = 10

/** Return what a person wants to know about an answer, most important first. sql: what was asked. nowMs: since 1970. */
export function sentences(answer: Answer, sql: string, nowMs: number): Sentence[] {
  return [...partial(answer), ...rows(answer, sql), ...segments(answer), ...scanned(answer, sql), ...rest(answer, nowMs)]
}

function* partial(answer: Answer): Generator<Sentence> {
  const lacking = (answer.numServersQueried ?? 0) - (answer.numServersResponded ?? 0)
  if (lacking > 0) {
    const text = `${counted(lacking, 'server')} of ${count(answer.numServersQueried ?? 0)} did not answer: rows are missing.`
    yield { text, kind: 'warn' }
  }
  for (const [member, text] of Object.entries(LIMITS)) if (answer[member] === true) yield { text, kind: 'warn' }
  if (answer.partialResult && !lacking && !answer.exceptions?.length && !Object.keys(LIMITS).some((key) => answer[key])) {
    yield { text: 'The answer is partial.', kind: 'warn' }
  }
  for (const text of answer.warnings ?? []) yield { text, kind: 'warn' }
  if (answer.rlsFiltersApplied) yield { text: 'Rows that you may not see are left out.', kind: 'info' }
}

function* rows(answer: Answer, sql: string): Generator<Sentence> {
  const found = answer.numRowsResultSet ?? 0
  if (found === DEFAULT_ROWS && !hasLimit(sql) && /^\s*(SET\b[^;]*;\s*)*(SELECT|WITH)\b/i.test(withoutHidden(sql))) {
    yield { text: `Without LIMIT a query returns ${DEFAULT_ROWS} rows: there may be more.`, kind: 'warn' }
  }
}

function* segments(answer: Answer): Generator<Sentence> {
  const queried = answer.numSegmentsQueried ?? 0
  const byBroker = answer.numSegmentsPrunedByBroker ?? 0
  if (queried + byBroker === 0) return
  const processed = answer.numSegmentsProcessed ?? 0
  const pruned = [
    [byBroker, 'by the broker, from minima, maxima and partitions'],
    [answer.numSegmentsPrunedByValue ?? 0, 'by servers, as no value could match'],
    [answer.numSegmentsPrunedByLimit ?? 0, 'by servers, as LIMIT was reached'],
    [answer.numSegmentsPrunedInvalid ?? 0, 'as none of their rows counts'],
  ].filter(([number]) => Number(number) > 0)
  const reasons = pruned.map(([number, why]) => `${count(Number(number))} ${why}`).join('; ')
  const total = counted(queried + byBroker, 'segment')
  yield {
    text: `${total}: ${count(processed)} read${reasons ? `, pruned ${reasons}` : ''}; rows matched in ${count(answer.numSegmentsMatched ?? 0)}.`,
    kind: 'info',
  }
  const consuming = answer.numConsumingSegmentsQueried ?? 0
  if (consuming > 0) yield { text: `${counted(consuming, 'segment')} of them ${consuming === 1 ? 'is' : 'are'} consuming.`, kind: 'info' }
}

function* scanned(answer: Answer, sql: string): Generator<Sentence> {
  const total = answer.totalDocs ?? 0
  if (total === 0) return
  const read = answer.numDocsScanned ?? 0
  const share = read <= total ? ` (${percent(read / total)})` : ''
  yield { text: `${counted(read, 'row')} of ${count(total)} used${share}.`, kind: 'info' }
  const looked = answer.numEntriesScannedInFilter ?? 0
  if (/\bWHERE\b/i.test(withoutHidden(sql))) {
    const text = looked
      ? `The filter looked at ${counted(looked, 'value')}: no index answers that part.`
      : 'The filter was answered from dictionaries and indexes alone: no value was looked at.'
    yield { text, kind: 'info' }
  }
  const after = answer.numEntriesScannedPostFilter ?? 0
  if (after > 0) yield { text: `${counted(after, 'value')} read after the filter.`, kind: 'info' }
  else if (read === total && looked === 0) {
    yield { text: 'No value was read: dictionaries, metadata or star-trees have the answer.', kind: 'info' }
  }
}

function* rest(answer: Answer, nowMs: number): Generator<Sentence> {
  const cpuMs = ((answer.offlineTotalCpuTimeNs ?? 0) + (answer.realtimeTotalCpuTimeNs ?? 0)) / 1e6
  const servers = answer.numServersQueried ?? 0
  if (servers > 0) {
    const cpu = cpuMs > 0 ? `, which took ${duration(cpuMs)} of processor time` : ''
    yield { text: `${counted(servers, 'server')} asked${cpu}.`, kind: 'info' }
  }
  const fresh = answer.minConsumingFreshnessTimeMs ?? 0
  if (fresh > 0) yield { text: `The newest rows are at least ${duration(Math.max(0, nowMs - fresh))} old.`, kind: 'info' }
  const memory = Number(answer.offlineTotalMemAllocatedBytes ?? 0) + Number(answer.realtimeTotalMemAllocatedBytes ?? 0)
  if (memory > 0) yield { text: `Servers allocated ${bytes(memory)}.`, kind: 'info' }
}
