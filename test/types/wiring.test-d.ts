/** What the types promise about pipelines: parts that do not fit do not compile. */
import type * as tf from '@tensorflow/tfjs'
import { pipe } from 'fp-ts/lib/function.js'
import { describe, expectTypeOf, it } from 'vitest'
import { type CollectedBatch, LLMCollector } from '../../src/collectors/llmCollector.js'
import type { Key } from '../../src/core/key.js'
import type { ChatTemplate } from '../../src/data/chatTemplate.js'
import type {
  HistoryAction,
  HistoryPrompt,
  LogProbModel,
  Policy,
  TextAction,
  TextPrompt,
  TokenAction,
  TokenPrompt,
} from '../../src/data/policy.js'
import type { TaskSource } from '../../src/data/task.js'
import type { Data, Ragged } from '../../src/data/tensorDict/leaf.js'
import { get, type TensorDict } from '../../src/data/tensorDict/tensorDict.js'
import { type EncodeOptions, type TextTokenizer, textTokenizer } from '../../src/data/textTokenizer.js'
import { ChatEnv } from '../../src/envs/chatEnv.js'
import { GSM8KEnv } from '../../src/envs/gsm8kEnv.js'
import { KLRewardTransform } from '../../src/envs/transforms/klRewardTransform.js'
import { TemplateTransform } from '../../src/envs/transforms/templateTransform.js'
import { Tokenizer } from '../../src/envs/transforms/tokenizer.js'
import { append } from '../../src/envs/transforms/transform.js'
import { TransformersWrapper, type TransformersWrapperOptions } from '../../src/modules/transformersWrapper.js'
import { MCAdvantage } from '../../src/objectives/advantages/mcAdvantage.js'
import { GRPOLoss, type GRPOLossInput } from '../../src/objectives/grpoLoss.js'
import type { wordProblemEnv } from '../../src/run/pipeline.js'

/** The parts of a pipeline. Type tests are compiled, never run. */
interface Parts {
  readonly source: TaskSource
  readonly template: ChatTemplate
  readonly tokenizer: TextTokenizer
  readonly policy: Policy<TokenPrompt, TokenAction>
  readonly reference: LogProbModel
  readonly key: Key
}

const chat = ({ source }: Parts) => GSM8KEnv({ source, prompts: 2, repeats: 4 })
const toText = ({ template }: Parts) => TemplateTransform({ template, endOfTurn: '<|im_end|>' })
const toTokens = ({ tokenizer }: Parts) => Tokenizer({ tokenizer })
const whole = (parts: Parts) => pipe(chat(parts), append(toText(parts)), append(toTokens(parts)))

describe('transforms around environments', () => {
  it('conversation, text and tokens are in the states; the action has tokens', () => {
    type Step<F extends (parts: Parts) => unknown> = ReturnType<F> extends { readonly step: infer S } ? S : never
    expectTypeOf<Step<typeof chat>>().parameter(1).toEqualTypeOf<TensorDict<HistoryAction>>()
    expectTypeOf<TensorDict<TokenAction>>().toExtend<Parameters<Step<typeof whole>>[1]>()
    type State = Parameters<Step<typeof whole>>[0]
    expectTypeOf<State>().toExtend<TensorDict<TokenPrompt & { readonly query: Data<string> }>>()
    expectTypeOf<State>().toExtend<TensorDict<HistoryPrompt & TextPrompt>>()
    expectTypeOf(whole).returns.not.toBeAny()
  })

  it('the environment of word problems goes into a collector', () => {
    const collect = (env: ReturnType<typeof wordProblemEnv>, { policy, key }: Parts) =>
      LLMCollector({ env, policy, key })
    expectTypeOf(collect).toBeFunction()
  })

  it('Tokenizer before TemplateTransform does not compile: there is no text yet', () => {
    // @ts-expect-error: a GSM8KEnv has no `text`
    expectTypeOf((parts: Parts) => pipe(chat(parts), append(toTokens(parts)))).toBeFunction()
    // @ts-expect-error: neither has a ChatEnv
    expectTypeOf((parts: Parts) => append(toTokens(parts))(ChatEnv({ batchSize: 1 }))).toBeFunction()
  })

  it('KLRewardTransform without tokens does not compile', () => {
    const kl = ({ reference }: Parts) => KLRewardTransform({ reference })
    expectTypeOf((parts: Parts) => pipe(whole(parts), append(kl(parts)))).toBeFunction()
    // @ts-expect-error: text is not tokens
    expectTypeOf((parts: Parts) => pipe(chat(parts), append(toText(parts)), append(kl(parts)))).toBeFunction()
  })

  it('an environment is stepped with the action that it takes', () => {
    type Whole = ReturnType<typeof whole>
    type State = Parameters<Whole['step']>[0]
    const step = (env: Whole, state: State, action: TensorDict<TokenAction>) => env.step(state, action)
    expectTypeOf(step).toBeFunction()
    const speak = (env: Whole, state: State, action: TensorDict<HistoryAction>) => {
      // @ts-expect-error: it takes tokens, not a message
      env.step(state, action)
    }
    expectTypeOf(speak).toBeFunction()
  })
})

