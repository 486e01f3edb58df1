import { existsSync, readFileSync } from 'node:fs'
import { rowFailure } from '@tandem-rl/base'
import type { Task } from '@tandem-rl/text'
import fc from 'fast-check'
import * as E from 'fp-ts/lib/Either.js'
import { describe, expect, it } from 'vitest'
import { finalAnswer, gsm8kTasks } from '../../../src/data/datasets/gsm8k.js'
import type { TaskSource } from '../../../src/data/task.js'

const orThrow = <A>(result: E.Either<unknown, A>): A => {
  if (E.isLeft(result)) throw new Error(JSON.stringify(result.left))
  return result.right
}

const line = (question: string, answer: string): string => JSON.stringify({ question, answer })

describe('finalAnswer', () => {
  it('reads every integer, with and without thousands commas', () => {
    fc.assert(
      fc.property(fc.integer(), fc.constantFrom('en-US', undefined), (n, locale) => {
        const text = locale === undefined ? String(n) : n.toLocaleString(locale)
        expect(finalAnswer(`So it is ${text}.\n#### ${text}`)).toEqual(E.right(n))
      }),
    )
  })

  it.each([
    ['a\n#### 1,234,567', 1234567],
    ['a\n#### -3', -3],
    ['a\n#### 2.50\n', 2.5],
    ['#### 0', 0],
  ])('reads %j', (text, expected) => {
    expect(finalAnswer(text)).toEqual(E.right(expected))
  })

  it.each([
    ['no mark at all', /does not occur/],
    ['####7', /does not occur/],
    ['#### 1\n#### 2', /occurs 2 times/],
    ['#### ', /not a number/],
    ['#### 12 apples', /not a number/],
    ['#### 1,00', /not a number/],
    ['#### $5', /not a number/],
    ['#### Infinity', /not a number/],
    ['#### 1e3', /not a number/],
  ])('refuses %j', (text, reason) => {
    expect(finalAnswer(text)).toMatchObject({ _tag: 'Left', left: { _tag: 'FormatFailure' } })
    expect(finalAnswer(text)).toHaveProperty('left.reason', expect.stringMatching(reason))
  })
})

describe('gsm8kTasks', () => {
  it('keeps the question and the answer, and numbers the ids from 0', () => {
    const source = orThrow(gsm8kTasks(`${line('A?', '#### 1')}\n\n${line('B?', '#### 2')}\n`, { name: 'gsm8k-train' }))
    expect(source).toMatchObject({ name: 'gsm8k-train', size: 2 })
    expect(source.at(0)).toEqual(E.right({ id: 'gsm8k-train-0', query: 'A?', answer: '#### 1' }))
    expect(source.at(1)).toEqual(E.right({ id: 'gsm8k-train-1', query: 'B?', answer: '#### 2' }))
  })

  it.each([
    [line('B?', 'two'), "answer: '#### ' does not occur"],
    [line('B?', '#### two'), "answer: 'two' after '#### ' is not a number"],
    [line(' ', '#### 2'), 'question: must not be empty'],
    ['{"question":"B?"}', expect.stringMatching(/^answer: /)],
  ])('refuses the row %s', (bad, reason) => {
    const text = `${line('A?', '#### 1')}\n\n${bad}\n`
    expect(gsm8kTasks(text)).toEqual(E.left(rowFailure('gsm8k', { first: { row: 3, reason } })))
  })

  it('refuses a text without rows', () => {
    expect(gsm8kTasks('\n')).toMatchObject({ _tag: 'Left', left: { row: 1, reason: 'no rows' } })
  })
})

const folder = new URL('../../../../shared/data/gsm8k/', import.meta.url)
const absent = !existsSync(folder)

const allTasks = ({ size, at }: TaskSource): readonly Task[] =>
  Array.from({ length: Number(size) }, (_, index) => orThrow(at(index)))

describe.skipIf(absent)(`the real rows${absent ? ` (skipped: there is no folder ${folder.pathname})` : ''}`, () => {
  it.each([
    ['train', 7_473, 403_114_874],
    ['test', 1_319, 9_009_187],
  ])('accepts all of %s', (split, count, sum) => {
    const text = readFileSync(new URL(`${split}.jsonl`, folder), 'utf8')
    const source = orThrow(gsm8kTasks(text, { name: `gsm8k-${split}` }))
    expect(source.size).toBe(count)
    const tasks = allTasks(source)
    expect(tasks.reduce((total, { answer }) => total + orThrow(finalAnswer(answer)), 0)).toBe(sum)
    expect(new Set(tasks.map(({ id }) => id)).size).toBe(count)
  })
})
