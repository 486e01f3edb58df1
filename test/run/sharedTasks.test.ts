/** Evaluations of finite data sets, and of tasks that a run also trains on. */
import { capture } from '@tandem-rl/serve'
import { History, message } from '@tandem-rl/text'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { data, TensorDict } from '../../src/doors/tensordict.js'
import * as T from '../../src/index.js'
import type { EvaluationPart } from '../../src/run/metrics/evaluation.js'
import { useEngine } from '../kit/engine.js'
import { smallModel } from '../kit/learners.js'
import { smallSettings } from '../kit/runs.js'

useEngine({ threads: 1 })

interface Sum {
  readonly query: string
  readonly answer: string
}

const sums = (from: number, count: number): readonly Sum[] =>
  Array.from({ length: count }, (_, i) => ({ query: `${from + i} + 1 =`, answer: String(from + i + 1) }))

const envOf = (source: T.TaskSource) => (tasks: T.TaskContext) =>
  T.MultiTurnEnv({ ...{ source, ...tasks, maxTurns: 1 }, reply: () => ({ done: true, reward: 1 }) })

type HeldOut = Omit<NonNullable<T.PolicyRunParts<T.HistoryPrompt>['heldOut']>[number], 'env' | 'tasks'>

/** Builds a run that trains on some tasks and evaluates others. */
const modelRun = async (
  trained: T.TaskSource,
  evaluated: T.TaskSource,
  { keep, ...heldOut }: HeldOut & { readonly keep?: 'refuse' | 'allow' } = {},
): Promise<T.AnyRun> => {
  const settings = smallSettings('embedded', { evalTasks: 200, ...(keep && { sharedTasks: keep }) })
  const parts = { env: envOf(trained), heldOut: [{ ...heldOut, env: envOf(evaluated) }] }
  return T.defineRun(T.grpoParts(settings, { model: await smallModel(), ...parts }))
}

const agentRun = async (trained: T.TaskSource, evaluated: T.TaskSource): Promise<T.AnyRun> => {
  const settings = smallSettings('embedded', { evalTasks: 200 })
  const agent = capture({ run: async () => 'done' })
  const heldOut = [{ tasks: evaluated }]
  const parts = { agent, tasks: trained, reward: () => 1, heldOut }
  return T.defineRun(T.grpoParts(settings, { model: await smallModel(), ...parts }))
}

const dataRun = async (trained: readonly Sum[], evaluated: readonly Sum[]): Promise<T.AnyRun> => {
  const model = await smallModel()
  const batch = T.chatBatch(model.text)
  const rows = (all: readonly Sum[]) =>
    all.map(({ query, answer }) => History([message('user', query), message('assistant', answer)]))
  const learner = T.localLearner({
    ...{ model, loss: T.SFTLoss(), optimizer: T.adamW({ learningRate: 1e-2 }), key: T.keyFromSeed(1) },
  })
  const heldOut = T.rowBatches({ name: 'held out', rows: rows(evaluated), size: 2, batch })
  const data = T.rowBatches({ name: 'sums', rows: rows(trained), size: 2, batch })
  try {
    return T.defineRun({ data, learner, evaluate: [T.lossEvaluator({ data: heldOut, learner })] })
  } catch (error) {
    await learner.close()
    throw error
  }
}

/** Every kind of run, from the rows that it trains on and those that it evaluates. */
const KINDS: Readonly<Record<string, (trained: readonly Sum[], evaluated: readonly Sum[]) => Promise<T.AnyRun>>> = {
  environment: (trained, evaluated) => modelRun(T.taskList('a', trained), T.taskList('b', evaluated)),
  agent: (trained, evaluated) => agentRun(T.taskList('a', trained), T.taskList('b', evaluated)),
  'data set': dataRun,
}

const tasksOf = async (run: T.AnyRun): Promise<readonly number[]> => {
  const counts = run.evaluate.map(({ tasks }) => tasks)
  await run.close()
  return counts
}

describe.each(Object.entries(KINDS))('a run of the kind %s', (_, made) => {
  it('evaluates each task of a finite source once', async () => {
    expect(await tasksOf(await made(sums(0, 4), sums(10, 2)))).toEqual([2])
  })

  it('is refused if it trains on an evaluated task, whatever the ids', async () => {
    await expect(made(sums(0, 4), sums(2, 3))).rejects.toThrow(
      /2 of the 3 tasks of the evaluation 'held out' are also trained on, such as .*--shared-tasks allow/,
    )
  })
})

