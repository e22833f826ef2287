// Whether servers have what a table was given, so that its page does not open on a table that looks empty.

import { get, path } from '../../lib/api'

/** by type of table, then segment, then server */
export type States = Partial<Record<string, Record<string, Record<string, string>> | null>>

const READY = new Set(['ONLINE', 'CONSUMING'])
const LOOK_MS = 250
const LOOKS = 40

/** Return whether each segment that should be served is served by one server at least. */
export function isServed(ideal: States, view: States): boolean {
  return Object.entries(ideal).every(([kind, segments]) =>
    Object.keys(segments ?? {}).every((segment) => Object.values(view[kind]?.[segment] ?? {}).some((state) => READY.has(state))),
  )
}

/** Wait until a table is served, ten seconds at most: return whether it is. Raises ApiError. */
export async function untilServed(table: string): Promise<boolean> {
  for (let look = 0; look < LOOKS; look++) {
    const [ideal, view] = await Promise.all([
      get<States>(path`/tables/${table}/idealstate`),
      get<States>(path`/tables/${table}/externalview`),
    ])
    if (isServed(ideal, view)) return true
    await new Promise((resolve) => setTimeout(resolve, LOOK_MS))
  }
  return false
}
