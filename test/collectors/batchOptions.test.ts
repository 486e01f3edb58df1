/** TorchRL's options of batches. */
import { keyFromSeed } from '@tandem-rl/base'
import { fakeClock, type ScriptedState } from '@tandem-rl/testing'
import { liveTensors, own, ownedCount, scope } from '@tandem-rl/tfjs-onnxruntime/scope'
import * as TE from 'fp-ts/lib/TaskEither.js'
import { describe, expect, it } from 'vitest'
import { LLMCollector } from '../../src/collectors/llmCollector.js'
import type { CollectedBatch } from '../../src/collectors/rollouts/turnRows.js'
import { holdBuffer } from '../../src/data/buffers/heldBuffer.js'
import { ReplayBuffer } from '../../src/data/buffers/replayBuffer.js'
import { RandomSampler } from '../../src/data/buffers/sampler.js'
import { exclude } from '../../src/data/tensorDict/edit.js'
import { concat } from '../../src/data/tensorDict/joining.js'
import { take } from '../../src/data/tensorDict/selecting.js'
import { get, type TensorDict } from '../../src/data/tensorDict/tensorDict.js'
import { itemsAt } from '../kit/conversation.js'
import { useEngine } from '../kit/engine.js'
import { leftOf, rightOf } from '../kit/results.js'
import { groupEnvs, keyedPolicy } from '../kit/rollouts.js'

useEngine()

type Batch = CollectedBatch<ScriptedState>
type Batches = NonNullable<Parameters<typeof collectorOf>[0]>

const GROUP = [3, 1]
const TURNS = 4

/** Makes a collector of a group whose members take 3 turns and 1 turn. */
const collectorOf = (batches: {
  readonly dialogTurnsPerBatch?: number
  readonly totalDialogTurns?: number
  readonly yieldOnlyLastSteps?: boolean
}) =>
  LLMCollector({
    env: groupEnvs([GROUP])(0),
    policy: keyedPolicy(),
    key: keyFromSeed(1),
    time: { clock: fakeClock() },
    batches,
  })

const base = { policy: keyedPolicy(), key: keyFromSeed(1), time: { clock: fakeClock() } }

describe('batches side by side', () => {
  it.each([
    [undefined, 1],
    [4, 1],
    [5, 2],
    [9, 3],
  ])(
    'of at least %s turns are %d whole resets, and the next one goes on after them',
    async (dialogTurnsPerBatch, resets) => {
      const given: Batches = dialogTurnsPerBatch === undefined ? {} : { dialogTurnsPerBatch }
      const collector = collectorOf(given)
      const { batch, position } = await rightOf(collector.collect(collector.start))
      using owned = batch
      expect(owned.value.batchShape).toEqual([TURNS * resets])
      expect(position.batch).toBe(resets)
      const single = collectorOf({})
      const parts: Batch[] = []
      let at = single.start
      const all = []
      for (let reset = 0; reset < resets; reset++) {
        const part = await rightOf(single.collect(at))
        parts.push(part.batch.value)
        all.push(part.batch)
        at = part.position
      }
      expect(itemsAt(owned.value as TensorDict, 'trajectoryId')).toEqual(
        parts.flatMap((part) => itemsAt(part as TensorDict, 'trajectoryId')),
      )
      for (const part of all) part.release()
    },
  )

  it('have only the last turn of each trajectory if that is wanted, and count all', async () => {
    const turns: number[] = []
    for await (const batch of collectorOf({ yieldOnlyLastSteps: true, totalDialogTurns: 2 * TURNS })) {
      expect(batch.batchShape).toEqual([GROUP.length])
      turns.push(...get(batch, 'turn').items)
    }
    expect(turns).toEqual([2, 0, 2, 0])
  })

  it('end after so many turns', async () => {
    let count = 0
    for await (const batch of collectorOf({ totalDialogTurns: 6 })) count += batch.batchShape[0]!
    expect(count).toBe(2 * TURNS)
  })
})

