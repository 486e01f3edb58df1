/**
 * Programs that must not compile, each beside one that must, with the compiler's error and its
 * place.
 */

/** The names in scope of the programs. */
export const PRELUDE = `
import * as tf from '@tensorflow/tfjs-core'
import * as E from 'fp-ts/lib/Either.js'
import { pipe } from 'fp-ts/lib/function.js'
import { type HistoryAction, type Policy, type TextPrompt, type TokenAction, type TokenPrompt } from '../../src/index.js'
import { add, assign, autoBatch, cast, concat, data, type Data, dataSpec, exclude, find, flattenKeys, fromNested, get, type Infer, mapLeaves, merge, type Meta, meta, metaSpec, modify, partitionKeys, ragged, raggedSpec, refine, remove, rename, select, set, take, TensorDict, tensorSpec, traverseLeaves, unflattenKeys, withBatchShape, zeros, zipLeaves } from '../../src/doors/tensordict.js'
import { append, GSM8KEnv, TemplateTransform, Tokenizer } from '../../src/index.js'
import { type LLMCollector, localLearner } from '../../src/index.js'
import { dpoLoss, MCAdvantage, type PolicyBatch, policyLoss } from '../../src/index.js'
import { tool } from '../../packages/tools/src/index.js'
import { z } from 'zod'
import { type AlgorithmName, cispo, clippedSurrogate, gspo, type StepMetrics } from '../../src/doors/objectives.js'
const td = TensorDict({ query: data(['2 + 2?']), tokens: { prompt: ragged('int32', [[1]]), full: { mask: meta(1) } }, next: { reward: tf.zeros([1]) } }, [1])
const spec = { reward: tensorSpec('float32'), text: dataSpec<string>('string') }
declare const policy: Policy<TokenPrompt, TokenAction>
declare const textPolicy: Policy<TextPrompt, TokenAction>
declare const env: ReturnType<typeof GSM8KEnv>
declare const template: ReturnType<typeof TemplateTransform>
declare const tokenizer: ReturnType<typeof Tokenizer>
declare const prompts: TensorDict<TokenPrompt>
declare const grpo: ReturnType<typeof localLearner<PolicyBatch, StepMetrics>>
const texts = TensorDict({ text: { response: data(['4']) }, advantage: ragged('float32', [[1]]) }, [1])
const played = TensorDict({
  trajectoryId: data(['k:0']), turn: data([0]), groupId: data(['k:g']), next: { reward: tf.zeros([1]) },
  tokens: { prompt: ragged('int32', [[1]]), response: ragged('int32', [[2]]) }, logProbs: { response: ragged('float32', [[0]]) },
}, [1])
const rate = MCAdvantage({ groupSize: 1 })
export { add, append, assign, autoBatch, cast, cispo, clippedSurrogate, concat, dataSpec, dpoLoss, E, env, exclude, find, flattenKeys, fromNested, get, grpo, gspo, mapLeaves, merge, metaSpec, modify, partitionKeys, pipe, played, policy, prompts, raggedSpec, rate, texts, refine, remove, rename, select, set, spec, take, template, textPolicy, tokenizer, traverseLeaves, unflattenKeys, tool, withBatchShape, z, zeros, zipLeaves, td }
export type { AlgorithmName, Data, HistoryAction, Infer, LLMCollector, Meta }
`

/** A wrong expression, the right one, and a part of what the compiler says of the wrong one. */
export interface WrongProgram {
  readonly title: string
  readonly wrong: string
  readonly right: string
  readonly message: string
}

const program = (title: string, [wrong, right]: readonly [string, string], message: string): WrongProgram => ({
  title,
  wrong,
  right,
  message,
})