describe('an evaluation', () => {
  it('plays no task twice, and reports the number of tasks', async () => {
    const run = await modelRun(T.taskList('a', sums(0, 4)), T.taskList('b', sums(10, 2)))
    const [heldOut] = run.evaluate
    const parts: EvaluationPart[] = []
    for await (const part of heldOut!.run(T.keyFromSeed(1))) parts.push(part)
    expect(parts.map(({ done, tasks, results }) => [done, tasks, results.length])).toEqual([[2, 2, 2]])
    await run.close()
  })

  it.each([
    ['an option of it', { sharedTasks: 'allow' }],
    ['a setting', { keep: 'allow' }],
  ] as const)('may share tasks with training by %s, and its name tells so', async (_, allowed) => {
    const trained = T.shuffled(T.taskList('a', sums(0, 4)), T.keyFromSeed(1))
    const nameOf = async (evaluated: readonly Sum[], name?: string): Promise<string | undefined> => {
      const run = await modelRun(trained, T.taskList('b', evaluated), { ...allowed, ...(name && { name }) })
      await run.close()
      return run.evaluate[0]?.name
    }
    expect(await nameOf(sums(0, 2))).toBe('training tasks')
    expect(await nameOf(sums(3, 2))).toBe('partly held out')
    expect(await nameOf(sums(4, 2))).toBe('held out')
    expect(await nameOf(sums(0, 2), 'all sums')).toBe('all sums')
  })

  it('of the same endless tasks is refused, and of another split it is not', async () => {
    const problems = T.wordProblems(T.keyFromSeed(1), { split: 'rl' })
    await expect(modelRun(problems, problems)).rejects.toThrow(/200 of the 200 tasks/)
    expect(await tasksOf(await modelRun(problems, T.heldOutProblems()))).toEqual([200])
  })

  it('compares all columns of tasks with equal questions', async () => {
    const levels = (name: string, all: readonly number[]): T.TaskSource =>
      T.taskList(
        name,
        all.map((level) => ({ query: 'Play.', level })),
      )
    expect(await tasksOf(await modelRun(levels('a', [1, 2]), levels('b', [3, 4])))).toEqual([2])
    await expect(modelRun(levels('a', [1, 2]), levels('b', [2, 3]))).rejects.toThrow(/1 of the 2 tasks/)
  })
})

describe('splitRows', () => {
  const batch = (rows: readonly number[]) => T.E.right(TensorDict({ n: data(rows) }, [rows.length]))
  const split = (rows: readonly number[], heldOut?: number) =>
    T.splitRows({
      ...{ rows, source: 'rows', size: 2, key: T.keyFromSeed(1), batch },
      ...(heldOut !== undefined && { heldOut }),
    })
  const sizes = (rows: readonly number[], heldOut?: number): readonly unknown[] => {
    const { train, heldOut: held } = split(rows, heldOut)
    return [train.rows, held.rows]
  }
  const upTo = (count: number): readonly number[] => Array.from({ length: count }, (_, i) => i)

  it('holds out a tenth of the rows at hand by default, at least one and at most 128', () => {
    expect([2, 30, 50, 1280, 5000].map((count) => sizes(upTo(count)))).toEqual([
      ...[
        [1, 1],
        [27, 3],
        [45, 5],
        [1152, 128],
        [4872, 128],
      ],
    ])
    expect(() => split([1])).toThrow(/no rows are left for training/)
  })

  it('holds out no row that is also trained on', () => {
    expect(sizes([1, 2, 3, 2, 4], 3)).toEqual([2, 2])
    expect(() => split([1, 1, 1], 1)).toThrow('no rows are left for evaluation: the first 1 of rows also occur among')
    const law = fc.property(fc.array(fc.nat(6), { minLength: 2 }), fc.nat(), (rows, cut) => {
      const heldOut = 1 + (cut % (rows.length - 1))
      const own = rows.slice(0, heldOut).filter((row) => !rows.slice(heldOut).includes(row))
      if (own.length === 0) expect(() => split(rows, heldOut)).toThrow(RangeError)
      else expect(sizes(rows, heldOut)).toEqual([rows.length - heldOut, own.length])
    })
    fc.assert(law)
  })
})
