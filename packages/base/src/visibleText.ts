/** Text from outside, for terminals and pages. */

/**
 * Characters that a terminal obeys, or that change the order of others or cannot be seen: controls
 * except line feeds and tabs, and formats except the joiners, which scripts and emoji need.
 */
const OBEYED = /(?![\n\t\u200c\u200d])[\p{Cc}\p{Cf}]/gu

const escaped = (character: string): string =>
  Array.from(
    { length: character.length },
    (_, i) => `\\u${character.charCodeAt(i).toString(16).padStart(4, '0')}`,
  ).join('')

/**
 * Replaces control and formatting characters by escapes of JSON, so that text in JSON keeps its
 * meaning. Line feeds and tabs stay.
 *
 * Cost     linear.
 *
 * @example
 * visibleText('\u001b[31mred') // '\\u001b[31mred'
 */
export const visibleText = (text: string): string => text.replace(OBEYED, escaped)

/**
 * Returns a text in one line, for tables and lists: as `visibleText`, with a space for line feeds
 * and tabs.
 *
 * @example
 * visibleLine('a\n\tb') // 'a b'
 */
export const visibleLine = (text: string): string => visibleText(text).replace(/[\n\t]+/g, ' ')
