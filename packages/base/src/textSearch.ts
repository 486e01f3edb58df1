/** Searches for one text from outside in another, in linear time. */

/** Characters of both texts, multiplied, up to which the search of the platform is fast enough. */
const SMALL = 2 ** 22

/** For each length of a beginning of `part`, the longest shorter one that it ends with. */
const bordersOf = (part: string): Int32Array => {
  const borders = new Int32Array(part.length + 1)
  let length = 0
  for (let i = 1; i < part.length; i++) {
    while (length > 0 && part.charCodeAt(i) !== part.charCodeAt(length)) length = borders[length]!
    if (part.charCodeAt(i) === part.charCodeAt(length)) length++
    borders[i + 1] = length
  }
  return borders
}

/**
 * Returns the first place of `part` in `text` from `from` on, or -1, as `String.indexOf` does. That
 * method compares each place with all of a periodic `part` in the worst case.
 *
 * Cost     linear in both texts.
 * Source   Knuth, Morris and Pratt 1977.
 *
 * @example
 * indexOfText('abcabd', 'abd') // 3
 */
export const indexOfText = (text: string, part: string, from = 0): number => {
  if (part.length * (text.length - from) <= SMALL) return text.indexOf(part, from)
  const borders = bordersOf(part)
  let length = 0
  for (let i = Math.max(0, from); i < text.length; i++) {
    while (length > 0 && text.charCodeAt(i) !== part.charCodeAt(length)) length = borders[length]!
    if (text.charCodeAt(i) === part.charCodeAt(length)) length++
    if (length === part.length) return i - length + 1
  }
  return -1
}
