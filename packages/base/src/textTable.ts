/** Tables as plain text. */

/**
 * Aligns the cells of rows in columns, two spaces apart. All rows have as many cells as the first.
 *
 * @example
 * textTable([['a', '1'], ['long', '2']]) // ['a     1', 'long  2']
 */
export const textTable = (rows: readonly (readonly string[])[]): readonly string[] => {
  const widths = (rows[0] ?? []).map((_, i) => Math.max(...rows.map((row) => row[i]!.length)))
  return rows.map((row) =>
    row
      .map((cell, i) => cell.padEnd(widths[i]!))
      .join('  ')
      .trimEnd(),
  )
}
