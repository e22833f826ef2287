// Numbers, sizes and times as people read them.

const WHOLE = new Intl.NumberFormat('en-US')

/** 1234567 -> "1,234,567" */
export function count(value: number | bigint): string {
  return WHOLE.format(value)
}

/** "1 row", "2 rows" */
export function counted(value: number, one: string, many = `${one}s`): string {
  return `${count(value)} ${value === 1 ? one : many}`
}

/** 1536 -> "1.5 KiB" */
export function bytes(value: number): string {
  if (value < 1024) return `${value} B`
  const units = ['KiB', 'MiB', 'GiB', 'TiB', 'PiB']
  let scaled = value / 1024
  let unit = 0
  while (scaled >= 1024 && unit < units.length - 1) {
    scaled /= 1024
    unit += 1
  }
  return `${scaled >= 100 ? Math.round(scaled) : Number(scaled.toPrecision(3))} ${units[unit]}`
}

/** 0.4 -> "0.4 ms", 1500 -> "1.5 s", 90000 -> "1 min 30 s" */
export function duration(ms: number): string {
  if (ms < 1000) return `${ms >= 10 ? Math.round(ms) : Number(ms.toPrecision(2))} ms`
  if (ms < 60_000) return `${Number((ms / 1000).toPrecision(3))} s`
  const seconds = Math.round(ms / 1000)
  if (seconds < 3600) return parts([Math.floor(seconds / 60), 'min'], [seconds % 60, 's'])
  const minutes = Math.round(seconds / 60)
  if (minutes < 48 * 60) return parts([Math.floor(minutes / 60), 'h'], [minutes % 60, 'min'])
  const hours = Math.round(minutes / 60)
  return parts([Math.floor(hours / 24), 'days'], [hours % 24, 'h'])
}

/** Milliseconds since 1970 -> "2026-11-26 07:24:18", in the zone of the browser */
export function time(ms: number): string {
  const at = new Date(ms)
  if (Number.isNaN(at.getTime())) return String(ms)
  const two = (value: number) => String(value).padStart(2, '0')
  const day = `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())}`
  return `${day} ${two(at.getHours())}:${two(at.getMinutes())}:${two(at.getSeconds())}`
}

/** "3 min ago" */
export function ago(ms: number, nowMs: number): string {
  const passed = nowMs - ms
  if (passed < 5000) return 'just now'
  return passed < 60_000 ? `${Math.round(passed / 1000)} s ago` : `${duration(passed).replace(/ \d+ (s|min|h)$/, '')} ago`
}

/** 0.1234 -> "12 %" */
export function percent(share: number): string {
  const value = share * 100
  return `${value > 0 && value < 10 ? Number(value.toPrecision(2)) : Math.round(value)} %`
}

function parts(...found: [number, string][]): string {
  return found.filter(([value], index) => index === 0 || value > 0).map(([value, unit]) => `${value} ${unit}`).join(' ')
}
