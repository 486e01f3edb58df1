import { keyFromSeed, rowFailure } from '@tandem-rl/base'
import { anyKey, checkLaws, envLaws, erased, scriptedPolicy, transformLaws } from '@tandem-rl/testing'
import fc from 'fast-check'
import * as E from 'fp-ts/lib/Either.js'
import { pipe } from 'fp-ts/lib/function.js'
import { describe, expect, it } from 'vitest'
import { LLMCollector } from '../../../src/collectors/llmCollector.js'
import type { HistoryAction } from '../../../src/data/policy.js'
import { dataSpec, metaSpec, nodeSpec, raggedSpec, tensorSpec } from '../../../src/data/spec.js'
import { endlessTasks, rowList, shuffled, type TaskSource } from '../../../src/data/task.js'
import { data } from '../../../src/data/tensorDict/leaf.js'
import { get, TensorDict } from '../../../src/data/tensorDict/tensorDict.js'
import { type Env, nextRequest } from '../../../src/envs/base/env.js'
import { ChatEnv } from '../../../src/envs/chatEnv.js'
import { DatasetChatEnv, type DatasetChatState } from '../../../src/envs/datasetChatEnv.js'
import { LLMEnv } from '../../../src/envs/llmEnv.js'
import { DataLoadingPrimer, type DataLoadingPrimerOptions } from '../../../src/envs/transforms/dataLoadingPrimer.js'
import { StepCounter } from '../../../src/envs/transforms/stepCounter.js'
import { append } from '../../../src/envs/transforms/transform.js'
import {
  answered,
  empty,
  freeing,
  itemsAt,
  numbersAt,
  refused,
  rowsAt,
  sampled,
  taskOf,
  tasks,
} from '../../kit/conversation.js'
import { useEngine } from '../../kit/engine.js'
import { rightOf } from '../../kit/results.js'

useEngine()

const key = keyFromSeed(1)

const primed = (options: DataLoadingPrimerOptions): Env<DatasetChatState, HistoryAction> =>
  append(DataLoadingPrimer(options))(ChatEnv({ batchSize: options.batchSize }))

/** The ids of the tasks of so many resets, each after the last. */
const idsOf = async (options: DataLoadingPrimerOptions, resets: number): Promise<readonly unknown[]> => {
  const env = primed(options)
  const ids: unknown[] = []
  let request = empty(options.batchSize)
  for (let i = 0; i < resets; i++) {
    const state = await answered(env.reset(request, key))
    ids.push(...itemsAt(state, 'taskId'))
    request = nextRequest(state)
  }
  return ids
}

const layouts = fc.record({ groups: fc.integer({ min: 1, max: 4 }), repeats: fc.integer({ min: 1, max: 3 }) })
const endless = endlessTasks('endless', taskOf)

const withRow = (broken: number): TaskSource => ({
  ...endless,
  at: (i) =>
    i === broken ? E.left(rowFailure('file.jsonl', { first: { row: i + 1, reason: 'bad' } })) : endless.at(i),
})

