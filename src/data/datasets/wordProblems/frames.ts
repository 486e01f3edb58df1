/**
 * The sentences of the word problems, with slots in braces.
 *
 * Only the hero has things that count, and the friend is of the other sex, so that `he` and `she`
 * are unambiguous in a problem. Every step frame describes one change, in the past tense, which has
 * the same form for one thing and for many.
 */
import type { ProblemOperation } from './plan.js'
import type { Thing } from './vocabulary.js'

/** The slots of frames. `Hero` and `friend` are names, `hero` is a name or a pronoun. */
export type Slot =
  | 'Hero'
  | 'hero'
  | 'he'
  | 'him'
  | 'his'
  | 'friend'
  | 'place'
  | 'number' // 7
  | 'count' // 7 apples
  | 'more' // 7 more apples
  | 'things' // apples

/** A sentence for one operation, without its first words and its full stop. */
export interface StepFrame {
  readonly text: string
  /** The things that make sense in the sentence. */
  readonly about: 'anything' | 'food'
}

const anything = (text: string): StepFrame => ({ text, about: 'anything' })
const food = (text: string): StepFrame => ({ text, about: 'food' })

export const OPENINGS: readonly string[] = [
  '{Hero} had {count}.',
  '{Hero} had {count} {place}.',
  'At first {Hero} had {count}.',
  '{Hero} owned {count}.',
  '{Hero} kept {count} {place}.',
  '{Hero} started with {count}.',
  '{Hero} was proud to have {count}.',
  'In the beginning {Hero} had {count}.',
]

export const PLACES: readonly string[] = [
  'in a box',
  'in a big bag',
  'in a small basket',
  'in a drawer',
  'on a shelf',
  'on the table',
  'at home',
]

export const STEP_FRAMES: Readonly<Record<ProblemOperation, readonly StepFrame[]>> = {
  add: [
    anything('{hero} found {more} under the bed'),
    anything('{hero} bought {more} at the store'),
    anything('{hero} won {more} in a game'),
    anything('{hero} got {more} from the teacher'),
    anything('{hero} picked up {more} in the park'),
    anything('{hero} made a wish and got {more}'),
    anything('{hero} earned {more} for hard work'),
    anything('{hero} brought {more} from a party'),
    anything('{friend} gave {him} {more}'),
    anything('{friend} came and brought {him} {more}'),
    anything('{friend} bought {him} {more}'),
    anything('{friend} left {more} at the door for {him}'),
    anything('{his} parents gave {him} {more} as a gift'),
    anything('{his} parents brought {him} {more}'),
    anything('a neighbor brought {him} {more}'),
    anything('the store gave {him} {more} for free'),
    anything('{more} came by mail for {him}'),
    food('a farmer gave {him} {more}'),
    food('{hero} got {more} from the cook'),
  ],
  subtract: [
    anything('{hero} gave {count} to {friend}'),
    anything('{hero} gave away {count} in the park'),
    anything('{hero} sold {count} at the market'),
    anything('{hero} sold {count} to a neighbor'),
    anything('{hero} lost {count} on a long walk'),
    anything('{hero} lost {count} to {friend} in a game'),
    anything('{hero} lost {count} in the river'),
    anything('{hero} had to throw away {count}'),
    anything('{hero} sent {count} to a cousin'),
    anything('{hero} traded {count} for an old hat'),
    anything('{hero} let {friend} take {count} home'),
    anything('{friend} bought {count} from {him}'),
    anything('{his} parents helped {him} sell {count}'),
    anything('a dog ran off with {count}'),
    anything('a bird stole {count} from {him}'),
    anything('a big wave took {count} away'),
    food('{hero} sat down and ate {count}'),
    food('{hero} was hungry and ate {count}'),
    food('{hero} fed {count} to the ducks'),
    food('{hero} used up {count} to bake a cake'),
  ],
  multiply: [
    anything('a kind wizard made sure {he} had {number} times as many {things}'),
    anything('{hero} worked hard until {he} had {number} times as many {things}'),
    anything('good luck left {him} with {number} times as many {things}'),
    anything('with the help of {friend}, {he} had {number} times as many {things}'),
    anything('a magic trick made the number of {things} {number} times as large'),
  ],
}

/** The first words of a step's sentence, by its position in the chain. */
export const CONNECTIVES: Readonly<Record<'first' | 'middle' | 'last', readonly string[]>> = {
  first: ['', '', '', 'One day', 'On Monday', 'First,'],
  middle: ['Next,', 'After that,', 'Soon', 'Some time later'],
  last: ['Then', 'Then', 'Later', 'Finally,', 'In the evening,'],
}

export const QUESTIONS: readonly string[] = [
  'How many {things} does {Hero} have now?',
  'How many {things} does {Hero} have in the end?',
  'After all this, how many {things} does {Hero} have?',
  'What number of {things} does {Hero} have now?',
  'Can you say how many {things} {Hero} has now?',
  'So how many {things} does {Hero} have?',
]

/**
 * Fills the slots of a frame. Throws Error for a slot without a value, because its name is
 * misspelled.
 */
export const fill = (frame: string, values: Readonly<Record<string, string>>): string =>
  frame.replace(/\{(\w+)\}/g, (_, slot: string) => {
    const value = values[slot]
    if (value === undefined) throw new Error(`fill: no value of {${slot}} for '${frame}'`)
    return value
  })

/** Returns true if a frame makes sense for a thing. */
export const suits = ({ about }: StepFrame, { kind }: Thing): boolean => about === 'anything' || about === kind
