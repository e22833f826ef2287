// The address behind `#` says what is shown: `#/tables/trips/segments?sort=size`.

export interface Route {
  /** the first part: which page */
  page: string
  /** the parts after it, decoded */
  path: string[]
  params: URLSearchParams
}

export function parseRoute(hash: string): Route {
  const [path = '', query = ''] = split(hash.replace(/^#\/?/, ''), '?')
  const parts = path.split('/').filter(Boolean).map(decoded)
  return { page: parts[0] ?? 'query', path: parts.slice(1), params: new URLSearchParams(query) }
}

/** Return the address of a page: `linkTo('tables', ['trips', 'segments'], { sort: 'size' })`. */
export function linkTo(page: string, path: string[] = [], params: Record<string, string> = {}): string {
  const query = new URLSearchParams(params).toString()
  return `#/${[page, ...path].map(encodeURIComponent).join('/')}${query ? `?${query}` : ''}`
}

class Router {
  current = $state.raw<Route>(parseRoute(location.hash))

  constructor() {
    addEventListener('hashchange', () => {
      this.current = parseRoute(location.hash)
    })
  }

  /** Show another page. replace: so that "back" skips this one. */
  go(address: string, replace = false): void {
    if (replace) {
      history.replaceState(null, '', address)
      this.current = parseRoute(address)
    } else {
      location.hash = address
    }
  }
}

export const router = new Router()

function split(text: string, at: string): [string, string] {
  const index = text.indexOf(at)
  return index < 0 ? [text, ''] : [text.slice(0, index), text.slice(index + 1)]
}

function decoded(part: string): string {
  try {
    return decodeURIComponent(part)
  } catch {
    return part
  }
}
