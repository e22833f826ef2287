// Queries that pages ask for themselves, through the controller.

import type { Answer } from '../pages/query/answer'
import { ApiError, post } from './api'

/** the name by which brokers tell these queries from those that people ask */
export const APPLICATION = 'gamay-console'

/** Return the answer of a query. Raises ApiError, also for what the answer says went wrong. */
export async function ask(sql: string): Promise<Answer> {
  const answer = await post<Answer>('/sql', { sql, queryOptions: `applicationName=${APPLICATION}` })
  const wrong = answer.error ?? answer.exceptions?.[0]?.message
  if (wrong) throw new ApiError(200, wrong)
  return answer
}

/** Return a name as SQL has it. */
export const quoted = (name: string) => `"${name.replaceAll('"', '""')}"`
