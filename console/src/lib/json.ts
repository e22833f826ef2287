// JSON whose whole numbers stay what they are: those beyond 2^53 become BigInt, where JavaScript would round them.

const MAYBE_LONG = /[[,:]\s*-?\d{16}/

export function parseJson(text: string): unknown {
  return MAYBE_LONG.test(text) ? JSON.parse(text, exact as Reviver) : JSON.parse(text)
}

/** Return text for a value that may hold BigInt. */
export function toJson(value: unknown, indent?: number): string {
  const raw = (JSON as { rawJSON?: (text: string) => unknown }).rawJSON
  return JSON.stringify(value, (_, inner) => (typeof inner === 'bigint' ? (raw?.(`${inner}`) ?? `${inner}`) : inner), indent)
}

type Reviver = (key: string, value: unknown) => unknown

function exact(_: string, value: unknown, context?: { source?: string }): unknown {
  if (typeof value !== 'number' || Number.isSafeInteger(value) || context?.source === undefined) return value
  return /^-?\d+$/.test(context.source) ? BigInt(context.source) : value
}
