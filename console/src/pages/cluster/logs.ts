// Lines of the logs of instances, put together. Pure.

export interface LogLine {
  /** counts up within a process, which several instances may share */
  number: number
  time: string
  level: string
  logger: string
  message: string
  exception?: string
  table?: string
}

export interface Log {
  process: string
  lines: LogLine[]
}

export interface ShownLine extends LogLine {
  key: string
  instance: string
}

/** Return the lines of all instances, the newest first, those of a process once. */
export function linesOf(logs: Record<string, Log>): ShownLine[] {
  const found = new Map<string, ShownLine>()
  for (const [instance, log] of Object.entries(logs)) {
    for (const line of log.lines) {
      const key = `${log.process} ${line.number}`
      const known = found.get(key)
      found.set(key, { ...line, key, instance: known ? `${known.instance}, ${instance}` : instance })
    }
  }
  return [...found.values()].sort((a, b) => (a.time === b.time ? b.number - a.number : a.time < b.time ? 1 : -1))
}
