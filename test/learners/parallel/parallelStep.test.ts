import { keyFromSeed, type Thread, type Threads } from '@tandem-rl/base'
import { liveThreads } from '@tandem-rl/host'
import { liveTensors, own, ownedCount, scope } from '@tandem-rl/tfjs-onnxruntime/scope'
import * as tf from '@tensorflow/tfjs-core'
import fc from 'fast-check'
import { isLeft } from 'fp-ts/lib/Either.js'
import * as TE from 'fp-ts/lib/TaskEither.js'
import { describe, expect, it } from 'vitest'
import type { NamedTensors } from '../../../src/data/weights.js'
import { parallelGenerator } from '../../../src/learners/parallel/parallelGenerator.js'
import { parallelScorer } from '../../../src/learners/parallel/parallelScorer.js'
import { type ParallelStep, parallelStep } from '../../../src/learners/parallel/parallelStep.js'
import { type Replicas, startReplicas } from '../../../src/learners/parallel/replicas.js'
import { type LossStepOptions, lossStep, NonFiniteLoss } from '../../../src/learners/steps/lossStep.js'
import { completionKeys, makeGenerator } from '../../../src/modules/generation/generator.js'
import { initialParams } from '../../../src/modules/transformer/params.js'
import { makeScorer } from '../../../src/modules/transformer/scorer.js'
import { type AlgorithmName, algorithmLoss } from '../../../src/objectives/algorithms.js'
import type { PolicyLoss } from '../../../src/objectives/policyLoss.js'
import type { StepMetrics } from '../../../src/objectives/policyMetrics.js'
import { expectClose } from '../../kit/close.js'
import { useOnnxRuntime, valuesOf } from '../../kit/engine.js'
import { SMALL_DECODER, undividedMetrics, useParams } from '../../kit/lossSteps.js'
import { tinyConfig } from '../../kit/models.js'
import { rightOf } from '../../kit/results.js'
import { sameThread } from '../../kit/sameThread.js'
import { descent, lossRows, rowsOf, type TrainingRows } from '../../kit/trainingRows.js'

useOnnxRuntime()

const config = tinyConfig(SMALL_DECODER)
const params = useParams(() => initialParams(config, keyFromSeed(1), 0.5))
const lossOf = (algorithm: AlgorithmName = 'grpo'): PolicyLoss =>
  algorithmLoss(algorithm, { clipLow: null, clipHigh: null, longest: 8 })
const rowsFor = (groupSizes: readonly number[], seed: number): TrainingRows =>
  rowsOf(config.vocabularySize, groupSizes, seed)

const start = async (workers: number, threads: Threads = sameThread, loss = lossOf()): Promise<Replicas> =>
  rightOf(startReplicas({ config, loss, workers, threads }))

type Options = Partial<LossStepOptions<Record<string, tf.Tensor>>>
type Update = Awaited<ReturnType<ReturnType<ParallelStep<Record<string, tf.Tensor>, StepMetrics>['update']>>>

const numbersOf = (tensors: NamedTensors): Readonly<Record<string, readonly number[]>> =>
  Object.fromEntries(Object.entries(tensors).map(([name, tensor]) => [name, [...valuesOf(tensor)]]))

/** The parameters and metrics of one update, which is freed. */
const taken = (update: Update) => {
  if (isLeft(update)) throw new Error(update.left.reason)
  const { state, metrics } = update.right
  using after = state
  return { params: numbersOf(after.value.params), metrics }
}

const inParallel = async (replicas: Replicas, rows: TrainingRows, options: Options = {}, loss = lossOf()) => {
  const step = parallelStep(loss, { config, optimizer: descent, ...options }, replicas)
  const update = taken(await step.update({ params: params(), optimizer: {} }, lossRows(rows), 1)())
  step.release()
  return update
}

const alone = (rows: TrainingRows, options: Options = {}, loss = lossOf()) => {
  const step = lossStep(loss, { config, optimizer: descent, ...options })
  const { state, metrics } = step.update({ params: params(), optimizer: {} }, lossRows(rows), 1)
  using after = state
  step.release()
  return { params: numbersOf(after.value.params), metrics }
}

const expectSame = (a: ReturnType<typeof alone>, b: ReturnType<typeof alone>): void => {
  for (const [name, values] of Object.entries(a.params))
    expectClose(b.params[name]!, values, { absolute: 3e-6, relative: 3e-6 })
  for (const [name, value] of undividedMetrics(a.metrics))
    expectClose([b.metrics[name] ?? 0], [value], { absolute: 3e-6, relative: 1e-5 })
}

