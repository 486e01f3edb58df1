/**
 * Checks of token ids before a graph reads them. A kernel would fail without naming the row, or
 * read another token.
 */

/**
 * Checks rows of ids.
 *
 * Errors   throws RangeError for the first id that is not an integer from 0 to
 *          `vocabularySize - 1`, with its row and position.
 * Errors   throws RangeError for the first id that is not an integer from 0 to
 *          `vocabularySize - 1`, with its row and position.
 */
export const checkIds = (
  caller: string,
  name: string,
  { rows, vocabularySize }: { readonly rows: readonly ArrayLike<number>[]; readonly vocabularySize: number },
): void => {
  for (const [row, ids] of rows.entries()) {
    for (let place = 0; place < ids.length; place++) {
      const id = ids[place]!
      if (!(Number.isInteger(id) && id >= 0 && id < vocabularySize)) {
        throw new RangeError(
          `${caller}: token ${place} of ${name} ${row} must be an id from 0 to ${vocabularySize - 1}, got ${id}`,
        )
      }
    }
  }
}

/** Checks prompts: rows of ids that must not be empty. Throws RangeError like `checkIds`. */
export const checkPrompts = (caller: string, prompts: readonly ArrayLike<number>[], vocabularySize: number): void => {
  const empty = prompts.findIndex((prompt) => prompt.length === 0)
  if (empty >= 0) throw new RangeError(`${caller}: prompt ${empty} is empty`)
  checkIds(caller, 'prompt', { rows: prompts, vocabularySize })
}
