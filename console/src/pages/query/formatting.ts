// The formatter, loaded when it is first used: it is as large as all else of the page.

import { formatDialect, sql, type DialectOptions } from 'sql-formatter'

// names in backticks are Pinot's; the rest is standard
const DIALECT: DialectOptions = {
  ...sql,
  name: 'gamay',
  tokenizerOptions: { ...sql.tokenizerOptions, identTypes: ['""-qq', '``'], stringTypes: ["''-qq"], extraParens: ['[]'] },
}

/** Return a text with its statements laid out. Raises an error for what cannot be read at all. */
export function formatted(text: string): string {
  return formatDialect(text, { dialect: DIALECT, keywordCase: 'upper', tabWidth: 2, expressionWidth: 90, linesBetweenQueries: 1 })
}
