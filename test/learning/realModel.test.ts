/**
 * A real pretrained model in GGUF, in a few short steps: it loads, answers, and is trained with an
 * adapter. `docs/demonstration.md` has whole runs.
 */
import { keyFromSeed, orThrow } from '@tandem-rl/base'
import { discard, scope } from '@tandem-rl/tfjs-onnxruntime/scope'
import * as E from 'fp-ts/lib/Either.js'
import { beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { recipe } from '../../recipes/shortSentence.js'
import { makeParams, parameterCount } from '../../src/doors/models.js'
import { data, get, raggedRow, TensorDict } from '../../src/doors/tensordict.js'
import * as T from '../../src/index.js'
import type { StepRecord } from '../../src/run/metrics/records.js'
import { useEngine } from '../kit/engine.js'
import { smolLM2 } from '../kit/smolLM2.js'

useEngine({ threads: 2 })

let found: E.Either<string, string>

beforeAll(async () => {
  found = await smolLM2()
})

beforeEach((context) => {
  if (E.isLeft(found)) context.skip(found.left)
})

/** The path of the model, in tests that are not skipped. */
const model = (): string => E.getOrElse(() => '')(found)

/** By Transformers 5.24, with the default system prompt of the template. */
const PROMPT = [
  ...[1, 9690, 198, 2683, 359, 253, 5356, 5646, 11173, 3365, 3511, 308, 34519],
  ...[28, 7018, 411, 407, 19712, 8182, 2, 198, 1, 4093, 198, 1780, 314],
  ...[260, 3575, 282, 4649, 47, 2, 198, 1, 520, 9531, 198],
]

describe('SmolLM2-135M-Instruct, a file in GGUF', () => {
  it('renders a question to the ids of Transformers and answers it', async () => {
    const { config, arrays, text } = orThrow(await T.loadPretrained(model())())
    expect(parameterCount(config)).toBe(134_515_008)
    const env = T.append(T.Tokenizer({ tokenizer: text.tokenizer }))(
      T.append(T.TemplateTransform({ template: text.template, endOfTurn: text.endOfTurn }))(
        T.ChatEnv({ batchSize: 1 }),
      ),
    )
    const question = TensorDict({ query: data(['What is the capital of France?']) }, [1])
    const state = orThrow(await env.reset(question, keyFromSeed(0))())
    expect(Array.from(raggedRow(get(state, 'tokens', 'prompt'), 0))).toEqual(PROMPT)
    const policy = scope(() =>
      T.TransformersWrapper({ config, params: makeParams(arrays), sampling: { temperature: 0, maxNewTokens: 16 } }),
    )
    const action = orThrow(await policy.act(state, keyFromSeed(0))())
    expect(text.tokenizer.decode(raggedRow(get(action, 'tokens', 'response'), 0), 'skip')).toMatch(/Paris/)
    policy.release()
    for (const each of [state, action]) discard(each)
  })

  it('is trained with an adapter: sampler and trainer agree, numbers are finite, and memory stays low', async () => {
    const settings = recipe.settings.parse({
      model: model(),
      steps: 2,
      lora: { rank: 16 },
      tasks: { prompts: 2, group: 4 },
      sampling: { maxNewTokens: 24 },
      keep: { evalTasks: 1, evalEvery: 2 },
    })
    const steps: StepRecord[] = []
    const run = await recipe.build(settings, {})
    for await (const event of T.train(run, { steps: 2, every: { evaluate: 2 } }))
      if (event.type === 'step') steps.push(event)
    expect(steps).toHaveLength(2)
    for (const { update, trajectories } of steps) {
      expect(trajectories).toBe(8)
      expect(update.maxLogProbGap).toBeLessThan(1e-3)
      expect(update.loss).toBeTypeOf('number')
      expect(Number.isFinite(update.loss)).toBe(true)
    }
    expect(process.resourceUsage().maxRSS / 2 ** 20).toBeLessThan(4) // GiB
  })
})
