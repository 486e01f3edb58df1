/**
 * Returns a number with its noun, in the plural unless it is 1.
 *
 * @example
 * countOf(1, 'step') // '1 step'
 * @example
 * countOf(1200, 'step') // '1,200 steps'
 */
export const countOf = (count: number, noun: string): string =>
  `${count.toLocaleString('en-US')} ${noun}${count === 1 ? '' : 's'}`
