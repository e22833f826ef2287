// Rows as texts for the clipboard and for files.

import { toJson } from './json'

/** Return what a cell is as text: null as nothing, lists and maps as JSON. */
export function cellText(value: unknown): string {
  if (value === null || value === undefined) return ''
  return typeof value === 'object' ? toJson(value) : String(value)
}

/** Return rows by tabs, for spreadsheets. */
export function tabbed(rows: unknown[][], names?: string[]): string {
  const lines = rows.map((row) => row.map((cell) => cellText(cell).replace(/[\t\n\r]/g, ' ')).join('\t'))
  return [...(names ? [names.join('\t')] : []), ...lines].join('\n')
}

/** Return rows as CSV by RFC 4180, in blocks that a Blob can be made of. */
export function csv(names: string[], rows: unknown[][]): string[] {
  const line = (row: unknown[]) => `${row.map((cell) => quoted(cellText(cell))).join(',')}\r\n`
  return blocks(rows, (some) => some.map(line).join(''), line(names))
}

/** Return rows as a JSON array of objects. Names that occur twice get a number. */
export function json(names: string[], rows: unknown[][]): string[] {
  const keys = distinct(names)
  const line = (row: unknown[]) => toJson(Object.fromEntries(keys.map((key, index) => [key, row[index] ?? null])))
  const texts = blocks(rows, (some) => some.map(line).join(',\n'), '')
  const full = texts.slice(1).flatMap((text, index) => (index ? [',\n', text] : [text]))
  return ['[\n', ...full, '\n]\n']
}

/** Let the browser save a file. */
export function save(name: string, content: Blob): void {
  const link = document.createElement('a')
  link.href = URL.createObjectURL(content)
  link.download = name
  link.click()
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000)
}

export function distinct(names: string[]): string[] {
  const found = new Set<string>()
  for (const name of names) {
    let free = name
    for (let number = 2; found.has(free); number += 1) free = `${name}_${number}`
    found.add(free)
  }
  return [...found]
}

function quoted(text: string): string {
  return /[",\r\n]/.test(text) || text !== text.trim() ? `"${text.replaceAll('"', '""')}"` : text
}

function blocks(rows: unknown[][], textOf: (rows: unknown[][]) => string, first: string): string[] {
  const found = [first]
  for (let at = 0; at < rows.length; at += 5000) found.push(textOf(rows.slice(at, at + 5000)))
  return found
}
