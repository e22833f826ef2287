// Calls of the controller. Everything that the console asks goes through here.

import { parseJson, toJson } from './json'

/** An answer that says what is wrong. status: of HTTP, 0 where nobody answered. */
export class ApiError extends Error {
  constructor(
    readonly status: number,
    message: string,
  ) {
    super(message)
  }

  get isUnreachable(): boolean {
    return this.status === 0
  }
}

export interface Call {
  /** behind `?`; what is undefined is left out */
  query?: Record<string, string | number | boolean | undefined>
  /** sent as JSON, unless it is a FormData, Blob or text */
  body?: unknown
  headers?: Record<string, string>
  signal?: AbortSignal
}

const TEXT_MAX = 500

/** shown on calls made by a session; `none` tells the controller that a browser's log-in window is not wanted */
let token = 'none'
let onLoggedOut: () => void = () => {}

export function useToken(found: string | null, loggedOut: () => void): void {
  token = found ?? 'none'
  onLoggedOut = loggedOut
}

const LOG_OUT = '/auth/logout'
/** what other calls wait for while the session is being ended */
let ending: Promise<void> = Promise.resolve()

/** End the session. Calls that pages make meanwhile would be refused, so they wait: for ever, unless it goes on. Raises ApiError. */
export async function endSession(): Promise<void> {
  let goOn = () => {}
  ending = new Promise((done) => (goOn = done))
  try {
    await post(LOG_OUT, {})
  } catch (error) {
    goOn()
    throw error
  }
}

/** Ask and return the JSON of the answer, or its text where it is none. Raises ApiError. */
export async function call<T>(method: string, path: string, options: Call = {}): Promise<T> {
  const text = await read(await send(method, path, options))
  try {
    return parseJson(text) as T
  } catch {
    return text as T
  }
}

export const get = <T>(path: string, query?: Call['query'], signal?: AbortSignal) => call<T>('GET', path, { query, signal })
export const post = <T>(path: string, body?: unknown, query?: Call['query']) => call<T>('POST', path, { body, query })
export const put = <T>(path: string, body?: unknown, query?: Call['query']) => call<T>('PUT', path, { body, query })
export const remove = <T>(path: string, query?: Call['query']) => call<T>('DELETE', path, { query })

/** Ask and return the answer as it comes. Raises ApiError unless it is a success. */
export async function send(method: string, path: string, { query, body, headers, signal }: Call = {}): Promise<Response> {
  if (path !== LOG_OUT) await ending
  const asIs = body === undefined || body instanceof FormData || body instanceof Blob || typeof body === 'string'
  let answer: Response
  try {
    answer = await fetch(withQuery(path, query), {
      method,
      signal,
      credentials: 'same-origin',
      cache: 'no-store',
      body: asIs ? (body as BodyInit | undefined) : toJson(body),
      headers: { 'X-CSRF-Token': token, ...(asIs ? {} : { 'Content-Type': 'application/json' }), ...headers },
    })
  } catch (error) {
    if (signal?.aborted) throw error
    throw new ApiError(0, `The controller at ${location.host} does not answer`)
  }
  if (answer.ok) return answer
  const type = answer.headers.get('Content-Type')
  const text = reasonOf(await answer.text().catch(() => ''), answer.status, answer.statusText, type)
  // a broker that refuses somebody does not end the session
  if (answer.status === 401 && answer.headers.get('WWW-Authenticate')?.startsWith('Session')) onLoggedOut()
  throw new ApiError(answer.status, text)
}

/** Send a file, and tell how many bytes are sent. Raises ApiError. */
export function upload(path: string, query: Call['query'], file: File, onsent: (bytes: number) => void): Promise<void> {
  const form = new FormData()
  form.append('file', file)
  return new Promise((done, failed) => {
    const request = new XMLHttpRequest() // fetch tells nothing of what is sent
    request.open('POST', withQuery(path, query))
    request.setRequestHeader('X-CSRF-Token', token)
    request.upload.onprogress = (event) => onsent(event.loaded)
    request.onerror = () => failed(new ApiError(0, `The controller at ${location.host} does not answer`))
    request.onload = () => {
      if (request.status < 300) return done()
      if (request.status === 401 && request.getResponseHeader('WWW-Authenticate')?.startsWith('Session')) onLoggedOut()
      failed(new ApiError(request.status, reasonOf(request.responseText, request.status, request.statusText, request.getResponseHeader('Content-Type'))))
    }
    request.send(form)
  })
}

/** Return a path with parameters behind `?`. */
export function withQuery(path: string, query: Call['query'] = {}): string {
  const given = Object.entries(query).filter((entry): entry is [string, string | number | boolean] => entry[1] !== undefined)
  return given.length ? `${path}?${new URLSearchParams(given.map(([key, value]) => [key, String(value)]))}` : path
}

/** Return a path with names put in: path`/tables/${name}/schema`. */
export function path(texts: TemplateStringsArray, ...names: (string | number)[]): string {
  return String.raw({ raw: texts }, ...names.map((name) => encodeURIComponent(name)))
}

/** Return what went wrong, for people. */
export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error)
}

async function read(answer: Response): Promise<string> {
  try {
    return await answer.text()
  } catch {
    throw new ApiError(0, `The controller at ${location.host} stopped in the middle of its answer`)
  }
}

function reasonOf(text: string, status: number, statusText: string, type: string | null): string {
  try {
    const found = JSON.parse(text)
    if (typeof found?.error === 'string') return found.error
  } catch {
    // not of the controller, but of something in front of it, or of one that starts
    const isText = type?.startsWith('text/plain')
    if (isText && text.trim() && text.length < TEXT_MAX) return text.trim()
  }
  return `HTTP ${status} ${statusText}`.trim()
}
