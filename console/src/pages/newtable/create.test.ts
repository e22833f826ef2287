import { describe, expect, it } from 'vitest'

import { toJson } from '../../lib/json'
import { NOTHING, stepsOf, type Made } from './create'

const SCHEMA = '{"schemaName": "rides"}'
const CONFIG = '{"tableName": "rides", "tableType": "OFFLINE"}'
const FILE = { kind: 'file' as const, file: new File(['x'], 'rides.csv') }
const wanted = (schema: string, config: string, made: Made) =>
  stepsOf(schema, config, FILE, 'csv', made).map((step) => `${step.method} ${step.path}${step.query ? ` ${step.query.tableNameWithType}` : ''}`)

/** Return what there is when the steps before the last are done. */
function afterAllButLoad(schema: string, config: string): Made {
  return stepsOf(schema, config, FILE, 'csv', NOTHING).reduce((made, step) => ({ ...made, ...step.made }), NOTHING)
}

describe('a new table', () => {
  it('has a schema, a config and rows', () => {
    expect(wanted(SCHEMA, CONFIG, NOTHING)).toEqual(['POST /schemas', 'POST /tables', 'POST /ingestFromFile rides_OFFLINE'])
  })

  it('goes on from where it failed', () => {
    const first = stepsOf(SCHEMA, CONFIG, FILE, 'csv', NOTHING)[0]!
    expect(wanted(SCHEMA, CONFIG, { ...NOTHING, ...first.made })).toEqual(['POST /tables', 'POST /ingestFromFile rides_OFFLINE'])
    const made = afterAllButLoad(SCHEMA, CONFIG)
    expect(wanted(SCHEMA, CONFIG, made)).toEqual(['POST /ingestFromFile rides_OFFLINE'])
    expect(wanted(`${SCHEMA} `, `${CONFIG} `, made)).toEqual(['PUT /schemas/rides', 'PUT /tables/rides_OFFLINE', 'POST /ingestFromFile rides_OFFLINE'])
  })

  it('is loaded under the name that its config has', () => {
    const other = CONFIG.replace('rides', 'trips_OFFLINE')
    expect(wanted(SCHEMA, other, afterAllButLoad(SCHEMA, CONFIG))).toEqual(['POST /tables', 'POST /ingestFromFile trips_OFFLINE'])
  })

  it('keeps whole numbers beyond 2^53', () => {
    const schema = '{"schemaName":"rides","dateTimeFieldSpecs":[{"name":"at","defaultNullValue":9007199254740993}]}'
    expect(toJson(stepsOf(schema, CONFIG, FILE, 'csv', NOTHING)[0]?.body)).toBe(schema)
  })

  it('says what is wrong before anything is made', () => {
    expect(() => stepsOf(SCHEMA, CONFIG.replace('OFFLINE', 'REALTIME'), FILE, 'csv', NOTHING)).toThrow('"tableType": "OFFLINE"')
    expect(() => stepsOf('[]', CONFIG, FILE, 'csv', NOTHING)).toThrow('The schema must be a JSON object')
    expect(() => stepsOf('{}', CONFIG, FILE, 'csv', NOTHING)).toThrow('"schemaName"')
    expect(() => stepsOf(SCHEMA, '{"tableName":', FILE, 'csv', NOTHING)).toThrow(SyntaxError)
  })

  it('of a topic is loaded by its servers, of a file elsewhere by the controller', () => {
    const topic = { kind: 'topic' as const, config: {} }
    const config = CONFIG.replace('OFFLINE', 'REALTIME')
    expect(stepsOf(SCHEMA, config, topic, '', NOTHING).map((step) => step.path)).toEqual(['/schemas', '/tables'])
    expect(() => stepsOf(SCHEMA, CONFIG, topic, '', NOTHING)).toThrow('"tableType": "REALTIME"')
    const last = stepsOf(SCHEMA, CONFIG, { kind: 'uri', uri: 's3://b/r.parquet' }, 'parquet', NOTHING).at(-1)
    expect([last?.path, last?.query?.sourceURIStr, last?.query?.batchConfigMapStr]).toEqual(['/ingestFromURI', 's3://b/r.parquet', '{"inputFormat":"parquet"}'])
  })
})
