/** Typographic spellings of numbers and signs. */

/** Vulgar fractions: `¼` to `¾`, and `⅐` to `⅞`. */
const FRACTIONS = /[\u00bc-\u00be\u2150-\u215e]/g

const fraction = (character: string): string => {
  const [over = '', under = ''] = character.normalize('NFKC').split('\u2044')
  return `\\frac{${over}}{${under}}`
}

/**
 * Writes characters in their ASCII spelling: dashes and minus signs, full-width characters, vulgar
 * fractions in LaTeX, and spaces. Removes spaces and LaTeX separators between thousands, and the
 * country before a dollar sign. Each pattern is linear: it looks a few characters ahead at most.
 *
 * @example
 * plainSpelling('−US$1\u202f000') // '-$1000'
 */
export const plainSpelling = (text: string): string =>
  text
    .replace(/[\uff01-\uff5e]/g, (character) => String.fromCharCode(character.charCodeAt(0) - 0xfee0))
    .replace(/\u3002/g, '.')
    .replace(/[\u2010\u2011\u2012\u2013\u2014\u2212\ufe63]/g, '-')
    .replace(FRACTIONS, fraction)
    .replace(/(\d),\\!\s{0,3}(?=\d{3}(?!\d))/g, '$1')
    .replace(/\\!/g, '')
    .replace(/(\d)(?:\{,\}|\\[,;: ]|[\u00a0\u2009\u202f])(?=\d{3}(?!\d))/g, '$1')
    .replace(/[\u00a0\u2009\u202f\u3000]/g, ' ')
    .replace(/(?<![A-Za-z\\])(?:US|CA|AU|NZ|HK|NT|SG)(?=\\?\$\s?\d)/g, '')
