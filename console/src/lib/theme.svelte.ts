// Dark or light: what the system prefers, unless the switch says one.

import { store, stored } from './stored'

export type Theme = 'system' | 'light' | 'dark'

class Appearance {
  theme = $state<Theme>(stored<Theme>('theme', 'system'))
  #systemIsDark = $state(matchMedia('(prefers-color-scheme: dark)').matches)

  constructor() {
    matchMedia('(prefers-color-scheme: dark)').addEventListener('change', (event) => {
      this.#systemIsDark = event.matches
    })
    this.#apply()
  }

  get isDark(): boolean {
    return this.theme === 'system' ? this.#systemIsDark : this.theme === 'dark'
  }

  /** Take the theme after this one. */
  next(): void {
    const order: Theme[] = ['system', 'light', 'dark']
    this.theme = order[(order.indexOf(this.theme) + 1) % order.length] ?? 'system'
    store('theme', this.theme)
    this.#apply()
  }

  #apply(): void {
    if (this.theme === 'system') delete document.documentElement.dataset.theme
    else document.documentElement.dataset.theme = this.theme
  }
}

export const appearance = new Appearance()
