/** Types of pipelines: parts that do not fit do not compile. */
import type { Key } from '@tandem-rl/base'
import { type ChatTemplate, type EncodeOptions, type History, type TextTokenizer, textTokenizer } from '@tandem-rl/text'
import type * as tf from '@tensorflow/tfjs-core'
import { pipe } from 'fp-ts/lib/function.js'
import { describe, expectTypeOf, it } from 'vitest'
import { LLMCollector } from '../../src/collectors/llmCollector.js'
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
import { ChatEnv } from '../../src/envs/chatEnv.js'
import type { GSM8KState } from '../../src/envs/gsm8kEnv.js'
import { GSM8KEnv } from '../../src/envs/gsm8kEnv.js'
import type { tokenEnv } from '../../src/envs/tokenEnv.js'
import { KLRewardTransform } from '../../src/envs/transforms/klRewardTransform.js'
import { TemplateTransform } from '../../src/envs/transforms/templateTransform.js'
import { Tokenizer } from '../../src/envs/transforms/tokenizer.js'
import { append } from '../../src/envs/transforms/transform.js'
import type { Learner } from '../../src/learners/learner.js'
import type { ChatPolicy } from '../../src/modules/remote/chat/openAIWrapper.js'
import { TransformersWrapper, type TransformersWrapperOptions } from '../../src/modules/transformersWrapper.js'
import { MCAdvantage } from '../../src/objectives/advantages/mcAdvantage.js'
import { GRPOLoss } from '../../src/objectives/grpoLoss.js'
import type { PolicyBatch, PolicyLossInput, PolicyOutputs } from '../../src/objectives/policyLoss.js'

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
    const collect = (env: ReturnType<typeof tokenEnv<GSM8KState>>, { policy, key }: Parts) =>
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
    type Batch = ReturnType<typeof collector> extends LLMCollector<infer B> ? B : never
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

  it('takes no policy that writes something else than the environment takes', () => {
    const collect = (
      parts: Parts,
      text: Policy<TextPrompt, TextAction>,
      chatting: Policy<HistoryPrompt, HistoryAction>,
      tokens: Parts['policy'],
    ) => ({
      // @ts-expect-error: text instead of tokens
      text: LLMCollector({ env: whole(parts), policy: text, key: parts.key }),
      // @ts-expect-error: messages instead of tokens
      chatting: LLMCollector({ env: whole(parts), policy: chatting, key: parts.key }),
      // @ts-expect-error: tokens instead of messages, for tasks one by one
      tokens: LLMCollector({ env: () => chat(parts), policy: tokens, key: parts.key, concurrent: { maxInFlight: 1 } }),
    })
    expectTypeOf(collect).toBeFunction()
  })

  it('gives a batch what the policy gives: what is absent cannot be read', () => {
    type Silent = Pick<TokenAction, 'tokens'>
    const silent = (parts: Parts, policy: Policy<TokenPrompt, Silent>) =>
      LLMCollector({ env: whole(parts), policy, key: parts.key })
    const chatting = (parts: Parts, policy: ChatPolicy<'text'>) =>
      LLMCollector({ env: chat(parts), policy, key: parts.key })
    const capturing = (parts: Parts, policy: ChatPolicy<'tokens'>) =>
      LLMCollector({ env: chat(parts), policy, key: parts.key })
    type BatchOf<F> = F extends (...args: never) => LLMCollector<infer B> ? B : never
    const read = (mute: BatchOf<typeof silent>, talk: BatchOf<typeof chatting>, ids: BatchOf<typeof capturing>) => ({
      full: get(mute, 'tokens', 'full'),
      conversation: get(talk, 'history', 'full'),
      said: get(talk, 'text', 'response'),
      logProbs: get(ids, 'logProbs', 'full'),
      mask: get(ids, 'masks', 'assistant'),
    })
    type Read = ReturnType<typeof read>
    expectTypeOf<Read['full']>().toEqualTypeOf<Ragged<'int32'>>()
    expectTypeOf<Read['conversation']>().toEqualTypeOf<Data<History>>()
    expectTypeOf<Read['said']>().toEqualTypeOf<Data<string>>()
    expectTypeOf<Read['logProbs']>().toEqualTypeOf<Ragged<'float32'>>()
    expectTypeOf<Read['mask']>().toEqualTypeOf<Ragged<'bool'>>()
    // @ts-expect-error: the policy gives no log-probabilities
    expectTypeOf((batch: BatchOf<typeof silent>) => get(batch, 'logProbs')).toBeFunction()
    // @ts-expect-error: the policy gives no tokens
    expectTypeOf((batch: BatchOf<typeof chatting>) => get(batch, 'tokens')).toBeFunction()
    const learn = (learner: Learner<PolicyBatch, unknown>, batch: BatchOf<typeof chatting>) =>
      // @ts-expect-error: a learner of tokens learns nothing from messages alone
      learner.update(batch)
    expectTypeOf(learn).toBeFunction()
  })

  it('has an environment for each task where rollouts are concurrent, and one where they are not', () => {
    const collect = (parts: Parts) => ({
      // @ts-expect-error: one environment
      one: LLMCollector({ env: whole(parts), policy: parts.policy, key: parts.key, concurrent: { maxInFlight: 1 } }),
      // @ts-expect-error: no `concurrent`
      many: LLMCollector({ env: () => whole(parts), policy: parts.policy, key: parts.key }),
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
  it('a policy that needs less and returns more can replace another', () => {
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
    expectTypeOf(GRPOLoss({}).apply).parameter(1).toEqualTypeOf<PolicyLossInput>()
  })

  it('GRPOLoss needs all of its tensors', () => {
    const apply = (model: PolicyOutputs, batch: Omit<PolicyLossInput, 'mask'>) =>
      // @ts-expect-error: no mask
      GRPOLoss().apply(model, batch)
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
