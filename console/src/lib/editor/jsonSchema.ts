// A JSON Schema in an editor: what breaks it is underlined, and the names that an object may have are offered.

import { Validator, type OutputUnit, type Schema } from '@cfworker/json-schema'
import type { Completion, CompletionContext, CompletionResult } from '@codemirror/autocomplete'
import { autocompletion } from '@codemirror/autocomplete'
import { syntaxTree } from '@codemirror/language'
import { linter, type Diagnostic } from '@codemirror/lint'
import type { EditorState, Extension } from '@codemirror/state'
import type { SyntaxNode } from '@lezer/common'

export type { Schema }

/** where something is in a document: names of members, and places in lists */
type Path = (string | number)[]

export interface Wrong {
  path: string[]
  message: string
}

/** Return the extension. */
export function schemaSupport(schema: Schema): Extension {
  const validator = new Validator(schema, '2020-12', false)
  return [
    linter((view) => diagnostics(view.state, validator)),
    autocompletion({ override: [(context) => offered(schema, context)] }),
  ]
}

function diagnostics(state: EditorState, validator: Validator): Diagnostic[] {
  let value: unknown
  try {
    value = JSON.parse(state.doc.toString())
  } catch {
    return [] // the linter of the syntax tells
  }
  return wrongOf(validator.validate(value).errors).flatMap(({ path, message }) => {
    const node = nodeAt(state, path)
    return node ? [{ from: node.from, to: node.to, severity: 'error' as const, message }] : []
  })
}

/** Return what is wrong where it is: of a rule that is broken within, the parts that are broken, not the whole. */
export function wrongOf(errors: OutputUnit[]): Wrong[] {
  const byPlace = new Map<string, OutputUnit[]>()
  for (const error of errors) byPlace.set(error.instanceLocation, [...(byPlace.get(error.instanceLocation) ?? []), error])
  const places = [...byPlace.keys()]
  const inner = places.filter((place) => !places.some((other) => other.startsWith(`${place}/`)))
  return inner.map((place) => ({
    path: place.split('/').slice(1).map((part) => decodeURIComponent(part).replaceAll('~1', '/').replaceAll('~0', '~')),
    message: messageOf(byPlace.get(place) ?? []),
  }))
}

const COMPOUND = ['anyOf', 'allOf', 'oneOf', 'not', '$ref', 'properties', 'items', 'additionalProperties', 'patternProperties']

function messageOf(errors: OutputUnit[]): string {
  const types = errors.flatMap(({ keyword, error }) => (keyword === 'type' ? [...(error.split('Expected')[1] ?? '').matchAll(/"([^"]+)"/g)].map(([, type]) => type) : []))
  const choice = errors.find(({ keyword }) => keyword === 'enum')
  if (choice) return choice.error
  const kinds = [...new Set(types)].filter((type) => type !== 'null')
  if (kinds.length) return `must be ${kinds.join(' or ')}`
  return (errors.find(({ keyword }) => !COMPOUND.includes(keyword)) ?? errors.at(-1))?.error ?? 'is not as the schema wants it'
}

/** Return the value at a path; the name of a member that is wrong is part of it. */
function nodeAt(state: EditorState, path: string[]): SyntaxNode | null {
  let node: SyntaxNode | null = syntaxTree(state).topNode.firstChild
  for (const part of path) {
    if (node?.name === 'Object') {
      const member = node.getChildren('Property').find((one) => nameOf(state, one) === part)
      node = member?.lastChild ?? null
    } else if (node?.name === 'Array') node = elements(node)[Number(part)] ?? null
    else return null
  }
  return node
}

const elements = (node: SyntaxNode) => {
  const found: SyntaxNode[] = []
  for (let child = node.firstChild; child; child = child.nextSibling) if (!'[],'.includes(child.name)) found.push(child)
  return found
}

function nameOf(state: EditorState, member: SyntaxNode): string {
  const name = member.getChild('PropertyName')
  if (!name) return ''
  try {
    return JSON.parse(state.sliceDoc(name.from, name.to)) as string
  } catch {
    return ''
  }
}

function offered(schema: Schema, context: CompletionContext): CompletionResult | null {
  const typed = context.matchBefore(/"?[\w.$]*/)
  const node = syntaxTree(context.state).resolveInner(context.pos, -1)
  const isName = node.name === 'PropertyName' || node.name === 'Object' || (node.name === '⚠' && node.parent?.name === 'Object')
  if (!isName || !typed || (typed.from === typed.to && !context.explicit)) return null
  const object = node.name === 'Object' ? node : node.name === 'PropertyName' ? node.parent?.parent : node.parent
  if (object?.name !== 'Object') return null
  const taken = new Set(object.getChildren('Property').map((member) => nameOf(context.state, member)))
  const members = Object.entries(membersAt(schema, pathOf(context.state, object))).filter(([name]) => !taken.has(name))
  const closing = context.state.sliceDoc(context.pos, context.pos + 1) === '"'
  const options = members.map(([name, { description }]): Completion => ({
    label: `"${name}"`,
    apply: closing ? `"${name}` : `"${name}"`,
    type: 'property',
    ...(description ? { info: description } : {}),
  }))
  return { from: typed.from, options, validFor: /^"?[\w.$]*$/ }
}

function pathOf(state: EditorState, object: SyntaxNode): Path {
  const path: Path = []
  for (let node: SyntaxNode | null = object; node?.parent; node = node.parent) {
    if (node.parent.name === 'Property') path.unshift(nameOf(state, node.parent))
    else if (node.parent.name === 'Array') path.unshift(0)
  }
  return path
}

/** Return the members that the object at a path may have, by name, with what is said of them. */
export function membersAt(schema: Schema, path: Path): Record<string, Schema> {
  let found = alternatives(schema, schema)
  for (const part of path) {
    found = found.flatMap((one): Schema[] => {
      const next = typeof part === 'number' ? one.items : (one.properties?.[part] ?? one.additionalProperties)
      return next && typeof next === 'object' && !Array.isArray(next) ? alternatives(schema, next) : []
    })
  }
  return Object.assign({}, ...found.map((one) => one.properties ?? {})) as Record<string, Schema>
}

/** Return the plain schemas that one stands for. */
function alternatives(root: Schema, schema: Schema): Schema[] {
  const named = schema.$ref?.startsWith('#/$defs/') ? root.$defs?.[schema.$ref.slice('#/$defs/'.length)] : undefined
  const parts = [...(schema.anyOf ?? []), ...(schema.allOf ?? []), ...(named ? [named] : [])]
  return [schema, ...parts.filter((part): part is Schema => typeof part === 'object').flatMap((part) => alternatives(root, part))]
}
