import { describe, expect, it } from 'vitest'

import { configFor, formatOf, inferred } from './infer'

describe('a schema from a file', () => {
  it('knows numbers, times, flags and texts of CSV, in quotes too', () => {
    const found = inferred('id,city,price,day,ok\r\n1,"a, ""b""",2.5,2024-05-01,true\r\n2,c,,2024-05-02 10:00:00,FALSE\r\n', 'csv', false)
    expect(found.dimensionFieldSpecs.map((field) => `${field.name} ${field.dataType}`)).toEqual(['id LONG', 'city STRING', 'ok BOOLEAN'])
    expect(found.metricFieldSpecs).toEqual([{ name: 'price', dataType: 'DOUBLE' }])
    expect(found.dateTimeFieldSpecs[0]?.dataType).toBe('TIMESTAMP')
    expect(configFor('t', found)).toMatchObject({ tableName: 't', segmentsConfig: { timeColumnName: 'day' } })
  })

  it('leaves out the row that is cut', () => {
    expect(inferred('a\n1\n2\nx', 'csv', true).dimensionFieldSpecs).toEqual([{ name: 'a', dataType: 'LONG' }])
    expect(inferred('{"a": 1}\n{"a', 'json', true).dimensionFieldSpecs).toEqual([{ name: 'a', dataType: 'LONG' }])
  })

  it('says what is wrong with a file', () => {
    expect(() => formatOf('x.xls')).toThrow(/neither .csv/)
    expect(() => inferred('{"a": 1}\n[1]', 'json', false)).toThrow('Line 2 is no JSON object')
    expect(() => inferred('', 'csv', false)).toThrow(/no rows/)
  })
})
