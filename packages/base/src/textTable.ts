/** Tables and numbers as plain text. */

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

/**
 * Formats a number with four digits, and an absent one as `-`.
 *
 * @example
 * shortNumber(0.123456) // '0.1235'
 */
export const shortNumber = (value: number | null | undefined): string =>
  value === null || value === undefined ? '-' : String(Number(value.toPrecision(4)))
