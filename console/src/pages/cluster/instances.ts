// Instances of the cluster, and what all of them are asked.

import { get, messageOf } from '../../lib/api'
import { eachOf } from '../../lib/bounded'

const AT_ONCE = 6

/** What came of asking all instances that are alive: answers, and why there are none, by instance. */
export interface Asked<Answer> {
  answers: Record<string, Answer>
  failures: Record<string, string>
}

export const roleOf = (instance: string) => instance.split('_')[0] ?? ''

/** Return the names of the instances that are alive, in order. Raises ApiError. */
export async function liveInstances(): Promise<string[]> {
  return (await get<{ instances: string[] }>('/liveinstances')).instances.sort()
}

/** Ask each instance, a few at once. A failure of one does not keep the answers of the others away. */
export async function askEach<Answer>(instances: string[], ask: (instance: string) => Promise<Answer>): Promise<Asked<Answer>> {
  const found: Asked<Answer> = { answers: {}, failures: {} }
  await eachOf(instances, AT_ONCE, async (instance) => {
    try {
      found.answers[instance] = await ask(instance)
    } catch (error) {
      found.failures[instance] = messageOf(error)
    }
  })
  return { answers: sorted(found.answers), failures: sorted(found.failures) }
}

function sorted<Value>(record: Record<string, Value>): Record<string, Value> {
  return Object.fromEntries(Object.entries(record).sort(([a], [b]) => (a < b ? -1 : 1)))
}