describe('a step on several workers', () => {
  it('gives what the step in one thread gives, but for rounding, for any number of workers, groups and tokens of a run', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.constantFrom(1, 2, 3),
        fc.array(fc.integer({ min: 1, max: 3 }), { minLength: 1, maxLength: 5 }),
        fc.constantFrom(1, 40, 4096),
        fc.nat(50),
        async (workers, groups, microBatchTokens, seed) => {
          const [rows, replicas] = [rowsFor(groups, seed), await start(workers)]
          expectSame(alone(rows), await inParallel(replicas, rows, { microBatchTokens }))
          await replicas.close()
        },
      ),
      { numRuns: 5 },
    )
  })

  it('is a function of its arguments: equal rows give equal parameters, bit for bit', async () => {
    const [rows, replicas] = [rowsFor([2, 2, 2, 2], 5), await start(2)]
    const updates = [await inParallel(replicas, rows), await inParallel(replicas, rows)]
    expect(updates[1]).toEqual(updates[0])
    await replicas.close()
  })

  it('has the choice of an objective made over the whole mini-batch', async () => {
    const [rows, loss] = [rowsFor([2, 1, 2], 3), lossOf('clip-cov')]
    const own = await start(2, sameThread, loss)
    const noise = rows.completions.map((row) => Array.from(row, (_, t) => (t + 0.5) / 8))
    expectSame(alone({ ...rows, noise }, {}, loss), await inParallel(own, { ...rows, noise }, {}, loss))
    await own.close()
  })

  it('leaves frozen weights alone, and trains the others as in one thread', async () => {
    const replicas = await start(2)
    const frozenName = Object.keys(params())[0]!
    const { [frozenName]: kept, ...trained } = params()
    const rows = rowsFor([2, 2], 4)
    const frozen = { [frozenName]: kept! }
    const one = lossStep(lossOf(), { config, optimizer: descent, frozen })
    const many = parallelStep(lossOf(), { config, optimizer: descent, frozen }, replicas)
    const { state, metrics } = one.update({ params: trained, optimizer: {} }, lossRows(rows), 1)
    using after = state
    const update = taken(await many.update({ params: trained, optimizer: {} }, lossRows(rows), 1)())
    expect(Object.keys(update.params)).not.toContain(frozenName)
    expectSame({ params: numbersOf(after.value.params), metrics }, update)
    one.release()
    many.release()
    await replicas.close()
  })

  it('refuses numbers that are NaN and rows that do not fit as the step in one thread does, and keeps nothing', async () => {
    const replicas = await start(2)
    const step = parallelStep(lossOf(), { config, optimizer: descent }, replicas)
    const rows = rowsFor([2, 2], 4)
    const state = { params: params(), optimizer: {} }
    await step
      .update(state, lossRows(rows), 0)()
      .then((update) => taken(update))
    const before = [liveTensors().count, ownedCount()]
    const bad = { ...rows, advantages: rows.completions.map(() => Number.NaN) }
    await expect(step.update(state, lossRows(bad), 1)()).rejects.toThrow(NonFiniteLoss)
    await expect(step.update(state, lossRows({ ...rows, advantages: [1] }), 1)()).rejects.toThrow(RangeError)
    expect([liveTensors().count, ownedCount()]).toEqual(before)
    step.release()
    await replicas.close()
  })
})

describe('what is sent to workers', () => {
  /** Threads that count the weights that they are sent. */
  const counting = (names: string[]): Threads => ({
    start: (program, options) => async () => {
      const thread = await rightOf(sameThread.start(program, options))
      const post: typeof thread.post = (message, transfer) => {
        const { weights = {} } = message as { readonly weights?: object } // a ReplicaMessage
        names.push(...Object.keys(weights))
        thread.post(message, transfer)
      }
      return { _tag: 'Right', right: { ...thread, post } }
    },
  })

  it('are the weights that they do not have yet, once', async () => {
    const names: string[] = []
    const replicas = await start(2, counting(names))
    const all = Object.keys(params())
    replicas.hold('policy', params())
    replicas.hold('policy', { ...params() })
    expect(names).toEqual(all)
    using changed = own(scope(() => tf.add(params()[all[0]!]!, 1)))
    replicas.hold('policy', { ...params(), [all[0]!]: changed.value })
    expect(names).toEqual([...all, all[0]])
    replicas.hold('reference', params())
    replicas.hold('reference', params())
    expect(names).toEqual([...all, all[0], ...all])
    await replicas.close()
  })
})

describe('a generator on several workers', () => {
  const request = (prompts: number, group: number) => ({
    prompts: Array.from({ length: prompts }, (_, i) => [1 + i, 2, 3]),
    group,
    keys: completionKeys(keyFromSeed(3), prompts, group),
    options: { temperature: 1, maxNewTokens: 6, stopTokens: config.endTokens },
  })
  const breathe = async (): Promise<void> => {}

  it.each([
    [1, 3],
    [3, 2],
    [5, 1],
  ])('samples the tokens that one samples, %i prompts and %i of each', async (prompts, group) => {
    const replicas = await start(3)
    const [one, many] = [makeGenerator(config), parallelGenerator(makeGenerator(config), replicas)]
    const expected = await one.generate(params(), request(prompts, group), breathe)
    const got = await many.generate(params(), request(prompts, group), breathe)
    expect(got.map(({ ids, stopReason }) => [[...ids], stopReason])).toEqual(
      expected.map(({ ids, stopReason }) => [[...ids], stopReason]),
    )
    for (const [i, { logProbs }] of got.entries())
      expectClose([...logProbs], [...expected[i]!.logProbs], { absolute: 1e-5 })
    for (const generator of [one, many]) generator.release()
    await replicas.close()
  })

  it('rejects as one does, with what a worker threw', async () => {
    const replicas = await start(2)
    const many = parallelGenerator(makeGenerator(config), replicas)
    const wrong = { ...request(2, 1), prompts: [[1], []] }
    await expect(many.generate(params(), wrong, breathe)).rejects.toThrow(RangeError)
    many.release()
    await replicas.close()
  })
})

