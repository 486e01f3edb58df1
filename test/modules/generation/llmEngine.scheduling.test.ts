import type { GenerationRequest } from '@tandem-rl/text'
import { describe, expect, it } from 'vitest'
import { generateAll } from '../../../src/modules/generation/generateAll.js'
import { answer, idsOf, PROMPT, refusal, requestOf } from '../../kit/engineSuiteParts.js'
import { type ScriptedEngineOptions, scriptedEngine } from '../../kit/scriptedEngine.js'
import { TOY_BYTES } from '../../kit/scriptedRunner.js'
import { turnClock } from '../../kit/turnClock.js'

/** An engine whose steps are taken one by one. */
const stepwise = (limits: ScriptedEngineOptions['limits'] = {}) => {
  const clock = turnClock()
  return { clock, ...scriptedEngine({ clock, limits }) }
}

type Stepwise = ReturnType<typeof stepwise>

const turns = async ({ clock }: Stepwise, count: number): Promise<void> => {
  for (let i = 0; i < count; i++) await clock.turn()
}

/** Takes steps until it is over. */
const over = async <T>(stage: Stepwise, promise: Promise<T>): Promise<T> => {
  let isOver = false
  const waited = promise.finally(() => {
    isOver = true
  })
  while (!isOver) await stage.clock.turn()
  return waited
}

const close = async (stage: Stepwise): Promise<void> => over(stage, stage.engine.close())

const counted = (length: number): readonly number[] => Array.from({ length }, (_, i) => i % 13)

describe('steps of the engine', () => {
  it('keeps by default at most two sequences of full length for each row, however much memory is free', async () => {
    const clock = turnClock()
    const limits = { maxConcurrent: 3, maxModelLength: 40 }
    const stage = {
      clock,
      ...scriptedEngine({ clock, limits, memory: { free: () => 1e12, reserve: () => () => undefined } }),
    }
    expect((await stage.engine.metrics()).cacheBytes).toBe(2 * 3 * 40 * TOY_BYTES)
    await close(stage)
  })

  it('a long prompt is computed in pieces, with a decoding step of the others between them', async () => {
    const stage = stepwise({ prefillTokens: 16 })
    const short = answer(stage.engine, requestOf([1], { maxTokens: 12 }))
    await turns(stage, 1)
    const long = answer(stage.engine, requestOf(counted(100), { maxTokens: 1 }))
    const before = (await stage.engine.metrics()).generatedTokens
    await turns(stage, 5)
    expect((await stage.engine.metrics()).generatedTokens).toBe(before + 5)
    await over(stage, Promise.all([short, long]))
    expect(stage.runner.calls().promptTokens).toBe(101)
    await close(stage)
  })

  it('equal prompts that wait together, and all completions of one, are computed once', async () => {
    const stage = stepwise({ prefixCache: 'off' })
    const requests = Array.from({ length: 5 }, () => requestOf(PROMPT, { n: 3 }))
    const [first, ...others] = await over(stage, generateAll(stage.engine, requests))
    expect(stage.runner.calls()).toMatchObject({ prefills: 1, promptTokens: PROMPT.length })
    for (const other of others) expect(other).toEqual(first)
    await close(stage)
  })

  it('rows of all length classes are decoded in one step', async () => {
    const stage = stepwise()
    const requests = [...Array(6).fill([1, 2]), counted(150)].map((prompt) => requestOf(prompt, { maxTokens: 3 }))
    await over(stage, generateAll(stage.engine, requests))
    expect([...new Set(stage.runner.stepSizes())]).toEqual([7])
    await close(stage)
  })

  it('a request that needs all rows is not overtaken for ever', async () => {
    const stage = stepwise({ maxConcurrent: 4 })
    const ended: string[] = []
    const note = async (request: GenerationRequest): Promise<void> => {
      await answer(stage.engine, request)
      ended.push(request.id)
    }
    const early = Array.from({ length: 6 }, (_, i) => note(requestOf([i], { maxTokens: 5 + 3 * i })))
    const large = requestOf(PROMPT, { n: 4 })
    const all = [...early, note(large), ...Array.from({ length: 20 }, (_, i) => note(requestOf([i], { maxTokens: 5 })))]
    await over(stage, Promise.all(all))
    expect(ended.indexOf(large.id)).toBe(6)
    await close(stage)
  })

  it('without work it takes no steps', async () => {
    let breaths = 0
    const { engine } = scriptedEngine({
      clock: {
        now: () => 0,
        breathe: async () => {
          breaths++
          await new Promise((go) => setImmediate(go))
        },
      },
    })
    await answer(engine, requestOf(PROMPT))
    const after = breaths
    for (let i = 0; i < 20; i++) await new Promise((go) => setImmediate(go))
    expect(breaths - after).toBeLessThanOrEqual(1)
    await engine.close()
  })
})

