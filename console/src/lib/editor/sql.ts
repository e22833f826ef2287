// SQL in editors: highlighting, and completion from what there is.

import { autocompletion, snippetCompletion, type Completion, type CompletionContext, type CompletionResult } from '@codemirror/autocomplete'
import { SQLDialect, sql } from '@codemirror/lang-sql'
import type { Extension } from '@codemirror/state'

import type { Catalog, CatalogTable } from '../catalog'

const KEYWORDS = `SELECT FROM WHERE GROUP BY HAVING ORDER LIMIT OFFSET DISTINCT AS AND OR NOT IN BETWEEN LIKE IS NULL CASE WHEN THEN
ELSE END JOIN LEFT RIGHT FULL INNER CROSS OUTER ON USING UNION ALL INTERSECT EXCEPT WITH RECURSIVE EXPLAIN PLAN FOR ANALYZE SET
ASC DESC NULLS FIRST LAST FILTER OVER PARTITION ROWS RANGE UNBOUNDED PRECEDING FOLLOWING CURRENT ROW QUALIFY VALUES UNNEST LATERAL
CAST EXISTS TRUE FALSE INTERVAL NATURAL TABLESAMPLE FETCH ONLY NEXT ESCAPE ANY SOME SHOW TABLES COLUMNS DATABASES DESCRIBE OPTION GAPFILL`.split(/\s+/)
const TYPES = 'int integer bigint long float double decimal big_decimal boolean timestamp varchar string bytes varbinary json uuid'
const KEYWORD_COMPLETIONS: Completion[] = KEYWORDS.map((label) => ({ label, type: 'keyword', boost: -30 }))

/** Return the language with the names of a catalog. */
export function sqlLanguage(catalog: Catalog): Extension {
  const dialect = SQLDialect.define({
    keywords: KEYWORDS.join(' ').toLowerCase(),
    types: TYPES,
    // operators are functions, too, but look like what they are
    builtin: catalog.functions
      .map((entry) => entry.name.toLowerCase())
      .filter((name) => !KEYWORDS.includes(name.toUpperCase()))
      .join(' '),
    doubleQuotedStrings: false,
    backslashEscapes: false,
    identifierQuotes: '"`',
    caseInsensitiveIdentifiers: true,
  })
  return [sql({ dialect }), autocompletion({ override: [completions(catalog)], icons: false, maxRenderedOptions: 80 })]
}

function completions(catalog: Catalog): (context: CompletionContext) => CompletionResult | null {
  const tables: Completion[] = catalog.tables.map((table) => ({
    label: table.name,
    apply: quoted(table.name),
    type: 'class',
    detail: `table, ${table.types.join(' and ').toLowerCase()}`,
    boost: 5,
  }))
  const functions: Completion[] = catalog.functions.map((entry) =>
    snippetCompletion(`${entry.name}(#{})`, {
      label: entry.name,
      type: 'function',
      detail: entry.aggregate ? 'aggregate' : 'function',
      boost: -10,
    }),
  )
  const options: Completion[] = catalog.options.map((label) => ({ label, apply: `${label} = `, type: 'property', detail: 'option' }))

  return (context) => {
    const word = context.matchBefore(/[\w$]*/)
    if (!word || (word.from === word.to && !context.explicit && !/[.]$/.test(before(context, word.from)))) return null
    const written = before(context, word.from)
    if (/(^|;)\s*SET\s+$/i.test(written) || /\bOPTION\s*\([^)]*$/i.test(written)) return { from: word.from, options, validFor: WORD }
    const text = context.state.doc.toString()
    const qualifier = /([\w$]+|"[^"]+"|`[^`]+`)\.$/.exec(written)?.[1]
    if (qualifier) {
      const table = tableOf(catalog, text, qualifier.replace(/^["`]|["`]$/g, ''))
      return table ? { from: word.from, options: columnsOf([table], false), validFor: WORD } : null
    }
    if (/\b(FROM|JOIN|TABLE|DESCRIBE|DESC)\s+$/i.test(written) || /\bFROM\s+[\w$"`., ]*,\s*$/i.test(written)) {
      return { from: word.from, options: tables, validFor: WORD }
    }
    const named = catalog.tables.filter((table) => mentions(text, table.name))
    const columns = columnsOf(named.length ? named : catalog.tables, named.length !== 1)
    return { from: word.from, options: [...columns, ...tables, ...functions, ...KEYWORD_COMPLETIONS], validFor: WORD }
  }
}

const WORD = /^[\w$]*$/
const CONTEXT_LENGTH = 400

function before(context: CompletionContext, position: number): string {
  return context.state.sliceDoc(Math.max(0, position - CONTEXT_LENGTH), position)
}

function columnsOf(tables: CatalogTable[], withTable: boolean): Completion[] {
  const found = new Map<string, Completion>()
  for (const table of tables) {
    for (const column of table.columns) {
      const detail = `${column.type}${column.multiValue ? '[]' : ''}${withTable ? `, ${table.name}` : ''}`
      if (!found.has(column.name)) {
        const info = column.description
        found.set(column.name, { label: column.name, apply: quoted(column.name), type: 'property', detail, info, boost: 10 })
      }
    }
  }
  return [...found.values()]
}

/** Return the table that a name or an alias stands for in a text. */
function tableOf(catalog: Catalog, text: string, name: string): CatalogTable | undefined {
  const direct = catalog.tables.find((table) => table.name.toLowerCase() === name.toLowerCase())
  if (direct) return direct
  return catalog.tables.find((table) => new RegExp(`\\b${escaped(table.name)}["\`]?\\s+(AS\\s+)?["\`]?${escaped(name)}\\b`, 'i').test(text))
}

function mentions(text: string, name: string): boolean {
  return new RegExp(`(?<![\\w$])${escaped(name)}(?![\\w$])`, 'i').test(text)
}

/** Return a name as SQL has it; that of a table may begin with its database. */
export function quoted(name: string): string {
  return /^[A-Za-z_$][\w$]*(\.[A-Za-z_$][\w$]*)?$/.test(name) && !KEYWORDS.includes(name.toUpperCase()) ? name : `"${name.replaceAll('"', '""')}"`
}

function escaped(name: string): string {
  return name.replace(/[.*+?^${}()|[\]\\]/g, '\\$&')
}