describe('a scorer on several workers', () => {
  const request = (prompts: number, group: number) => ({
    prompts: Array.from({ length: prompts * group }, (_, i) => [1 + Math.floor(i / group), 2, 3]),
    completions: Array.from({ length: prompts * group }, (_, i) => [i % 7, 4, 5].slice(0, 1 + (i % 3))),
    temperature: 0.7,
  })

  it.each([
    [1, 3],
    [3, 2],
    [5, 1],
  ])('scores as one does but for rounding, %i prompts and %i completions of each', async (prompts, group) => {
    const replicas = await start(3)
    const [one, many] = [makeScorer(config), parallelScorer(makeScorer(config), replicas, 'reference')]
    const expected = one.score(params(), request(prompts, group))
    const scored = await many.score(params(), request(prompts, group))
    expect(scored.map((row) => row.length)).toEqual(expected.map((row) => row.length))
    for (const [i, row] of scored.entries()) expectClose([...row], [...expected[i]!], { absolute: 1e-5 })
    for (const scorer of [one, many]) scorer.release()
    await replicas.close()
  })

  it('scores with the weights of its role, whatever the other has', async () => {
    const replicas = await start(2)
    using other = own(scope(() => initialParams(config, keyFromSeed(2), 0.5)))
    const [reference, policy] = (['reference', 'policy'] as const).map((role) =>
      parallelScorer(makeScorer(config), replicas, role),
    )
    const before = await reference!.score(params(), request(2, 1))
    const others = await policy!.score(other.value, request(2, 1))
    expect(await reference!.score(params(), request(2, 1))).toEqual(before)
    expect(others).not.toEqual(before)
    for (const scorer of [reference!, policy!]) scorer.release()
    await replicas.close()
  })

  it('rejects as one does, with what a worker threw', async () => {
    const replicas = await start(2)
    const many = parallelScorer(makeScorer(config), replicas, 'reference')
    const wrong = { ...request(2, 1), prompts: [[1], []] }
    await expect(many.score(params(), wrong)).rejects.toThrow(RangeError)
    many.release()
    await replicas.close()
  })
})

describe('a thread of its own', () => {
  it.each([1, 2])('computes with %d threads inside an operation if it is given so many', async (threadsEach) => {
    const said: unknown[] = []
    const threads: Threads = {
      start: (program, options) =>
        TE.map(
          (thread: Thread): Thread => ({
            ...thread,
            listen: (heard) =>
              thread.listen((message) => {
                said.push(message)
                heard(message)
              }),
          }),
        )(liveThreads.start(program, options)),
    }
    const replicas = await rightOf(startReplicas({ config, loss: lossOf(), workers: 2, threads, threadsEach }))
    await replicas.close()
    expect(said[0]).toEqual({ _tag: 'Ready', threads: threadsEach })
  })
})

describe('threads', () => {
  it('compute the same as replicas of this thread; one that is closed is a failure', async () => {
    const here = await start(2)
    const rows = rowsFor([2, 2], 7)
    const expected = await inParallel(here, rows)
    await here.close()
    const replicas = await start(2, liveThreads)
    expect(await inParallel(replicas, rows)).toEqual(expected)
    const closing = replicas.close()
    const step = parallelStep(lossOf(), { config, optimizer: descent }, replicas)
    const failed = await step.update({ params: params(), optimizer: {} }, lossRows(rows), 1)()
    expect(failed).toMatchObject({ _tag: 'Left', left: { _tag: 'ThreadFailure' } })
    await closing
    await replicas.close()
    step.release()
  })

  it('that cannot begin are a failure, and those that did are ended', async () => {
    let started = 0
    const threads: Threads = {
      start: (program, options) => async () => {
        if (++started === 2) return { _tag: 'Left', left: { _tag: 'ThreadFailure', kind: 'start', reason: 'no more' } }
        return sameThread.start(program, options)()
      },
    }
    const failed = await startReplicas({ config, loss: lossOf(), workers: 3, threads })()
    expect(failed).toMatchObject({ _tag: 'Left', left: { kind: 'start', reason: 'no more' } })
  })

  it('are counted: a number that is none is refused', async () => {
    await expect(startReplicas({ config, loss: lossOf(), workers: 0 })()).rejects.toThrow(RangeError)
  })
})
