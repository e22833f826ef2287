// How the consumption of a stream goes, as the controller tells it. Pure.

interface Replica {
  partition: number
  state: string
  failure: string | null
  currentOffset: string
  latestUpstreamOffset: string | null
  recordsLag: number | null
  numRows: number
  rowsPerSecond: number
  lastConsumedTimestampMs: number
  /** -1 where the stream does not say */
  lastMessageTimestampMs: number
  memoryBytes: number
}

export interface Told {
  consumingSegments: {
    segmentName: string
    rowLimit: number | null
    idealState: Record<string, string>
    replicas: Record<string, Replica>
  }[]
  serversFailingToRespond: string[]
}

export interface Consumer extends Partial<Replica> {
  segment: string
  server: string
  rowLimit: number | null
}

/** Return a row for each replica that should consume; one that does not tell how far it is has its names alone. */
export function consumersOf({ consumingSegments }: Told): Consumer[] {
  return consumingSegments.flatMap(({ segmentName, rowLimit, idealState, replicas }) => {
    const wanted = Object.keys(idealState).filter((server) => idealState[server] === 'CONSUMING')
    const servers = [...new Set([...wanted, ...Object.keys(replicas)])].sort()
    return servers.map((server) => ({ segment: segmentName, server, rowLimit, ...replicas[server] }))
  })
}

/** Return what a consumer does, and whether that is as it should be. */
export function stateOf({ state, failure }: Consumer): { text: string; look: 'good' | 'warn' | 'bad' } {
  if (state === undefined) return { text: 'no answer', look: 'bad' }
  if (failure || state === 'ERROR') return { text: failure ?? 'error', look: 'bad' }
  const isConsuming = ['INITIAL_CONSUMING', 'CATCHING_UP', 'CONSUMING_TO_ONLINE'].includes(state)
  return { text: isConsuming ? 'consuming' : state.toLowerCase(), look: isConsuming ? 'good' : 'warn' }
}

/** When the newest row was written to the stream or, where the stream does not say, came here; milliseconds. */
export function newestMs({ lastMessageTimestampMs = -1, lastConsumedTimestampMs = -1 }: Consumer): number | null {
  const found = lastMessageTimestampMs >= 0 ? lastMessageTimestampMs : lastConsumedTimestampMs
  return found >= 0 ? found : null
}

export interface Letter {
  partition: number
  offset: string
  nextOffset: string | null
  kind: 'UNDECODABLE' | 'UNCONVERTIBLE' | 'REJECTED' | 'GAP'
  reason: string
  timestampMs: number
  /** base64 */
  payload: string | null
  replayedTo: string | null
  /** why it cannot be sent to the stream again */
  notReplayable: string | null
}

/** Whether a message can be sent to the stream again, and was not yet. */
export const mayReplay = ({ notReplayable, replayedTo }: Letter) => !notReplayable && !replayedTo

const SHOWN_MAX = 2000

/** Return a message as text where it is one, else as bytes in hexadecimal. */
export function payloadText(base64: string): string {
  const data = Uint8Array.from(atob(base64), (char) => char.charCodeAt(0))
  try {
    return clipped(new TextDecoder('utf-8', { fatal: true }).decode(data))
  } catch {
    return clipped(Array.from(data.subarray(0, SHOWN_MAX), (byte) => byte.toString(16).padStart(2, '0')).join(' '))
  }
}

const clipped = (text: string) => (text.length > SHOWN_MAX ? `${text.slice(0, SHOWN_MAX)}…` : text)
