// Where in a statement something is wrong, by what the broker says about it.

import { offsetOf, withoutHidden } from './statements'

export interface Place {
  from: number
  to: number
}

export interface QueryException {
  errorCode: number
  message: string
}

const AT = /\bat line (\d+), column (\d+)/
const WORD = /[\w$]/

/** Return the place that a message tells of, in the statement that was sent; undefined where it tells of none. */
export function placeOf(message: string, sql: string): Place | undefined {
  const told = AT.exec(message)
  if (told) return wordAt(sql, offsetOf(sql, Number(told[1]), Number(told[2])))
  for (const [, name] of message.split('Did you mean')[0]!.matchAll(/['`"]([^'`"]+)['`"]/g)) {
    const found = name && occurrence(sql, name)
    if (found) return found
  }
  return undefined
}

/** Return a message without the copy of the query and the caret below it, which the editor shows better. */
export function withoutCopy(message: string): string {
  return message.replace(/(at line \d+, column \d+):\n[^]*\n\s*\^\s*$/, '$1')
}

function wordAt(sql: string, offset: number): Place {
  let from = offset
  let to = offset
  while (to < sql.length && WORD.test(sql[to]!)) to += 1
  if (to === from) {
    // at the end, or at a sign: underline the sign, or what stands before the end
    if (from < sql.length) to = from + 1
    else from = Math.max(0, sql.trimEnd().length - 1)
    to = Math.max(to, from + 1)
  }
  return { from, to: Math.min(to, sql.length) }
}

function occurrence(sql: string, name: string): Place | undefined {
  const pattern = new RegExp(`(?<![\\w$])${name.replace(/[.*+?^${}()|[\]\\]/g, '\\$&')}(?![\\w$])`, 'i')
  const found = pattern.exec(withoutHidden(sql)) ?? pattern.exec(sql)
  return found ? { from: found.index, to: found.index + name.length } : undefined
}
