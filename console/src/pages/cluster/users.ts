// Users of the cluster, as the controller tells of them and as a form has them.

export interface User {
  username: string
  component: string
  role: string
  /** null: all */
  tables: string[] | null
  excludeTables: string[] | null
  permissions: string[] | null
}

export interface Form {
  username: string
  /** several are made at once, as one who uses the console needs to be known at controllers and brokers */
  components: string[]
  role: string
  /** names, separated by commas or spaces; empty for all */
  tables: string
  /** empty: as before */
  password: string
}

export const ROLES = ['ADMIN', 'OPERATOR', 'WRITER', 'READER', 'USER', 'INSTANCE']
export const COMPONENTS = ['CONTROLLER', 'BROKER', 'SERVER', 'MINION', 'PROXY']

export function formOf(user?: User): Form {
  if (!user) return { username: '', components: ['CONTROLLER', 'BROKER'], role: 'READER', tables: '', password: '' }
  const { username, component, role, tables } = user
  return { username, components: [component], role, tables: (tables ?? []).join(', '), password: '' }
}

/** Return what is sent of a user. before: as it is, of which is kept what the form does not have. */
export function bodyOf(form: Form, component: string, before?: User): Record<string, unknown> {
  const tables = form.tables.split(/[\s,]+/).filter(Boolean)
  return {
    ...{ username: form.username.trim(), component, role: form.role },
    ...(form.password ? { password: form.password } : {}),
    ...(tables.length ? { tables } : {}),
    ...(before?.excludeTables ? { excludeTables: before.excludeTables } : {}),
    ...(before?.permissions ? { permissions: before.permissions } : {}),
  }
}
