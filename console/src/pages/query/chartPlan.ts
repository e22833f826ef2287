// Which chart suits which columns, and what it draws.

import type { Look } from '../../lib/chart/look'
import { axis } from '../../lib/chart/look'
import { count } from '../../lib/format'
import { asNumber, isNumeric, type Column } from './answer'

export type Kind = 'line' | 'bar' | 'scatter' | 'histogram'

export interface ChartColumn extends Column {
  /** milliseconds that one unit is, of columns that count time */
  unitMs?: number
}

export interface Plan {
  kind: Kind
  x: number
  ys: number[]
  /** one series for each of its values */
  by: number | null
}

const POINTS_MAX = 20_000
const BARS_MAX = 200
const SERIES_MAX = 12
const BINS = 40

export function isTime(column: ChartColumn): boolean {
  return column.unitMs !== undefined || column.type === 'TIMESTAMP'
}

/** Return the chart that suits an answer best; undefined where none does. */
export function suggested(columns: ChartColumn[], rows: unknown[][]): Plan | undefined {
  const all = indexes(columns, (column) => isNumeric(column.type) && !isTime(column))
  // keys are numbers that nobody wants to see drawn, unless there is nothing else
  const measures = all.filter((index) => !/(^|_)id$|Id$/i.test(columns[index]!.name))
  const numbers = measures.length ? measures : all
  const times = indexes(columns, isTime)
  const texts = indexes(columns, (column) => !isNumeric(column.type) && !isTime(column) && !column.type.endsWith('_ARRAY'))
  if (rows.length < 2 || numbers.length === 0) return undefined
  if (times.length) return { kind: 'line', x: times[0]!, ys: texts.length ? [numbers[0]!] : numbers.slice(0, 4), by: texts[0] ?? null }
  if (texts.length) return { kind: 'bar', x: texts[0]!, ys: numbers.slice(0, 3), by: null }
  if (numbers.length === 1) return { kind: 'histogram', x: numbers[0]!, ys: [], by: null }
  const few = rows.length <= 50 && columns[numbers[0]!]!.type !== 'DOUBLE'
  return { kind: few ? 'bar' : 'scatter', x: numbers[0]!, ys: [numbers[1]!], by: null }
}

/** Return the options of a chart, and a sentence that says what is left out. */
export function chartOptions(plan: Plan, columns: ChartColumn[], rows: unknown[][], look: Look): Record<string, unknown> {
  if (plan.kind === 'histogram') return histogram(plan, columns, rows, look)
  const x = columns[plan.x]!
  const kindOfX = plan.kind === 'bar' ? 'category' : isTime(x) ? 'time' : isNumeric(x.type) ? 'value' : 'category'
  const used = rows.slice(0, plan.kind === 'bar' ? BARS_MAX * SERIES_MAX : POINTS_MAX)
  const valueOfX = (value: unknown) => (kindOfX === 'time' ? timeOf(x, value) : kindOfX === 'value' ? asNumber(value) : label(x, value))
  const categories = kindOfX === 'category' ? [...new Set(used.map((row) => String(valueOfX(row[plan.x]))))].slice(0, BARS_MAX) : undefined
  const series = groups(plan, columns, used).map(({ name, y, rows: own }) => {
    const points = own.map((row) => [valueOfX(row[plan.x]), asNumber(row[y])])
    const drawn = plan.kind === 'line' && kindOfX !== 'category' ? points.sort((a, b) => Number(a[0]) - Number(b[0])) : points
    return {
      name,
      type: plan.kind,
      data: drawn,
      showSymbol: drawn.length < 60,
      symbolSize: plan.kind === 'scatter' ? 5 : 4,
      large: plan.kind === 'scatter' && drawn.length > 2000,
      barMaxWidth: 42,
    }
  })
  return {
    tooltip: { trigger: plan.kind === 'scatter' ? 'item' : 'axis' },
    legend: { show: series.length > 1 },
    grid: { top: series.length > 1 ? 40 : 32, bottom: 30 },
    xAxis: axis(look, { type: kindOfX, name: x.name, nameLocation: 'middle', nameGap: 26, data: categories, scale: true }),
    yAxis: axis(look, { type: 'value', scale: plan.kind !== 'bar', name: series.length === 1 ? columns[plan.ys[0]!]?.name : '' }),
    dataZoom: used.length > 30 ? [{ type: 'inside' }] : [],
    series,
  }
}

