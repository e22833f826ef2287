import { describe, expect, it } from 'vitest'

import { changed, configFor, fieldsOf, tableNameOf, withTime, type Schema } from './source'

const SCHEMA: Schema = {
  schemaName: 'rides',
  dimensionFieldSpecs: [{ name: 'city', dataType: 'STRING' }],
  metricFieldSpecs: [
    { name: 'fare', dataType: 'DOUBLE' },
    { name: 'at', dataType: 'LONG' },
  ],
}
const file = (name: string) => ({ kind: 'file' as const, file: new File(['x'], name) })

describe('a source', () => {
  it('gives its table a name', () => {
    expect(tableNameOf(file('my rides-2024.csv.gz'))).toBe('my_rides_2024')
    expect(tableNameOf({ kind: 'uri', uri: 's3://b/x/trips.parquet' })).toBe('trips')
    expect(tableNameOf({ kind: 'topic', config: { streamType: 'kafka', 'stream.kafka.topic.name': 'rides.v1' } })).toBe('rides')
  })

  it('makes a config with its time, and with its stream', () => {
    expect(configFor('t', SCHEMA, file('t.csv'), 'at')).toMatchObject({ tableType: 'OFFLINE', segmentsConfig: { timeColumnName: 'at' } })
    const config = { streamType: 'log', 'stream.log.topic.name': 'rides' }
    const made = configFor('t', SCHEMA, { kind: 'topic', config }, 'at')
    expect(made).toMatchObject({ tableType: 'REALTIME', ingestionConfig: { streamIngestionConfig: { streamConfigMaps: [config] } } })
  })
})

describe('a column', () => {
  it('is listed as it stands in the data', () => {
    const columns = ['at', 'city', 'fare'].map((name) => ({ name, numNulls: 0 }))
    expect(fieldsOf(SCHEMA, columns).map((one) => `${one.field.name} ${one.role}`)).toEqual(['at metric', 'city dimension', 'fare metric'])
  })

  it('changes its role and type', () => {
    const time = changed(SCHEMA, 'at', 'dateTime', 'LONG')
    expect(time.dateTimeFieldSpecs).toEqual([{ name: 'at', dataType: 'LONG', format: '1:MILLISECONDS:EPOCH', granularity: '1:MILLISECONDS' }])
    expect(time.metricFieldSpecs).toEqual([{ name: 'fare', dataType: 'DOUBLE' }])
    const back = changed(time, 'at', 'dimension', 'INT')
    expect(back.dimensionFieldSpecs?.[1]).toEqual({ name: 'at', dataType: 'INT' })
    expect(back.dateTimeFieldSpecs).toBeUndefined()
  })

  it('tells the time as it was proposed', () => {
    const at = { name: 'at', dataType: 'LONG', format: '1:SECONDS:EPOCH', granularity: '1:SECONDS' }
    const proposed = { schemaName: 'x', metricFieldSpecs: [{ name: 'fare', dataType: 'INT' }], dateTimeFieldSpecs: [at] }
    const found = withTime(SCHEMA, proposed, 'at')
    expect(found.dateTimeFieldSpecs).toEqual([at])
    expect(found.metricFieldSpecs).toEqual([{ name: 'fare', dataType: 'DOUBLE' }])
  })

  it('is left out', () => {
    expect(changed(SCHEMA, 'city', null, 'STRING')).toEqual({ schemaName: 'rides', metricFieldSpecs: SCHEMA.metricFieldSpecs })
  })
})