describe('what is done with batches', () => {
  it('postproc makes the batch that is given out, its type and all, and the one before is freed', async () => {
    const before = [liveTensors().count, ownedCount()]
    const env = groupEnvs([GROUP])(0)
    const postproc = (batch: Batch) => exclude(take(batch, [0]), 'generationMs')
    for await (const batch of LLMCollector({ ...base, env, batches: { postproc, totalDialogTurns: 1 } })) {
      expect(batch.batchShape).toEqual([1])
      expect(get(batch, 'turn').items.toArray()).toEqual([0])
      // @ts-expect-error: taken out by postproc
      expect(() => get(batch, 'generationMs')).toThrow('no such entry')
    }
    expect([liveTensors().count, ownedCount()]).toEqual(before)
  })

  it('a replay buffer gets every batch, and its rows keep their identity after the batches are gone', async () => {
    const before = [liveTensors().count, ownedCount()]
    const replayBuffer = holdBuffer<Batch extends TensorDict<infer S> ? S : never, null>(
      ReplayBuffer({ capacity: 8, sampler: RandomSampler() }),
    )
    const env = (task: number) => groupEnvs([GROUP])(task)
    const batches = { replayBuffer, totalDialogTurns: 3 * TURNS }
    const ids: unknown[] = []
    const concurrent = { maxInFlight: 2, order: 'drawn' } as const
    for await (const batch of LLMCollector({ ...base, env, batches, concurrent }))
      ids.push(...itemsAt(batch as TensorDict, 'trajectoryId'))
    expect(replayBuffer.state().written).toBe(3 * TURNS)
    const kept = replayBuffer.state().rows
    const all = own(scope(() => concat(kept)))
    expect(itemsAt(all.value as TensorDict, 'trajectoryId').toSorted()).toEqual(ids.slice(-8).toSorted())
    const sampled = replayBuffer.sample({ count: 4, key: keyFromSeed(2) })
    expect(sampled.value.rows.batchShape).toEqual([4])
    replayBuffer.release()
    all.release()
    sampled.release()
    expect([liveTensors().count, ownedCount()]).toEqual(before)
  })

  it('new weights are pushed before a batch when their version has changed, and a push that fails is its failure', async () => {
    let version = 3
    const pushes: number[] = []
    const refused = { _tag: 'WeightFailure', receiver: 'test', reason: 'no' } as const
    const weightUpdater = {
      version: () => version,
      push: () => (version === 5 ? TE.left(refused) : TE.rightIO(() => pushes.push(version)))(),
    }
    const collector = LLMCollector({ ...base, env: groupEnvs([[1]])(0), batches: { weightUpdater } })
    const next = async () => (await rightOf(collector.collect(collector.start))).batch.release()
    await next()
    version = 4
    await next()
    await next()
    expect(pushes).toEqual([4])
    version = 5
    expect(await leftOf(collector.collect(collector.start))).toBe(refused)
    version = 6
    await next()
    expect(pushes).toEqual([4, 6])
  })

  it('a policy is made when the first batch is asked for, and once', async () => {
    let made = 0
    const { policy, ...rest } = base
    const policyFactory = () => {
      made++
      return policy
    }
    const env = groupEnvs([GROUP])
    for (const collector of [
      LLMCollector({ ...rest, policyFactory, env: env(0) }),
      LLMCollector({ ...rest, policyFactory, env, concurrent: { maxInFlight: 2 } }),
    ]) {
      const before = made
      const { batch, position } = await rightOf(collector.collect(collector.start))
      batch.release()
      ;(await rightOf(collector.collect(position))).batch.release()
      await collector.close()
      expect(made).toBe(before + 1)
    }
  })
})

describe('concurrent rollouts by position', () => {
  const env = groupEnvs([GROUP, [1, 1], [2, 4]])
  const collector = () => LLMCollector({ ...base, env, concurrent: { tasks: 3, maxInFlight: 4, order: 'drawn' } })

  it('go on from the position given out last, and begin anew from any other: equal positions, equal rows', async () => {
    const one = collector()
    const first = await rightOf(one.collect(one.start))
    const ids = (batch: Batch) => itemsAt(batch as TensorDict, 'trajectoryId')
    const wanted = ids(first.batch.value)
    const second = await rightOf(one.collect(first.position))
    const stored = JSON.parse(JSON.stringify(first.position)) as typeof first.position // plain JSON
    const other = collector()
    const again = await rightOf(other.collect(stored))
    expect(ids(again.batch.value)).toEqual(ids(second.batch.value))
    const anew = await rightOf(one.collect(one.start))
    expect(ids(anew.batch.value)).toEqual(wanted)
    for (const { batch } of [first, second, again, anew]) batch.release()
    await Promise.all([one.close(), other.close()])
  })

  it('end: a batch after the last task is refused, and iterating ends', async () => {
    const one = collector()
    let count = 0
    for await (const _ of one) count++
    expect(count).toBe(3)
    let at = one.start
    for (let i = 0; i < 3; i++) {
      const { batch, position } = await rightOf(one.collect(at))
      batch.release()
      at = position
    }
    expect(await leftOf(one.collect(at))).toEqual({
      _tag: 'CollectorEnded',
      reason: 'all tasks have been delivered',
    })
  })
})

describe('options', () => {
  const env = groupEnvs([GROUP])

  it.each([
    [{ ...base, env: env(0), batches: { yieldCompletedTrajectories: false } }, "requires 'concurrent'"],
    [{ ...base, env: env(0), concurrent: { maxInFlight: 1 } }, "a function of the task with 'concurrent'"],
    [{ ...base, env }, "an environment without 'concurrent'"],
    [{ ...base, env: env(0), maxTurns: 0, batches: { dialogTurnsPerBatch: 0.5 } }, 'maxTurns must be'],
    [{ ...base, env: env(0), maxTurn: 1 }, "unknown option 'maxTurn': did you mean 'maxTurns'?"],
    [{ ...base, env: env(0), batches: { dialogTurns: 1 } }, "unknown option 'dialogTurns'"],
    [{ ...base, env, concurrent: { maxInflight: 1 } }, "unknown option 'maxInflight': did you mean 'maxInFlight'?"],
  ])('%# that cannot be are refused', (options, reason) => {
    expect(() => LLMCollector(options as never)).toThrow(reason)
  })
})
