/** Units of measure, in which answers are given. */
import { type MathTree, numberTree, ONE } from './tree.js'

const SAME: readonly (readonly [unit: string, names: string])[] = [
  ['mm', 'millimeter millimetre'],
  ['cm', 'centimeter centimetre'],
  ['m', 'meter metre'],
  ['km', 'kilometer kilometre'],
  ['in', 'inch inche'],
  ['ft', 'foot feet'],
  ['yd', 'yard'],
  ['mi', 'mile'],
  ['g', 'gram'],
  ['mg', 'milligram'],
  ['kg', 'kilogram'],
  ['lb', 'pound'],
  ['oz', 'ounce'],
  ['s', 'second sec'],
  ['min', 'minute'],
  ['hr', 'hour h'],
  ['L', 'liter litre l'],
  ['mL', 'milliliter millilitre ml'],
  ['degree', 'deg'],
  ['dollar', 'usd'],
]

const UNITS: ReadonlyMap<string, string> = new Map(
  SAME.flatMap(([unit, names]) => [unit.toLowerCase(), ...names.split(' ')].map((name) => [name, unit] as const)),
)

/** Words that measure nothing. */
const EMPTY: ReadonlySet<string> = new Set(['unit', 'units', 'of', 'the', 'total', ''])

const unitOf = (word: string): string => {
  const name = word.toLowerCase().replace(/[^\p{L}]/gu, '')
  return UNITS.get(name) ?? UNITS.get(name.replace(/s$/, '')) ?? name.replace(/s$/, '')
}

const symbol = (name: string): MathTree => ({ _tag: 'Symbol', name, kind: 'unit' })

/** Numbers that words behind a number multiply it by. */
const SCALES: ReadonlyMap<string, bigint> = new Map([
  ['dozen', 12n],
  ['hundred', 100n],
  ['thousand', 1000n],
  ['million', 10n ** 6n],
  ['billion', 10n ** 9n],
  ['trillion', 10n ** 12n],
])

/**
 * Words with which a number means another value, or none: `not 5`, `5 or more`, `negative 5`,
 * `twice 5`.
 */
const CHANGING: ReadonlySet<string> = new Set(
  [
    'not no never none neither nor cannot isn aren wasn wrong incorrect false except but without excluding',
    'less fewer smaller lower under below more greater larger bigger higher over above than least most',
    'negative minus plus times half halves double twice triple thrice third thirds quarter quarters fourth fourths fifth fifths',
    'squared cubed root inverse reciprocal mod modulo remainder or to between through until if unless factorial choose',
    'zero one two three four five six seven eight nine ten eleven twelve twenty thirty forty fifty sixty seventy eighty ninety',
  ].flatMap((line) => line.split(' ')),
)

const UNIT_OF_AREA = /^(?:squared|cubed)$/

/**
 * Returns `true` if the words after a number are units and do not change it: `cm squared`, not
 * `squared`.
 */
export const isMeasure = (text: string): boolean => {
  const words = text
    .toLowerCase()
    .split(/[^\p{L}]+/u)
    .filter((word) => word !== '')
  return words.every((word, i) => !CHANGING.has(word) || (i > 0 && UNIT_OF_AREA.test(word)))
}

/**
 * Returns the unit that the words after a number name: `feet`, `square inches`, `miles per hour`,
 * `cm`. Spellings, singular and plural of a unit are equal.
 */
export const unitsOf = (text: string): MathTree => {
  const words = text
    .replaceAll('/', ' per ')
    .split(/[\s.,]+/)
    .filter((word) => !EMPTY.has(word.toLowerCase()))
  const factors: MathTree[] = []
  let [power, sign] = [1n, 1n]
  for (const word of words) {
    const name = word.toLowerCase()
    if (name === 'square' || name === 'sq') power = 2n
    else if (name === 'cubic' || name === 'cu') power = 3n
    else if (name === 'per') sign = -1n
    else if (SCALES.has(name)) factors.push(numberTree(SCALES.get(name)!))
    else {
      const raised = /\^?([23])$/.exec(word)?.[1]
      const exponent = numberTree(sign * (raised === undefined ? power : BigInt(raised)))
      factors.push({ _tag: 'Power', base: symbol(unitOf(word)), exponent })
      power = 1n
    }
  }
  return factors.length === 0 ? ONE : { _tag: 'Product', factors }
}
