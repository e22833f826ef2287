// What queries can name: asked once, and again when tables changed.

import { get } from './api'

export interface CatalogColumn {
  name: string
  type: string
  role: string
  multiValue?: boolean
  /** of date-time columns, as the schema writes it */
  format?: string
  description?: string
}

export interface CatalogTable {
  name: string
  types: string[]
  columns: CatalogColumn[]
}

export interface Catalog {
  tables: CatalogTable[]
  functions: { name: string; aggregate: boolean }[]
  options: string[]
}

export const EMPTY: Catalog = { tables: [], functions: [], options: [] }

export const loadCatalog = () => get<Catalog>('/console/catalog')

/** Return how many milliseconds one unit of a date-time column is, undefined for one that counts none. */
export function epochUnitMs(format: string | undefined): number | undefined {
  const match =
    /^(\d+):(\w+):EPOCH$/.exec(format ?? '') ?? /^EPOCH\|(\w+)(?:\|(\d+))?$/.exec(format ?? '') ?? /^(EPOCH)$/.exec(format ?? '')
  if (!match) return undefined
  const [unit, size] = /^\d+$/.test(match[1]!) ? [match[2], match[1]] : [match[1], match[2]]
  const ms = { EPOCH: 1, MILLISECONDS: 1, SECONDS: 1000, MINUTES: 60_000, HOURS: 3_600_000, DAYS: 86_400_000 }[unit ?? '']
  return ms && ms * Number(size ?? 1)
}
