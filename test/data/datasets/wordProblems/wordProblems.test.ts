import { keyFromSeed } from '@tandem-rl/base'
import fc from 'fast-check'
import * as E from 'fp-ts/lib/Either.js'
import { describe, expect, it } from 'vitest'
import { finalAnswer, gsm8kTasks } from '../../../../src/data/datasets/gsm8k.js'
import type { ProblemOperation } from '../../../../src/data/datasets/wordProblems/plan.js'
import { THINGS } from '../../../../src/data/datasets/wordProblems/vocabulary.js'
import {
  type Split,
  splitOf,
  WORD_PROBLEM_DEFAULTS,
  type WordProblemOptions,
  wordProblems,
} from '../../../../src/data/datasets/wordProblems/wordProblems.js'
import { taskAt, tasksOf } from './taskAt.js'

const SPLITS: readonly Split[] = ['train', 'rl', 'heldOut']
const OPERATIONS: readonly ProblemOperation[] = ['add', 'subtract', 'multiply']

const seeds = fc.nat().map(keyFromSeed)
const indices = fc.nat(1_000_000)
const options: fc.Arbitrary<Required<WordProblemOptions>> = fc.record({
  split: fc.constantFrom(...SPLITS),
  minSteps: fc.integer({ min: 1, max: 2 }),
  maxSteps: fc.integer({ min: 2, max: 5 }),
  maxNumber: fc.integer({ min: 5, max: 40 }),
  operations: fc.subarray([...OPERATIONS], { minLength: 1 }),
})

interface Annotation {
  readonly left: number
  readonly sign: string
  readonly right: number
  readonly result: number
}

const annotationsOf = (answer: string): readonly Annotation[] =>
  Array.from(answer.matchAll(/<<(\d+)([-+*])(\d+)=(\d+)>>/g), ([, left, sign, right, result]) => ({
    left: Number(left),
    sign: sign!,
    right: Number(right),
    result: Number(result),
  }))

const compute = ({ left, sign, right }: Annotation): number =>
  sign === '+' ? left + right : sign === '-' ? left - right : left * right

const numbersOf = (text: string): readonly number[] => (text.match(/\d+/g) ?? []).map(Number)

/** Made once, and used by the laws about many problems. */
const many = Object.fromEntries(SPLITS.map((split) => [split, tasksOf(wordProblems(keyFromSeed(1), { split }), 3000)]))
const everything = [
  ...Object.values(many).flat(),
  ...tasksOf(wordProblems(keyFromSeed(2), { minSteps: 1, maxSteps: 5, operations: OPERATIONS }), 2000),
]

describe('a word problem', () => {
  it('has an answer whose arithmetic is true, chains, and ends in the final answer', () => {
    fc.assert(
      fc.property(seeds, indices, options, (key, index, chosen) => {
        const { answer } = taskAt(wordProblems(key, chosen), index)
        const steps = annotationsOf(answer)
        expect(steps.map(compute)).toEqual(steps.map(({ result }) => result))
        expect(steps.slice(1).map(({ left }) => left)).toEqual(steps.slice(0, -1).map(({ result }) => result))
        expect(finalAnswer(answer)).toEqual(E.right(steps.at(-1)!.result))
        for (const [i, line] of answer.split('\n').slice(0, -1).entries()) {
          const { left, sign, right, result } = steps[i]!
          expect(line).toContain(` had ${left} ${sign} ${right} = <<${left}${sign}${right}=${result}>>${result} `)
        }
      }),
    )
  })

  it('has the operands in the question, in order, and no other number', () => {
    fc.assert(
      fc.property(seeds, indices, options, (key, index, chosen) => {
        const { query, answer } = taskAt(wordProblems(key, chosen), index)
        const steps = annotationsOf(answer)
        expect(numbersOf(query)).toEqual([steps[0]!.left, ...steps.map(({ right }) => right)])
      }),
    )
  })

  it('obeys its limits', () => {
    fc.assert(
      fc.property(seeds, indices, options, (key, index, chosen) => {
        const { query, answer } = taskAt(wordProblems(key, chosen), index)
        const steps = annotationsOf(answer)
        expect(steps.length).toBeGreaterThanOrEqual(chosen.minSteps)
        expect(steps.length).toBeLessThanOrEqual(chosen.maxSteps)
        const signs = chosen.operations.map((operation) => ({ add: '+', subtract: '-', multiply: '*' })[operation])
        expect(signs).toEqual(expect.arrayContaining(steps.map(({ sign }) => sign)))
        expect(Math.max(...numbersOf(query))).toBeLessThanOrEqual(chosen.maxNumber)
        for (const { result } of steps) expect(result >= 0 && result <= 99).toBe(true)
      }),
    )
  })

  it('has one step in each sentence, between the opening and the question', () => {
    for (const { query, answer } of everything) {
      const sentences = query.split(/(?<=[.?]) /)
      const steps = annotationsOf(answer)
      expect(sentences.map((text) => numbersOf(text).length)).toEqual([1, ...steps.map(() => 1), 0])
    }
  })

  it('is correct English, as far as can be counted', () => {
    for (const { query, answer } of everything) {
      for (const text of [query, answer]) {
        for (const [phrase, count, word] of text.matchAll(/(?<!<<.*)\b(\d+) (?:more )?([a-z]+)/g)) {
          if (word === 'times') continue
          const thing = THINGS.find(({ singular, plural }) => word === singular || word === plural)
          expect(thing?.[Number(count) === 1 ? 'singular' : 'plural'], phrase).toBe(word)
        }
      }
      expect(query).toMatch(/^[A-Z].*\?$/)
      expect(query).not.toMatch(/ {2}|[{}]|undefined|[.,] ?[.,]|\. [a-z]/)
    }
  })

  it('has few words in all, and few in each problem', () => {
    const wordsOf = (text: string): readonly string[] => text.toLowerCase().match(/[a-z]+/g) ?? []
    const words = new Set(everything.flatMap(({ query, answer }) => wordsOf(`${query} ${answer}`)))
    expect(words.size).toBeLessThan(300)
    const lengths = many.train!.map(({ query }) => query.split(' ').length)
    const mean = lengths.reduce((sum, n) => sum + n, 0) / lengths.length
    expect(mean).toBeGreaterThan(25)
    expect(mean).toBeLessThan(40)
    expect(Math.max(...lengths)).toBeLessThan(60)
  })
})

