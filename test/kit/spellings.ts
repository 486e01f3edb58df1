/** Spellings of numbers in answers, in which a number stays the same. */
import fc from 'fast-check'

/** Emphasis and delimiters around a number. */
const MARKUP: readonly ((number: string) => string)[] = [
  (x) => `**${x}**`,
  (x) => `*${x}*`,
  (x) => `__${x}__`,
  (x) => `\`${x}\``,
  (x) => `"${x}"`,
  (x) => `$${x}$`,
  (x) => `$$${x}$$`,
  (x) => `\\(${x}\\)`,
  (x) => `\\[${x}\\]`,
  (x) => `\\boxed{${x}}`,
  (x) => `\\fbox{${x}}`,
  (x) => `\\textbf{${x}}`,
  (x) => `\\text{${x}}`,
  (x) => `\\emph{${x}}`,
  (x) => `\\underline{${x}}`,
  (x) => `\\mathbf{${x}}`,
  (x) => `\\mathrm{${x}}`,
  (x) => `\\boldsymbol{${x}}`,
  (x) => `\\bm{${x}}`,
  (x) => ` ${x}. `,
  (x) => `${x}\u3002`,
  (x) => x,
]

const MINUS = ['-', '\u2212', '\u2013', '\u2014', '\u2011', '\uff0d', '\ufe63'] as const
const CURRENCY = ['', '$', '\\$', 'US$', '\u20ac', '\u00a3', '\u00a5'] as const
const GROUPS = ['', ',', '\u00a0', '\u2009', '\u202f', '{,}', '\\,'] as const

const fullWidth = (digits: string): string =>
  digits.replace(/\d/g, (digit) => String.fromCharCode(digit.charCodeAt(0) + 0xfee0))

/** A number with one of its spellings, in so much markup. */
export const anySpelling = (levels: 1 | 2) =>
  fc
    .record({
      number: fc.integer({ min: -9_999_999, max: 9_999_999 }),
      minus: fc.constantFrom(...MINUS),
      currency: fc.constantFrom(...CURRENCY),
      group: fc.constantFrom(...GROUPS),
      zeros: fc.constantFrom('', '.0', '.00'),
      digits: fc.constantFrom((x: string) => x, fullWidth),
      markup: fc.constantFrom(...MARKUP),
      outer: levels === 1 ? fc.constant((x: string) => x) : fc.constantFrom(...MARKUP),
    })
    .map(({ number, minus, currency, group, zeros, digits, markup, outer }) => {
      const whole = digits(Math.abs(number).toLocaleString('en-US')).replaceAll(',', group)
      return { number, text: outer(markup(`${number < 0 ? minus : ''}${currency}${whole}${zeros}`)) }
    })
