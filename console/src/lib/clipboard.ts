// The clipboard, also on pages that came by plain HTTP from another machine, where browsers offer no API for it.

/** Put a text into the clipboard. Raises an error where the browser does not let it. */
export async function copyText(text: string): Promise<void> {
  if (navigator.clipboard) {
    await navigator.clipboard.writeText(text)
    return
  }
  const before = document.activeElement as HTMLElement | null
  const area = document.createElement('textarea')
  area.value = text
  area.className = 'visually-hidden'
  area.setAttribute('aria-hidden', 'true')
  ;(before?.closest('dialog') ?? document.body).append(area)
  area.select()
  const done = document.execCommand('copy')
  area.remove()
  before?.focus()
  if (!done) throw new Error('The browser did not let the page write to the clipboard')
}
