/**
 * Generates word problems from a key: small arithmetic in plain English, in the row format of
 * GSM8K.
 */
import { child, type Key, keyFromSeed, permutation, uniformInteger } from '@tandem-rl/base'
import type { Task } from '@tandem-rl/text'
import { endlessTasks, type TaskSource } from '../../task.js'
import { CONNECTIVES, fill, OPENINGS, PLACES, QUESTIONS, type Slot, STEP_FRAMES, suits } from './frames.js'
import { type PlanLimits, type ProblemOperation, type ProblemPlan, planner } from './plan.js'
import { counted, MEN, type Person, THINGS, type Thing, WOMEN } from './vocabulary.js'

/** The purpose of a problem: supervised training, reinforcement learning, or evaluation. */
export type Split = 'train' | 'rl' | 'heldOut'

export interface WordProblemOptions extends Partial<PlanLimits> {
  readonly split?: Split
}

export const WORD_PROBLEM_DEFAULTS: Required<WordProblemOptions> = {
  split: 'train',
  minSteps: 2,
  maxSteps: 3,
  maxNumber: 20,
  operations: ['add', 'subtract'],
}

/** The assignment of the 16 buckets to splits. */
const BUCKETS = 16
const splitOfBucket = (bucket: number): Split => (bucket === 0 ? 'heldOut' : bucket <= 3 ? 'rl' : 'train')

/** Never change this key: another one would move problems between splits. */
const SPLIT_KEY = keyFromSeed(20_211_027)

/** The maximum number of draws. The probability that all miss the rarest split is below 10^-110. */
const MAX_DRAWS = 4096

/** Returns the split of a problem, which depends only on the text of the question. */
export const splitOf = (question: string): Split => splitOfBucket(uniformInteger(child(SPLIT_KEY, question), BUCKETS))

/** The people and the thing of a problem. */
interface Cast {
  readonly hero: Person
  readonly friend: Person
  readonly thing: Thing
}

const pick = <T>(choices: readonly T[], key: Key): T => choices[uniformInteger(key, choices.length)]!

const drawCast = (key: Key): Cast => {
  const [heroes, friends] = pick(
    [
      [MEN, WOMEN],
      [WOMEN, MEN],
    ],
    child(key, 'sex'),
  )
  return {
    hero: pick(heroes!, child(key, 'hero')),
    friend: pick(friends!, child(key, 'friend')),
    thing: pick(THINGS, child(key, 'thing')),
  }
}

const slotsOf = ({ hero, friend, thing }: Cast, number: number, key: Key): Readonly<Record<Slot, string>> => ({
  Hero: hero.name,
  hero: pick([hero.name, hero.subject], child(key, 'subject')),
  he: hero.subject,
  him: hero.object,
  his: hero.possessive,
  friend: friend.name,
  place: pick(PLACES, child(key, 'place')),
  number: String(number),
  count: counted(number, thing),
  more: counted(number, thing, 'more'),
  things: thing.plural,
})

const sentence = (connective: string, text: string): string => {
  const words = connective === '' ? text : `${connective} ${text}`
  return `${words.charAt(0).toUpperCase()}${words.slice(1)}.`
}

/**
 * Writes one sentence for each step. Steps with the same operation use different frames while there
 * are enough.
 */
const stepSentences = ({ steps }: ProblemPlan, cast: Cast, key: Key): readonly string[] => {
  const textsOf = (operation: ProblemOperation): readonly string[] => {
    const frames = STEP_FRAMES[operation].filter((frame) => suits(frame, cast.thing))
    return Array.from(permutation(child(key, operation), frames.length), (i) => frames[i]!.text)
  }
  const texts = { add: textsOf('add'), subtract: textsOf('subtract'), multiply: textsOf('multiply') }
  return steps.map(({ operation, operand }, index) => {
    const nth = steps.slice(0, index).filter((step) => step.operation === operation).length
    const text = texts[operation][nth % texts[operation].length]!
    const stepKey = child(key, index)
    const position = index === 0 ? 'first' : index === steps.length - 1 ? 'last' : 'middle'
    return sentence(
      pick(CONNECTIVES[position], child(stepKey, 'connective')),
      fill(text, slotsOf(cast, operand, child(stepKey, 'slots'))),
    )
  })
}

const questionText = (plan: ProblemPlan, cast: Cast, key: Key): string => {
  const slots = slotsOf(cast, plan.start, child(key, 'slots'))
  return [
    fill(pick(OPENINGS, child(key, 'opening')), slots),
    ...stepSentences(plan, cast, child(key, 'steps')),
    fill(pick(QUESTIONS, child(key, 'question')), slots),
  ].join(' ')
}

const SIGNS: Readonly<Record<ProblemOperation, string>> = { add: '+', subtract: '-', multiply: '*' }

/** Writes the answer in GSM8K's notation, with its calculator annotations. */
const answerText = ({ start, steps }: ProblemPlan, { hero, thing }: Cast): string =>
  [
    ...steps.map(({ operation, operand, before, after }, index) => {
      const sign = SIGNS[operation]
      const who = index === 0 ? hero.name : `Then ${hero.subject}`
      return `${who} had ${before} ${sign} ${operand} = <<${before}${sign}${operand}=${after}>>${counted(after, thing)}.`
    }),
    `#### ${steps.at(-1)?.after ?? start}`,
  ].join('\n')

/**
 * Creates an endless source of word problems: someone has a number of things, two or three events
 * change it, and the question is how many there are now.
 *
 * Numbers are digits, and the question contains the start and the operands, in order, and no other
 * number. Each sentence describes one step. Running totals stay between 0 and 99. The answer is a
 * GSM8K answer text, which `finalAnswer` and `gsm8kReward` read.
 *
 * Splits   a hash of the question text puts every possible problem into one split: 1/16 of them
 *          into `heldOut`, 3/16 into `rl`, 12/16 into `train`. A source draws again until the
 *          problem is in its split, so that no two sources with different splits share a question,
 *          whatever their keys and other options. Two problems of different splits may differ in as
 *          little as a name: the text is held out, not the kind of problem.
 * Repeats  `at` draws with replacement. There are more than 10^10 questions with the defaults, so
 *          200 of them are usually distinct, but this is not guaranteed.
 * Errors   throws RangeError for limits that no problem meets (`planner`).
 * Effects  none: `at(index)` depends on the key, the options and the index alone.
 * Cost     the average number of draws for each problem is 1.3 for `train`, 5.3 for `rl`, 16 for
 *          `heldOut`.
 *
 * @example
 * wordProblems(keyFromSeed(0), { split: 'heldOut', minSteps: 3 }).name // 'word-problems-heldOut'
 */
export const wordProblems = (key: Key, options: WordProblemOptions = {}): TaskSource => {
  const { split, ...limits } = { ...WORD_PROBLEM_DEFAULTS, ...options }
  const drawPlan = planner(limits)
  const name = `word-problems-${split}`
  const make = (index: number): Task => {
    const taskKey = child(key, index)
    for (let draw = 0; draw < MAX_DRAWS; draw++) {
      const drawKey = child(taskKey, draw)
      const plan = drawPlan(child(drawKey, 'plan'))
      const cast = drawCast(child(drawKey, 'cast'))
      const query = questionText(plan, cast, child(drawKey, 'text'))
      if (splitOf(query) === split) return { id: `${name}-${index}`, query, answer: answerText(plan, cast) }
    }
    throw new Error(`${name}: none of ${MAX_DRAWS} draws for index ${index} fell into the split`)
  }
  return endlessTasks(name, make)
}