/** Return what a chart leaves out, in words; empty where it shows all. */
export function leftOut(plan: Plan, rows: unknown[][]): string {
  if (plan.kind === 'histogram') return ''
  if (plan.by !== null) {
    const series = new Set(rows.map((row) => String(row[plan.by!]))).size
    if (series > SERIES_MAX) return `The first ${SERIES_MAX} of ${count(series)} series are shown.`
  }
  if (plan.kind === 'bar') {
    const bars = new Set(rows.map((row) => String(row[plan.x]))).size
    return bars > BARS_MAX ? `The first ${BARS_MAX} of ${count(bars)} bars are shown.` : ''
  }
  return rows.length > POINTS_MAX ? `The first ${count(POINTS_MAX)} of ${count(rows.length)} rows are shown.` : ''
}

function groups(plan: Plan, columns: ChartColumn[], rows: unknown[][]): { name: string; y: number; rows: unknown[][] }[] {
  if (plan.by === null) return plan.ys.map((y) => ({ name: columns[y]?.name ?? '', y, rows }))
  const found = new Map<string, unknown[][]>()
  for (const row of rows) {
    const name = String(row[plan.by])
    const own = found.get(name)
    if (own) own.push(row)
    else if (found.size < SERIES_MAX) found.set(name, [row])
  }
  return [...found].map(([name, own]) => ({ name, y: plan.ys[0]!, rows: own }))
}

function histogram(plan: Plan, columns: ChartColumn[], rows: unknown[][], look: Look): Record<string, unknown> {
  const bins = histogramBins(rows.map((row) => asNumber(row[plan.x])))
  return {
    legend: { show: false },
    grid: { top: 32, bottom: 30 },
    xAxis: axis(look, { type: 'category', data: bins.map((bin) => bin.label), name: columns[plan.x]?.name, nameLocation: 'middle', nameGap: 26 }),
    yAxis: axis(look, { type: 'value', name: 'rows' }),
    series: [{ name: 'rows', type: 'bar', data: bins.map((bin) => bin.rows), barCategoryGap: '4%' }],
  }
}

export function histogramBins(values: number[]): { label: string; rows: number }[] {
  const finite = values.filter(Number.isFinite)
  if (finite.length === 0) return []
  let least = Infinity
  let most = -Infinity
  for (const value of finite) {
    least = Math.min(least, value)
    most = Math.max(most, value)
  }
  if (least === most) return [{ label: String(least), rows: finite.length }]
  const number = Math.min(BINS, Math.max(5, Math.ceil(Math.sqrt(finite.length))))
  const width = (most - least) / number
  const rows = new Array<number>(number).fill(0)
  for (const value of finite) rows[Math.min(number - 1, Math.floor((value - least) / width))]! += 1
  return rows.map((found, index) => ({ label: String(Number((least + index * width).toPrecision(4))), rows: found }))
}

function indexes(columns: ChartColumn[], wanted: (column: ChartColumn) => boolean): number[] {
  return columns.flatMap((column, index) => (wanted(column) ? [index] : []))
}

function timeOf(column: ChartColumn, value: unknown): number {
  if (column.unitMs !== undefined) return asNumber(value) * column.unitMs
  return Date.parse(`${String(value).replace(' ', 'T')}Z`)
}

function label(column: ChartColumn, value: unknown): string {
  return column.unitMs === undefined || value === null ? String(value) : new Date(timeOf(column, value)).toISOString().replace('T', ' ').slice(0, 19)
}
