/**
 * The people and things of the word problems: few words, so that a small model can learn them all.
 */

/** A person in a problem, with the pronouns that agree. */
export interface Person {
  readonly name: string
  readonly subject: 'he' | 'she'
  readonly object: 'him' | 'her'
  readonly possessive: 'his' | 'her'
}

/** Something that is counted. Sentences about eating require food. */
export interface Thing {
  readonly singular: string
  readonly plural: string
  readonly kind: 'food' | 'other'
}

const man = (name: string): Person => ({ name, subject: 'he', object: 'him', possessive: 'his' })
const woman = (name: string): Person => ({ name, subject: 'she', object: 'her', possessive: 'her' })

export const MEN: readonly Person[] = ['Tom', 'Ben', 'Leo', 'Omar', 'Ravi', 'Jack', 'Noah', 'Luca', 'Finn', 'Hugo'].map(
  man,
)

export const WOMEN: readonly Person[] = [
  'Mia',
  'Ana',
  'Zoe',
  'Nora',
  'Eva',
  'Maya',
  'Ruth',
  'Ella',
  'Iris',
  'Jane',
].map(woman)

const food = (singular: string, plural = `${singular}s`): Thing => ({ singular, plural, kind: 'food' })
const other = (singular: string, plural = `${singular}s`): Thing => ({ singular, plural, kind: 'other' })

export const THINGS: readonly Thing[] = [
  food('apple'),
  food('orange'),
  food('pear'),
  food('plum'),
  food('carrot'),
  food('cookie'),
  food('muffin'),
  food('nut'),
  other('marble'),
  other('book'),
  other('pencil'),
  other('coin'),
  other('card'),
  other('stamp'),
  other('shell'),
  other('button'),
  other('ball'),
  other('brush', 'brushes'),
  other('stone'),
  other('sticker'),
  other('bead'),
  other('doll'),
  other('cup'),
  other('candle'),
]

/** Formats a number of things: `1 apple`, `0 apples`. The second form is `1 more apple`. */
export const counted = (count: number, thing: Thing, form: 'plain' | 'more' = 'plain'): string =>
  `${count}${form === 'more' ? ' more' : ''} ${count === 1 ? thing.singular : thing.plural}`
