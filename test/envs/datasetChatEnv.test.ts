import { keyFromSeed, rowFailure } from '@tandem-rl/base'
import { anyKey, anyTask, checkLaws, envLaws } from '@tandem-rl/testing'
import { type History, textOf } from '@tandem-rl/text'
import fc from 'fast-check'
import * as E from 'fp-ts/lib/Either.js'
import { describe, expect, it } from 'vitest'
import { endlessTasks, shuffled } from '../../src/data/task.js'
import type { TensorDict } from '../../src/data/tensorDict/tensorDict.js'
import { nextRequest } from '../../src/envs/base/env.js'
import { DatasetChatEnv } from '../../src/envs/datasetChatEnv.js'
import { answered, empty, freeing, itemsAt, refused, replies, taskOf, tasks } from '../kit/conversation.js'
import { useEngine } from '../kit/engine.js'

useEngine()

const key = keyFromSeed(8)
const sizes = fc.record({ prompts: fc.integer({ min: 1, max: 3 }), repeats: fc.integer({ min: 1, max: 3 }) })
const opening = (state: TensorDict): readonly string[] =>
  (itemsAt(state, 'history', 'prompt') as readonly History[]).map((history) => textOf(history.messages.last()!)) // by its schema

describe('DatasetChatEnv', () => {
  checkLaws(
    it,
    envLaws(
      fc.tuple(sizes, fc.nat(20), anyTask).map(([size, start, task]) => ({
        env: DatasetChatEnv({
          source: endlessTasks('any', (i) => ({ ...task, id: `${task.id}/${i}` })),
          start,
          ...size,
        }),
        act: () => replies(...new Array<string>(size.prompts * size.repeats).fill('so')),
        steps: 2,
      })),
    ),
  )

  it('asks `prompts` tasks, `repeats` times each, side by side', async () => {
    const law = fc.asyncProperty(sizes, anyKey, async ({ prompts, repeats }, anywhere) => {
      const env = DatasetChatEnv({ source: tasks(50), prompts, repeats, systemPrompt: 'Sys' })
      expect(env.batchSize).toBe(prompts * repeats)
      const state = await answered(env.reset(empty(prompts * repeats), anywhere))
      const rows = Array.from({ length: prompts * repeats }, (_, i) => taskOf(Math.floor(i / repeats)))
      expect(opening(state)).toEqual(rows.map((task) => task.query))
      expect(itemsAt(state, 'answer')).toEqual(rows.map((task) => task.answer))
      expect(new Set(itemsAt(state, 'groupId')).size).toBe(prompts)
    })
    await fc.assert(law)
  })

  it('goes through the dataset reset by reset, over its end, also after steps', () =>
    freeing(async (keep) => {
      const env = DatasetChatEnv({ source: tasks(3), prompts: 2 })
      const seen: unknown[] = []
      let request = empty(2)
      for (let i = 0; i < 3; i++) {
        const state = await answered(env.reset(request, key))
        seen.push(...itemsAt(state, 'taskId'))
        request = nextRequest(keep(await answered(env.step(state, replies('x', 'y')))))
      }
      expect(seen).toEqual(['t0', 't1', 't2', 't0', 't1', 't2'])
    }))

  it('a step keeps the tasks beside the conversation', () =>
    freeing(async (keep) => {
      const env = DatasetChatEnv({ source: tasks(2), prompts: 2 })
      const state = await answered(env.reset(empty(2), key))
      const next = keep(await answered(env.step(state, replies('x', 'y'))))
      for (const name of ['query', 'answer', 'taskId', 'groupId'])
        expect(itemsAt(next, name)).toEqual(itemsAt(state, name))
      expect(opening(next)).toEqual(['x', 'y'])
    }))

  it('two environments with one shuffling key see one order, and every task once in an epoch', async () => {
    const law = fc.asyncProperty(anyKey, async (order) => {
      const drawn = async (): Promise<readonly unknown[]> => {
        const env = DatasetChatEnv({ source: shuffled(tasks(5), order), prompts: 5 })
        return itemsAt(await answered(env.reset(empty(5), key)), 'taskId')
      }
      const first = await drawn()
      expect(await drawn()).toEqual(first)
      expect(new Set(first).size).toBe(5)
    })
    await fc.assert(law, { numRuns: 20 })
  })

  it('without a system prompt begins with the question', async () => {
    const state = await answered(DatasetChatEnv({ source: tasks(1), prompts: 1 }).reset(empty(1), key))
    expect((itemsAt(state, 'history', 'prompt')[0] as History).messages.size).toBe(1) // by its schema
  })

  it('a bad row is a failure that names the row', async () => {
    const source = {
      name: 'bad.jsonl',
      size: 1,
      at: () => E.left(rowFailure('bad.jsonl', { first: { row: 1, reason: 'no answer' } })),
    }
    const failure = await refused(DatasetChatEnv({ source, prompts: 1 }).reset(empty(1), key))
    expect(failure.reason).toContain('row 1 of bad.jsonl')
  })

  it.each([
    [0, 1],
    [1, 0],
    [1.5, 1],
    [2, -1],
  ])('refuses %d prompts with %d repeats', (prompts, repeats) => {
    expect(() => DatasetChatEnv({ source: tasks(1), prompts, repeats })).toThrow(RangeError)
  })
})
