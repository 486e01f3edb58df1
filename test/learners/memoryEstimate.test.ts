/**
 * The memory of a run before it begins: how it grows, what makes it smaller, and who is refused.
 */
import { totalmem } from 'node:os'
import { liveMachine } from '@tandem-rl/base/host'
import fc from 'fast-check'
import * as E from 'fp-ts/lib/Either.js'
import { beforeAll, describe, expect, it } from 'vitest'
import { formatBytes, type MemoryRequest, memoryEstimate, requireMemory } from '../../src/learners/memoryEstimate.js'
import { parameterCount } from '../../src/modules/transformer/params.js'
import type { PolicyRun } from '../../src/run/define/policyParts.js'
import { anySmallConfig } from '../kit/configs.js'
import { useEngine } from '../kit/engine.js'
import { tinyConfig } from '../kit/models.js'
import { type Flags, smallSettings, useTemporaryFolder, writeAnsweringModel } from '../kit/runs.js'
import { wordProblemRun } from '../kit/trainingRuns.js'

useEngine({ threads: 1 })
const path = useTemporaryFolder()

/** A run of a small model. */
const request: MemoryRequest = {
  ...{
    config: tinyConfig(),
    trained: parameterCount(tinyConfig()),
    stateNumbers: 2,
    microBatchTokens: 4096,
    recompute: 'none',
  },
  batch: { prompts: 16, group: 8, promptTokens: 64, completionTokens: 64 },
}

const size = fc.integer({ min: 1, max: 200 })
const anyRequest: fc.Arbitrary<MemoryRequest> = fc
  .record({
    config: anySmallConfig,
    stateNumbers: fc.constantFrom(0, 0.1, 1, 2),
    batch: fc.record({ prompts: size, group: size, promptTokens: size, completionTokens: size }),
    microBatchTokens: fc.integer({ min: 1, max: 10_000 }),
    recompute: fc.constantFrom('none', 'layers'),
  })
  .map((request) => ({ ...request, trained: parameterCount(request.config) }))

describe('the estimate', () => {
  const totals = (a: MemoryRequest, b: MemoryRequest): void => {
    expect(memoryEstimate(a).total).toBeLessThanOrEqual(memoryEstimate(b).total)
  }

  it('does not grow when layers are computed again, when less is trained, or when a run has fewer tokens', () => {
    fc.assert(
      fc.property(anyRequest, (request) => {
        totals({ ...request, stateNumbers: 0 }, request)
        totals({ ...request, trained: Math.floor(request.trained / 2) }, request)
        totals({ ...request, microBatchTokens: Math.ceil(request.microBatchTokens / 2) }, request)
        const one = { ...request, config: tinyConfig({ layers: 8 }) }
        totals({ ...one, recompute: 'layers' }, { ...one, recompute: 'none' })
      }),
    )
  })

  it('does not shrink when there are more prompts, or longer completions in one run', () => {
    fc.assert(
      fc.property(anyRequest, (request) => {
        const { batch } = request
        const whole = { ...request, microBatchTokens: 1e9 }
        totals(whole, { ...whole, batch: { ...batch, prompts: batch.prompts + 1 } })
        totals(whole, { ...whole, batch: { ...batch, completionTokens: batch.completionTokens + 16 } })
      }),
    )
  })

  it('counts four bytes for each weight, and for each that is trained eight with AdamW, a third of that with SGD', () => {
    const config = tinyConfig()
    const [all, few] = [parameterCount(config), 10]
    const request = {
      ...{ config, stateNumbers: 2 },
      batch: { prompts: 1, group: 1, promptTokens: 1, completionTokens: 1 },
      microBatchTokens: 1,
      recompute: 'none',
    } as const
    expect(memoryEstimate({ ...request, trained: all })).toMatchObject({ weights: 4 * all, optimizer: 32 * all })
    expect(memoryEstimate({ ...request, trained: few })).toMatchObject({
      weights: 4 * (all + few),
      optimizer: 32 * few,
    })
    const sgd = memoryEstimate({ ...request, stateNumbers: 0, trained: all })
    expect(sgd.optimizer).toBeCloseTo((32 / 3) * all, 6)
    const three = memoryEstimate({ ...request, trained: few, threads: 2 })
    expect(three.threads).toBe(2 * (300 * 2 ** 20 + 4 * (2 * all + 2 * few)))
    expect(three.total - memoryEstimate({ ...request, trained: few }).total).toBe(three.threads)
  })

  it('counts the weights in the compiled step where completions may have 128 tokens or more', () => {
    const config = tinyConfig()
    const all = parameterCount(config)
    const cache = (completionTokens: number): number =>
      memoryEstimate({
        ...{ config, stateNumbers: 2, trained: all, microBatchTokens: 1, recompute: 'none' },
        batch: { prompts: 1, group: 1, promptTokens: 1, completionTokens },
      }).cache
    expect(cache(128) - cache(127)).toBeCloseTo(4 * 1.6 * all, 6) // keys and values have as many places
  })
})

describe('a run without room', () => {
  let model = ''
  beforeAll(async () => {
    model = await writeAnsweringModel(path('model'))
  })

  it('is refused exactly if it takes more than there is', () => {
    fc.assert(
      fc.property(anyRequest, (request) => {
        const { total } = memoryEstimate(request)
        expect(E.isRight(requireMemory(request, total))).toBe(true)
        expect(E.isLeft(requireMemory(request, total - 1))).toBe(true)
      }),
    )
  })

  it('counts its workers, and the thread that samples ahead', async () => {
    const total = async (flags: Flags): Promise<number> => {
      const run = (await wordProblemRun(smallSettings(model, flags), { memory: 'ignore' })) as PolicyRun // a run from settings
      await run.close()
      return run.memory!.total
    }
    const one = await total({})
    const worker = (await total({ workers: 2 })) - one
    expect(worker).toBeGreaterThan(300 * 2 ** 20)
    expect(await total({ workers: 3, maxLag: 1 })).toBe(one + 3 * worker)
  })

  it('names what it would take, what there is, and what would take less', () => {
    const refused = requireMemory(request, 2 ** 20)
    expect(refused).toMatchObject({ left: { _tag: 'MemoryFailure', availableBytes: 2 ** 20 } })
    const reason = E.isLeft(refused) ? refused.left.reason : ''
    for (const part of [
      'only 1 MiB are available',
      '--recompute layers',
      '--lora-rank',
      '--micro-batch',
      '--memory ignore',
    ])
      expect(reason).toContain(part)
  })

  it('is not advised to do what it does already', () => {
    const refused = requireMemory({ ...request, trained: 10, recompute: 'layers', microBatchTokens: 1 }, 1)
    const reason = E.isLeft(refused) ? refused.left.reason : ''
    for (const part of ['--recompute', '--lora-rank', '--micro-batch']) expect(reason).not.toContain(part)
    expect(reason).toContain('a smaller --group')
  })
})

describe('the machine', () => {
  it('has some memory, and no more than is built in', () => {
    expect(liveMachine.memoryBytes()).toBeGreaterThan(2 ** 20)
    expect(liveMachine.memoryBytes()).toBeLessThanOrEqual(totalmem())
  })

  it.each([
    [1, '1 MiB'],
    [2 ** 30 - 1, '1024 MiB'],
    [2 ** 30, '1.0 GiB'],
  ])('says %d bytes as %s', (bytes, text) => {
    expect(formatBytes(bytes)).toBe(text)
  })
})
