// Short messages in the corner: what was done, or why it was not.

export interface Notice {
  id: number
  kind: 'good' | 'bad' | 'info'
  text: string
}

const SHOWN_MS = 6000

class Notices {
  list = $state<Notice[]>([])
  #last = 0

  show(kind: Notice['kind'], text: string): void {
    const id = ++this.#last
    this.list = [...this.list.slice(-3), { id, kind, text }]
    if (kind !== 'bad') setTimeout(() => this.close(id), SHOWN_MS)
  }

  close(id: number): void {
    this.list = this.list.filter((notice) => notice.id !== id)
  }
}

export const notices = new Notices()
