import { Validator } from '@cfworker/json-schema'
import { describe, expect, it } from 'vitest'

import { membersAt, wrongOf, type Schema } from './jsonSchema'

const schema: Schema = {
  type: 'object',
  properties: {
    tableType: { anyOf: [{ enum: ['OFFLINE', 'REALTIME'] }, { type: 'string', pattern: '^offline$' }] },
    indexing: { anyOf: [{ $ref: '#/$defs/Indexing' }, { type: 'null' }] },
    fields: { type: 'array', items: { $ref: '#/$defs/Field' } },
  },
  $defs: {
    Indexing: { type: 'object', properties: { columns: { type: 'array', items: { type: 'string' } }, 'a/b': { type: 'boolean' } } },
    Field: { type: 'object', required: ['name'], properties: { name: { type: 'string', description: 'of the column' } } },
  },
}
const wrong = (value: unknown) => wrongOf(new Validator(schema, '2020-12', false).validate(value).errors).map(({ path, message }) => [path.join('.'), message])

describe('a schema in an editor', () => {
  it('tells what is wrong where it is', () => {
    expect(wrong({ tableType: 'OFFLINE', indexing: null, fields: [] })).toEqual([])
    expect(wrong({ indexing: { columns: ['a', 7], 'a/b': 1 } })).toEqual([['indexing.columns.1', 'must be string'], ['indexing.a/b', 'must be boolean']])
    expect(wrong({ indexing: 7 })).toEqual([['indexing', 'must be object']])
    expect(wrong({ tableType: 'x' })[0]?.[1]).toContain('OFFLINE')
    expect(wrong({ fields: [{}] })[0]?.[0]).toBe('fields.0')
  })

  it('offers the members of the object', () => {
    expect(Object.keys(membersAt(schema, []))).toEqual(['tableType', 'indexing', 'fields'])
    expect(Object.keys(membersAt(schema, ['indexing']))).toEqual(['columns', 'a/b'])
    expect(membersAt(schema, ['fields', 0])).toEqual({ name: { type: 'string', description: 'of the column' } })
    expect(membersAt(schema, ['nowhere', 0])).toEqual({})
  })
})
