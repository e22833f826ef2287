// What a broker answers to a query.

import type { QueryException } from './places'

export interface Answer {
  resultTable?: {
    dataSchema: { columnNames: string[]; columnDataTypes: string[] }
    rows: unknown[][]
  }
  exceptions?: QueryException[]
  warnings?: string[]
  /** of an answer that is none: by the controller, or for who may not ask */
  error?: string
  partialResult?: boolean
  requestId?: string
  brokerId?: string
  timeUsedMs?: number
  numRowsResultSet?: number
  numDocsScanned?: number
  totalDocs?: number
  numEntriesScannedInFilter?: number
  numEntriesScannedPostFilter?: number
  numServersQueried?: number
  numServersResponded?: number
  numSegmentsQueried?: number
  numSegmentsProcessed?: number
  numSegmentsMatched?: number
  numSegmentsPrunedByBroker?: number
  numSegmentsPrunedByServer?: number
  numSegmentsPrunedByValue?: number
  numSegmentsPrunedByLimit?: number
  numSegmentsPrunedInvalid?: number
  numConsumingSegmentsQueried?: number
  minConsumingFreshnessTimeMs?: number
  offlineTotalCpuTimeNs?: number
  realtimeTotalCpuTimeNs?: number
  tablesQueried?: string[]
  rlsFiltersApplied?: boolean
  stageStats?: unknown
  /** of an answer that the broker keeps for a cursor */
  offset?: number
  numRows?: number
  expirationTimeMs?: number
  [member: string]: unknown
}

export interface Column {
  name: string
  /** of the wire: INT, LONG, …, STRING_ARRAY */
  type: string
}

export function columnsOf(answer: Answer): Column[] {
  const schema = answer.resultTable?.dataSchema
  return schema?.columnNames.map((name, index) => ({ name, type: schema.columnDataTypes[index] ?? 'STRING' })) ?? []
}

export const isNumeric = (type: string) => ['INT', 'LONG', 'FLOAT', 'DOUBLE', 'BIG_DECIMAL'].includes(type)

/** Return a number, NaN where a value is none; those beyond 2^53 lose digits, which charts can bear. */
export function asNumber(value: unknown): number {
  return value === null || value === '' || typeof value === 'boolean' ? Number.NaN : Number(value)
}
