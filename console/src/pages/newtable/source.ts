// What a new table is made of, and what the controller finds in it.

import { call, path } from '../../lib/api'

export interface Column {
  name: string
  numNulls: number
  /** of the rows that were looked at; absent where values cannot be compared */
  numDistinct?: number
  min?: unknown
  max?: unknown
  common?: [unknown, number][]
}

export interface Field {
  name: string
  dataType: string
  singleValueField?: boolean
  format?: string
  granularity?: string
}

export interface Schema {
  schemaName: string
  dimensionFieldSpecs?: Field[]
  metricFieldSpecs?: Field[]
  dateTimeFieldSpecs?: Field[]
}

export interface Inspection {
  /** of a file */
  inputFormat?: string
  schema: Schema
  numRows: number
  isWhole: boolean
  columns: Column[]
  /** why messages are no records, the first reasons */
  undecodable: string[]
}

/** a file from here, one elsewhere, or a topic, by the keys of its config */
export type Source = { kind: 'file'; file: File } | { kind: 'uri'; uri: string } | { kind: 'topic'; config: Record<string, string> }

const LINES = /\.(csv|tsv|json|jsonl|ndjson)$/i
const LINES_BYTES_MAX = 8 * 1024 * 1024

/** Return what may be called a table, of the name of a file or a topic. */
export function tableNameOf(source: Source): string {
  return titleOf(source).split('/').at(-1)!.replace(/\.gz$/i, '').replace(/\.[^.]*$/, '').replace(/\W+/g, '_') || 'table'
}

/** Return what a source is called. */
export function titleOf(source: Source): string {
  if (source.kind === 'file') return source.file.name
  return source.kind === 'uri' ? source.uri : (source.config[`stream.${source.config.streamType}.topic.name`] ?? '')
}

/** Ask the controller what is in a source. Raises ApiError. */
export async function inspect(source: Source, tableName: string, timeColumn: string): Promise<Inspection> {
  const query = { tableName, timeColumn }
  if (source.kind === 'topic') return call('POST', '/inspectTopic', { query, body: source.config })
  if (source.kind === 'uri') return call('POST', path`/inspectURI`, { query: { ...query, sourceURIStr: source.uri } })
  const body = new FormData()
  body.append('file', await firstRows(source.file), source.file.name)
  const found = await call<Inspection>('POST', '/inspectFile', { query, body })
  return { ...found, isWhole: found.isWhole && !isCut(source.file) }
}

const isCut = (file: File) => LINES.test(file.name) && file.size > LINES_BYTES_MAX

/** Return the first rows of a file of lines, the last of them whole; all of any other file, whose formats have no first rows. */
async function firstRows(file: File): Promise<Blob> {
  if (!isCut(file)) return file
  const bytes = new Uint8Array(await file.slice(0, LINES_BYTES_MAX).arrayBuffer())
  return new Blob([bytes.slice(0, bytes.lastIndexOf(10) + 1)])
}

export const ROLES = ['dimension', 'metric', 'dateTime'] as const
export type Role = (typeof ROLES)[number]
export const TYPES = ['INT', 'LONG', 'FLOAT', 'DOUBLE', 'BIG_DECIMAL', 'BOOLEAN', 'TIMESTAMP', 'STRING', 'JSON', 'BYTES', 'UUID']

/** Return the fields of a schema with their roles, in the order of the columns that were looked at. */
export function fieldsOf(schema: Schema, columns: Column[] = []): { role: Role; field: Field }[] {
  const place = new Map(columns.map((column, index) => [column.name, index]))
  const found = ROLES.flatMap((role) => (schema[`${role}FieldSpecs`] ?? []).map((field) => ({ role, field })))
  return found.sort((a, b) => (place.get(a.field.name) ?? 0) - (place.get(b.field.name) ?? 0))
}

/** Return a schema in which a column has another role or type, or is left out (null). A time has the plainest format. */
export function changed(schema: Schema, name: string, role: Role | null, dataType: string): Schema {
  const before = fieldsOf(schema).find((one) => one.field.name === name)
  const lists = Object.fromEntries(
    ROLES.map((one) => [`${one}FieldSpecs`, (schema[`${one}FieldSpecs`] ?? []).filter((field) => field.name !== name)]),
  )
  if (role !== null) {
    const field: Field = { ...(before?.field ?? { name }), name, dataType }
    if (role !== 'dateTime') {
      delete field.format
      delete field.granularity
    } else if (!field.format || dataType !== before?.field.dataType) {
      field.format = dataType === 'TIMESTAMP' ? 'TIMESTAMP' : '1:MILLISECONDS:EPOCH'
      field.granularity = '1:MILLISECONDS'
    }
    lists[`${role}FieldSpecs`]!.push(field)
  }
  const rest = Object.fromEntries(Object.entries(schema).filter(([key]) => !(key in lists)))
  return { ...rest, ...Object.fromEntries(Object.entries(lists).filter(([, fields]) => fields.length)) } as Schema
}

/** Return a schema with the column that tells the time as another one has it, which was proposed for that. */
export function withTime(schema: Schema, proposed: Schema, name: string): Schema {
  const found = fieldsOf(proposed).find((one) => one.field.name === name)
  if (!found) return schema
  const cleared = changed(schema, name, null, '')
  const key = `${found.role}FieldSpecs` as const
  return { ...cleared, [key]: [...(cleared[key] ?? []), found.field] }
}

/** Return the plainest config of a table of a source. */
export function configFor(name: string, schema: Schema, source: Source, timeColumn: string): Record<string, unknown> {
  const time = timeColumn || schema.dateTimeFieldSpecs?.[0]?.name
  const isStream = source.kind === 'topic'
  return {
    tableName: name,
    tableType: isStream ? 'REALTIME' : 'OFFLINE',
    segmentsConfig: { replication: '1', ...(time ? { timeColumnName: time } : {}) },
    tenants: {},
    tableIndexConfig: {},
    ...(isStream ? { ingestionConfig: { streamIngestionConfig: { streamConfigMaps: [source.config] } } } : {}),
  }
}