describe('LLMCollector', () => {
  it('knows what is in a batch', () => {
    const collector = (parts: Parts) => LLMCollector({ env: whole(parts), policy: parts.policy, key: parts.key })
    type Batch = ReturnType<typeof collector> extends LLMCollector<infer O> ? CollectedBatch<O> : never
    const read = (batch: Batch) => ({
      full: get(batch, 'tokens', 'full'),
      mask: get(batch, 'masks', 'assistant'),
      logProbs: get(batch, 'logProbs', 'full'),
      query: get(batch, 'query'),
      version: get(batch, 'policyVersion'),
      reward: get(batch, 'next', 'reward'),
    })
    type Read = ReturnType<typeof read>
    expectTypeOf<Read['full']>().toEqualTypeOf<Ragged<'int32'>>()
    expectTypeOf<Read['mask']>().toEqualTypeOf<Ragged<'bool'>>()
    expectTypeOf<Read['logProbs']>().toEqualTypeOf<Ragged<'float32'>>()
    expectTypeOf<Read['query']>().toEqualTypeOf<Data<string>>()
    expectTypeOf<Read['version']>().toEqualTypeOf<Data<number>>()
    expectTypeOf<Read['reward']>().toEqualTypeOf<tf.Tensor>()
    // @ts-expect-error: the key is `masks`
    expectTypeOf((batch: Batch) => get(batch, 'mask')).toBeFunction()
  })

  it('takes no environment without tokens', () => {
    const collect = (parts: Parts) => ({
      // @ts-expect-error: conversations, no tokens
      chat: LLMCollector({ env: chat(parts), policy: parts.policy, key: parts.key }),
      // @ts-expect-error: text, no tokens
      text: LLMCollector({ env: pipe(chat(parts), append(toText(parts))), policy: parts.policy, key: parts.key }),
    })
    expectTypeOf(collect).toBeFunction()
  })

  it('takes no policy that speaks text, and none that does not say how it sampled', () => {
    type Silent = Pick<TokenAction, 'tokens'>
    const collect = (parts: Parts, text: Policy<TextPrompt, TextAction>, silent: Policy<TokenPrompt, Silent>) => ({
      // @ts-expect-error: text instead of tokens
      text: LLMCollector({ env: whole(parts), policy: text, key: parts.key }),
      // @ts-expect-error: no log-probabilities, no version
      silent: LLMCollector({ env: whole(parts), policy: silent, key: parts.key }),
    })
    expectTypeOf(collect).toBeFunction()
  })

  it('refuses options that there are not, and needs a key', () => {
    const collect = (parts: Parts) => ({
      // @ts-expect-error: misspelt
      turns: LLMCollector({ env: whole(parts), policy: parts.policy, key: parts.key, maxTurn: 3 }),
      // @ts-expect-error: no key, no randomness
      key: LLMCollector({ env: whole(parts), policy: parts.policy }),
    })
    expectTypeOf(collect).toBeFunction()
  })
})

