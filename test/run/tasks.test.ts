import { writeFileSync } from 'node:fs'
import { child, keyFromSeed, orThrow, describe as sentence } from '@tandem-rl/base'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { z } from 'zod'
import { ROWS } from '../../src/data/datasets/rows.js'
import type { TaskSource } from '../../src/data/task.js'
import { rowSettings, rowTasks, type TaskSettings, trainingTasks } from '../../src/run/parts/tasks.js'
import { leftOf, rightOf } from '../kit/results.js'
import { gsm8kLines, useTemporaryFolder } from '../kit/runs.js'

const path = useTemporaryFolder()

const dataset = (name: string, text: string): string => {
  writeFileSync(path(name), text)
  return path(name)
}

/** Opens the tasks of settings, with the key of a run with the seed. */
const openTasks = ({
  evalTasks = 4,
  seed = 1,
  ...rest
}: Partial<TaskSettings> & { readonly evalTasks?: number; readonly seed?: number }) =>
  trainingTasks({ dataset: null, evalDataset: null, ...rest, keep: { evalTasks } }, child(keyFromSeed(seed), 'tasks'))

const queries = (source: TaskSource, count: number): readonly string[] =>
  Array.from({ length: count }, (_, i) => orThrow(source.at(i)).query)

/** Lists all rows of a finite source. */
const allQueries = (source: TaskSource): readonly string[] => {
  if (source.size === 'endless') throw new Error(`${source.name} is endless`)
  return queries(source, source.size)
}

const rowsOf = (text: string): readonly string[] =>
  text
    .trim()
    .split('\n')
    .map((line) => (JSON.parse(line) as { readonly question: string }).question) // written by gsm8kLines

describe('trainingTasks', () => {
  it('of generated problems never evaluates one that it trains on', async () => {
    const tasks = await rightOf(openTasks({ evalTasks: 300 }))
    const trained = new Set(queries(tasks.train, 1000))
    expect(tasks.heldOutTasks).toBe(300)
    expect(queries(tasks.heldOut, 300).filter((query) => trained.has(query))).toEqual([])
  })

  it('evaluates on the same generated problems whatever the seed, and trains on others', async () => {
    const [a, b] = [await rightOf(openTasks({ seed: 1 })), await rightOf(openTasks({ seed: 2 }))]
    expect(queries(a.heldOut, 20)).toEqual(queries(b.heldOut, 20))
    expect(queries(a.train, 20)).not.toEqual(queries(b.train, 20))
  })

  it('of a file holds out the last rows: every row is for training or for evaluation, none for both', async () => {
    const law = fc.asyncProperty(
      fc.integer({ min: 2, max: 60 }),
      fc.integer({ min: 1, max: 10 }),
      async (rows, wanted) => {
        const text = gsm8kLines(rows)
        const file = dataset('split.jsonl', text)
        const tasks = await rightOf(openTasks({ dataset: file, evalTasks: wanted }))
        expect([...allQueries(tasks.train), ...allQueries(tasks.heldOut)]).toEqual(rowsOf(text))
        expect(tasks.heldOutTasks).toBeGreaterThan(0)
        expect(tasks.heldOutTasks).toBeLessThanOrEqual(Math.min(wanted, allQueries(tasks.heldOut).length))
      },
    )
    await fc.assert(law, { numRuns: 30 })
  })

  it('of a file trains on the same rows however many are evaluated: a resumed run may change that', async () => {
    const file = dataset('hundred.jsonl', gsm8kLines(100))
    const train = async (evalTasks: number): Promise<readonly string[]> =>
      allQueries((await rightOf(openTasks({ dataset: file, evalTasks }))).train)
    expect(await train(2)).toEqual(await train(10))
  })

  it('of a single row uses it for both', async () => {
    const tasks = await rightOf(openTasks({ dataset: dataset('one.jsonl', gsm8kLines(1)) }))
    expect(allQueries(tasks.train)).toEqual(allQueries(tasks.heldOut))
    expect(tasks.heldOutTasks).toBe(1)
  })

  it('of two files uses all rows of each, and no more problems than there are', async () => {
    const [a, b] = [dataset('a.jsonl', gsm8kLines(5)), dataset('b.jsonl', gsm8kLines(3))]
    const tasks = await rightOf(openTasks({ dataset: a, evalDataset: b, evalTasks: 4 }))
    expect([tasks.train.size, tasks.heldOut.size, tasks.heldOutTasks]).toEqual([5, 3, 3])
  })

  it('evaluates on a file after training on generated problems', async () => {
    const tasks = await rightOf(openTasks({ evalDataset: dataset('c.jsonl', gsm8kLines(3)) }))
    expect([tasks.train.size, tasks.heldOut.size, tasks.heldOutTasks]).toEqual(['endless', 3, 3])
  })

  it('names the file for evaluation if it is that one that cannot be read', async () => {
    const asked = { dataset: dataset('d.jsonl', gsm8kLines(3)), evalDataset: path('none.jsonl') }
    expect(sentence(await leftOf(openTasks(asked)))).toContain(path('none.jsonl'))
  })
})

describe('rowTasks', () => {
  const settings = { evalDataset: null, keep: { evalTasks: 1 } }

  it('reads rows whose fields are in other columns, as rowSettings names them', async () => {
    const text = '[{"problem":"1 + 1?","result":2,"level":"easy"},{"problem":"1 + 2?","result":3,"level":"hard"}]'
    const dataset = path('problems.json')
    writeFileSync(dataset, text)
    const columns = { query: 'problem', answer: 'result' }
    const schema = z.strictObject(rowSettings({ rows: 'problems', from: dataset, columns }))
    const parsed = schema.parse({})
    expect(parsed.columns).toEqual(columns)
    const { train, heldOut } = await rightOf(rowTasks({ ...settings, ...parsed }, ROWS))
    expect(orThrow(train.at(0))).toMatchObject({ query: '1 + 1?', answer: '2', row: { level: 'easy' } })
    expect(orThrow(heldOut.at(0)).answer).toBe('3')
    expect(schema.safeParse({ columns: { query: 'problem', anwser: 'result' } }).success).toBe(false)
  })

  it('names the column that a row does not have', async () => {
    const failure = await leftOf(
      rowTasks({ ...settings, dataset: dataset('rows.jsonl', gsm8kLines(2)), columns: { query: 'problem' } }, ROWS),
    )
    expect(sentence(failure)).toMatch(/line 1: missing column 'problem' for 'query': the row has question, answer/)
  })
})
