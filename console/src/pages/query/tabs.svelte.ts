// The tabs of the query page, the history and the saved queries. They stay in the browser between visits.

import { session } from '../../lib/session.svelte'
import { store, stored } from '../../lib/stored'

export interface QueryOptions {
  nullHandling: boolean
  /** empty: that of the cluster */
  timeoutMs: string
  /** answers come in pages, which the broker keeps */
  cursor: boolean
  /** more options, as name=value;name=value */
  more: string
}

export interface QueryTab {
  id: string
  title: string
  text: string
  options: QueryOptions
}

export interface Past {
  sql: string
  atMs: number
  tookMs: number
  rows: number
  outcome: 'done' | 'failed' | 'cancelled'
}

export interface Saved {
  name: string
  sql: string
  options: QueryOptions
}

export const PLAIN: QueryOptions = { nullHandling: false, timeoutMs: '', cursor: false, more: '' }
// each user of a browser has its own; the page is loaded anew for another one
const named = (what: string) => `query.${session.prefix}${what}`
const HISTORY_MAX = 200
const HISTORY_TEXT_MAX = 4000

class Workbench {
  // other windows of this browser have tabs of their own, which this one must not take away
  #seen = new Set<string>()
  tabs = $state<QueryTab[]>(readTabs())
  activeId = $state(stored<string>(named('active'), ''))
  history = $state.raw<Past[]>(stored<Past[]>(named('history'), []))
  saved = $state.raw<Saved[]>(stored<Saved[]>(named('saved'), []))

  constructor() {
    for (const tab of this.tabs) this.#seen.add(tab.id)
  }

  get active(): QueryTab {
    return this.tabs.find((tab) => tab.id === this.activeId) ?? this.tabs[0]!
  }

  /** Open a tab, and show it; one that is empty is used again. */
  open(text = '', options: QueryOptions = PLAIN, title = ''): void {
    const empty = this.active.text.trim() === '' ? this.active : undefined
    if (empty && text) {
      Object.assign(empty, { text, options: { ...options }, title: title || empty.title })
    } else {
      const tab = { id: newId(), title: title || this.#freeTitle(), text, options: { ...options } }
      this.tabs.push(tab)
      this.activeId = tab.id
    }
    this.keep()
  }

  close(id: string): void {
    const at = this.tabs.findIndex((tab) => tab.id === id)
    this.tabs = this.tabs.filter((tab) => tab.id !== id)
    if (this.tabs.length === 0) this.tabs = [{ id: newId(), title: 'Query 1', text: '', options: { ...PLAIN } }]
    if (!this.tabs.some((tab) => tab.id === this.activeId)) this.activeId = this.tabs[Math.max(0, at - 1)]!.id
    this.keep()
  }

  select(id: string): void {
    this.activeId = id
    this.keep()
  }

  /** Keep the tabs for the next visit. */
  keep(): void {
    for (const tab of this.tabs) this.#seen.add(tab.id)
    const others = stored<QueryTab[]>(named('tabs'), []).filter((tab) => !this.#seen.has(tab.id))
    store(named('tabs'), [...this.tabs, ...others])
    store(named('active'), this.activeId)
  }

  remember(past: Past): void {
    if (past.sql.length > HISTORY_TEXT_MAX) return
    const before = stored<Past[]>(named('history'), [])
    this.history = [past, ...before.filter((other) => other.sql !== past.sql)].slice(0, HISTORY_MAX)
    store(named('history'), this.history)
  }

  forget(): void {
    this.history = []
    store(named('history'), [])
  }

  /** Save a query by a name; one of that name is replaced. */
  save(saved: Saved): boolean {
    const others = stored<Saved[]>(named('saved'), []).filter((other) => other.name !== saved.name)
    this.saved = [...others, saved].sort((a, b) => a.name.localeCompare(b.name))
    return store(named('saved'), this.saved)
  }

  discard(name: string): void {
    this.saved = stored<Saved[]>(named('saved'), []).filter((other) => other.name !== name)
    store(named('saved'), this.saved)
  }

  #freeTitle(): string {
    const titles = new Set(this.tabs.map((tab) => tab.title))
    let number = 1
    while (titles.has(`Query ${number}`)) number += 1
    return `Query ${number}`
  }
}

function readTabs(): QueryTab[] {
  const found = stored<QueryTab[]>(named('tabs'), [])
  const whole = Array.isArray(found) ? found.filter((tab) => typeof tab?.id === 'string' && typeof tab.text === 'string') : []
  const tabs = whole.map((tab) => ({ ...tab, options: { ...PLAIN, ...tab.options } }))
  return tabs.length ? tabs : [{ id: newId(), title: 'Query 1', text: '', options: { ...PLAIN } }]
}

function newId(): string {
  return Array.from(crypto.getRandomValues(new Uint8Array(8)), (byte) => byte.toString(16).padStart(2, '0')).join('')
}

export const workbench = new Workbench()
