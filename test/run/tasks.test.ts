import { writeFileSync } from 'node:fs'
import fc from 'fast-check'
import * as E from 'fp-ts/lib/Either.js'
import { describe, expect, it } from 'vitest'
import { orThrow, describe as sentence } from '../../src/core/failure.js'
import type { TaskSource } from '../../src/data/task.js'
import type { RunSettings } from '../../src/run/settings.js'
import { evaluationTasks, loadTasks, openTasks } from '../../src/run/tasks.js'
import { leftOf, rightOf } from '../kit/results.js'
import { gsm8kLines, smallSettings, useTemporaryFolder } from '../kit/runs.js'

const path = useTemporaryFolder()

const dataset = (name: string, text: string): string => {
  writeFileSync(path(name), text)
  return path(name)
}

const settings = (changes: Partial<RunSettings>): RunSettings => smallSettings('/models/a', changes)

const queries = (source: TaskSource, count: number): readonly string[] =>
  Array.from({ length: count }, (_, i) => orThrow(source.at(i)).query)

/** All rows of a finite source. */
const allQueries = (source: TaskSource): readonly string[] => {
  if (source.size === 'endless') throw new Error(`${source.name} is endless`)
  return queries(source, source.size)
}

const rowsOf = (text: string): readonly string[] =>
  text
    .trim()
    .split('\n')
    .map((line) => (JSON.parse(line) as { readonly question: string }).question) // written by gsm8kLines

describe('loadTasks', () => {
  it('gives the rows of a file in order', async () => {
    const source = await rightOf(loadTasks(dataset('rows.jsonl', gsm8kLines(3))))
    expect(source.size).toBe(3)
    expect(allQueries(source)).toEqual(['What is 0 + 1?', 'What is 1 + 1?', 'What is 2 + 1?'])
  })

  it.each([
    ['is cut off', '{"question": "Why?", "ans'],
    ['has no question', '{"answer": "#### 1"}'],
    ['has no final number', '{"question": "Why?", "answer": "because"}'],
    ['is no object', '3'],
  ])('names the file and the line of a row that %s', async (_, row) => {
    const law = fc.asyncProperty(fc.nat(4), fc.nat(4), async (before, after) => {
      const file = dataset('bad.jsonl', `${gsm8kLines(before)}${row}\n${gsm8kLines(after)}`)
      expect(sentence(await leftOf(loadTasks(file)))).toContain(`${file}, line ${before + 1}: `)
    })
    await fc.assert(law, { numRuns: 10 })
  })

  it('names a file that is missing or empty', async () => {
    expect(sentence(await leftOf(loadTasks(path('none.jsonl'))))).toContain(path('none.jsonl'))
    expect(sentence(await leftOf(loadTasks(dataset('empty.jsonl', ''))))).toContain('there are no rows')
  })
})

describe('openTasks', () => {
  it('of generated problems never evaluates one that it trains on', async () => {
    const tasks = await rightOf(openTasks(settings({ evalProblems: 300 })))
    const trained = new Set(queries(tasks.train, 1000))
    expect(tasks.evalProblems).toBe(300)
    expect(queries(tasks.evaluation, 300).filter((query) => trained.has(query))).toEqual([])
  })

  it('evaluates on the same generated problems whatever the seed, and trains on others', async () => {
    const [a, b] = [await rightOf(openTasks(settings({ seed: 1 }))), await rightOf(openTasks(settings({ seed: 2 })))]
    expect(queries(a.evaluation, 20)).toEqual(queries(b.evaluation, 20))
    expect(queries(a.train, 20)).not.toEqual(queries(b.train, 20))
  })

  it('of a file holds out the last rows: every row is for training or for evaluation, none for both', async () => {
    const law = fc.asyncProperty(
      fc.integer({ min: 2, max: 60 }),
      fc.integer({ min: 1, max: 10 }),
      async (rows, wanted) => {
        const text = gsm8kLines(rows)
        const file = dataset('split.jsonl', text)
        const tasks = await rightOf(openTasks(settings({ dataset: file, evalProblems: wanted })))
        expect([...allQueries(tasks.train), ...allQueries(tasks.evaluation)]).toEqual(rowsOf(text))
        expect(tasks.evalProblems).toBeGreaterThan(0)
        expect(tasks.evalProblems).toBeLessThanOrEqual(Math.min(wanted, allQueries(tasks.evaluation).length))
      },
    )
    await fc.assert(law, { numRuns: 30 })
  })

  it('of a file trains on the same rows however many are evaluated: a resumed run may change that', async () => {
    const file = dataset('hundred.jsonl', gsm8kLines(100))
    const train = async (evalProblems: number): Promise<readonly string[]> =>
      allQueries((await rightOf(openTasks(settings({ dataset: file, evalProblems })))).train)
    expect(await train(2)).toEqual(await train(10))
  })

  it('of a single row uses it for both', async () => {
    const tasks = await rightOf(openTasks(settings({ dataset: dataset('one.jsonl', gsm8kLines(1)) })))
    expect(allQueries(tasks.train)).toEqual(allQueries(tasks.evaluation))
    expect(tasks.evalProblems).toBe(1)
  })

  it('of two files uses all rows of each, and no more problems than there are', async () => {
    const [a, b] = [dataset('a.jsonl', gsm8kLines(5)), dataset('b.jsonl', gsm8kLines(3))]
    const tasks = await rightOf(openTasks(settings({ dataset: a, evalDataset: b, evalProblems: 4 })))
    expect([tasks.train.size, tasks.evaluation.size, tasks.evalProblems]).toEqual([5, 3, 3])
  })

  it('evaluates on a file after training on generated problems', async () => {
    const tasks = await rightOf(openTasks(settings({ evalDataset: dataset('c.jsonl', gsm8kLines(3)) })))
    expect([tasks.train.size, tasks.evaluation.size, tasks.evalProblems]).toEqual(['endless', 3, 3])
  })

  it('names the file for evaluation if it is that one that cannot be read', async () => {
    const asked = { dataset: dataset('d.jsonl', gsm8kLines(3)), evalDataset: path('none.jsonl') }
    expect(sentence(await leftOf(openTasks(settings(asked))))).toContain(path('none.jsonl'))
  })
})

describe('evaluationTasks', () => {
  it('are 200 held-out problems, or as many as are asked for', async () => {
    const [some, few] = [await rightOf(evaluationTasks({})), await rightOf(evaluationTasks({ problems: 7 }))]
    expect([some.problems, few.problems]).toEqual([200, 7])
    expect(E.isRight(some.source.at(199))).toBe(true)
  })

  it('are those of training runs', async () => {
    const { evaluation } = await rightOf(openTasks(settings({})))
    expect(queries((await rightOf(evaluationTasks({}))).source, 20)).toEqual(queries(evaluation, 20))
  })

  it('are all rows of a file, or the first so many, but no row twice', async () => {
    const file = dataset('e.jsonl', gsm8kLines(5))
    const counts = [undefined, 3, 9].map(async (problems) => {
      const tasks = await rightOf(evaluationTasks({ dataset: file, ...(problems !== undefined && { problems }) }))
      return tasks.problems
    })
    expect(await Promise.all(counts)).toEqual([5, 3, 5])
  })
})