export const WRONG_PROGRAMS: readonly WrongProgram[] = [
  program('get: a misspelt key', ["get(td, 'querry')", "get(td, 'query')"], '"query" | "tokens" | "next"'),
  program(
    'get: a misspelt inner key',
    ["get(td, 'tokens', 'pompt')", "get(td, 'tokens', 'prompt')"],
    '"prompt" | "full"',
  ),
  program(
    'tool: a misspelled option',
    [
      "tool({ name: 'a', description: '', schema: { text: z.string() }, run: async ({ text }) => text })",
      "tool({ name: 'a', description: '', parameters: { text: z.string() }, run: async ({ text }) => text })",
    ],
    "'schema' does not exist in type 'ToolOptions",
  ),
  program('get: inside of a leaf', ["get(td, 'query', 'x')", "get(td, 'tokens', 'full')"], 'never'),
  program(
    'get: the value of another kind',
    ["get(td, 'query').value", "get(td, 'query').items"],
    "Property 'value' does not exist on type 'Data<string>'",
  ),
  program(
    'set: a number is no entry',
    ["set(td, 'x', 5)", "set(td, 'x', meta(5))"],
    "'number' is not assignable to parameter of type 'Entry'",
  ),
  program(
    'set: through a leaf',
    ["set(td, ['query', 'x'], meta(1))", "set(td, ['tokens', 'x'], meta(1))"],
    'NotANode<"query">',
  ),
  program(
    'set: an empty path',
    ['set(td, [], meta(1))', "set(td, ['x'], meta(1))"],
    "not assignable to parameter of type 'TensorDictKey'",
  ),
  program(
    'set: what was replaced is gone',
    ["get(set(td, 'query', meta(1)), 'query').items", "get(set(td, 'query', meta(1)), 'query').value"],
    "Property 'items' does not exist on type 'Meta<number>'",
  ),
  program(
    'modify: a key that is not there',
    ["modify(td, 'querry', (x) => x)", "modify(td, 'query', (x) => x)"],
    '"query" | "tokens" | "next"',
  ),
  program(
    'modify: an inner key that is not there',
    ["modify(td, ['next', 'rewrd'], (x) => x)", "modify(td, ['next', 'reward'], (x) => x)"],
    'NoSuchKey<readonly ["next", "reward"',
  ),
  program(
    'modify: a function of another kind',
    ["modify(td, 'query', (x: Meta<number>) => x)", "modify(td, 'query', (x: Data<string>) => x)"],
    "missing in type 'Data<string>' but required in type 'Meta<number>'",
  ),
  program(
    'select: a misspelt key among others',
    ["select(td, 'query', 'nxt')", "select(td, 'query', 'next')"],
    '"query" | "tokens" | "next"',
  ),
  program(
    'select: a misspelt inner key',
    ["select(td, ['tokens', 'pompt'])", "select(td, ['tokens', 'prompt'])"],
    'Did you mean \'"prompt"\'?',
  ),
  program(
    'select: what was not selected is gone',
    ["get(select(td, 'query'), 'next')", "get(select(td, 'query'), 'query')"],
    '"query"',
  ),
  program(
    'select: the rest of a node is gone',
    [
      "get(select(td, ['tokens', 'prompt']), 'tokens', 'full')",
      "get(select(td, ['tokens', 'prompt']), 'tokens', 'prompt')",
    ],
    '"prompt"',
  ),
  program(
    'exclude: what was excluded is gone',
    [
      "get(exclude(td, ['tokens', 'prompt']), 'tokens', 'prompt')",
      "get(exclude(td, ['tokens', 'prompt']), 'tokens', 'full')",
    ],
    '"full"',
  ),
  program(
    'remove: what was removed is gone',
    ["get(remove(td, 'query'), 'query')", "get(remove(td, 'query'), 'next')"],
    '"tokens" | "next"',
  ),
  program(
    'partitionKeys: a misspelt key',
    ["partitionKeys(td, ['querry'])", "partitionKeys(td, ['query'])"],
    '"query" | "tokens" | "next"',
  ),
  program(
    'partitionKeys: the other part',
    ["get(partitionKeys(td, ['query'])[1], 'query')", "get(partitionKeys(td, ['query'])[0], 'query')"],
    '"tokens" | "next"',
  ),
  program(
    'rename: a key that is not there',
    ["rename(td, 'querry', 'question')", "rename(td, 'query', 'question')"],
    '"query" | "tokens" | "next"',
  ),
  program(
    'rename: through a leaf',
    ["rename(td, 'next', ['query', 'x'])", "rename(td, 'next', ['tokens', 'x'])"],
    'NotANode<"query">',
  ),
  program(
    'rename: the old key is gone',
    ["get(rename(td, 'query', 'question'), 'query')", "get(rename(td, 'query', 'question'), 'question')"],
    '"question"',
  ),
  program(
    'merge: a leaf against a node',
    [
      "get(merge(td, TensorDict({ next: meta(1) }, [1])), 'next').value",
      "get(merge(td, TensorDict({ done: meta(1) }, [1])), 'done').value",
    ],
    "'LeafAgainstNode'",
  ),
  program(
    'merge: a record is no TensorDict',
    ['merge(td, { done: meta(1) })', 'merge(td, TensorDict({ done: meta(1) }, [1]))'],
    "'TensorDict<unknown>'",
  ),
  program(
    'assign: text is no entry',
    ["assign(td, { done: 'yes' })", "assign(td, { done: meta('yes') })"],
    "'string' is not assignable to type",
  ),
  program(
    'flattenKeys: the nested key is gone',
    ["get(flattenKeys(td, '.'), 'next')", "get(flattenKeys(td, '.'), 'next.reward')"],
    '"tokens.prompt"',
  ),
  program(
    'unflattenKeys: the flat key is gone',
    [
      "get(unflattenKeys(TensorDict({ 'a.b': meta(1) }, []), '.'), 'a.b')",
      "get(unflattenKeys(TensorDict({ 'a.b': meta(1) }, []), '.'), 'a', 'b')",
    ],
    '"a"',
  ),
  program(
    'zipLeaves: TensorDicts of other schemas',
    ['zipLeaves(td, TensorDict({ query: meta(1) }, [1]), (a) => a)', 'zipLeaves(td, td, (a) => a)'],
    'is missing the following properties',
  ),
  program(
    'add: text is no number',
    ["add(td, 'one')", 'add(td, 1)'],
    "'string' is not assignable to parameter of type",
  ),
  program('cast: no such dtype', ["cast(td, 'float64')", "cast(td, 'float32')"], '"float64"'),
  program(
    'concat: parts of other schemas',
    ['concat([td, TensorDict({ other: meta(1) }, [1])])', 'concat([td, td])'],
    'other',
  ),
  program('spec: no such dtype', ["tensorSpec('float64')", "tensorSpec('float32')"], '"float64"'),
  program(
    'spec: a key that it does not have',
    ["get(zeros(spec, [1]), 'rewrd')", "get(zeros(spec, [1]), 'reward')"],
    '"reward" | "text"',
  ),
  program(
    'refine: the type of a value',
    [
      "((t: TensorDict<Infer<typeof spec>>) => get(t, 'text').items.get(0)?.toFixed())",
      "((t: TensorDict<Infer<typeof spec>>) => get(t, 'text').items.get(0)?.trim())",
    ],
    "'toFixed' does not exist on type 'string'",
  ),
  program(
    'fromNested: the failure must be looked at',
    [
      "get(fromNested(spec, {}, [1]), 'reward')",
      "E.map((t: TensorDict<Infer<typeof spec>>) => get(t, 'reward'))(fromNested(spec, {}, [1]))",
    ],
    'Either',
  ),
  program(
    'policy: a state without its prompt',
    ['policy.act(td, 0 as never)', 'policy.act(prompts, 0 as never)'],
    'not assignable to parameter of type',
  ),
  program(
    'policy: text for tokens',
    [
      '((p: Policy<TokenPrompt, TokenAction>) => p)(textPolicy)',
      '((p: Policy<TokenPrompt, TokenAction>) => p)(policy)',
    ],
    "'text'",
  ),
  program(
    'policyLoss: an aggregation that there is not',
    ["policyLoss({ aggregation: 'token-avg' })", "policyLoss({ aggregation: 'token-mean' })"],
    '"token-avg"',
  ),
  program(
    'policyLoss: a mode without its length',
    [
      "policyLoss({ aggregation: { mode: 'seq-mean-token-sum-norm' } })",
      "policyLoss({ aggregation: { mode: 'seq-mean-token-sum-norm', length: 8 } })",
    ],
    "Property 'length' is missing",
  ),
  program(
    'policyLoss: an option that there is not',
    ['policyLoss({ entropyCoeff: 0.1 })', 'policyLoss({ entropyCoefficient: 0.1 })'],
    "'entropyCoeff' does not exist in type 'PolicyLossOptions'",
  ),
  program(
    'policyLoss: a misspelt form of the divergence',
    [
      "policyLoss({ kl: [{ to: 'reference', form: 'K3', coefficient: 0.1 }] })",
      "policyLoss({ kl: [{ to: 'reference', form: 'k3', coefficient: 0.1 }] })",
    ],
    '"K3"',
  ),
  program(
    'policyLoss: a policy that there is not',
    [
      "policyLoss({ kl: [{ to: 'teacher', coefficient: 0.1 }] })",
      "policyLoss({ kl: [{ to: 'behavior', coefficient: 0.1 }] })",
    ],
    '"teacher"',
  ),
  program(
    'policyLoss: a boolean for a mode',
    [
      "policyLoss({ kl: [{ to: 'reference', coefficient: 0.1, correction: true }] })",
      "policyLoss({ kl: [{ to: 'reference', coefficient: 0.1, correction: 'ratio' }] })",
    ],
    '\'true\' is not assignable to type \'"none" | "ratio"\'',
  ),
  program(
    'policyLoss: the name of an objective for the objective',
    ["policyLoss({ objective: 'cispo' })", 'policyLoss({ objective: cispo() })'],
    "'TokenObjective'",
  ),
  program(
    'gspo: a boolean for its form',
    ['gspo({ form: true })', "gspo({ form: 'token' })"],
    "'true' is not assignable to type",
  ),
  program(
    'clippedSurrogate: three bounds',
    ['clippedSurrogate({ clipEpsilon: [0.2, 0.3, 0.4] })', 'clippedSurrogate({ clipEpsilon: [0.2, 0.3] })'],
    "'number' is not assignable to type 'undefined'",
  ),
  program(
    'dpoLoss: a boolean for a mode',
    ['dpoLoss({ normalizeBySeqLength: true })', "dpoLoss({ normalizeBySeqLength: 'yes' })"],
    "'true' is not assignable to type",
  ),
  program(
    'algorithmLoss: an algorithm that there is not',
    ["((name: AlgorithmName) => name)('gropo')", "((name: AlgorithmName) => name)('grpo')"],
    '"gropo"',
  ),
  program(
    'a learner of GRPO: a batch of text, without tokens and log-probs',
    ['grpo.update(texts)', 'grpo.update(rate(played))'],
    'tokens (Tokenizer adds it)',
  ),
  program(
    'a learner of GRPO: a batch without advantages',
    ['grpo.update(played)', 'grpo.update(rate(played))'],
    "Property 'advantage' is missing",
  ),
  program(
    'an advantage: a batch without rewards',
    ['rate(prompts)', 'rate(played)'],
    'missing the following properties',
  ),
]
