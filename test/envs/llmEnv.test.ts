import { keyFromSeed, orThrow } from '@tandem-rl/base'
import { checkLaws, envLaws, scriptedPolicy } from '@tandem-rl/testing'
import type { TokenSpan } from '@tandem-rl/text'
import fc from 'fast-check'
import { pipe } from 'fp-ts/lib/function.js'
import * as TE from 'fp-ts/lib/TaskEither.js'
import { describe, expect, it } from 'vitest'
import { LLMCollector } from '../../src/collectors/llmCollector.js'
import { data, ragged } from '../../src/data/tensorDict/leaf.js'
import { get, TensorDict } from '../../src/data/tensorDict/tensorDict.js'
import { LLMEnv, llmTextEnv, type TextResponse, type TokenResponse } from '../../src/envs/llmEnv.js'
import { StepCounter } from '../../src/envs/transforms/stepCounter.js'
import { append, transform } from '../../src/envs/transforms/transform.js'
import { answered, empty, freeing, itemsAt, numbersAt, refused, rowsAt } from '../kit/conversation.js'
import { useEngine } from '../kit/engine.js'

useEngine()

const key = keyFromSeed(3)
const ids = fc.array(fc.nat(9), { maxLength: 4 })
const rowPairs = fc.array(fc.tuple(ids, ids), { minLength: 1, maxLength: 3 })
const prompting = (rows: readonly (readonly number[])[]) =>
  TensorDict({ tokens: { prompt: ragged('int32', rows) } }, [rows.length])
const sampling = (rows: readonly (readonly number[])[]): TensorDict<TokenResponse> =>
  TensorDict({ tokens: { response: ragged('int32', rows) } }, [rows.length])
const writing = (...texts: readonly string[]): TensorDict<TextResponse> =>
  TensorDict({ text: { response: data(texts) } }, [texts.length])
const asked = (...texts: readonly string[]) => TensorDict({ text: { prompt: data(texts) } }, [texts.length])

/** Asks with the same ids at every reset: what a primer of tokens does. */
const asksWith = (...rows: readonly (readonly number[])[]) =>
  transform<null, unknown, unknown>({
    name: 'asksWith',
    initial: null,
    adds: {},
    prime: () => TE.right([prompting(rows), null]),
  })

