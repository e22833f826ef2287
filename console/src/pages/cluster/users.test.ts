import { expect, it } from 'vitest'

import { bodyOf, formOf } from './users'

it('a user is sent with what the form does not have', () => {
  const before = { username: 'ann', component: 'BROKER', role: 'READER', tables: ['a'], excludeTables: ['b'], permissions: ['READ'] }
  expect(bodyOf({ ...formOf(before), tables: 'a c,d' }, 'BROKER', before)).toEqual({
    ...{ username: 'ann', component: 'BROKER', role: 'READER', tables: ['a', 'c', 'd'], excludeTables: ['b'], permissions: ['READ'] },
  })
  expect(bodyOf({ ...formOf(), username: ' bo ', password: 'x' }, 'CONTROLLER')).toEqual({
    ...{ username: 'bo', component: 'CONTROLLER', role: 'READER', password: 'x' },
  })
})
