// What is kept in the browser between visits. Names begin with `gamay.`; what cannot be read counts as not there.

export function stored<T>(name: string, otherwise: T): T {
  try {
    const text = localStorage.getItem(`gamay.${name}`)
    return text === null ? otherwise : (JSON.parse(text) as T)
  } catch {
    return otherwise
  }
}

/** Keep a value; return whether there was room for it. */
export function store(name: string, value: unknown): boolean {
  try {
    localStorage.setItem(`gamay.${name}`, JSON.stringify(value))
    return true
  } catch {
    return false
  }
}
