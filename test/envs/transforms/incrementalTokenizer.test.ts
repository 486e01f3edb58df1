import { keyFromSeed, orThrow } from '@tandem-rl/base'
import { checkLaws, envLaws } from '@tandem-rl/testing'
import { type History, type TextSpan, textTokenizer, trainBytePairEncoding } from '@tandem-rl/text'
import fc from 'fast-check'
import { pipe } from 'fp-ts/lib/function.js'
import { describe, expect, it } from 'vitest'
import { dataSpec } from '../../../src/data/spec.js'
import { diff } from '../../../src/data/tensorDict/compare.js'
import { exclude } from '../../../src/data/tensorDict/edit.js'
import type { TensorDict } from '../../../src/data/tensorDict/tensorDict.js'
import { ChatEnv } from '../../../src/envs/chatEnv.js'
import { IncrementalTokenizer } from '../../../src/envs/transforms/incrementalTokenizer.js'
import { append } from '../../../src/envs/transforms/transform.js'
import {
  answered,
  asking,
  END,
  END_OF_TURN,
  followUp,
  freeing,
  itemsAt,
  refused,
  rowsAt,
  sampled,
  template,
  tokenChat,
  tokenizer,
} from '../../kit/conversation.js'
import { useEngine } from '../../kit/engine.js'

useEngine()

const key = keyFromSeed(4)

const turns = (batchSize: number) => pipe(ChatEnv({ batchSize }), append(followUp('And then?')))
const incremental = (batchSize: number) =>
  pipe(turns(batchSize), append(IncrementalTokenizer({ template, endOfTurn: END_OF_TURN, tokenizer })))

/** Any ids at all: broken UTF-8, special tokens in the middle, nothing. */
const ids = fc
  .tuple(fc.array(fc.nat(tokenizer.vocabularySize - 1), { maxLength: 6 }), fc.boolean())
  .map(([row, isEnded]) => (isEnded ? [...row, END] : row))

describe('IncrementalTokenizer', () => {
  it('is TemplateTransform with Tokenizer around it, whatever is sampled, and its ids decode to its text', async () => {
    const rounds = fc.array(fc.tuple(ids, ids), { minLength: 1, maxLength: 3 })
    const law = fc.asyncProperty(rounds, (played) =>
      freeing(async (keep) => {
        const [one, other] = [incremental(2), tokenChat(2)]
        let [a, b] = [
          keep(await answered(one.reset(asking('How?', 'Why?'), key))),
          keep(await answered(other.reset(asking('How?', 'Why?'), key))),
        ]
        for (const [first, second] of played) {
          const before = rowsAt(a, 'tokens', 'prompt')
          a = keep(await answered(one.step(a, sampled(first, second)))) as typeof a // a stepped state is a state
          b = keep(await answered(other.step(b, sampled(first, second)))) as typeof b // as above
          expect(diff(exclude(a as TensorDict, 'transforms'), exclude(b as TensorDict, 'transforms'))).toEqual([])
          for (const [i, row] of rowsAt(a, 'tokens', 'prompt').entries()) {
            const known = [...before[i]!, ...[first, second][i]!]
            expect(row.slice(0, known.length)).toEqual(known)
            expect(tokenizer.decode(row, 'keep')).toBe(itemsAt(a, 'text', 'prompt')[i])
          }
        }
      }),
    )
    await fc.assert(law, { numRuns: 20 })
  })

  it('continues after another end token as after the end of the turn, and keeps the sampled ids', async () => {
    const OTHER = '<|endoftext|>'
    const other = tokenizer.idOf(OTHER)!
    const text = { template, endOfTurn: END_OF_TURN, otherEnds: [OTHER], tokenizer }
    const law = fc.asyncProperty(ids, ids, (first, second) =>
      freeing(async (keep) => {
        const env = pipe(turns(1), append(IncrementalTokenizer(text)))
        const start = keep(await answered(env.reset(asking('How?'), key)))
        const [ended, usual] = [
          [...first, other],
          [...first, END],
        ]
        const a = keep(await answered(env.step(start, sampled(ended))))
        const b = keep(await answered(env.step(start, sampled(usual))))
        expect(itemsAt(a, 'history', 'prompt')).toEqual(itemsAt(b, 'history', 'prompt'))
        const [before, after, same] = [start, a, b].map((td) => rowsAt(td, 'tokens', 'prompt')[0]!)
        expect(after).toEqual([...before!, ...ended, ...same!.slice(before!.length + usual.length)])
        const next = keep(await answered(env.step(a as typeof start, sampled(second)))) // a stepped state is a state
        expect(rowsAt(next, 'tokens', 'prompt')[0]!.slice(0, after!.length + second.length)).toEqual([
          ...after!,
          ...second,
        ])
        for (const td of [a, next]) {
          const spans = itemsAt(td, 'text', 'spans')[0] as readonly TextSpan[] // by the schema of TextEntries
          expect(spans.map((span) => span.start)).toEqual([0, ...spans.slice(0, -1).map((span) => span.end)])
          expect(tokenizer.decode(rowsAt(td, 'tokens', 'prompt')[0]!, 'keep')).toBe(itemsAt(td, 'text', 'prompt')[0])
        }
      }),
    )
    await fc.assert(law, { numRuns: 30 })
  })

  it('fails where the tokenizer loses something of the text, with the place', async () => {
    const plain = trainBytePairEncoding(['how many pens'], {
      vocabularySize: 300,
      specialTokens: [END_OF_TURN, '<|im_start|>'],
    })
    const lower = orThrow(textTokenizer({ ...plain, normalizer: { type: 'Lowercase' } }))
    const env = pipe(
      ChatEnv({ batchSize: 1 }),
      append(IncrementalTokenizer({ template, endOfTurn: END_OF_TURN, tokenizer: lower })),
    )
    const { reason } = await refused(env.reset(asking('How many?'), key))
    expect(reason).toBe(
      'conversation 0: the tokens decode to "how many?<|im_end|>\\n" and the text has "How many?<|im_end|>\\n", from letter 17 on',
    )
  })

  it('needs a history, and gives what a policy of tokens reads', () => {
    const t = IncrementalTokenizer({ template, endOfTurn: END_OF_TURN, tokenizer })
    const history = { prompt: dataSpec<History>('History') }
    expect(t.spec({ observation: {}, action: {} })._tag).toBe('Left')
    const specs = t.spec({ observation: { history }, action: { history: { response: dataSpec('Message') } } })
    expect(specs).toMatchObject({
      _tag: 'Right',
      right: { observation: { text: {}, tokens: {} }, action: { tokens: {} } },
    })
  })

  describe('around a chat', () => {
    const act = () => sampled([65, END], [])
    checkLaws(it, envLaws(fc.constant({ env: incremental(2), request: () => asking('?', '!'), act, steps: 2 }), 3))
  })
})
