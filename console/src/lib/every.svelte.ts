// Doing something again and again while somebody looks.

/** Do something now and then, for as long as the component that asks for it is there, and only while the page is visible. */
export function useEvery(ms: number, action: () => unknown): void {
  $effect(() => {
    const timer = setInterval(() => document.visibilityState === 'visible' && action(), ms)
    return () => clearInterval(timer)
  })
}