describe('limits of the engine', () => {
  it('more than may wait are refused as overloaded, the others answered', async () => {
    const stage = stepwise({ maxWaiting: 2, maxConcurrent: 1 })
    const results = await over(
      stage,
      generateAll(
        stage.engine,
        [1, 2, 3, 4].map((id) => requestOf([id])),
      ),
    )
    expect(results.map((result) => (result._tag === 'Left' ? result.left.kind : 'answered'))).toEqual([
      'answered',
      'answered',
      'overloaded',
      'overloaded',
    ])
    await close(stage)
  })

  it('what the memory can never hold is refused with the bytes; what fills it alone is answered', async () => {
    const stage = stepwise({ memoryBytes: 2 * 60 * TOY_BYTES })
    const failure = await refusal(stage.engine, requestOf(counted(40), { maxTokens: 40 }))
    expect(failure).toMatchObject({ kind: 'invalid', reason: expect.stringContaining(`${2 * 60 * TOY_BYTES}`) })
    expect(idsOf(await over(stage, answer(stage.engine, requestOf(counted(40), { maxTokens: 20 }))))).toHaveLength(20)
    await close(stage)
  })

  it('when memory runs out the youngest rows are computed again later, and get what they would have got', async () => {
    const limits = { memoryBytes: 220 * TOY_BYTES, prefixCache: 'off' } as const
    const requests = (): readonly GenerationRequest[] =>
      [1, 2, 3, 4].map((id) => requestOf([id, 5], { maxTokens: 100 }))
    const roomy = stepwise()
    const expected = await over(roomy, generateAll(roomy.engine, requests()))
    const tight = stepwise(limits)
    expect(await over(tight, generateAll(tight.engine, requests()))).toEqual(expected)
    expect((await tight.engine.metrics()).preemptions).toBeGreaterThan(0)
    await close(roomy)
    await close(tight)
  })
})

describe('metrics of the engine', () => {
  it('count tokens and requests, and time what is waited for', async () => {
    const stage = stepwise({ maxConcurrent: 1 })
    const results = generateAll(stage.engine, [
      requestOf(PROMPT, { maxTokens: 3 }),
      requestOf(PROMPT, { maxTokens: 2 }),
    ])
    await turns(stage, 1)
    expect(await stage.engine.metrics()).toMatchObject({ running: 1, waiting: 1 })
    expect((await stage.engine.metrics()).cacheUsage).toBeGreaterThan(0)
    await over(stage, results)
    const metrics = await stage.engine.metrics()
    expect(metrics).toMatchObject({
      running: 0,
      waiting: 0,
      cacheUsage: 0,
      promptTokens: 2 * PROMPT.length,
      generatedTokens: 5,
      prefixQueries: 2 * PROMPT.length,
      prefixHits: 0,
      preemptions: 0,
      finished: { stop: 0, length: 2, abort: 0, error: 0 },
    })
    // The first step brings a prompt and two tokens; time moves by 1 ms between steps.
    expect(metrics.timeToFirstToken.count).toBe(2)
    expect(metrics.interTokenLatency.count).toBe(3)
    expect(metrics.queueTime.count).toBe(2)
    expect(metrics.endToEnd.count).toBe(2)
    expect(metrics.interTokenLatency.sum).toBeCloseTo(0.001)
    expect(metrics.endToEnd.sum).toBeGreaterThanOrEqual(metrics.timeToFirstToken.sum)
    expect(metrics.timeToFirstToken.sum).toBeCloseTo(metrics.queueTime.sum)
    expect(metrics.timeToFirstToken.counts.at(-1)).toBe(2)
    await close(stage)
  })
})