describe('DataLoadingPrimer', () => {
  describe('as a transform', () => {
    const samples = layouts.map(({ groups, repeats }) => {
      const words = (): TensorDict => {
        const items = data(Array.from({ length: groups * repeats }, () => 'x'))
        return TensorDict({ query: items, answer: items, taskId: items, groupId: items }, [groups * repeats])
      }
      return {
        inner: { observation: {}, action: {} },
        state: words,
        action: () => empty(groups * repeats),
        next: words,
      }
    })
    const primers = fc.nat(5).map((start) => erased(DataLoadingPrimer({ source: endless, batchSize: 6, start })))
    checkLaws(it, transformLaws(primers, samples))
  })

  it('gives row after row, each to `repeats` neighbors, and remembers the next one', async () => {
    const law = fc.asyncProperty(layouts, fc.nat(20), anyKey, async ({ groups, repeats }, start, anywhere) => {
      const primer = DataLoadingPrimer({ source: endless, batchSize: groups * repeats, repeats, start })
      const [added, state] = await answered(primer.prime(empty(groups * repeats), primer.initial, anywhere))
      const expected = Array.from({ length: groups * repeats }, (_, i) => taskOf(start + Math.floor(i / repeats)))
      expect(itemsAt(added, 'taskId')).toEqual(expected.map((task) => task.id))
      expect(itemsAt(added, 'query')).toEqual(expected.map((task) => task.query))
      expect(itemsAt(added, 'answer')).toEqual(expected.map((task) => task.answer))
      expect(state).toEqual({ next: start + groups })
    })
    await fc.assert(law)
  })

  it('members of a group share a groupId, and no two groups do, over all epochs', async () => {
    const env = primed({ source: tasks(2), batchSize: 6, repeats: 3 })
    const groups: unknown[] = []
    let request = empty(6)
    for (let reset = 0; reset < 4; reset++) {
      const state = await answered(env.reset(request, key))
      const ids = itemsAt(state, 'groupId')
      expect([ids[0], ids[3]]).toEqual([ids[2], ids[5]])
      groups.push(ids[0], ids[3])
      request = nextRequest(state)
    }
    expect(new Set(groups).size).toBe(8)
  })

  it('resumes: a start at row n draws the rows after the first n', async () => {
    const law = fc.asyncProperty(layouts, fc.nat(3), fc.integer({ min: 1, max: 3 }), async (layout, before, after) => {
      const { groups, repeats } = layout
      const options = { source: shuffled(tasks(5), key), batchSize: groups * repeats, repeats }
      const all = await idsOf(options, before + after)
      const resumed = await idsOf({ ...options, start: before * groups }, after)
      expect(resumed).toEqual(all.slice(before * groups * repeats))
    })
    await fc.assert(law, { numRuns: 30 })
  })

  it('goes round a finite dataset, also in the middle of a batch', async () => {
    expect(await idsOf({ source: tasks(3), batchSize: 2 }, 3)).toEqual(['t0', 't1', 't2', 't0', 't1', 't2'])
    expect(await idsOf({ source: tasks(1), batchSize: 4, repeats: 2 }, 1)).toEqual(['t0', 't0', 't0', 't0'])
  })

  it('two resets from one state draw the same rows: the position is in the state, not in the primer', async () => {
    const env = primed({ source: endless, batchSize: 2 })
    const request = nextRequest(await answered(env.reset(empty(2), key)))
    const [first, second] = [await answered(env.reset(request, key)), await answered(env.reset(request, key))]
    expect(itemsAt(first, 'taskId')).toEqual(['t2', 't3'])
    expect(itemsAt(second, 'taskId')).toEqual(['t2', 't3'])
  })

  it('wins over a query of the caller', async () => {
    const request = TensorDict({ query: data(['mine']) }, [1])
    const state = await answered(primed({ source: tasks(1), batchSize: 1 }).reset(request, key))
    expect(itemsAt(state, 'query')).toEqual([taskOf(0).query])
  })

  it('a row that is not usable names its source and its place, and the rows before it are drawn', async () => {
    const env = primed({ source: withRow(3), batchSize: 2 })
    const first = await answered(env.reset(empty(2), key))
    const failure = await refused(env.reset(nextRequest(first), key))
    expect(failure.reason).toBe('row 4 of file.jsonl is not usable')
    expect(failure.cause).toMatchObject({ _tag: 'RowFailure', row: 4, reason: 'bad' })
  })

  it.each([0, -1, 1.5, 3, 8])('refuses %d repeats in a batch of 4', (repeats) => {
    expect(() => DataLoadingPrimer({ source: tasks(1), batchSize: 4, repeats })).toThrow(RangeError)
  })

  it.each([-1, 0.5, Number.NaN])('refuses to start at row %d', (start) => {
    expect(() => DataLoadingPrimer({ source: tasks(1), batchSize: 1, start })).toThrow(RangeError)
  })

  it('keeps the whole task beside its columns where it is asked to, the same one for each of a group', () =>
    freeing(async (keep) => {
      const options = { source: endless, batchSize: 4, repeats: 2, start: 3 }
      const plain = keep(await answered(primed(options).reset(empty(4), key)))
      expect([...plain.entries.keys()]).not.toContain('task')
      const env = append(DataLoadingPrimer({ ...options, keep: 'task' }))(ChatEnv({ batchSize: 4 }))
      const whole = keep(await answered(env.reset(empty(4), key)))
      expect(get(whole, 'task').items.toArray()).toEqual([3, 3, 4, 4].map(taskOf))
      expect(itemsAt(whole, 'groupId')).toEqual(itemsAt(plain, 'groupId'))
    }))
})

const ROWS_OF_IDS = [
  { id: 7, input_ids: [1, 2, 3], level: 'easy', weight: 0.5, flags: [true, false] },
  { id: 8, input_ids: [4], level: 'hard', weight: 2, flags: [false, false] },
]

const OF_IDS = {
  level: dataSpec<string>('string'),
  row: { weight: tensorSpec('float32'), flags: tensorSpec('bool', [2]) },
  tokens: { prompt: raggedSpec('int32') },
}

/** An environment of token ids over rows of token ids. */
const tokenRows = (repeats: number, rows = ROWS_OF_IDS) => {
  const [source, batchSize] = [rowList('ids', rows), 2 * repeats]
  const columns = { 'row.weight': 'weight', 'row.flags': 'flags', 'tokens.prompt': 'input_ids' }
  return pipe(
    LLMEnv({ batchSize, eosTokenId: 0 }),
    append(DataLoadingPrimer({ source, batchSize, repeats, primers: OF_IDS, columns })),
    append(StepCounter({ maxSteps: 2 })),
  )
}

