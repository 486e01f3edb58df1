import { keyFromSeed } from '@tandem-rl/base'
import { requireRight } from '@tandem-rl/testing'
import type { GeneratedToken, GenerationFailure, GenerationRequest } from '@tandem-rl/text'
import fc from 'fast-check'
import type { Either } from 'fp-ts/lib/Either.js'
import { describe, expect, it } from 'vitest'
import { startCompletion } from '../../../src/modules/generation/completion.js'
import { collectEvents, type Generated } from '../../../src/modules/generation/generateAll.js'
import { DEFAULT_SAMPLING } from '../../../src/modules/generation/sampling/params.js'
import {
  byteTokenizer,
  scriptedEngine,
  TOY_END,
  TOY_VOCABULARY,
  toyAdapter,
  toyWeights,
} from '../../kit/scriptedEngine.js'
import { nextTokenOf, placesOf, scriptedRunner, toyLogits } from '../../kit/scriptedRunner.js'
import { turnClock } from '../../kit/turnClock.js'

const MAX_LENGTH = 128

/** The weights of each version, and what the adapter adds. */
const shiftOf = (version: number): number => version / 8
const ADAPTER = 0.0625

type Command =
  | { readonly do: 'submit'; readonly request: Omit<GenerationRequest, 'id'> }
  | { readonly do: 'turns'; readonly count: number }
  | { readonly do: 'cancel'; readonly which: number }
  | { readonly do: 'load' }
  | { readonly do: 'freeze'; readonly cache: 'keep' | 'clear' }
  | { readonly do: 'resume' }
  | { readonly do: 'reset' }

/** Prompts that begin alike. */
const prompt = fc
  .tuple(fc.constantFrom(1, 15, 16, 17, 33, 50, 70), fc.constantFrom(1, 2), fc.nat(3))
  .map(([length, step, end]) => Int32Array.from({ length }, (_, i) => (i === length - 1 ? end : (i * step) % 11)))

const request: fc.Arbitrary<Omit<GenerationRequest, 'id'>> = fc
  .record({
    prompt,
    n: fc.integer({ min: 1, max: 3 }),
    maxTokens: fc.constantFrom(1, 9, 40, 110),
    temperature: fc.constantFrom(0.7, 1),
    repetitionPenalty: fc.constantFrom(1, 1.3),
    promptLogProbs: fc.constantFrom(null, null, null, 0),
    stopTokens: fc.constantFrom([], [], [5]),
    seed: fc.nat(5),
    adapter: fc.constantFrom(null, null, 'a'),
    cacheSalt: fc.constantFrom('', '', 'salt'),
  })
  .map(({ prompt: tokens, adapter, cacheSalt, seed, ...sampling }) => ({
    prompt: tokens,
    adapter,
    cacheSalt,
    sampling: { ...DEFAULT_SAMPLING, ...sampling, key: keyFromSeed(seed), endTokens: 'ignore', minTokens: 1 },
  }))

const command: fc.Arbitrary<Command> = fc.oneof(
  { weight: 6, arbitrary: request.map((each) => ({ do: 'submit', request: each }) as const) },
  { weight: 5, arbitrary: fc.integer({ min: 1, max: 12 }).map((count) => ({ do: 'turns', count }) as const) },
  { weight: 2, arbitrary: fc.nat(20).map((which) => ({ do: 'cancel', which }) as const) },
  { weight: 1, arbitrary: fc.constant({ do: 'load' } as const) },
  { weight: 1, arbitrary: fc.constantFrom('keep', 'clear').map((cache) => ({ do: 'freeze', cache }) as const) },
  { weight: 1, arbitrary: fc.constant({ do: 'resume' } as const) },
  { weight: 1, arbitrary: fc.constant({ do: 'reset' } as const) },
)

const limits = fc.record({
  maxConcurrent: fc.integer({ min: 3, max: 8 }),
  prefillTokens: fc.constantFrom(1, 7, 16, 64),
  memoryBytes: fc.constantFrom(3500, 4000, 6000, 2 ** 20),
  prefixCache: fc.constantFrom('on', 'on', 'off'),
})

/**
 * Expects the completion that the request gets alone, each token by the weights that its stamp
 * names.
 */
