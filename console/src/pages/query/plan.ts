// Answers of EXPLAIN as a tree: of one table a list of operators with the numbers of their parents, of several an indented text.

import type { Answer } from './answer'

export interface PlanNode {
  name: string
  /** what the operator is told, as "table" -> "trips" */
  details: [string, string][]
  /** of EXPLAIN ANALYZE */
  rows?: number
  timeMs?: number
  memory?: string
  children: PlanNode[]
}

/** Return the trees of a plan; undefined for an answer that is none. */
export function planOf(answer: Answer): PlanNode[] | undefined {
  const names = answer.resultTable?.dataSchema.columnNames.join()
  const rows = answer.resultTable?.rows ?? []
  if (names === 'Operator,Operator_Id,Parent_Id') return operatorTrees(rows)
  if (names === 'SQL,PLAN') return textTrees(String(rows[0]?.[1] ?? ''))
  return undefined
}

/** Operators come with numbers; those of each kind of segment follow a PLAN_START, and count on from what is above. */
export function operatorTrees(rows: unknown[][]): PlanNode[] {
  const byId = new Map<number, PlanNode>()
  const roots: PlanNode[] = []
  let start: PlanNode | undefined
  for (const [operator, id, parent] of rows as [string, number, number][]) {
    const node = nodeOf(operator)
    if (id < 0) {
      start = node
      continue
    }
    const above = byId.get(parent)
    byId.set(id, node)
    if (start && above) {
      start.children.push(node)
      above.children.push(start)
      start = undefined
    } else if (above) above.children.push(node)
    else roots.push(node)
  }
  return roots
}

export function textTrees(text: string): PlanNode[] {
  const roots: PlanNode[] = []
  const open: { indent: number; node: PlanNode }[] = []
  for (const line of text.split('\n')) {
    if (!line.trim()) continue
    const indent = line.length - line.trimStart().length
    while (open.length && open.at(-1)!.indent >= indent) open.pop()
    const above = open.at(-1)?.node
    if (above && /^\w[\w ]*=\[/.test(line.trim())) {
      take(above, assignments(line.trim()))
      continue
    }
    const node = nodeOf(line.trim())
    if (above) above.children.push(node)
    else roots.push(node)
    open.push({ indent, node })
  }
  return joined(roots)
}

/** The text begins with a title, which is the root of what stands beside it. */
function joined(roots: PlanNode[]): PlanNode[] {
  const [title, ...others] = roots
  if (!title || title.name !== 'Execution Plan' || title.children.length || others.length === 0) return roots
  title.children = others
  return title.rows === undefined ? others : [title]
}

function nodeOf(text: string): PlanNode {
  const at = text.indexOf('(')
  const node: PlanNode = { name: (at < 0 ? text : text.slice(0, at)).trim(), details: [], children: [] }
  if (at >= 0) take(node, assignments(text.slice(at + 1, text.endsWith(')') ? -1 : undefined)))
  return node
}

function take(node: PlanNode, details: [string, string][]): void {
  for (const [name, value] of details) {
    if (name === 'rows' && /^\d+$/.test(value)) node.rows = Number(value)
    else if (name === 'time' && /^[\d.]+ ms$/.test(value)) node.timeMs = Number.parseFloat(value)
    else if (name === 'memory') node.memory = value
    else node.details.push([name, value])
  }
}

/** "table=[trips], limit=[3]", "groupKeys:city, aggregations:count(*)" and "city, price" as pairs. */
function assignments(text: string): [string, string][] {
  const found: [string, string][] = []
  for (const part of topLevelParts(text)) {
    const named = /^([\w ]+?)(?:=\[([^]*)\]|[:=]([^]*))$/.exec(part)
    if (named) found.push([named[1]!, named[2] ?? named[3] ?? ''])
    else if (found.length) found.at(-1)![1] += `, ${part}`
    else found.push(['', part])
  }
  return found
}

function topLevelParts(text: string): string[] {
  const parts: string[] = []
  let depth = 0
  let quoted = false
  let from = 0
  for (let at = 0; at < text.length; at += 1) {
    const sign = text[at]!
    if (sign === "'") quoted = !quoted
    else if (quoted) continue
    else if ('([{'.includes(sign)) depth += 1
    else if (')]}'.includes(sign)) depth -= 1
    else if (sign === ',' && depth === 0) {
      parts.push(text.slice(from, at).trim())
      from = at + 1
    }
  }
  parts.push(text.slice(from).trim())
  return parts.filter(Boolean)
}

/** Return the rows and times of all nodes, for bars that compare them. */
export function largest(nodes: PlanNode[]): { rows: number; timeMs: number } {
  const found = { rows: 0, timeMs: 0 }
  for (const node of nodes) {
    const below = largest(node.children)
    found.rows = Math.max(found.rows, node.rows ?? 0, below.rows)
    found.timeMs = Math.max(found.timeMs, node.timeMs ?? 0, below.timeMs)
  }
  return found
}
