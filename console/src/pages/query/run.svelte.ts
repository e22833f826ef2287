// One query on its way: asked, watched, cancelled, answered.

import { ApiError, call, get, messageOf, path, remove, send } from '../../lib/api'
import { parseJson, toJson } from '../../lib/json'
import { session } from '../../lib/session.svelte'
import { columnsOf, type Answer, type Column } from './answer'
import { placeOf, withoutCopy, type Place } from './places'
import type { QueryOptions } from './tabs.svelte'

export interface Problem {
  code: number
  text: string
  /** in the text of the tab */
  place?: Place
}

export type State = 'idle' | 'running' | 'done' | 'failed' | 'cancelled'

const PAGE_ROWS = 5000
const TICK_MS = 100
const LOOK_MS = 1500

export class QueryRun {
  state = $state<State>('idle')
  sql = $state('')
  elapsedMs = $state(0)
  /** while it runs: what the brokers say */
  progress = $state('')
  problems = $state.raw<Problem[]>([])
  answer = $state.raw<Answer | null>(null)
  columns = $state.raw<Column[]>([])
  rows = $state.raw<(unknown[] | undefined)[]>([])
  /** how many there are; with cursors not all are here */
  total = $state(0)
  sizeBytes = $state(0)
  #options: QueryOptions | null = null
  #clientId = ''
  #abort: AbortController | null = null
  #asked = new Set<number>()

  get isPaged(): boolean {
    return this.answer?.expirationTimeMs !== undefined
  }