const expectAlone = (asked: GenerationRequest, { completions }: Generated): void => {
  for (const [index, { tokens, finishReason, text }] of completions.entries()) {
    const maxTokens = Math.min(asked.sampling.maxTokens!, MAX_LENGTH - asked.prompt.length)
    const sampler = startCompletion(asked, {
      index,
      maxTokens,
      endTokens: [TOY_END],
      decoding: byteTokenizer.decodeStart('skip'),
    })
    const ids = [...asked.prompt]
    const texts: string[] = []
    const expected: GeneratedToken[] = []
    let finish: string | undefined
    for (const token of tokens) {
      if (finish !== undefined) throw new Error('a token came after the end')
      const weights = shiftOf(token.version) + (asked.adapter === null ? 0 : ADAPTER)
      const logits = toyLogits(placesOf(ids, weights), TOY_VOCABULARY)
      const alone = requireRight(sampler.next(nextTokenOf(logits, 1 / asked.sampling.temperature), token.version))
      expected.push(alone.token)
      ids.push(token.id)
      texts.push(alone.text)
      finish = alone.finish?.finishReason
    }
    if (finish === undefined) texts.push(sampler.rest())
    expect(tokens).toEqual(expected)
    expect(finishReason).toBe(finish ?? 'abort')
    expect(text).toBe(texts.join(''))
  }
}

interface Asked {
  readonly request: GenerationRequest
  readonly control: AbortController
  readonly result: Promise<Either<GenerationFailure, Generated>>
}

const play = async (commands: readonly Command[], chosen: Parameters<typeof scriptedEngine>[0]): Promise<void> => {
  const clock = turnClock()
  const runner = scriptedRunner({ vocabularySize: TOY_VOCABULARY, maxLength: MAX_LENGTH })
  const { engine } = scriptedEngine({ ...chosen, runner, clock, shift: shiftOf(1) })
  const budget = chosen!.limits!.memoryBytes!
  const asked: Asked[] = []
  let version = 1
  const turn = async (): Promise<void> => {
    await clock.turn()
    const { lanes, prompts, prefixCache } = engine.bytes()
    if (lanes + prompts + prefixCache > budget)
      throw new Error(`${lanes} + ${prompts} + ${prefixCache} bytes of ${budget}`)
  }
  requireRight(await engine.loadAdapter('a', toyAdapter(ADAPTER))())
  for (const each of commands) {
    switch (each.do) {
      case 'submit': {
        const [control, full] = [new AbortController(), { ...each.request, id: `${asked.length}` }]
        const stream = engine.generate(full, { signal: control.signal })
        asked.push({ request: full, control, result: collectEvents(stream, full.sampling.n) })
        break
      }
      case 'turns':
        for (let i = 0; i < each.count; i++) await turn()
        break
      case 'cancel':
        asked[each.which % Math.max(1, asked.length)]?.control.abort()
        break
      case 'load':
        version++
        requireRight(await engine.loadWeights(toyWeights(shiftOf(version)), { version, running: 'recompute' })())
        break
      case 'freeze':
        await engine.pause({ mode: 'keep', cache: each.cache })
        break
      case 'resume':
        await engine.resume()
        break
      case 'reset':
        await engine.resetPrefixCache()
        break
    }
  }
  await engine.resume()
  for (let i = 0; (await engine.metrics()).running + (await engine.metrics()).waiting > 0; i++) {
    expect(i, 'turns until the engine is idle').toBeLessThan(20_000)
    await turn()
  }
  for (const { request: full, control, result } of asked) {
    const generated = requireRight(await result)
    expectAlone(full, generated)
    if (!control.signal.aborted) {
      expect(generated.completions.every(({ finishReason }) => finishReason !== 'abort')).toBe(true)
    }
  }
  expect(engine.bytes()).toMatchObject({ lanes: 0, prompts: 0 })
  const closing = engine.close()
  await clock.turn()
  await closing
  expect(runner.openLanes()).toBe(0)
  expect(runner.isReleased()).toBe(true)
}

describe('the engine', () => {
  it('gives each request what it would get alone, whatever arrives, ends, is interrupted or is loaded meanwhile', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(command, { minLength: 1, maxLength: 36, size: 'max' }),
        limits,
        async (commands, chosen) => {
          await play(commands, { limits: chosen })
        },
      ),
      { numRuns: 50 },
    )
  })
})
