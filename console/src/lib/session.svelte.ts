// Who is logged in, and what it may do.

import { endSession, get, post, useToken } from './api'
import { forgetDrafts, mayForgetDrafts } from './drafts'

interface Told {
  /** NONE: everybody may do everything */
  workflow: 'NONE' | 'BASIC'
  principal: { name: string; role: string; tables: string[] | null; seesAllTables: boolean } | null
  /** the calls that the principal may make at all, as "PUT /tables/{table}" */
  allowed: string[]
  csrfToken: string | null
  expiresMs: number | null
}

class Session {
  #told = $state.raw<Told | null>(null)
  #allowed = $derived(new Set(this.#told?.allowed ?? []))
  #last = ''
  /** why one has to log in again */
  reason = $state('')

  /** Whether it is known yet who this is. */
  get isKnown(): boolean {
    return this.#told !== null
  }

  get hasLogin(): boolean {
    return this.#told?.workflow === 'BASIC'
  }

  get needsLogin(): boolean {
    return this.hasLogin && this.#told?.principal === null
  }

  get name(): string {
    return this.#told?.principal?.name ?? ''
  }

  /** What names of this user's things in the browser begin with: others use the same browser. */
  get prefix(): string {
    return this.hasLogin ? `${encodeURIComponent(this.#last)}.` : ''
  }

  get role(): string {
    return this.#told?.principal?.role ?? ''
  }

  get seesAllTables(): boolean {
    return this.#told?.principal?.seesAllTables ?? false
  }

  /** Whether a call may be made, by its name in docs/reference/rest.md, of a table that is listed for it. */
  may(call: string, table?: string): boolean {
    const principal = this.#told?.principal
    if (!principal || !this.#allowed.has(call)) return false
    if (table === undefined) return true
    return principal.tables?.includes(table.replace(/_(OFFLINE|REALTIME)$/, '')) ?? true
  }

  /** Ask the controller. Raises ApiError. */
  async load(): Promise<void> {
    this.#take(await get<Told>('/auth/session'))
  }

  /** Raises ApiError for another name or password. */
  async logIn(name: string, password: string): Promise<void> {
    const before = this.#last
    const told = await post<Told>('/auth/login', { username: name, password })
    if (before && before !== told.principal?.name) reload() // nothing of the other user stays in memory
    this.#take(told)
    this.reason = ''
  }

  async logOut(): Promise<void> {
    if (!mayForgetDrafts()) return
    await endSession()
    reload()
  }

  #take(told: Told): void {
    this.#told = told
    if (told.principal) this.#last = told.principal.name
    useToken(told.csrfToken, () => {
      if (this.#told?.principal == null) return
      this.reason = 'The session has ended, or another controller answered. Log in again.'
      this.#told = { ...this.#told, principal: null, allowed: [], csrfToken: null, expiresMs: null }
    })
  }
}

export const session = new Session()

/** Begin anew, without the question whether drafts may go. */
function reload(): void {
  forgetDrafts()
  location.reload()
}
