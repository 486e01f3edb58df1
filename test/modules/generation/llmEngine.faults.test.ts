import type { GenerationEvent } from '@tandem-rl/text'
import { own } from '@tandem-rl/tfjs-onnxruntime/scope'
import { isLeft, left, right } from 'fp-ts/lib/Either.js'
import { describe, expect, it } from 'vitest'
import { generateAll } from '../../../src/modules/generation/generateAll.js'
import type { ModelRunner } from '../../../src/modules/generation/runner/modelRunner.js'
import { answer, idle, idsOf, PROMPT, refusal, requestOf } from '../../kit/engineSuiteParts.js'
import { leftOf, rightOf } from '../../kit/results.js'
import { scriptedEngine, TOY_VOCABULARY, toyAdapter, toyWeights } from '../../kit/scriptedEngine.js'
import { type ScriptedRunner, type ScriptedRunnerOptions, scriptedRunner, toyParams } from '../../kit/scriptedRunner.js'

const runnerThat = (options: ScriptedRunnerOptions): ScriptedRunner =>
  scriptedRunner({ vocabularySize: TOY_VOCABULARY, ...options })

describe('a model that fails', () => {
  it('in a prompt fails the requests of that call; the engine goes on', async () => {
    const { engine, runner } = scriptedEngine({
      runner: runnerThat({
        fault: ({ kind, tokens }) => {
          if (kind === 'prefill' && tokens.includes(13)) throw new Error('out of memory')
        },
      }),
    })
    const before = answer(engine, requestOf(PROMPT, { maxTokens: 30 }))
    await new Promise((go) => setImmediate(go))
    const failure = await refusal(engine, requestOf([13]))
    expect(failure).toMatchObject({ kind: 'internal', reason: expect.stringContaining('out of memory') })
    expect(idsOf(await before)).toHaveLength(30)
    expect(idsOf(await answer(engine, requestOf(PROMPT)))).toHaveLength(8)
    expect((await engine.metrics()).finished.error).toBe(1)
    await engine.close()
    expect(runner.openLanes()).toBe(0)
  })

  it('in a decoding step fails the rows of that step; later requests are served', async () => {
    let isFailing = false
    const { engine, runner } = scriptedEngine({
      runner: runnerThat({
        fault: ({ kind, tokens }) => {
          if (kind === 'step' && isFailing && tokens.length === 3) throw new Error('a kernel failed')
        },
      }),
    })
    const long = Array.from({ length: 100 }, (_, i) => i % 7)
    const running = generateAll(engine, [requestOf(PROMPT), requestOf(PROMPT), requestOf(long)])
    isFailing = true
    for (const failed of await running)
      expect(failed).toMatchObject({ left: { kind: 'internal', reason: expect.stringContaining('a kernel failed') } })
    isFailing = false
    expect(idsOf(await answer(engine, requestOf(PROMPT)))).toHaveLength(8)
    expect(engine.bytes().lanes).toBe(0)
    await engine.close()
    expect(runner.openLanes()).toBe(0)
  })

  it('in a way that cannot be contained ends the engine: everybody is told, and nobody waits', async () => {
    const toy = runnerThat({})
    const runner: ModelRunner = {
      ...toy,
      makeLane: () => {
        const lane = toy.makeLane()
        const { release } = lane
        return Object.assign(lane, {
          release: () => {
            release()
            if (lane.bytes() > 0) throw new Error('the memory is corrupt')
          },
        })
      },
    }
    const { engine } = scriptedEngine({ runner: { ...toy, ...runner } })
    const results = await generateAll(engine, [
      requestOf(PROMPT, { maxTokens: 2 }),
      requestOf([1, 2], { maxTokens: 90 }),
    ])
    expect(results[1]).toMatchObject({ left: { kind: 'internal', reason: expect.stringContaining('corrupt') } })
    expect(await refusal(engine, requestOf(PROMPT))).toMatchObject({
      kind: 'closed',
      reason: expect.stringContaining('corrupt'),
    })
    expect((await leftOf(engine.loadWeights(toyWeights(1), { version: 2, running: 'keep' }))).reason).toContain(
      'corrupt',
    )
    await engine.pause({ mode: 'wait', cache: 'keep' })
    await engine.close()
  })

  it('with scores that are no numbers fails that request only', async () => {
    const toy = runnerThat({})
    const { engine } = scriptedEngine({
      runner: {
        ...toy,
        prefill: (params, items, weights) =>
          toy.prefill(params, items, weights).map((result, i) => {
            if (items[i]!.tokens[0] === 13) result.next.logits.fill(Number.NaN)
            return items[i]!.tokens[0] === 13
              ? { ...result, next: { ...result.next, logNormalizer: Number.NaN } }
              : result
          }),
      },
    })
    const [bad, good] = await generateAll(engine, [requestOf([13, 1]), requestOf(PROMPT)])
    expect(bad).toMatchObject({ left: { kind: 'internal' } })
    expect(good).toMatchObject({ _tag: 'Right' })
    expect(engine.bytes()).toMatchObject({ lanes: 0, prompts: 0 })
    await engine.close()
  })
})

