// What is left to do until a file or a topic is a table. Pure, so that a repeat goes on from where the last attempt failed.

import { parseJson } from '../../lib/json'
import type { Source } from './source'

/** What the cluster has of it by now: texts as they were sent, and the table's name with its type. */
export interface Made {
  schemaName: string
  schema: string
  table: string
  config: string
}

export interface Step {
  /** for people */
  title: string
  method: 'POST' | 'PUT'
  path: string
  /** as JSON */
  body?: unknown
  /** sent in place of a body */
  file?: File
  query?: Record<string, string>
  /** what there is once it is done */
  made: Partial<Made>
}

export const NOTHING: Made = { schemaName: '', schema: '', table: '', config: '' }

/** Return the steps from what there is to a table with the rows of a source. inputFormat: of a file. Raises Error, SyntaxError. */
export function stepsOf(schema: string, config: string, source: Source, inputFormat: string, made: Made): Step[] {
  const schemaDocument = documentOf('schema', schema)
  const tableDocument = documentOf('table config', config)
  const schemaName = nameOf('schema', 'schemaName', schemaDocument)
  const table = typedName(tableDocument, source.kind === 'topic' ? 'REALTIME' : 'OFFLINE')
  const steps: Step[] = []
  if (schemaName !== made.schemaName) {
    steps.push({ title: 'Making the schema', method: 'POST', path: '/schemas', body: schemaDocument, made: { schemaName, schema } })
  } else if (schema !== made.schema) {
    const path = `/schemas/${encodeURIComponent(schemaName)}`
    steps.push({ title: 'Changing the schema', method: 'PUT', path, body: schemaDocument, made: { schema } })
  }
  if (table !== made.table) {
    steps.push({ title: 'Making the table', method: 'POST', path: '/tables', body: tableDocument, made: { table, config } })
  } else if (config !== made.config) {
    const path = `/tables/${encodeURIComponent(table)}`
    steps.push({ title: 'Changing the table', method: 'PUT', path, body: tableDocument, made: { config } })
  }
  const query = { tableNameWithType: table, batchConfigMapStr: JSON.stringify({ inputFormat }) }
  const load = { title: 'Loading the file', method: 'POST' as const, made: {} }
  if (source.kind === 'file') steps.push({ ...load, path: '/ingestFromFile', query, file: source.file })
  if (source.kind === 'uri') steps.push({ ...load, path: '/ingestFromURI', query: { ...query, sourceURIStr: source.uri } })
  return steps
}

/** Return the name of a table without its type. */
export const bareName = (table: string) => table.replace(/_(OFFLINE|REALTIME)$/, '')

function documentOf(what: string, text: string): Record<string, unknown> {
  const found = parseJson(text)
  if (typeof found !== 'object' || found === null || Array.isArray(found)) throw new Error(`The ${what} must be a JSON object`)
  return found as Record<string, unknown>
}

function nameOf(what: string, key: string, document: Record<string, unknown>): string {
  const name = document[key]
  if (typeof name !== 'string' || !name.trim()) throw new Error(`The ${what} must have a name, as the text "${key}"`)
  return name
}

function typedName(config: Record<string, unknown>, kind: 'OFFLINE' | 'REALTIME'): string {
  const name = nameOf('table config', 'tableName', config)
  if (config.tableType !== kind) throw new Error(`A ${kind === 'OFFLINE' ? 'file' : 'topic'} makes a table with "tableType": "${kind}" only`)
  return `${bareName(name)}_${kind}`
}
