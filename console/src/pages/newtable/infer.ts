// A schema from the first rows of a file.

export interface Field {
  name: string
  dataType: string
  format?: string
  granularity?: string
}

export interface Schema {
  dimensionFieldSpecs: Field[]
  metricFieldSpecs: Field[]
  dateTimeFieldSpecs: Field[]
}

export type Format = 'csv' | 'json'

const ROWS_MAX = 2000
const WHOLE = /^[+-]?\d{1,15}$/
const NUMBER = /^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$/
const MOMENT = /^\d{4}-\d\d-\d\d([ T]\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:?\d\d)?)?$/

/** Return the format of a file by its name. Raises Error for others. */
export function formatOf(name: string): Format {
  if (/\.csv$/i.test(name)) return 'csv'
  if (/\.(json|jsonl|ndjson)$/i.test(name)) return 'json'
  throw new Error(`${name} is neither .csv nor .json, .jsonl or .ndjson; load other formats by a job (gamay ingest)`)
}

/** Return the schema of the rows of a text. isCut: it ends in the middle of a row. Raises Error where there are none. */
export function inferred(text: string, format: Format, isCut: boolean): Schema {
  const rows = (format === 'csv' ? csvRows(text) : jsonRows(text, isCut)).slice(0, ROWS_MAX)
  const whole = isCut && format === 'csv' ? rows.slice(0, -1) : rows
  if (whole.length === 0) throw new Error('The file has no rows: CSV needs a header and a row, JSON an object on each line')
  const names = [...new Set(whole.flatMap((row) => Object.keys(row)))].filter(Boolean)
  const schema: Schema = { dimensionFieldSpecs: [], metricFieldSpecs: [], dateTimeFieldSpecs: [] }
  for (const name of names) {
    const values = whole.map((row) => row[name] ?? '').filter((value) => value !== '')
    const is = (form: RegExp) => values.length > 0 && values.every((value) => form.test(value))
    if (is(WHOLE)) schema.dimensionFieldSpecs.push({ name, dataType: 'LONG' })
    else if (is(NUMBER)) schema.metricFieldSpecs.push({ name, dataType: 'DOUBLE' })
    else if (is(MOMENT)) {
      schema.dateTimeFieldSpecs.push({ name, dataType: 'TIMESTAMP', format: 'TIMESTAMP', granularity: '1:MILLISECONDS' })
    } else if (is(/^(true|false)$/i)) schema.dimensionFieldSpecs.push({ name, dataType: 'BOOLEAN' })
    else schema.dimensionFieldSpecs.push({ name, dataType: 'STRING' })
  }
  return schema
}

/** Return the plainest config of a table with such a schema. */
export function configFor(name: string, schema: Schema): Record<string, unknown> {
  const time = schema.dateTimeFieldSpecs[0]?.name
  return {
    tableName: name,
    tableType: 'OFFLINE',
    segmentsConfig: { replication: '1', ...(time ? { timeColumnName: time } : {}) },
    tenants: {},
    tableIndexConfig: {},
  }
}

function jsonRows(text: string, isCut: boolean): Record<string, string>[] {
  const lines = text.split('\n')
  if (isCut) lines.pop()
  const found: Record<string, string>[] = []
  lines.forEach((line, index) => {
    if (!line.trim()) return
    let row: unknown
    try {
      row = JSON.parse(line)
    } catch {
      throw new Error(`Line ${index + 1} is no JSON object of its own`)
    }
    if (typeof row !== 'object' || row === null || Array.isArray(row)) throw new Error(`Line ${index + 1} is no JSON object`)
    const entries = Object.entries(row).filter(([, value]) => value !== null)
    found.push(Object.fromEntries(entries.map(([key, value]) => [key, typeof value === 'object' ? JSON.stringify(value) : String(value)])))
  })
  return found
}

/** Return the records of a CSV text by its header; values in quotes may hold commas, quotes and ends of lines. */
function csvRows(text: string): Record<string, string>[] {
  const records: string[][] = [[]]
  let value = ''
  let quotes = false
  for (let at = 0; at < text.length; at++) {
    const letter = text[at]
    if (quotes) {
      if (letter !== '"') value += letter
      else if (text[at + 1] === '"') {
        value += '"'
        at += 1
      } else quotes = false
    } else if (letter === '"' && value === '') quotes = true
    else if (letter === ',' || letter === '\n') {
      records.at(-1)?.push(value.replace(/\r$/, ''))
      value = ''
      if (letter === '\n') records.push([])
    } else value += letter
  }
  if (value || records.at(-1)?.length) records.at(-1)?.push(value)
  const [header = [], ...rows] = records.filter((record) => record.length > 1 || (record[0] ?? '') !== '')
  return rows.map((row) => Object.fromEntries(header.map((name, index) => [name.trim(), row[index] ?? ''])))
}