describe('policies', () => {
  it('a policy that needs less and says more can stand in for another', () => {
    expectTypeOf<Policy<unknown, TokenAction>>().toExtend<Policy<TokenPrompt, TokenAction>>()
    expectTypeOf<Policy<TokenPrompt, TokenAction>>().toExtend<Policy<TokenPrompt, Pick<TokenAction, 'tokens'>>>()
    expectTypeOf<Policy<TokenPrompt, TokenAction>>().not.toExtend<Policy<unknown, TokenAction>>()
    expectTypeOf<Policy<TokenPrompt, TokenAction>>().not.toExtend<Policy<TextPrompt, TextAction>>()
  })

  it('TransformersWrapper is a policy, scores, and takes weights; its options are checked', () => {
    expectTypeOf(TransformersWrapper).returns.toExtend<Policy<TokenPrompt, TokenAction> & LogProbModel>()
    const wrap = (base: TransformersWrapperOptions) => [
      // @ts-expect-error: misspelt
      TransformersWrapper({ ...base, sampling: { temprature: 1 } }),
      // @ts-expect-error: no such option
      TransformersWrapper({ ...base, device: 'gpu' }),
    ]
    expectTypeOf(wrap).toBeFunction()
  })
})

describe('text tokenizer', () => {
  it('nothing of the library behind it leaks any', () => {
    expectTypeOf(textTokenizer).returns.not.toBeAny()
    expectTypeOf<TextTokenizer['encode']>().toEqualTypeOf<(text: string, options?: EncodeOptions) => Int32Array>()
    expectTypeOf<ReturnType<TextTokenizer['decode']>>().toEqualTypeOf<string>()
    expectTypeOf<Parameters<TextTokenizer['decode']>[0]>().not.toBeAny()
    expectTypeOf<ReturnType<TextTokenizer['idOf']>>().toEqualTypeOf<number | undefined>()
    expectTypeOf<TextTokenizer['specialTokens']>().toEqualTypeOf<ReadonlyMap<string, number>>()
    expectTypeOf<TextTokenizer['vocabularySize']>().toEqualTypeOf<number>()
  })

  it('whether special tokens are kept must be said', () => {
    // @ts-expect-error: keep or skip
    expectTypeOf((tokenizer: TextTokenizer) => tokenizer.decode([1])).toBeFunction()
  })
})

describe('objectives', () => {
  it('GRPOLoss refuses unknown fields and modes', () => {
    const losses = () => [
      // @ts-expect-error: the field is `clipEpsilon`
      GRPOLoss({ clipEps: 0.2 }),
      // @ts-expect-error: no such aggregation
      GRPOLoss({ aggregation: 'sum' }),
      // @ts-expect-error: two bounds, not three
      GRPOLoss({ clipEpsilon: [0.1, 0.2, 0.3] }),
      // @ts-expect-error: an unset option is left out, not undefined
      GRPOLoss({ clipEpsilon: undefined }),
    ]
    expectTypeOf(losses).toBeFunction()
    expectTypeOf(GRPOLoss({}).apply).parameter(0).toEqualTypeOf<GRPOLossInput>()
  })

  it('GRPOLoss needs all of its tensors', () => {
    const apply = (input: Omit<GRPOLossInput, 'mask'>) =>
      // @ts-expect-error: no mask
      GRPOLoss().apply(input)
    expectTypeOf(apply).toBeFunction()
  })

  it('MCAdvantage refuses unknown fields, and needs the size of a group', () => {
    const advantages = () => [
      // @ts-expect-error: the field is `groupSize`
      MCAdvantage({ groupSize: 4, grpoSize: 4 }),
      // @ts-expect-error: no group size
      MCAdvantage({}),
    ]
    expectTypeOf(advantages).toBeFunction()
  })
})