describe('wordProblems', () => {
  it('is pure: a task depends on key, options and index alone', () => {
    fc.assert(
      fc.property(seeds, fc.array(indices, { maxLength: 5 }), options, (key, order, chosen) => {
        const source = wordProblems(key, chosen)
        for (const index of order) taskAt(source, index)
        for (const index of order) expect(taskAt(source, index)).toEqual(taskAt(wordProblems(key, chosen), index))
      }),
    )
  })

  it('makes other problems from another key', () => {
    const others = new Set(tasksOf(wordProblems(keyFromSeed(99)), 300).map(({ query }) => query))
    expect(many.train!.filter(({ query }) => others.has(query))).toEqual([])
  })

  it('never shares a question between splits', () => {
    const [train, rl, heldOut] = SPLITS.map((split) => new Set(many[split]!.map(({ query }) => query)))
    const shared = [...rl!, ...heldOut!].filter((query) => train!.has(query))
    expect([...shared, ...[...heldOut!].filter((query) => rl!.has(query))]).toEqual([])
    fc.assert(
      fc.property(seeds, indices, options, (key, index, chosen) => {
        expect(splitOf(taskAt(wordProblems(key, chosen), index).query)).toBe(chosen.split)
      }),
    )
  })

  it('gives the splits 12, 3 and 1 of 16 parts of all questions', () => {
    const counts = new Map<Split, number>()
    for (let i = 0; i < 16_000; i++) {
      const split = splitOf(`Is ${i} a question?`)
      counts.set(split, (counts.get(split) ?? 0) + 1)
    }
    expect(Math.abs(counts.get('train')! - 12_000)).toBeLessThan(300)
    expect(Math.abs(counts.get('rl')! - 3000)).toBeLessThan(250)
    expect(Math.abs(counts.get('heldOut')! - 1000)).toBeLessThan(160)
  })

  it('never moves a question to another split', () => {
    const heldOut = [...'hx']
    const rl = [...'nstwz']
    for (const letter of 'abcdefghijklmnopqrstuvwxyz') {
      expect(splitOf(letter)).toBe(heldOut.includes(letter) ? 'heldOut' : rl.includes(letter) ? 'rl' : 'train')
    }
  })

  it('repeats almost no question', () => {
    for (const seed of [1, 2, 3, 4, 5]) {
      const questions = tasksOf(wordProblems(keyFromSeed(seed), { split: 'heldOut' }), 200).map(({ query }) => query)
      expect(new Set(questions).size).toBeGreaterThanOrEqual(190)
    }
    expect(new Set(many.train!.map(({ query }) => query)).size).toBeGreaterThanOrEqual(2990)
  })

  it('spreads its answers', () => {
    const counts = new Map<number, number>()
    for (const { answer } of many.train!) {
      const number = Number(answer.split('#### ')[1])
      counts.set(number, (counts.get(number) ?? 0) + 1)
    }
    expect(counts.size).toBeGreaterThan(40)
    expect(Math.max(...counts.values()) / many.train!.length).toBeLessThan(0.1)
  })

  it('makes rows that the GSM8K loader accepts', () => {
    const text = everything.map(({ query, answer }) => JSON.stringify({ question: query, answer })).join('\n')
    expect(gsm8kTasks(text)).toMatchObject({ _tag: 'Right', right: { size: everything.length } })
  })

  it('is endless, has unique ids, and has its documented defaults', () => {
    const source = wordProblems(keyFromSeed(1))
    expect(source).toMatchObject({ name: 'word-problems-train', size: 'endless' })
    expect(new Set(many.train!.map(({ id }) => id)).size).toBe(3000)
    expect(taskAt(source, 2 ** 40).id).toBe(`word-problems-train-${2 ** 40}`)
    expect(taskAt(source, 7)).toEqual(taskAt(wordProblems(keyFromSeed(1), WORD_PROBLEM_DEFAULTS), 7))
  })

  it('refuses limits that no problem meets', () => {
    expect(() => wordProblems(keyFromSeed(1), { minSteps: 4 })).toThrow(RangeError)
    expect(() => wordProblems(keyFromSeed(1), { operations: ['subtract'], maxNumber: 1 })).toThrow(/no chain/)
  })
})
