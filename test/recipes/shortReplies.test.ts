/** The recipes of the demonstration: their rewards, and held-out tasks with other content. */
import { orThrow } from '@tandem-rl/base'
import { describe, expect, it } from 'vitest'
import * as jsonReply from '../../recipes/jsonReply.js'
import * as shortSentence from '../../recipes/shortSentence.js'
import type { PolicySettings, Recipe, TaskSource } from '../../src/index.js'
import { useEngine } from '../kit/engine.js'

useEngine({ threads: 1 })

const tasksOf = (source: TaskSource): readonly string[] =>
  Array.from({ length: Number(source.size) }, (_, i) => orThrow(source.at(i)).id)

/** The ids of the tasks for training and for evaluation. */
const splitsOf = async (recipe: Recipe): Promise<readonly [readonly string[], readonly string[]]> => {
  const settings = recipe.settings.parse({}) as PolicySettings
  const run = await recipe.build(settings, { memory: 'ignore' })
  const [evaluator] = run.evaluate
  const training = (await recipe.tasks?.(settings)) as TaskSource // both recipes have finite tasks
  expect(evaluator?.tasks).toBe(200)
  await run.close()
  return [tasksOf(training), tasksOf(evaluator?.source as TaskSource)] // the tasks of an environment of tasks
}

describe('jsonReply', () => {
  it.each([
    ['{"name": "Tom", "age": 3}', 1],
    [' {"name": "Tom"}\n', 0.75],
    ['{}', 0.5],
    ['[1]', 0],
    ['null', 0],
    ['```json\n{"name": "Tom", "age": 3}\n```', 0],
    ['Sure: {"name": "Tom", "age": 3}', 0],
  ])('%j earns %d', (reply, reward) => {
    expect(jsonReply.rewardOf(reply, '{"name":"","age":""}')).toBe(reward)
  })

  it('has 200 held-out tasks about other things', async () => {
    const [training, heldOut] = await splitsOf(jsonReply.recipe)
    const things = new Set(training.map((id) => id.split(' ')[0]))
    expect(heldOut.filter((id) => things.has(id.split(' ')[0]))).toEqual([])
  })
})

describe('shortSentence', () => {
  it.each([
    ['An owl sleeps all day.', 1],
    [' The Owl is old. ', 1],
    ['It sleeps all day.', 0.5],
    ['The owls sleep all day.', 0.5],
    ['An old owl that sleeps in a tree all day long.', 0],
    ['An owl sleeps all day', 0],
    ['An owl, asleep all day.', 0],
    ['An owl sleeps. It is old.', 0],
    ['An owl\nsleeps all day.', 0],
    ['Owl.', 0],
    ['', 0],
  ])('%j earns %d', (reply, reward) => {
    expect(shortSentence.rewardOf(reply, 'owl')).toBe(reward)
  })

  it('has 200 held-out tasks with other things and other adjectives', async () => {
    const [training, heldOut] = await splitsOf(shortSentence.recipe)
    for (const place of [0, 1]) {
      const trained = new Set(training.map((id) => id.split(' ')[place]))
      expect(heldOut.filter((id) => trained.has(id.split(' ')[place]))).toEqual([])
    }
  })
})