describe('the columns of a DataLoadingPrimer', () => {
  checkLaws(
    it,
    envLaws(
      fc.integer({ min: 1, max: 2 }).map((repeats) => ({
        env: tokenRows(repeats),
        act: () => sampled(...Array.from({ length: 2 * repeats }, () => [5])),
        steps: 2,
      })),
    ),
  )

  it('arrive under the keys that primers names: texts, numbers, vectors and token ids', () =>
    freeing(async (keep) => {
      const state = keep(await answered(tokenRows(2).reset(empty(4), key)))
      expect(rowsAt(state, 'tokens', 'prompt')).toEqual([[1, 2, 3], [1, 2, 3], [4], [4]])
      expect(itemsAt(state, 'level')).toEqual(['easy', 'easy', 'hard', 'hard'])
      expect(numbersAt(state, 'row', 'weight')).toEqual([0.5, 0.5, 2, 2])
      expect(get(state, 'row', 'flags').shape).toEqual([4, 2])
      expect(itemsAt(state, 'taskId')).toEqual(['7', '7', '8', '8'])
      expect(itemsAt(state, 'groupId')).toEqual(['0:7', '0:7', '1:8', '1:8'])
      expect([...state.entries.keys()]).not.toContain('query')
    }))

  it('of token rows are in every row of a collected batch, whole groups in two turns', async () => {
    const collector = LLMCollector({ env: tokenRows(2), policy: scriptedPolicy({ answers: () => [9] }), key })
    using batch = (await rightOf(collector.collect(collector.start))).batch
    expect(rowsAt(batch.value, 'tokens', 'prompt')).toEqual([
      [1, 2, 3],
      [1, 2, 3, 9],
      [1, 2, 3],
      [1, 2, 3, 9],
      [4],
      [4, 9],
      [4],
      [4, 9],
    ])
    expect(get(batch.value, 'level').items.toArray()).toEqual([...Array(4).fill('easy'), ...Array(4).fill('hard')])
    expect([...get(batch.value, 'row', 'weight').dataSync()]).toEqual([0.5, 0.5, 0.5, 0.5, 2, 2, 2, 2])
    expect(new Set(get(batch.value, 'groupId').items).size).toBe(2)
  })

  it('of a conversation are beside its query, read from the task or from its row', () =>
    freeing(async (keep) => {
      const rows = [{ id: 'a', query: '2 + 2?', answer: '4', row: { level: 3, query: 'not this one' } }]
      const env = DatasetChatEnv({
        source: endlessTasks('rows', () => rows[0]!),
        prompts: 1,
        repeats: 2,
        primers: { difficulty: tensorSpec('int32') },
        columns: { difficulty: 'level' },
      })
      const state = keep(await answered(env.reset(empty(2), key)))
      expect(itemsAt(state, 'query')).toEqual(['2 + 2?', '2 + 2?'])
      expect([...get(state, 'difficulty').dataSync()]).toEqual([3, 3])
    }))

  it.each([
    [{ other: dataSpec('string') }, "task 7 has no column 'other' for 'other'"],
    [
      { level: tensorSpec('float32') },
      /the columns of tasks 7, 8 do not fit the primers: "level": \[0\] expected float32, got string/,
    ],
    [{ flags: tensorSpec('bool', [3]) }, /expected a list of 3, got one of 2/],
    [{ weight: raggedSpec('int32') }, /expected a list, got number/],
  ])('that a row does not have, or that do not fit their spec, name task and column: %j', async (primers, reason) => {
    const source = rowList('ids', ROWS_OF_IDS)
    const env = append(DataLoadingPrimer({ source, batchSize: 2, primers }))(LLMEnv({ batchSize: 2 }))
    expect((await refused(env.reset(empty(2), key))).reason).toMatch(reason)
  })

  it('that cannot be filled from rows, and a column of no primer, are refused when it is made', () => {
    const source = rowList('ids', ROWS_OF_IDS)
    const make = (options: object) => () => DataLoadingPrimer({ source, batchSize: 2, ...options })
    expect(make({ primers: { a: metaSpec('number') } })).toThrow(/primers: a must be .*, got a MetaSpec/)
    expect(make({ primers: { a: { b: nodeSpec([2], {}) } } })).toThrow(/primers: a.b must be .*, got a NodeSpec/)
    expect(make({ columns: { 'tokens.prompt': 'input_ids' } })).toThrow("columns: there is no primer 'tokens.prompt'")
  })
})
