/** Types that name a missing entry in the first line of the compiler's message. */
import type { TensorDict } from './tensorDict/tensorDict.js'

/** The parts that add entries to states and batches. */
export const PROVIDERS = {
  query: 'DataLoadingPrimer',
  answer: 'DataLoadingPrimer',
  taskId: 'DataLoadingPrimer',
  groupId: 'DataLoadingPrimer',
  task: "DataLoadingPrimer({ keep: 'task' })",
  history: 'ChatEnv',
  text: 'TemplateTransform',
  tokens: 'Tokenizer',
  refLogProbs: 'RetrieveLogProb',
  stepCount: 'StepCounter',
  success: 'rewardTransform',
  turns: 'MultiTurnEnv',
  agent: 'MultiAgentEnv',
  advantage: 'MCAdvantage',
  returns: 'GAE',
  values: 'valueRater',
  teacherLogProbs: 'teacherRater',
  tokenWeights: 'rolloutCorrection',
  logProbs: 'TransformersWrapper',
  trajectoryId: 'LLMCollector',
  turn: 'LLMCollector',
  next: 'LLMCollector',
  chosen: 'pairBatch',
  rejected: 'pairBatch',
} as const

/** The policies that write the entries of actions. */
interface Writers {
  readonly tokens: 'a token policy such as TransformersWrapper'
  readonly text: 'a text policy'
  readonly history: 'a chat policy such as OpenAIWrapper'
}

type ProviderOf<K> = K extends keyof typeof PROVIDERS ? `${K} (${(typeof PROVIDERS)[K]} adds it)` : `${K & string}`

type PartAdding<K> = K extends keyof typeof PROVIDERS ? `after ${(typeof PROVIDERS)[K]}` : `with ${K & string}`

type WriterOf<K> = K extends keyof Writers ? `${K} (${Writers[K]} writes it)` : `${K & string}`

/** The names of the entries of `In` that `S` lacks, or has with another type. */
type Lacking<In, S> = {
  readonly [K in keyof In]: K extends keyof S
    ? S[K] extends In[K]
      ? never
      : readonly [In[K], S[K]] extends readonly [TensorDict<infer A>, TensorDict<infer B>]
        ? Lacking<A, B>
        : K
    : K
}[keyof In]

/** The parts that add the entries `In`. */
export type After<In> = PartAdding<keyof In>

/** The entries that states or batches `S` lack, each with the part that adds it. */
export type Absent<In, S> = ProviderOf<Lacking<In, S>>

/** The entries that a policy of actions `P` does not write, each with a policy that does. */
export type Unwritten<In, P> = WriterOf<Lacking<In, P>>

/**
 * The entries `In`. `What` names those that are missing: it is part of the compiler's message only.
 */
export type Needs<What, In> = { readonly [K in keyof In]: In[K] | (What & never) }

/** A part that does not fit the others. `What` names what is missing, and the part that adds it. */
interface Missing<What extends string> {
  readonly missing: What & never
}

/** Any type if nothing is absent. */
export type Fits<What extends string> = [What] extends [never] ? unknown : Missing<What>

/** None of these parts. */
export type Without<K extends string> = { readonly [P in K]?: undefined }
