// Where statements begin and end in a text, by the rules of SQL: strings, quoted names and comments hide semicolons.

export interface Statement {
  /** of the first and behind the last character that counts */
  from: number
  to: number
  text: string
}

/** Return the statements of a text. A SET belongs to the statement that follows it, as a request holds one beside SET. */
export function statements(text: string): Statement[] {
  const found: Statement[] = []
  let from: number | null = null
  for (const part of parts(text)) {
    from ??= part.from
    const own = text.slice(part.from, part.to)
    if (/^(?:--[^\n]*\n|\/\*[^]*?\*\/|\s)*SET\s/i.test(own)) continue
    found.push({ from, to: part.to, text: text.slice(from, part.to) })
    from = null
  }
  if (from !== null) {
    const end = text.trimEnd().length
    found.push({ from, to: end, text: text.slice(from, end) })
  }
  return found
}

/** Return the statement that a position is in, or the one before it; undefined without any. */
export function statementAt(text: string, position: number): Statement | undefined {
  const all = statements(text)
  return all.find((statement) => position <= statement.to) ?? all.at(-1)
}

/** Return the offset of a line and a column, both from 1, in a text. */
export function offsetOf(text: string, line: number, column: number): number {
  let start = 0
  for (let before = 1; before < line; before += 1) {
    const end = text.indexOf('\n', start)
    if (end < 0) return text.length
    start = end + 1
  }
  return Math.min(start + column - 1, text.length)
}

/** Whether a text has LIMIT outside of strings and comments. */
export function hasLimit(text: string): boolean {
  return /\bLIMIT\b/i.test(withoutHidden(text))
}

/** Return a text with blanks in place of strings, quoted names and comments. */
export function withoutHidden(text: string): string {
  let shown = ''
  let at = 0
  while (at < text.length) {
    const end = hiddenEnd(text, at)
    shown += end > at ? ' '.repeat(end - at) : text[at]
    at = Math.max(end, at + 1)
  }
  return shown
}

function* parts(text: string): Generator<{ from: number; to: number }> {
  let at = 0
  let from = -1
  let to = 0
  while (at < text.length) {
    const end = hiddenEnd(text, at)
    const isComment = end > at && (text.startsWith('--', at) || text.startsWith('/*', at))
    if (text[at] === ';') {
      if (from >= 0) yield { from, to }
      from = -1
    } else if (!isComment && !/\s/.test(text[at]!)) {
      if (from < 0) from = at
      to = end > at ? end : at + 1
    }
    at = Math.max(end, at + 1)
  }
  if (from >= 0) yield { from, to }
}

/** Return where the string, quoted name or comment ends that begins at a position; the position where there is none. */
function hiddenEnd(text: string, at: number): number {
  const sign = text[at]!
  if (sign === "'" || sign === '"' || sign === '`') {
    let end = at + 1
    while (end < text.length) {
      if (text[end] !== sign) end += 1
      else if (text[end + 1] === sign) end += 2
      else return end + 1
    }
    return text.length
  }
  if (text.startsWith('--', at)) return endOr(text, text.indexOf('\n', at), 0)
  if (text.startsWith('/*', at)) return endOr(text, text.indexOf('*/', at + 2), 2)
  return at
}

function endOr(text: string, index: number, length: number): number {
  return index < 0 ? text.length : index + length
}
