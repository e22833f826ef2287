// Which indexes the queries of late ask for, and how each is written into a table's config.

import { get, path, put } from '../../lib/api'
import { ask, quoted } from '../../lib/ask'
import { linesOf, recentQueries } from '../queries/recent'
import { ROWS_MAX, scopeOf } from './profile'
import { loadSegments, type Kind, type Sizes } from './table'

export interface StarTree {
  dimensionsSplitOrder: string[]
  functionColumnPairs: string[]
}

interface Compound {
  columns: string[]
}

/** the part of the recommender's answer that is used here */
export interface Recommended {
  invertedIndexColumns: string[]
  rangeIndexColumns: string[]
  jsonIndexColumns: string[]
  textIndexColumns: string[]
  fstIndexColumns: string[]
  bloomFilterColumns: string[]
  compoundInvertedIndexConfigs: Compound[]
  sortedColumn: string | null
  starTreeIndexConfigs: StarTree[]
}

interface FieldConfig {
  name: string
  indexes?: Record<string, unknown>
  indexType?: string
  indexTypes?: string[]
}

export interface TableConfig {
  tableIndexConfig?: Record<string, unknown>
  fieldConfigList?: FieldConfig[]
  upsertConfig?: unknown
}

export interface Advice {
  title: string
  /** what it is good for */
  use: string
  apply: (config: TableConfig) => TableConfig
}

export interface Advised {
  queries: number
  /** queries that say nothing here, and why */
  flagged: [sql: string, why: string][]
  halves: { kind: Kind; config: TableConfig; advice: Advice[] }[]
}

interface Column {
  name: string
  dataType: string
  singleValueField?: boolean
}

const INDEXES = [
  { kind: 'inverted', list: 'invertedIndexColumns', title: 'Inverted index', use: 'finds the rows that have a value' },
  { kind: 'range', list: 'rangeIndexColumns', title: 'Range index', use: 'finds the rows between two values' },
  { kind: 'json', list: 'jsonIndexColumns', title: 'JSON index', use: 'answers JSON_MATCH' },
  { kind: 'text', list: 'textIndexColumns', title: 'Text index', use: 'answers TEXT_MATCH' },
  { kind: 'fst', list: 'fstIndexColumns', title: 'FST index', use: 'answers LIKE and REGEXP_LIKE' },
  { kind: 'bloom', list: 'bloomFilterColumns', title: 'Bloom filter', use: 'passes over segments that do not have a value' },
] as const

const COLUMNS_AT_ONCE = 20

/** Have the controller recommend indexes for the queries of late. Raises ApiError. */
export async function advised(name: string, kinds: Kind[], sizes: Sizes): Promise<Advised> {
  const queries = (await recentQueries(name)).filter((query) => query.exceptions.length === 0)
  if (!queries.length) return { queries: 0, flagged: [], halves: [] }
  const [schema, configs, segments] = await Promise.all([
    get<Record<string, unknown>>(path`/tables/${name}/schema`),
    get<Record<Kind, TableConfig>>(path`/tables/${name}`),
    loadSegments(name, sizes),
  ])
  const lists = ['dimensionFieldSpecs', 'metricFieldSpecs', 'dateTimeFieldSpecs']
  const columnsOf = (list: string) => (schema[list] as Column[] | undefined) ?? []
  const values = await cardinalitiesOf(name, lists.flatMap(columnsOf), scopeOf(segments, ROWS_MAX).where)
  const measured = (list: string) => columnsOf(list).map((column) => ({ ...column, cardinality: values[column.name] }))
  // what took long in all weighs most
  const lines = linesOf(queries, true, 'timeMs').map((line): [string, number] => [line.sql, Math.max(1, line.timeMs)])
  const answer = await put<{ indexConfig: Recommended; flaggedQueries: { flaggedQueries: Record<string, Record<string, string>> } }>(
    '/tables/recommender',
    { schema: { ...schema, ...Object.fromEntries(lists.map((list) => [list, measured(list)])) }, queriesWithWeights: Object.fromEntries(lines) },
  )
  const flagged = Object.entries(answer.flaggedQueries.flaggedQueries)
  return {
    queries: queries.length,
    flagged: flagged.map(([sql, why]): [string, string] => [sql, Object.values(why).join('; ')]),
    halves: kinds.map((kind) => ({ kind, config: configs[kind], advice: adviceOf(answer.indexConfig, configs[kind]) })),
  }
}

