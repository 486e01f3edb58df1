/**
 * The real GSM8K, where its files are: every answer gets full marks for itself, and what the form
 * is worth for another number. Rows of the same kinds, which are ours, are checked everywhere.
 */
import { existsSync, readFileSync } from 'node:fs'
import { keyFromSeed, orThrow, permutation } from '@tandem-rl/base'
import { History, message, type Task } from '@tandem-rl/text'
import { describe, expect, it } from 'vitest'
import { finalAnswer, gsm8kTasks } from '../../../src/data/datasets/gsm8k.js'
import type { TaskSource } from '../../../src/data/task.js'
import { gsm8kAnswerReward } from '../../../src/envs/rewards/gsm8k.js'

const folder = new URL('../../../../shared/data/gsm8k/', import.meta.url)
const absent = !existsSync(folder)

const tasksOf = (source: TaskSource): readonly Task[] =>
  Array.from({ length: source.size as number }, (_, i) => orThrow(source.at(i))) // read from a file: it has a size

/** The reward that a reply with the final answer of one task earns for another. */
const worth = (of: Task, given: Task): number => {
  const reply = `<think>So.</think><answer>${given.answer.split('#### ')[1]}</answer>`
  return gsm8kAnswerReward().score({ task: of, history: History([message('assistant', reply)]) }).reward
}

/**
 * Answers that do not get full marks for themselves, and those of other rows that get anything else
 * than they deserve.
 */
const wrongRows = (tasks: readonly Task[]): readonly string[] => {
  const numbers = tasks.map(({ answer }) => orThrow(finalAnswer(answer)))
  const order = permutation(keyFromSeed(9), tasks.length)
  return tasks.flatMap((task, i) => {
    const other = order[i]!
    const expected = numbers[other] === numbers[i] ? 1 : 0.1
    return worth(task, task) === 1 && worth(task, tasks[other]!) === expected ? [] : [task.id]
  })
}

/**
 * Rows of the kinds that the real files have: thousands commas, negative numbers, amounts, equal
 * answers.
 */
const OWN = [
  ['She pays 3 * $400 = $<<3*400=1200>>1,200.', '1,200'],
  ['He ends with 4 - 9 = <<4-9=-5>>-5 degrees.', '-5'],
  ['That is 6 + 6 = <<6+6=12>>12 pens.', '12'],
  ['Each gets 36 / 3 = <<36/3=12>>12.', '12'],
  ['They sold 1,250 * 100 = <<1250*100=125000>>125,000 tickets.', '125,000'],
  ['Nothing is left: 5 - 5 = <<5-5=0>>0.', '0'],
].map(([why, number]) => JSON.stringify({ question: 'How many?', answer: `${why}\n#### ${number}` }))

describe('the reward of GSM8K', () => {
  it('gives full marks for the answer of each row, and for no other number', () => {
    expect(wrongRows(tasksOf(orThrow(gsm8kTasks(OWN.join('\n')))))).toEqual([])
  })
})

describe.skipIf(absent)(`the real rows${absent ? ` (skipped: there is no folder ${folder.pathname})` : ''}`, () => {
  it.each([
    ['train', 7473],
    ['test', 1319],
  ])('every answer of the %s file gets full marks, and no other number', (split, count) => {
    const tasks = tasksOf(orThrow(gsm8kTasks(readFileSync(new URL(`${split}.jsonl`, folder), 'utf8'))))
    expect(tasks.length).toBe(count)
    expect(wrongRows(tasks)).toEqual([])
  })
})