describe('LLMEnv', () => {
  checkLaws(
    it,
    envLaws(
      rowPairs.map((rows) => ({
        env: LLMEnv({ batchSize: rows.length, eosTokenId: 0 }),
        request: () => prompting(rows.map(([prompt]) => prompt)),
        act: () => sampling(rows.map(([, said]) => said)),
        steps: 3,
      })),
    ),
  )

  it('law: puts what was sampled after the prompt, with a span of its own', async () => {
    await fc.assert(
      fc.asyncProperty(rowPairs, (rows) =>
        freeing(async (keep) => {
          const env = LLMEnv({ batchSize: rows.length, eosTokenId: 0 })
          const first = await answered(env.reset(prompting(rows.map(([prompt]) => prompt)), key))
          const next = keep(await answered(env.step(first, sampling(rows.map(([, said]) => said)))))
          expect(rowsAt(next, 'tokens', 'prompt')).toEqual(rows.map(([prompt, said]) => [...prompt, ...said]))
          expect(numbersAt(next, 'terminated')).toEqual(rows.map(([, said]) => Number(said.includes(0))))
          expect(numbersAt(next, 'reward')).toEqual(rows.map(() => 0))
          const spans = itemsAt(next, 'tokens', 'spans') as readonly (readonly TokenSpan[])[] // by its schema
          expect(
            spans.map((row) => row.map(({ start, end, message, origin }) => [start, end, message, origin])),
          ).toEqual(
            rows.map(([prompt, said]) => [
              [0, prompt.length, 0, 'rendered'],
              [prompt.length, prompt.length + said.length, 1, 'sampled'],
            ]),
          )
        }),
      ),
    )
  })

  it('keeps the spans that a request has, and an end that has come', () =>
    freeing(async (keep) => {
      const spans = data([[{ start: 0, end: 2, message: 4, role: 'system', origin: 'rendered' as const }]])
      const env = LLMEnv({ batchSize: 1, eosTokenId: 0 })
      const request = TensorDict({ tokens: { prompt: ragged('int32', [[1, 2]]), spans } }, [1])
      const ended = keep(await answered(env.step(await answered(env.reset(request, key)), sampling([[7, 0]]))))
      const after = keep(await answered(env.step(ended as never, sampling([[5]])))) // a stepped state is a state
      expect((itemsAt(ended, 'tokens', 'spans') as readonly TokenSpan[][])[0]!.map(({ message }) => message)).toEqual([
        4, 5,
      ])
      expect([numbersAt(after, 'terminated'), numbersAt(after, 'done')]).toEqual([[1], [1]])
    }))

  it('ends nothing without an end token', () =>
    freeing(async (keep) => {
      const env = LLMEnv({ batchSize: 1 })
      const next = keep(await answered(env.step(await answered(env.reset(prompting([[1]]), key)), sampling([[0]]))))
      expect(numbersAt(next, 'done')).toEqual([0])
    }))

  it.each([
    ['no prompt', empty(1)],
    ['a prompt of another size', prompting([[1], [2]])],
    ['a prompt of another type', TensorDict({ tokens: { prompt: ragged('float32', [[1]]) } }, [1])],
    ['a prompt that is text', TensorDict({ tokens: { prompt: data(['a']) } }, [1])],
  ])('refuses a request with %s', async (_, request) => {
    const failure = await refused(LLMEnv({ batchSize: 1 }).reset(request, key))
    expect(failure.reason).toBe("reset needs 'tokens.prompt', 1 rows of int32, in its request")
  })

  it('refuses wrong options and an action for another batch', async () => {
    expect(() => LLMEnv({ batchSize: 0 })).toThrow('LLMEnv: batchSize must be at least 1, got 0')
    expect(() => LLMEnv({ batchSize: 1, eosTokenId: -1 })).toThrow('LLMEnv: eosTokenId must be an id from 0 on, got -1')
    const env = LLMEnv({ batchSize: 1 })
    const state = await answered(env.reset(prompting([[1]]), key))
    expect(() => env.step(state, sampling([[1], [2]]))).toThrow('LLMEnv: the action has batch shape [2], the state [1]')
  })

  it('is collected from, turn by turn, by both collectors', async () => {
    const env = () =>
      pipe(LLMEnv({ batchSize: 2, eosTokenId: 0 }), append(asksWith([1], [2, 3])), append(StepCounter({ maxSteps: 3 })))
    const said = [[5], [6, 0], [7]]
    const policy = () =>
      scriptedPolicy({ answers: (state) => said[get(state, 'tokens', 'spans').items.get(0)!.length - 1]! })
    const collector = LLMCollector({ env: env(), policy: policy(), key })
    using batch = orThrow(await collector.collect(collector.start)()).batch
    const expected = [
      [1, 5],
      [1, 5, 6, 0],
      [2, 3, 5],
      [2, 3, 5, 6, 0],
    ]
    expect(rowsAt(batch.value, 'tokens', 'full')).toEqual(expected)
    const masks = rowsAt(batch.value, 'masks', 'assistant')
    expect(masks).toEqual([
      [0, 1],
      [0, 0, 1, 1],
      [0, 0, 1],
      [0, 0, 0, 1, 1],
    ])
    for await (const rows of LLMCollector({ env, policy: policy(), key, concurrent: { tasks: 1, maxInFlight: 2 } })) {
      expect([rowsAt(rows, 'tokens', 'full'), rowsAt(rows, 'masks', 'assistant')]).toEqual([expected, masks])
    }
  })
})

describe('llmTextEnv', () => {
  const textPairs = fc.array(fc.tuple(fc.string(), fc.oneof(fc.string(), fc.constantFrom('\ud800', '😀'))), {
    minLength: 1,
    maxLength: 3,
  })
  checkLaws(
    it,
    envLaws(
      textPairs.map((rows) => ({
        env: llmTextEnv({ batchSize: rows.length, eosText: 'e' }),
        request: () => asked(...rows.map(([prompt]) => prompt)),
        act: () => writing(...rows.map(([, said]) => said)),
        steps: 2,
      })),
    ),
  )

  it('law: puts what was written after the prompt, and ends at the end text', async () => {
    await fc.assert(
      fc.asyncProperty(textPairs, (rows) =>
        freeing(async (keep) => {
          const env = llmTextEnv({ batchSize: rows.length, eosText: 'e' })
          const first = await answered(env.reset(asked(...rows.map(([prompt]) => prompt)), key))
          const next = keep(await answered(env.step(first, writing(...rows.map(([, said]) => said)))))
          expect(itemsAt(next, 'text', 'prompt')).toEqual(rows.map(([prompt, said]) => prompt + said))
          expect(numbersAt(next, 'done')).toEqual(rows.map(([, said]) => Number(said.includes('e'))))
        }),
      ),
    )
  })

  it('takes a prompt as plain text unless control tokens are to be recognized', async () => {
    const plain = await answered(llmTextEnv({ batchSize: 1 }).reset(asked('hello'), key))
    const special = await answered(llmTextEnv({ batchSize: 1, controlTokens: 'recognized' }).reset(asked('hello'), key))
    expect(itemsAt(plain, 'text', 'plainText')).toEqual([[{ start: 0, end: 5 }]])
    expect(itemsAt(special, 'text', 'plainText')).toEqual([[]])
  })

  it.each([empty(1), asked('a', 'b'), TensorDict({ text: { prompt: data([1]) } }, [1])])(
    'refuses a request without its prompts',
    async (request) => {
      const failure = await refused(llmTextEnv({ batchSize: 1 }).reset(request, key))
      expect(failure.reason).toBe("reset needs 'text.prompt', 1 strings, in its request")
    },
  )
})
