// Table configs that are changed, but not stored. They outlive the page that they are edited on, and the window asks before it goes.

export interface Draft {
  text: string
  /** what was stored when the change began */
  base: string
}

const drafts = new Map<string, Draft>()

/** Return the draft of a config, by the name of the table with its type. */
export const draftOf = (table: string) => drafts.get(table)

/** Keep a draft; one that says what is stored is none. */
export function keepDraft(table: string, draft: Draft): void {
  if (draft.text === draft.base) return dropDraft(table)
  drafts.set(table, draft)
  addEventListener('beforeunload', ask)
}

export function dropDraft(table: string): void {
  drafts.delete(table)
  if (drafts.size === 0) removeEventListener('beforeunload', ask)
}

/** Whether there is nothing to lose, or that is agreed to. */
export const mayForgetDrafts = () => drafts.size === 0 || confirm('There are changes of table configs that are not saved. Give them up?')

export function forgetDrafts(): void {
  for (const table of drafts.keys()) dropDraft(table)
}

function ask(event: BeforeUnloadEvent): void {
  event.preventDefault()
}
