/**
 * Measures how often an untrained model earns the rewards of short tasks: `npm run verify --
 * candidates MODEL [TASKS [NAME]]`. The second task of the demonstration was chosen by these
 * baselines.
 */
import { child, keyFromSeed, orThrow } from '@tandem-rl/base'
import { selectBackend } from '@tandem-rl/tfjs-onnxruntime'
import { scope } from '@tandem-rl/tfjs-onnxruntime/scope'
import { rewardOf as shortSentence } from '../../recipes/shortSentence.js'
import { makeParams } from '../../src/doors/models.js'
import { data, get, raggedRows, TensorDict } from '../../src/doors/tensordict.js'
import * as T from '../../src/index.js'

const GROUP = 8
const LONGEST = 48
/** Tasks sampled at a time. */
const AT_ONCE = 4

const KINDS: Readonly<Record<string, readonly string[]>> = {
  animal: ['tiger', 'owl', 'whale', 'fox', 'horse'],
  plant: ['apple', 'carrot', 'rose', 'pumpkin'],
  place: ['river', 'castle', 'mountain', 'desert', 'forest', 'island', 'garden', 'tower', 'valley', 'school'],
  object: ['hammer', 'teapot', 'bridge', 'piano', 'train', 'window', 'spoon', 'camera', 'clock', 'boat', 'bread'],
}
const LABELS = Object.keys(KINDS)
/** Things with their kinds. */
const THINGS = Object.entries(KINDS).flatMap(([kind, things]) => things.map((thing) => ({ kind, thing })))
const NUMBERS = ['four', 'five', 'six', 'seven', 'eight']
const ENDS = ['today', 'water', 'home', 'light', 'friends', 'morning', 'always', 'music']

/** A question with the reward of a reply. */
interface Question {
  readonly query: string
  readonly reward: (reply: string) => number
}

/** Questions about a thing, by the name of a task. */
const CANDIDATES: Readonly<Record<string, (index: number, about: (typeof THINGS)[number]) => Question>> = {
  'exact number of words': (i, { thing }) => ({
    query: `Write one sentence about a ${thing} with exactly ${NUMBERS[i % 5]} words.`,
    reward: (reply) => Number((reply.match(/[\p{L}\p{N}'-]+/gu) ?? []).length === 4 + (i % 5)),
  }),
  'lower case without commas': (_, { thing }) => ({
    query: `Describe a ${thing} in one short sentence. Use only lower-case letters and no commas.`,
    reward: (reply) =>
      reply.trim().endsWith('.') ? 0.5 * Number(reply === reply.toLowerCase()) + 0.5 * Number(!reply.includes(',')) : 0,
  }),
  'one of four labels': (_, { kind, thing }) => ({
    query: `Is a ${thing} an animal, a plant, an object or a place? Reply with only one of these words: animal, plant, object, place.`,
    reward: (reply) => {
      const label = reply.trim().toLowerCase()
      return 0.5 * Number(LABELS.includes(label)) + 0.5 * Number(label === kind)
    },
  }),
  'two bullet lines': (_, { thing }) => ({
    query: `Give two facts about a ${thing}. Reply with exactly two short lines that start with "- ".`,
    reward: (reply) => {
      const lines = reply.split('\n').filter((line) => line.trim() !== '')
      return Number(lines.length === 2 && lines.every((line) => line.startsWith('- ') && line.length <= 80))
    },
  }),
  'given last word': (i, { thing }) => ({
    query: `Write one short sentence about a ${thing} that ends with the word "${ENDS[(3 * i) % 8]}".`,
    reward: (reply) => {
      const [, sentence = ''] = /^([^.!?\n]+)[.!]?$/.exec(reply.trim()) ?? []
      return Number(sentence.toLowerCase().split(' ').at(-1) === ENDS[(3 * i) % 8])
    },
  }),
  'short sentence': (_, { thing }) => ({
    query: `Describe a ${thing} in one short sentence of at most ten words, without commas.`,
    reward: (reply) => shortSentence(reply, thing),
  }),
  'list of three': (_, { thing }) => ({
    query: `Name three things that go with a ${thing}. Reply with only three words, separated by commas.`,
    reward: (reply) => {
      const parts = reply.trim().replace(/\.$/, '').split(',')
      const isList = parts.length === 3 && parts.every((part) => /^ ?[\p{L}-]+$/u.test(part))
      return Number(isList && new Set(parts.map((part) => part.trim().toLowerCase())).size === 3)
    },
  }),
}

const [name, count = '40', only] = process.argv.slice(2)
if (name === undefined) throw new RangeError('expected MODEL')
await selectBackend({ threads: 2 })
const { config, arrays, text } = orThrow(await T.loadPretrained(name)())
const policy = scope(() =>
  T.TransformersWrapper({ config, params: makeParams(arrays), sampling: { maxNewTokens: LONGEST } }),
)

/** Samples replies to questions, a group for each. */
const repliesTo = async (queries: readonly string[], key: T.Key) => {
  const { template, endOfTurn, tokenizer } = text
  const rows = queries.flatMap((query) => new Array<string>(GROUP).fill(query))
  const env = T.append(T.Tokenizer({ tokenizer }))(
    T.append(T.TemplateTransform({ template, endOfTurn }))(T.ChatEnv({ batchSize: rows.length })),
  )
  const state = orThrow(await env.reset(TensorDict({ query: data(rows) }, [rows.length]), key)())
  const action = orThrow(await policy.act(state, child(key, 'act'))())
  return raggedRows(get(action, 'tokens', 'response')).map((ids) => ({
    reply: tokenizer.decode(ids, 'skip'),
    tokens: ids.length,
  }))
}

const mean = (values: readonly number[]): number => values.reduce((a, b) => a + b, 0) / values.length

for (const [c, [task, question]] of Object.entries(CANDIDATES).entries()) {
  if (only !== undefined && task !== only) continue
  const groups: number[][] = []
  const lengths: number[] = []
  for (let at = 0; at < Number(count); at += AT_ONCE) {
    const asked = Array.from({ length: AT_ONCE }, (_, j) => question(at + j, THINGS[(at + j) % THINGS.length]!))
    const replies = await repliesTo(
      asked.map(({ query }) => query),
      child(child(keyFromSeed(7), c), at),
    )
    lengths.push(...replies.map(({ tokens }) => tokens))
    for (const [j, { reward }] of asked.entries())
      groups.push(replies.slice(GROUP * j, GROUP * (j + 1)).map(({ reply }) => reward(reply)))
  }
  const spread = groups.filter((group) => new Set(group).size > 1).length / groups.length
  const cut = mean(lengths.map((length) => Number(length === LONGEST)))
  const found = { task, reward: mean(groups.flat()), spread, tokens: mean(lengths), cut }
  console.log(
    JSON.stringify(found, (_, value: unknown) => (typeof value === 'number' ? Number(value.toFixed(3)) : value)),
  )
}
process.exit(0)