  /** Ask. offset: of the statement in the text of the tab, for the places of problems. Never raises. */
  async run(sql: string, offset: number, options: QueryOptions): Promise<void> {
    this.#abort?.abort()
    const abort = (this.#abort = new AbortController())
    this.#clientId = `console-${Array.from(crypto.getRandomValues(new Uint8Array(8)), (byte) => byte.toString(16)).join('')}`
    this.#options = { ...options }
    Object.assign(this, { state: 'running', sql, elapsedMs: 0, progress: '', problems: [], answer: null, columns: [], rows: [] })
    Object.assign(this, { total: 0, sizeBytes: 0 })
    const startedMs = performance.now()
    const ticking = setInterval(() => (this.elapsedMs = performance.now() - startedMs), TICK_MS)
    const looking = setInterval(() => void this.#look(abort), LOOK_MS)
    try {
      const body = { sql, queryOptions: optionsText(options, this.#clientId) }
      const text = await (await send('POST', '/sql', { body, signal: abort.signal })).text()
      if (this.#abort !== abort) return
      this.sizeBytes = text.length
      this.#take(parseJson(text) as Answer, offset)
    } catch (error) {
      if (this.#abort !== abort) return
      if (abort.signal.aborted) this.state = 'cancelled'
      else this.#fail([{ code: error instanceof ApiError ? error.status : 0, text: messageOf(error) }])
    } finally {
      clearInterval(ticking)
      clearInterval(looking)
      if (this.#abort === abort) {
        this.elapsedMs = performance.now() - startedMs
        this.#abort = null
      }
    }
  }

  /** End the query: at the broker by its name, and by hanging up, which ends it as well. */
  async cancel(): Promise<void> {
    const abort = this.#abort
    if (!abort) return
    if (session.may('DELETE /clientQuery/{query_id}')) {
      await remove(path`/clientQuery/${this.#clientId}`).catch(() => undefined)
    }
    if (this.#abort === abort) abort.abort()
  }

  /** Load rows of an answer that comes in pages. */
  async need(from: number, to: number): Promise<void> {
    const { brokerId, requestId } = this.answer ?? {}
    if (!brokerId || !requestId) return
    for (let page = Math.floor(from / PAGE_ROWS); page * PAGE_ROWS < to; page += 1) {
      if (this.#asked.has(page)) continue
      this.#asked.add(page)
      try {
        const found = await get<Answer>(path`/responseStore/${brokerId}/${requestId}/results`, {
          offset: page * PAGE_ROWS,
          numRows: PAGE_ROWS,
        })
        if (this.answer?.requestId !== requestId) return
        const rows = this.rows.slice()
        found.resultTable?.rows.forEach((row, index) => (rows[page * PAGE_ROWS + index] = row))
        this.rows = rows
      } catch (error) {
        const text = `Rows from ${page * PAGE_ROWS + 1} on could not be loaded: ${messageOf(error)}`
        this.problems = [{ code: 0, text }]
        return
      }
    }
  }

  /** Return all rows, those of a cursor page by page. Raises ApiError. */
  async all(): Promise<unknown[][]> {
    for (let from = 0; from < this.total; from += PAGE_ROWS) {
      if (this.rows.slice(from, from + PAGE_ROWS).some((row) => row === undefined)) await this.need(from, from + 1)
    }
    const whole = this.rows.filter((row) => row !== undefined)
    if (whole.length < this.total) throw new ApiError(0, this.problems[0]?.text ?? 'Not all rows could be loaded')
    return whole
  }

  /** Ask again for a file. Raises ApiError. */
  async file(format: 'parquet' | 'arrow'): Promise<Blob> {
    const options = this.#options ? optionsText({ ...this.#options, cursor: false }, '') : ''
    const answer = await send('POST', '/sql/export', { query: { format }, body: { sql: this.sql, queryOptions: options } })
    return answer.blob()
  }

  #take(answer: Answer, offset: number): void {
    this.answer = answer
    this.columns = columnsOf(answer)
    const rows: (unknown[] | undefined)[] = answer.resultTable?.rows ?? []
    this.total = answer.expirationTimeMs === undefined ? rows.length : (answer.numRowsResultSet ?? rows.length)
    if (this.total > rows.length) rows.length = this.total
    this.#asked = new Set()
    this.rows = rows
    this.problems = (answer.exceptions ?? []).map((exception) => {
      const place = placeOf(exception.message, this.sql)
      return {
        code: exception.errorCode,
        text: withoutCopy(exception.message),
        place: place && { from: place.from + offset, to: place.to + offset },
      }
    })
    if (answer.error) this.problems = [{ code: 0, text: answer.error }]
    const cancelled = this.problems.some((problem) => problem.code === 503)
    this.state = cancelled ? 'cancelled' : answer.resultTable ? 'done' : 'failed'
  }

  #fail(problems: Problem[]): void {
    this.problems = problems
    this.state = 'failed'
  }

  async #look(abort: AbortController): Promise<void> {
    if (!session.may('GET /queries')) return
    try {
      const brokers = await call<Record<string, Record<string, string>>>('GET', '/queries', { signal: abort.signal })
      const all = Object.entries(brokers).flatMap(([broker, queries]) => Object.entries(queries).map(([id, sql]) => ({ broker, id, sql })))
      const own = all.find((query) => query.sql.includes(this.sql) || this.sql.includes(query.sql))
      const others = all.length - (own ? 1 : 0)
      const beside = others ? `, beside ${others} other${others > 1 ? 's' : ''}` : ''
      this.progress = own ? `request ${own.id} at ${own.broker}${beside}` : others ? `${others} queries run` : ''
    } catch {
      // the query itself will say what is wrong
    }
  }
}

/** The runs of the tabs, by the tab's id: they go on, and stay, while another page is looked at. */
export const runs = new Map<string, QueryRun>()

/** Return options as a request has them. */
export function optionsText(options: QueryOptions, clientId: string): string {
  const found = [
    clientId && `clientQueryId=${clientId}`,
    options.nullHandling && 'enableNullHandling=true',
    options.timeoutMs && `timeoutMs=${options.timeoutMs}`,
    options.cursor && `getCursor=true;cursorNumRows=${PAGE_ROWS}`,
    options.more.trim().replace(/^;+|;+$/g, ''),
  ]
  return found.filter(Boolean).join(';')
}

/** Return what is shown of an answer as JSON. */
export function raw(answer: Answer): string {
  return toJson({ ...answer, resultTable: answer.resultTable && { ...answer.resultTable, rows: `${answer.resultTable.rows.length} rows` } }, 2)
}