/** Return what is recommended and not in a config yet. */
export function adviceOf(found: Recommended, config: TableConfig): Advice[] {
  const advice: Advice[] = INDEXES.flatMap(({ kind, list, title, use }) =>
    found[list]
      .filter((column) => !has(config, list, kind, column))
      .map((column) => ({ title: `${title} on ${column}`, use, apply: (before: TableConfig) => withIndex(before, column, kind) })),
  )
  const compounds = (config.tableIndexConfig?.compoundInvertedIndexConfigs as Compound[] | undefined) ?? []
  for (const { columns } of found.compoundInvertedIndexConfigs.filter((one) => !compounds.some((other) => isSame(other, one)))) {
    advice.push({
      title: `Compound inverted index on ${columns.join(', ')}`,
      use: 'finds the rows that have a value in each of the columns, where one alone leaves many',
      apply: (before) => withOneMore(before, 'compoundInvertedIndexConfigs', { columns }),
    })
  }
  const sorted = config.tableIndexConfig?.sortedColumn
  if (found.sortedColumn && !(Array.isArray(sorted) ? sorted.length : sorted)) {
    const column = found.sortedColumn
    const use = 'finds the rows of a value, or between two, side by side; for segments that are made from now on'
    advice.push({ title: `Sort by ${column}`, use, apply: (before) => withSetting(before, { sortedColumn: [column] }) })
  }
  if (config.upsertConfig) return advice // rows that are replaced cannot be summed up before
  const trees = (config.tableIndexConfig?.starTreeIndexConfigs as StarTree[] | undefined) ?? []
  for (const tree of found.starTreeIndexConfigs.filter((one) => !trees.some((other) => covers(other, one)))) {
    advice.push({
      title: `Star-tree of ${tree.dimensionsSplitOrder.join(', ')}`,
      use: `keeps ${tree.functionColumnPairs.map((pair) => pair.replace(/__(.*)/, '($1)')).join(', ')} of each combination`,
      apply: (before) => withOneMore(before, 'starTreeIndexConfigs', tree),
    })
  }
  return advice
}

/** Ask how many different values columns have, those that can be counted. */
async function cardinalitiesOf(name: string, columns: Column[], where: string): Promise<Record<string, number>> {
  const counted = columns.filter((column) => !['MAP', 'BYTES'].includes(column.dataType))
  const found: Record<string, number> = {}
  for (let start = 0; start < counted.length; start += COLUMNS_AT_ONCE) {
    const some = counted.slice(start, start + COLUMNS_AT_ONCE)
    const items = some.map((column) => `DISTINCTCOUNTSMARTHLL${column.singleValueField === false ? 'MV' : ''}(${quoted(column.name)})`)
    const row = (await ask(`SELECT ${items.join(', ')} FROM ${quoted(name)} ${where}`)).resultTable?.rows[0] ?? []
    some.forEach((column, index) => (found[column.name] = Math.max(1, Number(row[index]))))
  }
  return found
}

function has(config: TableConfig, list: string, kind: string, column: string): boolean {
  const listed = config.tableIndexConfig?.[list]
  if (Array.isArray(listed) && listed.includes(column)) return true
  return (config.fieldConfigList ?? []).some((field) => {
    const types = [field.indexType, ...(field.indexTypes ?? []), ...Object.keys(field.indexes ?? {})]
    return field.name === column && types.some((type) => type?.toLowerCase() === kind)
  })
}

function withIndex(config: TableConfig, column: string, kind: string): TableConfig {
  const fields = config.fieldConfigList ?? []
  const before = fields.find((field) => field.name === column) ?? { name: column }
  const after = { ...before, indexes: { ...before.indexes, [kind]: {} } }
  return { ...config, fieldConfigList: [...fields.filter((field) => field.name !== column), after] }
}

const withSetting = (config: TableConfig, settings: Record<string, unknown>): TableConfig => ({
  ...config,
  tableIndexConfig: { ...config.tableIndexConfig, ...settings },
})

function withOneMore(config: TableConfig, key: string, one: unknown): TableConfig {
  const already = (config.tableIndexConfig?.[key] as unknown[] | undefined) ?? []
  return withSetting(config, { [key]: [...already, one] })
}

/** Whether two compound indexes are of the same columns, whose order does not matter. */
const isSame = (one: Compound, other: Compound) => [...one.columns].sort().join('\n') === [...other.columns].sort().join('\n')

/** Whether a tree answers what another would. */
function covers(tree: StarTree, other: StarTree): boolean {
  const holds = (all: string[], some: string[]) => some.every((one) => all.includes(one))
  const pairs = (one: StarTree) => [...(one.functionColumnPairs ?? []), 'COUNT__*']
  return holds(tree.dimensionsSplitOrder, other.dimensionsSplitOrder) && holds(pairs(tree), pairs(other))
}
