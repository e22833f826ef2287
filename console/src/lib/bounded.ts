// Many calls, of which few are under way at once: a controller has other things to do, too.

/** Do something for each item, for at most `atOnce` at a time; return what came of it, in order. Raises what the first failure raised. */
export async function eachOf<Item, Result>(items: readonly Item[], atOnce: number, action: (item: Item) => Promise<Result>): Promise<Result[]> {
  const results: Result[] = []
  let next = 0
  async function worker(): Promise<void> {
    while (next < items.length) {
      const index = next++
      results[index] = await action(items[index]!)
    }
  }
  await Promise.all(Array.from({ length: Math.min(atOnce, items.length) }, worker))
  return results
}