describe('clients that drop', () => {
  it('256 at once, every tenth at some moment: every row comes back', async () => {
    const { engine, runner } = scriptedEngine({
      limits: { maxConcurrent: 16, memoryBytes: 2 ** 20, prefixCache: 'on' },
    })
    const lasting = async (i: number): Promise<number> => {
      const stream = engine.generate(requestOf([i % 40, 3, i % 7], { maxTokens: 4 + (i % 9), n: 1 + (i % 2) }))
      let tokens = 0
      for await (const event of stream) {
        if (event._tag === 'Tokens') tokens += event.tokens.length
        if (i % 10 === 0 && tokens >= i % 4) break
      }
      return tokens
    }
    const tokens = await Promise.all(Array.from({ length: 256 }, (_, i) => lasting(i)))
    for (const [i, count] of tokens.entries()) if (i % 10 !== 0) expect(count).toBe((4 + (i % 9)) * (1 + (i % 2)))
    await idle(engine)
    expect(engine.bytes()).toMatchObject({ lanes: 0, prompts: 0 })
    expect(await engine.metrics()).toMatchObject({ running: 0, waiting: 0, cacheUsage: 0 })
    await engine.close()
    expect(runner.openLanes()).toBe(0)
  })

  it('a reader who never reads keeps nobody waiting, and finds two events for each completion in the end', async () => {
    const { engine } = scriptedEngine()
    const slow = engine.generate(requestOf(PROMPT, { n: 3, maxTokens: 40 }))[Symbol.asyncIterator]()
    await answer(engine, requestOf(PROMPT, { maxTokens: 40 }))
    await idle(engine)
    const events: GenerationEvent[] = []
    for await (const event of { [Symbol.asyncIterator]: () => slow }) events.push(event)
    expect(events.map(({ _tag }) => _tag).sort()).toEqual([
      ...Array(3).fill('Finished'),
      'Started',
      ...Array(3).fill('Tokens'),
    ])
    await engine.close()
  })
})

describe('weights of the engine', () => {
  it('tensors that are given are used without a copy, and freed with the last who owns them', async () => {
    const { engine } = scriptedEngine()
    const params = own(toyParams(0.5))
    expect(engine.loadParams(params.value, { version: 2, running: 'keep' })).toEqual(right(2))
    const { shift } = params.value
    params.release()
    expect(shift!.isDisposed).toBe(false)
    expect((await answer(engine, requestOf(PROMPT))).completions[0]!.tokens[0]!.version).toBe(2)
    expect(isLeft(engine.loadParams(toyParams(1), { version: 1.5, running: 'keep' }))).toBe(true)
    await engine.close()
    expect(shift!.isDisposed).toBe(true)
    expect(isLeft(engine.loadParams(toyParams(1), { version: 3, running: 'keep' }))).toBe(true)
  })

  it('an adapter that does not fit on new weights keeps the old ones', async () => {
    let isFitting = true
    const { engine } = scriptedEngine({
      withAdapter: (base) =>
        isFitting ? right({ ...base }) : left({ _tag: 'WeightFailure', receiver: 'test', reason: 'another shape' }),
    })
    await rightOf(engine.loadAdapter('a', toyAdapter(1)))
    await rightOf(engine.loadAdapter('b', toyAdapter(1)))
    isFitting = false
    expect((await leftOf(engine.loadWeights(toyWeights(2), { version: 2, running: 'keep' }))).reason).toBe(
      'another shape',
    )
    expect((await leftOf(engine.loadAdapter('c', toyAdapter(1)))).reason).toBe('another shape')
    expect(await engine.version()).toBe(1)
    await engine.close()
  })

  it('weights that arrive after close, or do not arrive, are refused and freed', async () => {
    let arrive: () => void = () => {}
    const arrival = new Promise<void>((go) => {
      arrive = go
    })
    const { engine } = scriptedEngine({
      readWeights: (source) => async () => {
        if (source._tag === 'Folder') throw new Error('the disk is gone')
        await arrival
        return right(toyParams(3))
      },
    })
    const folder = { _tag: 'Folder', path: 'nowhere' } as const
    expect((await leftOf(engine.loadWeights(folder, { version: 2, running: 'keep' }))).reason).toBe('the disk is gone')
    const loading = leftOf(engine.loadWeights(toyWeights(3), { version: 2, running: 'keep' }))
    await new Promise((go) => setImmediate(go))
    const closing = engine.close()
    arrive()
    expect((await loading).reason).toContain('closed')
    await closing
  })

  it('kept keys and values of old weights are shared with nobody', async () => {
    const { engine } = scriptedEngine()
    const long = Array.from({ length: 40 }, (_, i) => i % 11)
    const running = answer(engine, requestOf(long, { maxTokens: 40 }))
    await new Promise((go) => setImmediate(go))
    await rightOf(engine.loadWeights(toyWeights(1), { version: 2, running: 'keep' }))
    const first = idsOf(await running)
    expect((await answer(engine, requestOf([...long, ...first]))).cachedTokens).toBe(0)
    await engine.close()
  })
})
