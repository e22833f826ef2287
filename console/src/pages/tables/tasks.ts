// What the controller tells of a table's tasks.

import { get, path } from '../../lib/api'
import type { Kind } from './table'

/** a task type that a table's config asks for */
export interface Schedule {
  table: string
  type: string
  /** a cron expression, empty where the tasks are made by hand only */
  cron: string
  next: string | null
  previous: string | null
  /** when tasks could not be made, and why */
  failures: [moment: string, why: string][]
}

export interface Subtask {
  taskId: string
  state: string
  startTime: string | null
  finishTime: string | null
  participant: string | null
  info: string | null
}

export interface Run {
  name: string
  table: string
  type: string
  taskState: string
  startTime: string | null
  executionStartTime: string | null
  finishTime: string | null
  triggeredBy: string
  subtaskCount: Record<string, number>
  subtaskInfos: Subtask[]
}

interface Trigger {
  CronExpression: string
  NextFireTime: string | null
  PreviousFireTime: string | null
}

export interface Tasks {
  schedules: Schedule[]
  /** the latest first */
  runs: Run[]
}

/** Return the schedules and runs of a table. Raises ApiError. */
export async function tasksOf(name: string, kinds: Kind[]): Promise<Tasks> {
  const [configs, queues, keys] = await Promise.all([
    get<Record<string, { task?: { taskTypeConfigsMap?: Record<string, unknown> } }>>(path`/tables/${name}`),
    get<string[]>('/tasks/tasktypes'),
    get<{ name: string; group: string }[]>('/tasks/scheduler/jobKeys'),
  ])
  const tables = kinds.map((kind) => ({ table: `${name}_${kind}`, asked: configs[kind]?.task?.taskTypeConfigsMap ?? {} }))
  const schedules = tables.flatMap(({ table, asked }) =>
    Object.keys(asked).map((type) =>
      scheduleOf(table, type, keys.some((key) => key.name === table && key.group === type)),
    ),
  )
  const runs = tables.flatMap(({ table }) => queues.map((type) => runsOf(table, type)))
  return { schedules: await Promise.all(schedules), runs: (await Promise.all(runs)).flat().sort(latestFirst) }
}

async function scheduleOf(table: string, type: string, isTimed: boolean): Promise<Schedule> {
  const found: Schedule = { table, type, cron: '', next: null, previous: null, failures: [] }
  if (!isTimed) return found
  const told = await get<{ Triggers: Trigger[] }>('/tasks/scheduler/jobDetails', { tableName: table, taskType: type })
  const trigger = told.Triggers[0]
  if (!trigger) return found
  const timed = { ...found, cron: trigger.CronExpression, next: trigger.NextFireTime, previous: trigger.PreviousFireTime }
  if (!timed.previous) return timed // nothing is noted of it before it was its turn
  const noted = await get<{ mostRecentErrorRunMessages: Record<string, string> }[]>(
    path`/tasks/generator/${table}/${type}/debug`,
  ).catch(() => [])
  return { ...timed, failures: noted.flatMap((one) => Object.entries(one.mostRecentErrorRunMessages)) }
}

async function runsOf(table: string, type: string): Promise<Run[]> {
  const found = await get<Record<string, Omit<Run, 'name' | 'table' | 'type'>>>(path`/tasks/${type}/${table}/debug`, {
    verbosity: 1,
  })
  return Object.entries(found).map(([name, run]) => ({ ...run, name, table, type }))
}

function latestFirst(a: Run, b: Run): number {
  return (b.startTime ?? '').localeCompare(a.startTime ?? '') || b.name.localeCompare(a.name)
}

/** Milliseconds between two moments as the controller writes them, "2026-11-26 07:24:18 UTC"; null unless both are there. */
export function took(from: string | null, to: string | null): number | null {
  if (!from || !to) return null
  const ms = moment(to) - moment(from)
  return Number.isFinite(ms) ? ms : null
}

const moment = (text: string) => Date.parse(text.replace(' UTC', 'Z').replace(' ', 'T'))

/** Whether a run goes no further. Its finishTime comes later: the controller notes it when it next looks after tasks. */
export const isOver = (run: Run) => /^(COMPLETED|FAILED|ABORTED|TIMED_OUT)$/.test(run.taskState)

/** Return when a run ended: as noted, else as its last subtask did; null while it runs. */
export function endOf(run: Run): string | null {
  if (run.finishTime || !isOver(run)) return run.finishTime
  return run.subtaskInfos.reduce<string | null>((last, { finishTime }) => (!last || (finishTime ?? '') > last ? finishTime : last), null)
}

/** The class that colours a state. */
export function colourOf(state: string): string {
  if (state === 'COMPLETED') return 'good'
  return /ERROR|FAILED|TIMED_OUT|ABORTED/.test(state) ? 'bad' : 'warn'
}
